/*
 * Page after page, each a call of its own. What failed comes in two runs: first the grants that expired
 * and after which nobody has taken the lease, in the order of names; then the others, newest first. The
 * first run is kept, and merged into the second.
 */
#include "leased.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "client.h"
#include "duration.h"
#include "name.h"
#include "status.h"

/* More of the first run are told at once, in an order of their own. */
#define KEPT_MAX 10000

/* A grant and its texts. */
struct row {
	struct leased_grant grant;
	char texts[];
};

struct history {
	struct call call;
	const struct leased_history_options *options;
	leased_grant_cb each;
	void *data;
	bool enough;       /* the callback has said so */
	int64_t keep_ms;
	Leased__History message;
	uint8_t *after;    /* where the next page begins */
	size_t after_len;
	struct row **kept; /* the first run, room for KEPT_MAX once there is one */
	size_t n_kept, next_kept;
	bool is_sorted;
};

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){ text ? strlen(text) : 0, (uint8_t *)(uintptr_t)text };
}

static void fill_history(struct call *call, Leased__ClientMessage *message)
{
	struct history *h = call->data;

	leased__history__init(&h->message);
	h->message.name = bytes_of(h->options->name);
	h->message.failed = !h->options->name;
	h->message.prefix = bytes_of(h->options->prefix);
	h->message.since_ms = (uint64_t)h->options->since_ms;
	h->message.after = (ProtobufCBinaryData){ h->after_len, h->after };
	message->body_case = LEASED__CLIENT_MESSAGE__BODY_HISTORY;
	message->history = &h->message;
}

static const char *put_text(char **at, ProtobufCBinaryData text)
{
	char *copy = *at;

	if (text.len > 0) /* else there may be no data at all */
		memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	*at += text.len + 1;
	return copy;
}

/* NULL: out of memory, or an ending that we do not know. */
static struct row *row_new(const Leased__Grant *g)
{
	static const enum leased_ending endings[] = { [LEASED__GRANT__ENDING__HELD] = LEASED_HELD,
		[LEASED__GRANT__ENDING__RELEASED] = LEASED_RELEASED,
		[LEASED__GRANT__ENDING__EXPIRED] = LEASED_EXPIRED,
		[LEASED__GRANT__ENDING__STOLEN] = LEASED_STOLEN };
	char holder[HOLDER_TEXT_SIZE] = "";
	struct row *row;
	char *at;

	if (g->ended >= sizeof endings / sizeof endings[0])
		return NULL;
	if (g->holder && g->holder->host.len <= HOST_MAX_LEN)
		snprintf(holder, sizeof holder, "%.*s:%" PRIu32 ":%016" PRIx64, (int)g->holder->host.len,
			(const char *)g->holder->host.data, g->holder->pid, g->holder->nonce);
	row = malloc(sizeof *row + g->name.len + strlen(holder) + g->principal.len + g->stolen_by.len +
		     g->reason.len + 5);
	if (!row)
		return NULL;
	at = row->texts;
	row->grant = (struct leased_grant){ .token = g->token, .ended = endings[g->ended],
		.has_exit_status = g->ending_case == LEASED__GRANT__ENDING_EXIT_STATUS,
		.exit_status = g->exit_status, .acquired_at_us = g->acquired_at_us,
		.ended_at_us = g->ended_at_us, .held_for_ms = (int64_t)g->held_for_ms };
	row->grant.name = put_text(&at, g->name);
	row->grant.holder = put_text(&at, bytes_of(holder));
	row->grant.principal = put_text(&at, g->principal);
	row->grant.stolen_by = g->stolen_by.len > 0 ? put_text(&at, g->stolen_by) : NULL;
	row->grant.reason = g->reason.len > 0 ? put_text(&at, g->reason) : NULL;
	return row;
}

static void tell(struct history *h, struct row *row)
{
	if (!h->enough && !h->each(&row->grant, h->data))
		h->enough = true;
	free(row);
}

static int compare_ends(const void *a, const void *b)
{
	const struct leased_grant *x = &(*(struct row *const *)a)->grant;
	const struct leased_grant *y = &(*(struct row *const *)b)->grant;

	return (x->ended_at_us < y->ended_at_us) - (x->ended_at_us > y->ended_at_us);
}

