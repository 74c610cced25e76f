#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "holder.h"
#include "name.h"
#include "pgbin.h"
#include "status.h"

bool text_equal(struct text a, struct text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

bool text_begins(struct text text, struct text with)
{
	return text.len >= with.len && (with.len == 0 || memcmp(text.data, with.data, with.len) == 0);
}

int text_compare(struct text a, struct text b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

char *request_copy_texts(struct request *req)
{
	struct text *texts[] = { &req->claim.name, &req->claim.host, &req->claim.principal, &req->value,
		&req->slot };
	size_t n = sizeof texts / sizeof texts[0], len = req->n_names * sizeof *req->names;
	struct text *names;
	char *at;

	for (size_t i = 0; i < n; i++)
		len += texts[i]->len;
	for (size_t i = 0; i < req->n_names; i++)
		len += req->names[i].len;
	names = malloc(len);
	if (!names)
		return NULL;
	at = (char *)(names + req->n_names);
	for (size_t i = 0; i < n; i++)
		*texts[i] = copy_text(&at, *texts[i]);
	for (size_t i = 0; i < req->n_names; i++)
		names[i] = copy_text(&at, req->names[i]);
	req->names = names;
	return (char *)names;
}

void request_fini(struct request *req)
{
	for (uint32_t i = 0; i < req->n_listed; i++)
		free(req->listing ? (void *)req->listing[i] : (void *)req->grants[i]);
	free(req->listing);
	free(req->grants);
	free(req->mark);
	free(req->view);
	free(req->done_by);
	free(req->others);
	free(req->why);
	req->listing = NULL;
	req->grants = NULL;
	req->mark = NULL;
	req->n_listed = 0;
	req->view = NULL;
	req->done_by = NULL;
	req->others = NULL;
	req->why = NULL;
}

/* "host:1:0123456789abcdef (root@host)" */
static void describe_claim(char *out, size_t size, const struct claim *c)
{
	char host[4 * 64 + 1], principal[4 * 64 + 1];

	name_escape(host, sizeof host, (const uint8_t *)c->host.data, c->host.len);
	name_escape(principal, sizeof principal, (const uint8_t *)c->principal.data, c->principal.len);
	snprintf(out, size, "%s:%d:%016" PRIx64 " (%s)", host, c->pid, c->nonce, principal);
}

/* Who holds a lease, for how long: "host:1:… (root@host) holds it with token 7, for 12s more". */
static void describe_holder(char *out, size_t size, const struct lease_view *view)
{
	char holder[LEASED_ERROR_LEN / 2], left[DURATION_TEXT_SIZE];

	describe_claim(holder, sizeof holder, &view->claim);
	duration_format(left, view->expires_in_ms > 0 ? view->expires_in_ms : 0);
	snprintf(out, size, "%s holds it with token %" PRIu64 ", for %s more", holder,
		view->claim.token, left);
	if (view->holders > 1) {
		size_t len = strlen(out);

		snprintf(out + len, size - len, ", and %" PRId64 " besides", view->holders - 1);
	}
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
	char holder[LEASED_ERROR_LEN / 2], lead[LEASED_ERROR_LEN / 4] = "", name[64 + 1];

	if (req->n_names > 0 && v) {
		name_escape(name, sizeof name, (const uint8_t *)v->claim.name.data, v->claim.name.len);
		snprintf(lead, sizeof lead, "\"%s\": ", name);
	}
	if (req->status == LEASED_ETIMEDOUT)
		snprintf(lead + strlen(lead), sizeof lead - strlen(lead), "the wait ran out: ");

	if (!v || v->expires_in_ms <= 0) {
		fail(err, req->status, "%s%s", lead,
			v && !req->is_behind ? "it is just changing hands" : "others wait for it");
	} else if (v->released) {
		duration_format(holder, v->expires_in_ms > 0 ? v->expires_in_ms : 0);
		fail(err, req->status, "%sit was released, but stays taken for %s more (minimum hold)",
			lead, holder);
	} else {
		describe_holder(holder, sizeof holder, v);
		fail(err, req->status, "%s%s", lead, holder);
	}
}

static void explain_slot(const struct request *req, struct leased_error *err)
{
	char slot[64 + 1], who[LEASED_ERROR_LEN / 2], ago[DURATION_TEXT_SIZE];
	char with[32] = "no exit status";
	const struct done_view *d = req->done_by;

	name_escape(slot, sizeof slot, (const uint8_t *)req->slot.data, req->slot.len);
	describe_claim(who, sizeof who, &d->claim);
	duration_format(ago, d->ago_ms > 0 ? d->ago_ms : 0);
	if (d->has_exit_status)
		snprintf(with, sizeof with, "exit status %d", d->exit_status);
	fail(err, req->status, "the slot \"%s\" was completed %s ago by %s with token %" PRIu64 ", %s",
		slot, ago, who, d->claim.token, with);
}

static void explain_done(const struct request *req, struct leased_error *err)
{
	char who[LEASED_ERROR_LEN / 2] = "", ago[DURATION_TEXT_SIZE], left[DURATION_TEXT_SIZE];
	const struct done_view *d = req->done_by;

	if (d->by_slot) {
		explain_slot(req, err);
		return;
	}
	if (d->claim.host.len > 0)
		describe_claim(who, sizeof who, &d->claim);
	duration_format(ago, d->ago_ms > 0 ? d->ago_ms : 0);
	duration_format(left, d->left_ms > 0 ? d->left_ms : 0);
	fail(err, req->status, "it ran %s ago%s%s, the next run may start in %s", ago,
		*who ? ", by " : "", who, left);
}

static void explain(const struct request *req, struct leased_error *ret_why)
{
	if (req->why)
		fail(ret_why, req->status, "%s", req->why);
	else if (req->status == LEASED_EHELD || req->status == LEASED_ETIMEDOUT)
		explain_held(req, ret_why);
	else if (req->status == LEASED_EDONE && req->done_by)
		explain_done(req, ret_why);
	else if (req->status == LEASED_EBUSY)
		fail(ret_why, req->status,
			"too much is queued or waited for here (max_queued, max_waiters): try again later, or at another daemon");
	else if (req->status == LEASED_ELOST || req->status == LEASED_ENOTHELD)
		explain_claim(req, ret_why);
	else
		fail(ret_why, req->status, "%s", status_text(req->status));
}

/* Of several names in one claim the client knows only the first, unless it is told which one it is about. */
void request_explain(const struct request *req, struct leased_error *ret_why)
{
	struct leased_error why;

	explain(req, &why);
	if (req->joined)
		fail(ret_why, why.status, "\"%.*s\": %s", (int)req->claim.name.len, req->claim.name.data, why.text);
	else
		*ret_why = why;
}
