/*
 * A model of the lease and of the line of waiters, for spin: what the design says is always true is
 * checked in every order in which these things can happen, for one name and small numbers of the rest.
 * `run` beside this file checks it in several sizes, and that each rule left out (a mutation, below)
 * is missed: spin then finds a violation.
 *
 *   lease.pml     this: sizes, what there is, what is left out
 *   database.pml  the row, the table of waiters, notifications: what a transaction does
 *   daemon.pml    turns.c, places.c and errands.c: a request on a daemon, and the daemon itself
 *   client.pml    libleased: acquire with retries, the deadline, renewals, release, cancel
 *   world.pml     the clock, lost connections' transactions, failover, guarded writes
 *
 * What is claimed
 *   one holder     two clients never both believe that they hold (assert in check_holders), unless a
 *                  failover has lost commits; then
 *   guard          a guarded write with a stale token is refused, and one that has begun commits before
 *                  anybody else is granted (asserts in world.pml).
 *   tokens rise    each grant's token is above those of all grants before it, whoever was told of them,
 *                  on whatever timeline (assert in take_over).
 *   no grant left  whoever was told "cancelled" holds nothing (assert in client.pml).
 *   no lost wake   a run ends only when each client has its answer and is done with it. A client that
 *                  waits for ever is an invalid end state, since all that could help it (the expiry
 *                  timer, a beat, a reconnection) is tried before a run ends; and no run goes round for
 *                  ever (non-progress cycles, weak fairness). A timer helps only when the lease did run
 *                  out: in truth the expiry of a lease that was released would come some day too, and
 *                  hide a wake-up that was lost.
 *
 * How
 *   Time       counts down in ticks: what is left of the lease in the row, what a client believes is
 *              left. A tick may come at any time, TICKS of them (-1: any number); when nothing else can
 *              happen, time passes until the lease has run out.
 *   Statements are atomic, except where two of them can cross: an acquire begins (sees a free row, draws
 *              a token for a row that is not there) and commits; a release locks the row, looks who is
 *              first in line, and commits. The rest happens in between.
 *   Faults     come out of budgets: CUTS (a client loses its connection), DROPS (a daemon loses the
 *              database in a transaction, which commits later, once, or never, while the daemon asks
 *              again), CRASHES (of a daemon; with LATE its transaction lives on), PAUSES (a daemon does
 *              not beat for the grace), DEAF (a listening connection is lost with what it carried),
 *              DEATHS (of a client), SLOW (a tick that the clients' clocks miss), FAILOVERS (to a standby
 *              that stopped following at some earlier moment), DELETES (of an idle row), CANCELS.
 *   Locks      The line of a name changes only while its row is not locked by a release: whoever comes,
 *              leaves or is cleared away is either seen by that release or finds the lease free.
 *   Rows       of the line belong to their daemon, which alone deletes them (or whoever buries it). A holder
 *              that comes back to another daemon has a row at each, with the same place.
 *
 * Left out
 *   Batches: one name, one row; that several names travel in one transaction changes nothing for one.
 *   Renewals hold no row lock; different ttls (with one ttl a timer set by an older grant is never late);
 *   values, steals, principals, refusals for lack of memory, the schema's own SQL functions.
 *   The slow poll and wait timeouts; the pauses of a request refused though the lease is free (it comes
 *   again when that would bring something). The old primary is gone when the standby takes over.
 *   A client comes back to a daemon only when that has noticed that the client's old connection ended.
 *   One transaction at a time is left over from a lost connection; it ends, by its timeout, before the
 *   grace of a daemon that does not beat. Clients are alike: they start in order, the first at daemon 0.
 *
 * Mutations, each a rule of the design that is broken when it is defined
 *   TOKEN_EARLY          the token is drawn when the acquire begins, before the row is locked
 *   NO_EXPIRY_CHECK      ... and nothing is looked at again when it is
 *   EPOCH_KEPT           a failover does not raise the epoch
 *   DELETE_EARLY         idle rows go while an acquire is under way
 *   GUARD_UNLOCKED       a take-over does not wait for guarded transactions
 *   RENEW_ANY            a renewal asks only whether the name is held, not by whom
 *   DEADLINE_FROM_ANSWER a client's deadline counts from the answer
 *   DEADLINE_FROM_RETRY  ... or a whole ttl from the last attempt, though an earlier one was granted
 *   (MARGIN=0)           ... or without a margin for its clock
 *   GIVE_BACK_ABANDONED  a grant whose connection has gone is given back, though a retry may have found it
 *   CANCEL_KEEPS_GRANT   a grant that crosses a cancel is not given back
 *   NO_SECOND_ASK        whoever stands in line does not ask again once that is committed
 *   STALE_LOOK           a release looks who is first before it has locked the row
 *   NO_LOCK_PROBE        standing in line does not mind a release under way
 *   LEAVE_UNLOCKED       ... nor does leaving it
 *   BURY_UNLOCKED        ... nor does clearing away a dead daemon's waiters
 *   LEAVE_BLIND          whoever leaves tells the next only when the lease is free, not when it soon will be
 *   NOTE_FORGOTTEN       a notification that comes while a request asks is forgotten
 *   NOT_PASSED_ON        ... or one for a name that nobody here waits for
 *   TOLD_ONCE            whoever is refused though the lease is free tells the first in line only once
 *   ONE_ROW              a waiter that comes back to another daemon takes its row along, and whoever leaves
 *                        or is granted deletes it wherever it is
 *   DEATH_UNNOTICED      a dead daemon's waiters stay in line
 *   BEAT_UNAWARE         a daemon that was passed over for a while does not look what it missed
 *   REG_REVIVES          a daemon taken for dead comes alive by a new waiter, and forgets the others
 *   DRAW_UNAWARE         ... or by a draw of a place whose outcome it never heard
 *   REDRAW_PARKED_ONLY   places are drawn again only for those that do not ask just then
 *   NO_REDRAW            ... or not at all after the connection was lost
 */

