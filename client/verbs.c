#include "verbs.h"

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

int verb_list(struct leased_client *client, const char *prefix, const ProtobufCBinaryData *after,
	struct verb_reply *ret_reply, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__List list = LEASED__LIST__INIT;

	list.prefix = bytes_of(prefix);
	if (after)
		list.after = *after;
	message.body_case = LEASED__CLIENT_MESSAGE__BODY_LIST;
	message.list = &list;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_LISTING, ret_reply, err);
}

int verb_report(struct leased_client *client, struct verb_reply *ret_reply, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Report report = LEASED__REPORT__INIT;

	message.body_case = LEASED__CLIENT_MESSAGE__BODY_REPORT;
	message.report = &report;
	return verb_call(client, &message, LEASED__SERVER_MESSAGE__BODY_HEALTH, ret_reply, err);
}

int verb_renew(struct leased_client *client, const char *name, const struct holder *holder,
	uint64_t token, int64_t ttl_ms, const char *value, int64_t *ret_expires_in_ms,
	struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Renew renew = LEASED__RENEW__INIT;
	Leased__Renewal renewal = LEASED__RENEWAL__INIT, *place = &renewal;
	const Leased__RenewalResult *result;
	struct verb_reply reply;
	Leased__Claim claim;
	Leased__Holder holder_out;
	int rc;

	claim_message(name, holder, token, &claim, &holder_out);
	renewal.claim = &claim;
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

int verb_release(struct leased_client *client, const char *name, const struct holder *holder,
	uint64_t token, const int *exit_status, struct leased_error *err)
{
	Leased__ClientMessage message = LEASED__CLIENT_MESSAGE__INIT;
	Leased__Release release = LEASED__RELEASE__INIT;
	struct verb_reply reply;
	Leased__Claim claim;
	Leased__Holder holder_out;
	int rc;

	claim_message(name, holder, token, &claim, &holder_out);
	release.claim = &claim;
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
