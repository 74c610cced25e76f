/*
 * watches_rig.h - two watches over a store by script (engine_rig.h), and what each was told. Each test begins
 * with a world of its own.
 */
#ifndef WATCHES_RIG_H
#define WATCHES_RIG_H

#include "engine_rig.h"
#include "watch.h"

/* A watch and what it was told: "S h:a:1 R g:b:2 " ... */
struct told {
	struct watch *watch;
	char text[8192];
	bool full;              /* takes no more than what it must */
	bool stops_itself;      /* at the next change */
	struct told *stops;     /* at the next change */
	int ended;              /* status */
};

struct world {
	struct rig *rig;
	struct notices notices;
	struct watches *all;
	struct told a, b;
};

extern const struct watch_events told_events;

/* cmocka's setup and teardown; *state is the world. */
int watches_setup(void **state);
int watches_teardown(void **state);

void start(struct world *w, struct told *t, const char *prefix, bool exact);

/* Since it was last asked for. */
void is_told(struct told *t, const char *want);

/* The next question; a beat that comes in between, since a second has passed, brings nothing new. */
struct request *asked(struct world *w, enum verb verb);

void beat(struct world *w, bool told);
void changing(struct world *w, const char *since, const char *others);

/* The watches are sure of what they are told, and the first asks for its page. */
void settled(struct world *w);

/*
 * "a1 b2- c3": names of a letter, tokens of a digit; a minus: not held (any more). The page was asked for
 * after such a one, "" being before all.
 */
void page(struct world *w, const char *after, const char *rows, bool more);

/* ms: until the expiry; of a VALUE its number. */
void change_for(struct world *w, enum change_kind kind, const char *name, uint64_t token, int64_t ms);
void change(struct world *w, enum change_kind kind, const char *name, uint64_t token);

/* A watch that follows all, with these leases held. */
void follows(struct world *w, const char *rows);

#endif
