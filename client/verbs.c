#include "verbs.h"

#include <string.h>

#include "claim_message.h"
#include "client.h"
#include "status.h"

void verb_reply_fini(struct verb_reply *reply)
{
	arena_free(&reply->arena);
	*reply = (struct verb_reply){ 0 };
}

static void fill_message(struct call *call, Leased__ClientMessage *message)
{
	*message = *(const Leased__ClientMessage *)call->data;
	if (message->body_case == LEASED__CLIENT_MESSAGE__BODY_RELEASE && call->attempts > 0)
		message->release->retry = true; /* the first one may have been done */
}

int verb_call(struct leased_client *client, const Leased__ClientMessage *message,
	Leased__ServerMessage__BodyCase want, struct verb_reply *ret_reply, struct leased_error *err)
{
	struct call call = { .fill = fill_message, .data = (void *)(uintptr_t)message };
	int rc = call_run(client, &call, 0);

	*ret_reply = (struct verb_reply){ .message = call.reply, .arena = call.arena };
	if (rc < 0)
		return fail(err, rc, "%s", call.err.text);
	if (call.reply->body_case != want)
		return fail(err, LEASED_EPROTO, "the daemon answered something else");
	return 0;
}

int verb_get(struct leased_client *client, const char *name, struct verb_reply *ret_reply,
	struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Get get = LEASED__GET__INIT;

	get.name = bytes_of(name);
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_GET;
	message.get = &get;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_LEASE, ret_reply, err);
}

/* Where the next page begins: behind this row. */
static void go_on_after(Leased__List *list, uint8_t last[static NAME_MAX_LEN], const Leased__Lease *lease)
{
	list->after.len = lease->name.len < NAME_MAX_LEN ? lease->name.len : NAME_MAX_LEN;
	list->after.data = memcpy(last, lease->name.data, list->after.len);
	list->after_token = lease->token;
}

/* Page by page: the daemon answers with as many rows as fit one frame. */
int verb_list(struct leased_client *client, const char *prefix, bool exact, verb_lease_cb each, void *data,
	struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__List list = LEASED__LIST__INIT;
	uint8_t last[NAME_MAX_LEN];
	bool more = true;
	int rc = 0;

	list.prefix = bytes_of(prefix);
	list.exact = exact;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_LIST;
	message.list = &list;
	while (more && rc == 0) {
		struct verb_reply reply;

		rc = verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_LISTING, &reply, err);
		if (rc == 0) {
			const Leased__Listing *page = reply.message->listing;

			for (size_t i = 0; i < page->n_leases; i++)
				each(page->leases[i], data);
			more = page->more && page->n_leases > 0;
			if (more)
				go_on_after(&list, last, page->leases[page->n_leases - 1]);
		}
		verb_reply_fini(&reply);
	}
	return rc;
}

int verb_report(struct leased_client *client, struct verb_reply *ret_reply, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Report report = LEASED__REPORT__INIT;

	message.body_case = LEASED__CLIENT_MESSAGE__BODY_REPORT;
	message.report = &report;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_HEALTH, ret_reply, err);
}

int verb_whoami(struct leased_client *client, struct verb_reply *ret_reply, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Whoami whoami = LEASED__WHOAMI__INIT;

	message.body_case = LEASED__CLIENT_MESSAGE__BODY_WHOAMI;
	message.whoami = &whoami;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_IDENTITY, ret_reply, err);
}

/* A claim as the protocol wants it. */
struct claim_parts {
	Leased__Claim claim;
	Leased__Holder holder;
	ProtobufCBinaryData also[LEASED_NAMES_MAX];
};

static void fill_claim(struct claim_parts *ret_parts, const struct verb_claim *claimed)
{
	claim_message(claimed->name, claimed->holder, claimed->token, &ret_parts->claim, &ret_parts->holder);
	for (size_t i = 0; i < claimed->n_also; i++)
		ret_parts->also[i] = bytes_of(claimed->also[i]);
	ret_parts->claim.also = ret_parts->also;
	ret_parts->claim.n_also = claimed->n_also;
}

int verb_renew(struct leased_client *client, const struct verb_claim *claimed, int64_t ttl_ms,
	const char *value, int64_t *ret_expires_in_ms, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Renew renew = LEASED__RENEW__INIT;
	Leased__Renewal renewal = LEASED__RENEWAL__INIT, *place = &renewal;
	const Leased__RenewalResult *result;
	struct verb_reply reply;
	struct claim_parts parts;
	int rc;

	fill_claim(&parts, claimed);
	renewal.claim = &parts.claim;
	renewal.ttl_ms = (uint64_t)ttl_ms;
	renewal.set_value = value != NULL;
	if (value)
		renewal.value = bytes_of(value);
	renew.n_renewals = 1;
	renew.renewals = &place;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_RENEW;
	message.renew = &renew;
	rc = verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_RENEWED, &reply, err);
	if (rc == 0 && reply.message->renewed->n_results != 1)
		rc = fail(err, LEASED_EPROTO, "the daemon answered something else");
	if (rc == 0) {
		result = reply.message->renewed->results[0];
		rc = status_from_wire(result->status);
		if (rc < 0)
			fail(err, rc, "%s", result->why);
		else
			*ret_expires_in_ms = (int64_t)result->expires_in_ms;
	}
	verb_reply_fini(&reply);
	return rc;
}

int verb_release(struct leased_client *client, const struct verb_claim *claimed, const int *exit_status,
	struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Release release = LEASED__RELEASE__INIT;
	struct verb_reply reply;
	struct claim_parts parts;
	int rc;

	fill_claim(&parts, claimed);
	release.claim = &parts.claim;
	if (exit_status) {
		release.ending_case = LEASED__RELEASE__ENDING_EXIT_STATUS;
		release.exit_status = *exit_status;
	}
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_RELEASE;
	message.release = &release;
	rc = verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_RELEASED, &reply, err);
	verb_reply_fini(&reply);
	return rc;
}

int verb_steal(struct leased_client *client, const char *name, const char *reason, uint64_t token,
	struct verb_reply *ret_reply, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Steal steal = LEASED__STEAL__INIT;

	steal.name = bytes_of(name);
	steal.reason = bytes_of(reason);
	steal.token = token;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_STEAL;
	message.steal = &steal;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_STOLEN, ret_reply, err);
}