/* Sizes. */
#ifndef CLIENTS
#define CLIENTS 2 /* or 3 */
#endif
#ifndef DAEMONS
#define DAEMONS 2 /* or 1 */
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef MARGIN
#define MARGIN 1
#endif
#ifndef MIN_HOLD
#define MIN_HOLD 0 /* at most so much is left after a release */
#endif

/* Budgets. */
#ifndef TICKS
#define TICKS 0
#endif
#ifndef SLOW
#define SLOW 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef DEAF
#define DEAF 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef PAUSES
#define PAUSES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef DELETES
#define DELETES 0
#endif
/* WAIT: requests wait. WRITES: guarded writes. LATE: above. HOMES: the other clients start at daemon 1. */

short ticks = TICKS;
byte slow = SLOW, renewals = RENEWALS, cancels = CANCELS, deaths = DEATHS, cuts = CUTS, drops = DROPS,
     deaf = DEAF, crashes = CRASHES, pauses = PAUSES, failovers = FAILOVERS, deletes = DELETES;

#define NONE       0
#define NOBODY     255
#define SLOTS      (DAEMONS * CLIENTS)
#define S(d, c)    ((d) * CLIENTS + (c)) /* the request of client c on daemon d */
#define LESS(a, b) ((a) > (b) -> (a) - (b) : 0)
#define MIN(a, b)  ((a) < (b) -> (a) : (b))
#define MAX(a, b)  ((a) > (b) -> (a) : (b))

