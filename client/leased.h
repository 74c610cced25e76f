/*
 * leased.h - named leases from a leased daemon: acquire, hold, release.
 *
 * A client is one connection with one background thread. The thread renews the leases every third
 * of their ttl, moves on to the next daemon when one dies, and declares a lease lost when its
 * deadline passes. No call here needs a database connection.
 *
 * Threads: every function may be called from any thread, except where it says otherwise. No lock is
 * held while a callback runs; callbacks run on the background thread and must not block it for long.
 * Calls that wait for it (acquire, renew, release) fail in a callback with LEASED_EUSAGE.
 *
 * Deadlines: a lease counts as held until its ttl after the moment *before* the request was sent,
 * less the margin, on CLOCK_BOOTTIME. So the client stops before the database lets another in,
 * however long the network, the daemon or a suspended laptop took.
 *
 * fork: a child does not hold and does not renew its parent's leases. In the child leased_held() is
 * false, a deadline 0, other calls fail with LEASED_ENOTHELD, and leased_client_close() frees and closes the child's
 * copy of the connection; close it in a child that lives long without exec.
 *
 * Errors: 0 or a negative enum leased_status. err may be NULL; otherwise it gets a sentence that says
 * what was tried, on what, and why it failed. The library never prints and never aborts.
 */
#ifndef LEASED_H
#define LEASED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <leased_status.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LEASED_API __attribute__((visibility("default")))
#else
#define LEASED_API
#endif

#define LEASED_TTL_DEFAULT_MS INT64_C(90000)

/* max_holders of those who share a lease, and the most that it may be. */
#define LEASED_SHARED 10000
/* The most names that one lease may have. */
#define LEASED_NAMES_MAX 64

struct leased_client;
struct leased_lease;
struct leased_watch;
struct leased_election;

struct leased_options {
	/*
	 * Comma-separated addresses, tried in turn: unix:/path, tcp:127.0.0.1:port, tcp:[::1]:port,
	 * tcp:localhost:port, or over a network, encrypted and authenticated by keys of both sides,
	 * leased://10.0.0.5:port/leased-server-pub:... with what `leasectl keygen --server` or the
	 * daemon's log says of its key. Names of hosts are not looked up.
	 * NULL: $LEASED_SERVER, or unix:/run/leased/leased.sock.
	 */
	const char *servers;
	/* Shown in the daemon's log. NULL: "libleased". */
	const char *program;
	/*
	 * How long one call may take, reconnects included. 0: 12 s. A wait comes on top, and after it
	 * once more as long to have the grant confirmed.
	 */
	int64_t timeout_ms;
	/* Taken off every deadline, at most half of a ttl. 0: a tenth of the ttl, at most 1 s. */
	int64_t margin_ms;
	/*
	 * The file with our own key, which `leasectl keygen` makes; for leased:// addresses only. NULL:
	 * $LEASED_KEY_FILE, or ~/.config/leased/key. Read once, here.
	 */
	const char *key_file;
};

/*
 * Makes a client, connects to the first address that answers and starts the background thread.
 * NULL options: defaults. The thread blocks all signals.
 * LEASED_EUSAGE: an address or a time cannot be used. LEASED_ECONFIG: the key cannot be used.
 * LEASED_EUNAVAILABLE: no daemon answered in time. LEASED_EDENIED, LEASED_EVERSION, LEASED_EPROTO: the only one refuses. LEASED_ENOMEM, LEASED_EINTERNAL.
 */
LEASED_API int leased_client_open(struct leased_client **ret_client, const struct leased_options *options,
	struct leased_error *err);

/*
 * Releases nothing but leases with release_on_disconnect: others expire by themselves (release them
 * first). Calls that other threads wait in get up to a second, then return LEASED_ECANCELLED, and close
 * waits until they have; no thread may use the client or one of its leases afterwards. Stops the thread,
 * closes, frees the client and all its leases. Acquires that were given up and may have been granted get
 * up to a second to be given back. NULL is fine. Not from a callback.
 */
LEASED_API void leased_client_close(struct leased_client *client);