/* Tells those of the first run that ended at this time or later. */
static void tell_kept(struct history *h, int64_t ended_at_us)
{
	if (h->n_kept > 0 && !h->is_sorted)
		qsort(h->kept, h->n_kept, sizeof(struct row *), compare_ends);
	h->is_sorted = h->n_kept > 0;
	while (h->next_kept < h->n_kept && h->kept[h->next_kept]->grant.ended_at_us >= ended_at_us)
		tell(h, h->kept[h->next_kept++]);
	if (h->next_kept == h->n_kept)
		h->n_kept = h->next_kept = 0;
}

static int keep(struct history *h, struct row *row)
{
	if (!h->kept)
		h->kept = calloc(KEPT_MAX, sizeof(struct row *));
	if (!h->kept) {
		free(row);
		return LEASED_ENOMEM;
	}
	if (h->n_kept == KEPT_MAX)
		tell_kept(h, INT64_MIN);
	h->kept[h->n_kept++] = row;
	return 0;
}

static int take_page(struct history *h, const Leased__Grants *page, struct leased_error *err)
{
	for (size_t i = 0; i < page->n_grants && !h->enough; i++) {
		struct row *row = row_new(page->grants[i]);

		if (!row)
			return fail(err, LEASED_EPROTO, "the daemon told of something unknown");
		if (!h->options->name && page->grants[i]->is_newest) {
			if (keep(h, row) < 0)
				return fail(err, LEASED_ENOMEM, "out of memory");
			continue;
		}
		tell_kept(h, row->grant.ended_at_us);
		tell(h, row);
	}
	h->keep_ms = (int64_t)page->keep_ms;
	h->after_len = page->next.len;
	if (h->after_len == 0)
		return 0;
	free(h->after);
	h->after = malloc(h->after_len);
	if (!h->after)
		return fail(err, LEASED_ENOMEM, "out of memory");
	memcpy(h->after, page->next.data, h->after_len);
	return 0;
}

static int ask(struct history *h, struct leased_client *client, struct leased_error *err)
{
	struct call *call = &h->call;
	int rc;

	*call = (struct call){ .fill = fill_history, .data = h };
	rc = call_run(client, call, 0);
	if (rc < 0)
		rc = fail(err, rc, "%s", call->err.text);
	else if (call->reply->body_case != LEASED__SERVER_MESSAGE__BODY_GRANTS)
		rc = fail(err, LEASED_EPROTO, "the daemon answered something else");
	else
		rc = take_page(h, call->reply->grants, err);
	call_fini(call);
	return rc;
}

static int check_options(const struct leased_history_options *o, struct leased_error *err)
{
	const char *prefix = o->prefix ? o->prefix : "";

	if (o->name && *prefix)
		return fail(err, LEASED_EUSAGE, "a history is of one name, or of a prefix");
	if (o->since_ms < 0 || o->since_ms > DURATION_MAX_MS)
		return fail(err, LEASED_EUSAGE, "a history goes back at most ten years");
	if (o->name)
		return name_check((const uint8_t *)o->name, strlen(o->name), err);
	return prefix_check((const uint8_t *)prefix, strlen(prefix), err);
}

int leased_history(struct leased_client *client, const struct leased_history_options *options,
	leased_grant_cb each, void *data, int64_t *ret_keep_ms, struct leased_error *err)
{
	struct history h = { .options = options, .each = each, .data = data };
	struct leased_error why = { 0 };
	int rc;

	rc = check_options(options, &why);
	if (rc == 0)
		rc = client_enter(client, &why);
	if (rc == 0) {
		do
			rc = ask(&h, client, &why);
		while (rc == 0 && h.after_len > 0 && !h.enough);
		client_leave(client);
	}
	if (rc == 0)
		tell_kept(&h, INT64_MIN);
	while (h.next_kept < h.n_kept)
		free(h.kept[h.next_kept++]);
	free(h.kept);
	free(h.after);
	if (rc < 0)
		return fail(err, rc, "history%s%s%s: %s", options->name ? " \"" : "",
			options->name ? options->name : "", options->name ? "\"" : "", why.text);
	if (ret_keep_ms)
		*ret_keep_ms = h.keep_ms;
	return 0;
}
