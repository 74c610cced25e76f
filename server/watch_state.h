/*
 * watch_state.h - what the parts of the watches share: watch.c (who follows what), watch_tell.c (what they
 * are told), watch_sync.c (since when every change is told), watch_list.c (what is held at the beginning) and
 * watch_expiry.c (ends that nobody tells of). Loop thread.
 */
#ifndef WATCH_STATE_H
#define WATCH_STATE_H

#include <sodium.h>
#include <string.h>

/* uthash, with SipHash under a random key and an out-of-memory that is told instead of exit(). */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->hh.key = NULL)
#define HASH_FUNCTION(text, len, value)                                                            \
	do {                                                                                       \
		unsigned char full[crypto_shorthash_BYTES];                                        \
		crypto_shorthash(full, (const unsigned char *)(text), (len), watch_hash_key());    \
		memcpy(&(value), full, sizeof(value));                                             \
	} while (0)

#include <uthash.h>

#include "heap.h"
#include "watch.h"

/* A name of which a watch knows grants that last. */
struct followed_name {
	uint64_t newest;         /* the highest token of those that it has known since there were any */
	uint32_t n_grants;
	UT_hash_handle hh;       /* in watch.names, by name */
	char name[];
};

/* One of these grants. */
struct followed {
	struct watch *watch;
	struct followed_name *of_name;
	struct claim claim;      /* without principal */
	int64_t value_changes;
	struct heap_node timer;  /* when to look whether it has expired */
	bool asking;
	uint16_t misses;         /* looks in a row that found it gone though nobody has told so */
	UT_hash_handle hh;       /* in watch.grants, by name and token */
	char texts[];            /* begins with these two */
};

/* A question to the database; it outlives the watch that made it. */
struct question {
	struct request req;
	struct watches *all;
	struct watch *watch;     /* NULL: it is over */
	struct list link;        /* in watch.questions */
	unsigned round;          /* the watch's when it was made: of an older one the answer counts no more */
	char texts[];
};

/* All watches of one prefix or one name. */
struct feed {
	struct list watches;     /* watch.of_feed */
	UT_hash_handle hh;       /* in watches.feeds, by key */
	uint16_t key_len;
	char key[];              /* FEED_EXACT and a name, or FEED_PREFIX and a prefix */
};
#define FEED_EXACT  '='
#define FEED_PREFIX '^'

/*
 * WAITING -> LISTING -> FOLLOWING; back to WAITING when changes may have been missed.
 * LISTING: grants up to `upto` are known, changes of them stand in line behind the snapshot.
 */
enum watch_state { WATCH_WAITING, WATCH_LISTING, WATCH_FOLLOWING };

struct watch {
	enum watch_state state;
	struct watches *all;
	struct list link;        /* in watches.watches or, once it is over, in watches.dead */
	struct list of_feed;
	struct feed *feed;
	const struct watch_events *events;
	void *owner;
	bool over, has_room;
	bool exact;
	bool has_begun;          /* LISTING: the snapshot is being told */
	bool all_listed;         /* LISTING: there is no further page */
	unsigned round;          /* of beginnings */
	int64_t waiting_ms;      /* since when */
	struct followed_name *names;
	struct followed *grants;
	struct list questions;   /* question.link */
	struct question *page;   /* LISTING: rows that are being told; NULL: a page is asked for */
	uint32_t row, n_rows;    /* the next one of page, and how many of them are told */
	char upto[NAME_MAX_LEN]; /* LISTING: a name, and of its grants those up to upto_token */
	size_t upto_len;
	uint64_t upto_token;
	struct list undecided;   /* kept_change.link: changes that the page asked for may show */
	struct list queue;       /* kept_change.link: changes to be told, oldest first */
	size_t queue_bytes;      /* of both */
};

/* OFF: nobody watches, or no notifications arrive. BEGINNING: the database is told that somebody watches.
 * SETTLING: until those are over that did not know. SURE: every change is told. */
enum sync_state { SYNC_OFF, SYNC_BEGINNING, SYNC_SETTLING, SYNC_SURE };

struct watches {
	enum sync_state state;
	const struct config *config;
	struct engine *engine;
	const struct notices *notices;
	struct feed *feeds;
	size_t feeds_of_len[NAME_MAX_LEN + 1]; /* feeds of prefixes of so many bytes */
	struct list watches, dead; /* watch.link */
	size_t n_watches, n_grants, n_questions, n_expiries;
	unsigned busy;           /* while it is above 0 nothing of a watch is freed */
	struct heap expiries;    /* followed.timer */
	uv_timer_t expiry_timer, settle_timer;
	unsigned n_timers;
	unsigned round;          /* of settling: of an older one the answer counts no more */
	int64_t poll_ms;         /* until they are asked for again */
	char *others;            /* transactions that did not know yet */
	int32_t other_pid;       /* a server process of theirs */
	int64_t told_ms;         /* changes are told from then on for WATCH_GRACE_MS */
	bool leaving, closing;
};

/* watch.c: names come from outside, and a fixed hash could be flooded. */
const uint8_t *watch_hash_key(void);

/* Around whatever may call out, or end a watch. */
void watches_enter(struct watches *all);
void watches_exit(struct watches *all);

/* watch_tell.c: the grant of this name and token as the watch knows it, or NULL. */
struct followed *watch_find(struct watch *w, const struct claim *claim);

/* Knows of a grant from now on. The watch may be over afterwards (w->over): too many. */
void watch_follow(struct watch *w, const struct change *change);

/* Whether changes of this name are told. */
bool watch_wants(const struct watch *w, struct text name);

/* Tells a change, at once or behind those in line; the watch may be over afterwards. */
void watch_take(struct watch *w, const struct change *change);
void watch_deliver(struct watch *w, const struct change *change);

/* Tells what is in line, as far as there is room. */
void watch_push(struct watch *w);

/* Forgets all it knows and stands in line; it will begin anew. */
void watch_reset(struct watch *w, enum watch_state state);

/* Changes that are kept. 0 or LEASED_ENOMEM; LEASED_EBUSY: too many. */
int watch_keep(struct watch *w, struct list *list, const struct change *change);
/* Those undecided: into the queue when they are wanted, else (or with NULL) dropped. */
void watch_decide(struct watch *w, bool (*is_wanted)(const struct watch *w, const struct claim *claim));

/* watch.c. Ends a watch and tells it why. */
void watch_end(struct watch *w, int status, const char *why);

/* A question of w (NULL: of all watches) with room for texts. NULL: out of memory. */
struct question *question_new(struct watches *all, struct watch *w, enum verb verb, size_t texts);
/* 0: q->req.done runs later and must free it. Else it is freed. */
int question_ask(struct question *q, request_done_cb done);
void question_free(struct question *q);

/* watch_sync.c */
void sync_begin(struct watches *all);
void sync_end(struct watches *all);
/* Whether changes are told up to now; begins anew when not. */
bool sync_check(struct watches *all);
void sync_on_settle_timer(uv_timer_t *timer);

/* watch_list.c */
void list_begin(struct watch *w);
void list_tell_rows(struct watch *w);
int list_take(struct watch *w, const struct change *change);

/* watch_expiry.c */
int expiry_set(struct followed *lease, int64_t expires_in_ms);
void expiry_on_timer(uv_timer_t *timer);

#endif