/*
 * Makes calls that block in other threads return LEASED_ECANCELLED, a waiting acquire first leaving
 * the queue, within about a second; further calls but release fail at once. Async-signal-safe: for
 * signal handlers.
 */
LEASED_API void leased_client_interrupt(struct leased_client *client);

/* What became of a lease. Runs on the background thread, once. The lease stays valid memory. */
typedef void (*leased_lost_cb)(struct leased_lease *lease, const struct leased_error *why, void *data);

/* A renewal succeeded: the lease is now held until leased_deadline_ns(). */
typedef void (*leased_renewed_cb)(struct leased_lease *lease, void *data);

struct leased_acquire_options {
	int64_t ttl_ms;       /* 0: LEASED_TTL_DEFAULT_MS */
	int64_t wait_ms;      /* 0: give up at once when held */
	int64_t min_hold_ms;  /* the lease stays taken at least so long after its acquisition */
	const void *value;    /* published with the lease, up to 4,096 bytes of UTF-8 */
	size_t value_len;
	/*
	 * A schedule tick, like a name; NULL: none. Once a grant of it was released (see leased_release)
	 * it is completed, and refused with LEASED_EDONE: for 12 hours, unless the daemon is configured
	 * otherwise. slot_again: a release with an exit status other than 0 leaves it open.
	 */
	const char *slot;
	bool slot_again;
	/*
	 * 0, or LEASED_EDONE while the last run began less than so long ago, less a twentieth of it, at
	 * most 10 s. A run is a grant that was released, and not given back.
	 */
	int64_t every_ms;
	/*
	 * How many may hold it at once while this grant lasts, ourselves included, up to LEASED_SHARED. 0: 1,
	 * exclusive. It is granted if the smallest max_holders of all who hold it, ours as well, has room.
	 * Above 1 not with a slot or an interval.
	 */
	int max_holders;
	/*
	 * Further names, copied: all are granted at once, with one token and one expiry, or none; a wait holds
	 * none. Slot and interval are of the first name, the other options of each. Losing one is losing the
	 * lease.
	 */
	const char *const *also;
	size_t n_also;
	bool no_renewal;      /* do not renew in the background */
	/*
	 * The daemon releases the lease when the connection ends, or, over a Unix socket, as soon as this
	 * process dies. watched_pid: when that process of the same user dies instead (Unix socket only).
	 */
	bool release_on_disconnect;
	int watched_pid;
	leased_lost_cb on_lost;       /* may be NULL */
	leased_renewed_cb on_renewed; /* may be NULL */
	void *data;           /* handed to the callbacks */
};

/*
 * Acquires name (1 to 255 bytes of UTF-8 without control characters). Blocks until granted, refused
 * or out of time. An answer lost with its connection is asked for again with the same nonce. When it
 * is given up, by time or by an interrupt, what it may have been granted is given back in the
 * background; if no daemon can be reached for so long, it expires.
 * LEASED_EHELD, LEASED_EGUARDED, LEASED_ETIMEDOUT: someone else holds it; err names the holder.
 * LEASED_EDONE: the slot was completed, or the interval is not over; err says by whom and when.
 * LEASED_ELOST: granted after a wait, and lost before that was confirmed.
 * LEASED_EUSAGE, LEASED_EDATA (a name is none, is there twice, or there are too many), LEASED_EDENIED,
 * LEASED_EUNAVAILABLE, LEASED_ECANCELLED, LEASED_ENOMEM as their texts say.
 * The lease belongs to the client until leased_lease_free() or leased_client_close().
 */
LEASED_API int leased_acquire(struct leased_client *client, const char *name,
	const struct leased_acquire_options *options, struct leased_lease **ret_lease,
	struct leased_error *err);

/*
 * Renews at once, beside the background renewals. ttl_ms 0 keeps the ttl; a shorter one counts from
 * the call on, whatever comes back.
 * LEASED_ELOST: it is gone; on_lost has run or will.
 */
LEASED_API int leased_renew(struct leased_lease *lease, int64_t ttl_ms, struct leased_error *err);

/*
 * Changes the value that is published with the lease, which is renewed at once as well; len 0 takes it
 * away. value is up to 4,096 bytes of UTF-8 without NUL, else LEASED_EDATA. After another failure the
 * value may be the old or the new one. LEASED_ELOST as for leased_renew().
 */