/* The database. A holder is client + 1: each client acquires once, so that its nonce is its number. */
#define EPOCH 32 /* tokens in one */
#define GONE  0  /* daemons.seen_at: no row */
#define STALE 1  /* not seen for the grace: its waiters do not count */
#define FRESH 2
typedef Database {
	byte holder, token, left; /* leases; token 0: no row. left: ticks, 0 is expired */
	bit released;
	byte seq;                 /* token_seq */
	byte place[SLOTS];        /* waiters, a row for each daemon that a holder waits at; 0: none */
	byte seen[DAEMONS] = FRESH;
	byte head;                /* client + 1 of the first in line, 0: nobody; follows from the rest */
};
Database db, standby;
bit lagging;    /* the standby stopped following */
byte epoch = 1; /* the timeline's */
byte locked;    /* client + 1 whose release is under way: the row is locked */
byte target;    /* daemons that it will notify, as bits */
byte guarded;   /* client + 1 whose guarded transaction is under way */

/* A transaction whose connection was lost. It commits later, or never. */
mtype late; /* ASK, REG, GIVING or BEGUN */
byte late_slot, late_token, late_age = TTL;

/* Requests on daemons. */
mtype = {
	ASK,         /* in the store */
	ASKED,       /* begun, not committed */
	TAKEN_UNTIL, /* the answer is on its way: held, and for how long */
	FREED_SOON,  /* ... or released, but for its minimum hold */
	REG,         /* draws a place */
	PARKED,      /* waits */
	GIVE,        /* granted though cancelled: to be given back */
	GIVING,      /* that release is under way */
	LEAVE        /* its row is to be deleted */
};
mtype st[SLOTS];
bit cancelled[SLOTS], placed[SLOTS]; /* placed: has a place, as far as it knows */
bit asked[SLOTS];                    /* since it has this place */
byte drawn[SLOTS];                   /* the token of an acquire that has begun, 0: not drawn yet */
byte age[SLOTS] = TTL;               /* ticks since then */

/* Daemons. */
mtype = { ON_EXPIRY, ON_MIN_HOLD, ON_POLL };
bit up[DAEMONS] = 1, listening[DAEMONS] = 1;
bit note[DAEMONS];   /* a notification is on its way */
bit asking[DAEMONS]; /* one of its requests asks */
bit again[DAEMONS];  /* ... and a notification came meanwhile */
bit pass[DAEMONS];   /* a notification to be passed on */
bit doubt[DAEMONS];  /* a connection was lost with a draw of a place */
mtype timer[DAEMONS];

/* Clients. */
mtype = { GRANTED, HELD, CANCELLED };
mtype = { SENT, BEGUN, RENEWED, LOST };
byte at[CLIENTS];          /* daemon + 1 that it is connected to, for its acquire */
mtype ans[CLIENTS];        /* the answer on its way */
bit cancel[CLIENTS];       /* a cancel on its way */
mtype rn[CLIENTS];         /* its renewal */
byte tok[CLIENTS];         /* the token that it was told */
byte expires[CLIENTS];     /* the time left that it was told */
byte left[CLIENTS];        /* the time that it believes is left: it holds while that is above zero */
byte first[CLIENTS];       /* what would be left if its first attempt had been granted at once */
byte since[CLIENTS] = TTL; /* ticks since it last sent something */
byte started;

/* Told, not used: what only the claims look at. */
byte top;    /* the highest token ever granted */
bit lost;    /* a failover lost commits of the row */
bit meddled; /* something went wrong: a grant may stay until it expires */

hidden byte i, n, best, found; /* within one step */

#define TAKEN    (db.left > 0)
#define HELD_NOW (TAKEN && !db.released)
#define HOLDS(c) (HELD_NOW && db.holder == (c) + 1)
#define FIRST(c) (db.head == 0 || db.head == (c) + 1)
#define ASKS(s)  (st[s] == ASK || st[s] == ASKED || st[s] == TAKEN_UNTIL || st[s] == FREED_SOON)
#if CLIENTS == 2
#define SOME(d, x) (st[S(d, 0)] == x || st[S(d, 1)] == x)
#else
#define SOME(d, x) (st[S(d, 0)] == x || st[S(d, 1)] == x || st[S(d, 2)] == x)
#endif
#define WAITING(d) (asking[d] || SOME(d, PARKED))

#include "database.pml"
#include "daemon.pml"
#include "client.pml"
#include "world.pml"
