#include "errands.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "places.h"
#include "status.h"

struct errand {
	struct request req;
	struct engine *engine;
	struct request *grant; /* GIVE BACK: answered when the lease is free again */
	int64_t sent_ms;       /* BEAT */
	bool had_places;       /* BEAT: when it was sent */
	char texts[];
};

static struct text keep(char **at, struct text text)
{
	struct text copy = { *at, text.len };

	if (text.len > 0)
		memcpy(*at, text.data, text.len);
	*at += text.len;
	return copy;
}

static struct errand *errand_new(struct engine *e, enum verb verb, const struct claim *claim,
	request_done_cb done)
{
	struct errand *errand = calloc(1, sizeof *errand + claim->name.len + claim->host.len +
						  claim->principal.len);
	char *at;

	if (!errand)
		return NULL;
	at = errand->texts;
	errand->engine = e;
	errand->req = (struct request){ .verb = verb, .claim = *claim, .done = done, .owner = errand };
	errand->req.claim.name = keep(&at, claim->name);
	errand->req.claim.host = keep(&at, claim->host);
	errand->req.claim.principal = keep(&at, claim->principal);
	list_init(&errand->req.link);
	return errand;
}

static void errand_free(struct errand *errand)
{
	request_fini(&errand->req);
	free(errand);
}

/* Cancelled means that nothing is held: not so when the release has failed. */
static void answer_grant(struct engine *e, struct request *grant, int status)
{
	bool is_free = status == LEASED_OK || status == LEASED_ELOST || status == LEASED_ENOTHELD;

	if (!is_free) {
		log_event(LOG_WARN, "cancelled_grant_not_released", "status", 's', status_name(status), NULL);
		grant->why = strdup("it was granted as it was cancelled, and could not be given back: it expires by itself");
	}
	engine_finish(e, grant, is_free ? LEASED_ECANCELLED : LEASED_EUNAVAILABLE);
}

static void on_given_back(struct request *req)
{
	struct errand *errand = req->owner;

	answer_grant(errand->engine, errand->grant, req->status);
	errand_free(errand);
}

void errand_give_back(struct engine *e, struct request *grant)
{
	struct errand *errand = errand_new(e, VERB_RELEASE, &grant->claim, on_given_back);
	int rc = LEASED_ENOMEM;

	for (size_t i = 0; i < grant->n_names; i++) {
		struct claim other = grant->claim;

		other.name = grant->names[i];
		if (!text_equal(other.name, grant->claim.name))
			errand_release(e, &other);
	}
	request_fini(grant);
	if (errand) {
		errand->grant = grant;
		errand->req.retry = true;
		errand->req.undone = true;
		rc = engine_submit(e, &errand->req);
		if (rc == 0)
			return;
		errand_free(errand);
	}
	answer_grant(e, grant, rc);
}

static void on_released(struct request *req)
{
	if (req->status < 0 && req->status != LEASED_ENOTHELD && req->status != LEASED_ELOST)
		log_event(LOG_WARN, "not_given_back", "status", 's', status_name(req->status), "then", 's',
			"it expires by itself", NULL);
	errand_free(req->owner);
}

void errand_release(struct engine *e, const struct claim *claim)
{
	struct errand *errand = errand_new(e, VERB_RELEASE, claim, on_released);

	if (!errand)
		return;
	errand->req.retry = true;
	errand->req.undone = true;
	if (engine_submit(e, &errand->req) < 0)
		errand_free(errand);
}

/* A row that stays is found by whoever stands behind it: see turns.c. */
static void on_left(struct request *req)
{
	errand_free(req->owner);
}

void errand_leave(struct engine *e, struct text name, int64_t place)
{
	struct errand *errand = errand_new(e, VERB_LEAVE, &(struct claim){ .name = name }, on_left);

	if (!errand)
		return;
	errand->req.place = place;
	if (engine_submit(e, &errand->req) < 0)
		errand_free(errand);
}

static void on_beaten(struct request *req)
{
	struct errand *errand = req->owner;
	struct engine *e = errand->engine;

	e->beating = false;
	if (req->status == 0 && !req->found && errand->had_places && !e->closing) {
		log_event(LOG_WARN, "places_lost", "why", 's',
			"the other daemons took this one for dead", "waiters", 'u',
			(uint64_t)e->n_placed, NULL);
		places_draw_all(e);
	}
	if (req->status == 0 && req->watching && e->on_told)
		e->on_told(e->on_told_owner, errand->sent_ms, req->told);
	errand_free(errand);
	if (e->beat_again)
		errand_on_beat(&e->beat);
}

void errand_on_beat(uv_timer_t *timer)
{
	struct engine *e = timer->data;
	struct errand *errand;

	if (e->closing || (e->n_placed == 0 && !e->on_told && !e->is_watching)) {
		uv_timer_stop(timer);
		return;
	}
	if (e->beating)
		return;
	errand = errand_new(e, VERB_BEAT, &(struct claim){ 0 }, on_beaten);
	if (!errand)
		return;
	e->beat_again = false;
	errand->req.watching = e->is_watching = e->on_told != NULL;
	errand->had_places = e->n_placed > 0;
	errand->sent_ms = clock_ms();
	e->beating = engine_submit(e, &errand->req) == 0;
	if (!e->beating)
		errand_free(errand);
}
