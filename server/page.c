#include "page.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "history.h"
#include "status.h"

/* Where it goes on, in the memory of the call. */
#define PLACE_MAX HISTORY_CURSOR_MAX

/* Where what was looked at ended, seen or not. len 0: there is nothing behind it. */
struct place {
	uint8_t text[PLACE_MAX]; /* a name, or a cursor of the history */
	size_t len;
	uint64_t token;
};

/* What lists by this; 0: it is no listing, or one of a single name, which the gate has let pass. */
static unsigned verb_of(const struct call *call)
{
	switch (call->requests[0].verb) {
	case VERB_LIST: return ACCESS_LIST;
	case VERB_LAPSED:
	case VERB_FAILED: return ACCESS_HISTORY;
	default: return 0;
	}
}

static bool is_partial(const struct call *call)
{
	unsigned verb = verb_of(call);

	return verb && call->session && !access_may_all(call->session->client, verb);
}

static bool reserve_place(struct call *call)
{
	if (!call->texts)
		call->texts = malloc(PLACE_MAX);
	return call->texts;
}

/* To the next name that may be seen, instead of through all that may not. False: there is none. */
static bool skip(struct call *call, struct request *req)
{
	struct text next;

	if (!access_next(call->session->client, ACCESS_LIST, req->after, &next))
		return false;
	if (!text_equal(next, req->after)) {
		memcpy(call->texts, next.data, next.len); /* the rule may go before the request */
		req->after = (struct text){ call->texts, next.len };
		req->claim.token = 0;
	}
	return true;
}

void page_begin(struct call *call)
{
	struct request *req = &call->requests[0];

	call->limit = req->limit;
	if (!is_partial(call))
		return;
	req->limit = LIST_LIMIT_MAX; /* of which few may be left */
	if (req->verb == VERB_LIST && reserve_place(call))
		skip(call, req);
}

static void find_place(struct place *ret_place, const struct request *req)
{
	const struct claim *last;

	*ret_place = (struct place){ .len = 0 };
	if (req->verb != VERB_LIST) {
		ret_place->len = history_next(ret_place->text, req, req->n_listed);
	} else if (req->more && req->n_listed > 0) {
		last = &req->listing[req->n_listed - 1]->claim;
		ret_place->len = last->name.len < PLACE_MAX ? last->name.len : PLACE_MAX;
		memcpy(ret_place->text, last->name.data, ret_place->len);
		ret_place->token = last->token;
	}
}

/* What is left is a page that ends with its last row: what was looked at behind it is looked at again. */
static void leave_out(struct call *call)
{
	struct request *req = &call->requests[0];
	void **rows = req->listing ? (void **)req->listing : (void **)req->grants;
	bool more = req->more || req->mark;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < req->n_listed; i++) {
		const struct claim *claim = req->listing ? &req->listing[i]->claim : &req->grants[i]->claim;
		bool ok = access_may(call->session->client, verb_of(call), claim->name);

		more = more || (ok && kept == call->limit);
		if (ok && kept < call->limit)
			rows[kept++] = rows[i];
		else
			free(rows[i]);
	}
	req->n_listed = kept;
	req->more = more && kept > 0;
	free(req->mark);
	req->mark = NULL;
}

/* A request for what comes behind place, in place of the one that was answered. */
static int ask_on(struct call *call, const struct place *place)
{
	struct request *req = &call->requests[0];
	struct request next = { .verb = req->verb, .claim = { .token = place->token }, .prefix = req->prefix,
		.exact = req->exact, .limit = req->limit, .past = req->past, .owner = req->owner, .done = req->done };
	struct text text;

	if (!reserve_place(call))
		return LEASED_ENOMEM;
	memcpy(call->texts, place->text, place->len);
	text = (struct text){ call->texts, place->len };
	next.after = text;
	if (next.verb == VERB_LIST && !skip(call, &next))
		return LEASED_EFREE; /* nothing that may be seen comes behind it */
	if (next.verb != VERB_LIST && history_resume(&next, text, NULL) < 0)
		return LEASED_EINTERNAL;
	request_fini(req);
	*req = next;
	list_init(&req->link);
	call->n_open = 1;
	return engine_submit(call->all->engine, req);
}

static int give_up(struct request *req)
{
	req->why = strdup("it takes too long to look for what you may see: name a narrower prefix");
	return LEASED_EBUSY;
}

bool page_goes_on(struct call *call)
{
	struct request *req = &call->requests[0];
	struct place place;
	int rc;

	if (!is_partial(call) || req->status < 0)
		return false;
	find_place(&place, req);
	leave_out(call);
	if (req->n_listed > 0 || place.len == 0)
		return false;
	if (clock_ms() - call->begun_ms >= call->all->config->request_timeout_ms)
		rc = give_up(req);
	else
		rc = ask_on(call, &place);
	if (rc == 0)
		return true;
	call->n_open = 0;
	req->status = rc == LEASED_EFREE ? LEASED_OK : rc;
	return false;
}
