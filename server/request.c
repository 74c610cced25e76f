#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "duration.h"
#include "holder.h"
#include "name.h"
#include "status.h"

void request_fini(struct request *req)
{
	for (uint32_t i = 0; i < req->n_listed; i++)
		free(req->listing ? (void *)req->listing[i] : (void *)req->grants[i]);
	free(req->listing);
	free(req->grants);
	free(req->mark);
	free(req->view);
	free(req->why);
	req->listing = NULL;
	req->grants = NULL;
	req->mark = NULL;
	req->n_listed = 0;
	req->view = NULL;
	req->why = NULL;
}

/* Who holds a lease, for how long: "host:1:… (root@host) with token 7, for another 12s". */
static void describe_holder(char *out, size_t size, const struct lease_view *view)
{
	char host[4 * 64 + 1], principal[4 * 64 + 1], left[DURATION_TEXT_SIZE];

	name_escape(host, sizeof host, (const uint8_t *)view->claim.host.data,
		view->claim.host.len);
	name_escape(principal, sizeof principal, (const uint8_t *)view->claim.principal.data,
		view->claim.principal.len);
	duration_format(left, view->expires_in_ms > 0 ? view->expires_in_ms : 0);
	snprintf(out, size, "%s:%d:%016" PRIx64 " (%s) holds it with token %" PRIu64 ", for %s more",
		host, view->claim.pid, view->claim.nonce, principal, view->claim.token, left);
}

static void explain_claim(const struct request *req, struct leased_error *err)
{
	const struct lease_view *v = req->view;
	char holder[LEASED_ERROR_LEN / 2];

	if (!v) {
		fail(err, req->status, "nobody holds it, there is no such lease");
	} else if (v->claim.token == req->claim.token && v->released) {
		fail(err, req->status, "it was released");
	} else if (v->expires_in_ms <= 0 && v->claim.token == req->claim.token) {
		duration_format(holder, -v->expires_in_ms);
		fail(err, req->status, "it expired %s ago", holder);
	} else if (v->released || v->expires_in_ms <= 0) {
		fail(err, req->status, "nobody holds it; the last token was %" PRIu64,
			v->claim.token);
	} else {
		describe_holder(holder, sizeof holder, v);
		fail(err, req->status, "%s", holder);
	}
}

static void explain_held(const struct request *req, struct leased_error *err)
{
	const struct lease_view *v = req->view;
	char holder[LEASED_ERROR_LEN / 2];
	const char *lead = req->status == LEASED_ETIMEDOUT ? "the wait ran out: " : "";

	if (!v || (v->expires_in_ms <= 0 && !v->released)) {
		fail(err, req->status, "%s%s", lead,
			v ? "it is just changing hands" : "others wait for it");
	} else if (v->released) {
		duration_format(holder, v->expires_in_ms > 0 ? v->expires_in_ms : 0);
		fail(err, req->status, "%sit was released, but stays taken for %s more (minimum hold)",
			lead, holder);
	} else {
		describe_holder(holder, sizeof holder, v);
		fail(err, req->status, "%s%s", lead, holder);
	}
}

void request_explain(const struct request *req, struct leased_error *ret_why)
{
	if (req->why)
		fail(ret_why, req->status, "%s", req->why);
	else if (req->status == LEASED_EHELD || req->status == LEASED_ETIMEDOUT)
		explain_held(req, ret_why);
	else if (req->status == LEASED_EBUSY)
		fail(ret_why, req->status,
			"too much is queued or waited for here (max_queued, max_waiters): try again later, or at another daemon");
	else if (req->status == LEASED_ELOST || req->status == LEASED_ENOTHELD)
		explain_claim(req, ret_why);
	else
		fail(ret_why, req->status, "%s", status_text(req->status));
}
