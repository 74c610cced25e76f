/*
 * session.h - one native client: handshake, requests, replies, and what it still waits for. Ends with
 * its connection. Loop thread.
 */
#ifndef SESSION_H
#define SESSION_H

#include "access.h"
#include "config.h"
#include "engine.h"
#include "holdings.h"
#include "list.h"
#include "principal.h"
#include "quota.h"
#include "strangers.h"
#include "transport.h"
#include "watch.h"

/*
 * Requests of one client in flight, or an eighth of max_queued if that is less; more wait in its socket.
 * The last message may go beyond it: many renewals come in one.
 */
#define SESSION_REQUESTS_MAX 4096
#define SESSION_SHARE        8

/* Acquires that wait, which do not count there, for their client must be read: more are refused. */
#define SESSION_WAITS_MAX 4096

enum session_state { SESSION_HANDSHAKE, SESSION_READY, SESSION_CLOSING, SESSION_CLOSED };

struct session;

/* What all sessions share; its owner is the server. */
struct sessions {
	const struct config *config;
	struct engine *engine;
	struct holdings *holdings;
	struct watches *watches;
	struct access *access;   /* its own, see admit.h */
	struct quotas quotas;
	struct list handshaking; /* session.link, oldest first */
	struct list ready;       /* session.link, the longest silent first */
	struct list closing;     /* session.link */
	struct list dirty;       /* session.dirty, those with output of this turn */
	size_t n;                /* in all lists */
	bool paused;             /* nobody is read any more */
	uint8_t hash_key[16];    /* of tables that clients fill: see cancel.c */
	int64_t started_ms;
	const char *notices_problem; /* why no notifications arrive, "": they do */
	struct log_limit stranger_limit, audit_limit;
	void (*on_empty)(void *data); /* the last one has closed; may be NULL */
	void *data;
};

struct session {
	enum session_state state;
	struct transport transport;
	struct sessions *all;
	struct list link, dirty;
	struct list calls;    /* call.link, oldest first: those in flight */
	struct call *acquires; /* see cancel.c */
	struct list holdings; /* see holdings.c */
	struct list streams;  /* stream.link, see stream.c */
	size_t n_streams;
	size_t n_requests;    /* in flight, without those that wait for a lease; large ones count as several */
	size_t n_waits;
	int64_t heard_ms;     /* when the client last said something, or began to be read */
	struct principal principal;
	const struct access_client *client; /* NULL: nobody that we know */
	struct quota *quota;  /* NULL until it is known who it is, and once it closes */
	bool has_other_rules; /* since a reload: what it waits for and follows is looked at again */
	bool transport_open;
	bool wants_lost;      /* its Hello had the feature "lost" */
};

/* access becomes theirs. */
void sessions_init(struct sessions *all, const struct config *config, struct engine *engine,
	struct holdings *holdings, struct watches *watches, struct access *access);

/* All have closed: frees what they shared. */
void sessions_fini(struct sessions *all);

/*
 * A session for a connection that waits on listener; type is UV_TCP or UV_NAMED_PIPE. Over the limit
 * of clients it is told so and closed. 0, or LEASED_ENOMEM: it still waits.
 */
int session_accept(struct sessions *all, uv_stream_t *listener);

/* A session for a client that has shown its key over a sealed connection, whose descriptor it takes. Is it let in? */
bool session_adopt(struct sessions *all, uv_loop_t *loop, const struct arrival *arrival);

/* Says why (unless status is LEASED_OK), then closes. Idempotent. */
void session_close(struct session *s, int status, const char *why);

/* Tells the clients of a principal that one of its grants was ended by somebody else. */
void sessions_tell_lost(struct sessions *all, struct text principal, struct text name, uint64_t token,
	struct text why);

/* Reads the client, or lets it wait: call it when what it has in flight has changed. */
void session_regulate(struct session *s);

/* Writes what this turn has gathered for all clients. */
void sessions_flush(struct sessions *all);

/* Closes those whose handshake or silence lasts too long; called every second or so. Who is not read is not silent. */
void sessions_tick(struct sessions *all);

/* Takes no further requests; those in flight are still answered. */
void sessions_pause(struct sessions *all);

/* Tells all clients that the daemon leaves, and closes them; on_empty runs when the last has gone. */
void sessions_close(struct sessions *all);

#endif