LEASED_API int leased_set_value(struct leased_lease *lease, const void *value, size_t len,
	struct leased_error *err);

/*
 * The work is done: gives the lease back, which completes its slot; exit_status, when not NULL, is kept
 * in the history and with the slot. From the call on the lease counts as not held and is no longer
 * renewed, whatever comes back. Works after leased_client_interrupt(). LEASED_ENOTHELD: it was not held
 * any more.
 */
LEASED_API int leased_release(struct leased_lease *lease, const int *exit_status, struct leased_error *err);

/* The same when nothing was done under the lease: the slot stays open, and it does not count as a run. */
LEASED_API int leased_give_back(struct leased_lease *lease, struct leased_error *err);

/*
 * Frees a lease that was released or lost; one still held simply expires. Of a lease with several names that
 * was lost by one of them, the others stay taken until then (their work may have to end first), and are
 * given back in the background now. NULL is fine.
 */
LEASED_API void leased_lease_free(struct leased_lease *lease);

/* Whether the lease is held right now, by the deadline alone: no I/O, no lock that waits. */
LEASED_API bool leased_held(const struct leased_lease *lease);

/* Time left until the deadline, 0 when it has passed. */
LEASED_API int64_t leased_remaining_ms(const struct leased_lease *lease);

/* The deadline on CLOCK_BOOTTIME in nanoseconds; 0 once lost or released, and in a child of fork. */
LEASED_API int64_t leased_deadline_ns(const struct leased_lease *lease);

/* Fixed for the life of the lease. */
LEASED_API uint64_t leased_token(const struct leased_lease *lease);
LEASED_API const char *leased_name(const struct leased_lease *lease); /* the first one */
LEASED_API const char *leased_holder(const struct leased_lease *lease); /* host:pid:nonce */

enum leased_ending { LEASED_HELD, LEASED_RELEASED, LEASED_EXPIRED, LEASED_STOLEN };

/* A grant of the past, or the one that lasts. */
struct leased_grant {
	const char *name, *holder, *principal;
	uint64_t token;
	enum leased_ending ended;
	bool has_exit_status; /* LEASED_RELEASED, where one was told */
	int exit_status;
	int64_t acquired_at_us, ended_at_us; /* since 1970, the database's clock; LEASED_HELD: no end, 0 */
	int64_t held_for_ms;
	const char *stolen_by, *reason; /* LEASED_STOLEN; NULL: not told */
};

struct leased_history_options {
	const char *name;   /* all grants of this lease. NULL: of all leases those that failed, */
	const char *prefix; /* NULL or what their names begin with */
	int64_t since_ms;   /* those that ended less than so long ago; 0: whenever */
};

/* Runs in the thread that has called leased_history. The texts live until it returns. false: enough. */
typedef bool (*leased_grant_cb)(const struct leased_grant *grant, void *data);

/*
 * Tells of grants, newest first: those of one lease, also of the one that lasts; or those that failed,
 * that is, expired, were stolen, or were released with an exit status other than 0. ret_keep_ms, when
 * not NULL, gets how long the daemon tells of a grant after its end (0: it writes no history).
 * Blocks for a call a page. LEASED_EDATA, LEASED_EUNAVAILABLE, LEASED_ECANCELLED as their texts say.
 */
LEASED_API int leased_history(struct leased_client *client, const struct leased_history_options *options,
	leased_grant_cb each, void *data, int64_t *ret_keep_ms, struct leased_error *err);

/* Watching: who holds what, from now on. */

enum leased_change_kind {
	LEASED_CHANGE_SNAPSHOT, /* what was told before counts no more; what is held now follows */
	LEASED_CHANGE_HELD,     /* a lease in the snapshot */
	LEASED_CHANGE_READY,    /* the snapshot is complete: from here on every change is told */
	LEASED_CHANGE_GRANTED,
	LEASED_CHANGE_VALUE,    /* the holder has changed its value */
	LEASED_CHANGE_RELEASED,
	LEASED_CHANGE_EXPIRED,
	LEASED_CHANGE_STOLEN,
	LEASED_CHANGE_AWAY,     /* nothing can be told at the moment; it goes on by itself with a SNAPSHOT */
	LEASED_CHANGE_ENDED,    /* refused for good: nothing follows */
};

