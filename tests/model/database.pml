/* What transactions do to the row, to the line, and to the daemons' ears. */

#ifdef NO_LOCK_PROBE
#define SURE true
#else
#define SURE !locked
#endif
#ifdef LEAVE_UNLOCKED
#define MAY_LEAVE true
#else
#define MAY_LEAVE !locked
#endif
#ifdef BURY_UNLOCKED
#define MAY_BURY true
#else
#define MAY_BURY !locked
#endif
#ifdef GUARD_UNLOCKED
#define NOT_GUARDED true
#else
#define NOT_GUARDED !guarded
#endif
/* After a release with a minimum hold only the first in line knows when the lease will be free. */
#ifdef LEAVE_BLIND
#define WORTH_TELLING !TAKEN
#else
#define WORTH_TELLING !HELD_NOW
#endif

/* The line. */

inline find_head()
{
	best = NOBODY;
	n = NOBODY;
	db.head = 0;
	for (i : 0 .. SLOTS - 1) {
		n = (db.place[i] > 0 -> MIN(n, db.place[i]) : n);
		if
		:: db.seen[i / CLIENTS] == FRESH && db.place[i] > 0 && db.place[i] < best ->
			best = db.place[i];
			db.head = i % CLIENTS + 1
		:: else
		fi
	}
	for (i : 0 .. SLOTS - 1) { /* the least place is 1: fewer states */
		db.place[i] = LESS(db.place[i], n - 1)
	}
	i = 0
}

/* Behind all others; a holder that stands in line at another daemon keeps its place. */
inline register(d, c)
{
	best = 0;
	n = 0;
	for (i : 0 .. SLOTS - 1) {
		best = MAX(best, db.place[i]);
		if
		:: db.place[i] > 0 && i % CLIENTS == c ->
			n = db.place[i];
#ifdef ONE_ROW
			db.place[i] = 0
#endif
		:: else
		fi
	}
	db.place[S(d, c)] = (n > 0 -> n : best + 1);
	find_head()
}

inline unregister(d, c)
{
#ifdef ONE_ROW
	for (i : 0 .. DAEMONS - 1) {
		db.place[S(i, c)] = 0
	}
#else
	db.place[S(d, c)] = 0;
#endif
	find_head()
}

/* The daemons at which the first in line waits. */
inline look_for_first(daemons)
{
	daemons = 0;
	for (i : 0 .. DAEMONS - 1) {
		if
		:: db.head > 0 && db.place[S(i, db.head - 1)] > 0 && db.seen[i] == FRESH ->
			daemons = daemons | (1 << i)
		:: else
		fi
	}
	i = 0
}

inline notify(daemons)
{
	for (i : 0 .. DAEMONS - 1) {
		if
		:: (daemons & (1 << i)) && up[i] && listening[i] -> note[i] = 1
		:: else
		fi
	}
	daemons = 0
}

inline tell_first()
{
	look_for_first(found);
	notify(found)
}

inline tell_first_if_free()
{
	if
	:: WORTH_TELLING -> tell_first()
	:: else
	fi
}

/* The row. t: a token drawn when the transaction began, a ticks ago. */
inline take_over(d, c, t, a)
{
#ifdef TOKEN_EARLY
	n = t;
#else
	if
	:: t > 0 && db.token == 0 -> n = t /* an INSERT */
	:: else -> db.seq++; n = MAX(epoch * EPOCH + db.seq, db.token + 1)
	fi;
#endif
	assert(n > top);
	top = n;
	db.holder = c + 1;
	db.token = n;
	db.released = 0;
	db.left = LESS(TTL, a);
	unregister(d, c);
	for (i : 0 .. DAEMONS - 1) { /* that time has come, or another grant is found when it comes */
		timer[i] = (timer[i] == ON_MIN_HOLD -> ON_EXPIRY : timer[i])
	}
	i = 0
}

inline commit_release()
{
	db.released = 1;
	db.left = MIN(db.left, MIN_HOLD);
	locked = 0;
	notify(target)
}

/* A daemon that was not seen is dead: its waiters make room. */
inline bury(d)
{
	db.seen[d] = GONE;
	n = 0;
	for (i : 0 .. CLIENTS - 1) {
		n = n | db.place[S(d, i)];
		db.place[S(d, i)] = 0
	}
	if
	:: n -> find_head(); tell_first()
	:: else
	fi
}