struct leased_change {
	enum leased_change_kind kind;
	const char *name;       /* this, token and holder: of HELD, GRANTED, VALUE and the three ends */
	const char *holder;     /* host:pid:nonce */
	uint64_t token;
	int64_t expires_in_ms;  /* HELD, GRANTED. Renewals are not told */
	const void *value;      /* HELD, GRANTED, VALUE; NULL: none */
	size_t value_len;
	const struct leased_error *why; /* AWAY, ENDED */
};

/* Runs on the background thread; all of change is gone when it returns. May call leased_unwatch(). */
typedef void (*leased_change_cb)(struct leased_watch *watch, const struct leased_change *change, void *data);

struct leased_watch_options {
	bool exact;             /* only the lease of this very name, not all that begin with it */
	leased_change_cb on_change;
	void *data;             /* handed to the callback */
};

/*
 * Watches all leases whose names begin with prefix (NULL or "": all). Does not wait. Each change is told
 * once and none is left out, from the snapshot on; when some may have been missed, because a connection,
 * a daemon or its notifications were lost, or because this client was too slow, a fresh SNAPSHOT follows.
 * It goes on, through reconnects and daemons, until leased_unwatch() or leased_client_close();
 * leased_client_interrupt() does not end it. Works in callbacks.
 * LEASED_EDATA: not a prefix, or not a name; LEASED_ENOTHELD in a child of fork.
 */
LEASED_API int leased_watch(struct leased_client *client, const char *prefix,
	const struct leased_watch_options *options, struct leased_watch **ret_watch,
	struct leased_error *err);

/* Ends and frees a watch. When it returns no callback runs or will, unless called in one. NULL is fine. */
LEASED_API void leased_unwatch(struct leased_watch *watch);

/* Elections: who holds the lease of a name leads. */

struct leased_election_options {
	int64_t ttl_ms;         /* these as for leased_acquire */
	int64_t min_hold_ms;
	const void *value;      /* copied */
	size_t value_len;
	bool release_on_disconnect;
	/*
	 * The callbacks run on the background thread and may be NULL; leased_step_down() may be called in
	 * them. on_leading: we lead, as long as leased_held(lease); the lease is the election's: it is not
	 * to be released or freed. on_lost: we lead no more; the campaign goes on.
	 */
	void (*on_leading)(struct leased_election *election, struct leased_lease *lease, void *data);
	void (*on_lost)(struct leased_election *election, const struct leased_error *why, void *data);
	/*
	 * Each leader, ourselves included, at the beginning and when it or its value changes: leader has name,
	 * token, holder and value. NULL: nobody leads.
	 */
	void (*on_leader)(struct leased_election *election, const struct leased_change *leader, void *data);
	/* The campaign does not get on at the moment; it goes on by itself. */
	void (*on_problem)(struct leased_election *election, const struct leased_error *why, void *data);
	void *data;
};

/*
 * Campaigns for name, for ever: waits in line, leads, and campaigns again when the lead is lost. Does not
 * wait; works in callbacks. leased_client_interrupt() ends neither campaign nor lead, but begins no new one.
 * LEASED_EDATA, LEASED_EUSAGE: name, value or times cannot be used; LEASED_ENOTHELD in a child of fork.
 */
LEASED_API int leased_elect(struct leased_client *client, const char *name,
	const struct leased_election_options *options, struct leased_election **ret_election,
	struct leased_error *err);

/*
 * Ends the campaign and frees it. Who leads gives the lead back at once: it is free when this returns
 * (or expires, if no daemon answers); in a callback it is given back right after. No on_lost for that. When
 * it returns no callback runs or will, unless called in one. NULL is fine.
 */
LEASED_API void leased_step_down(struct leased_election *election);

/* The library's version, "0.1.0". */
LEASED_API const char *leased_version(void);

#ifdef __cplusplus
}
#endif

#endif
