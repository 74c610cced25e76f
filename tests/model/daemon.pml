/* A daemon: whose turn it is to ask, and what becomes of a request. */

/* The first that waits here; what has lost its row counts as first. */
inline find_local_first(d)
{
	best = NOBODY;
	n = NOBODY;
	for (i : 0 .. CLIENTS - 1) {
		if
		:: st[S(d, i)] == PARKED && db.place[S(d, i)] < best -> best = db.place[S(d, i)]; n = S(d, i)
		:: else
		fi
	}
	i = 0
}

inline next_turn(d)
{
	find_local_first(d);
	if
	:: n != NOBODY ->
		st[n] = ASK;
		asked[n] = 1;
		asking[d] = 1;
		again[d] = 0;
		timer[d] = NONE
	:: else
	fi
}

/* A release may have missed it. */
inline ask_if_unasked(d)
{
	find_local_first(d);
	if
	:: n != NOBODY && !asked[n] && !asking[d] -> next_turn(d)
	:: else
	fi
}

inline wake(d)
{
	if
	:: asking[d] ->
#ifndef NOTE_FORGOTTEN
		again[d] = 1
#endif
		skip
	:: else -> next_turn(d)
	fi
}

/* Nobody asks now: when is it worth while again? */
inline park(d, why)
{
	asking[d] = 0;
	timer[d] = (SOME(d, PARKED) -> why : NONE);
	if
	:: again[d] -> again[d] = 0; next_turn(d)
	:: else -> ask_if_unasked(d)
	fi
}

/* Somebody here stands before s, and is told of every release. */
inline find_whether_covered(d, s)
{
	find_local_first(d);
	for (i : 0 .. CLIENTS - 1) {
		n = (ASKS(S(d, i)) -> S(d, i) : n)
	}
	asked[s] = (n != NOBODY && db.place[n] > 0 && db.place[n] < db.place[s])
}

inline answer(d, c, a)
{
	if
	:: at[c] == d + 1 -> ans[c] = a
	:: else
	fi
}

inline granted(d, c)
{
	placed[S(d, c)] = 0;
	asked[S(d, c)] = 0;
	if
	:: cancelled[S(d, c)] -> st[S(d, c)] = GIVE
#ifdef GIVE_BACK_ABANDONED
	:: !cancelled[S(d, c)] && at[c] != d + 1 -> st[S(d, c)] = GIVE
#endif
	:: else ->
		st[S(d, c)] = (db.place[S(d, c)] > 0 -> LEAVE : NONE); /* it was granted elsewhere before */
		answer(d, c, GRANTED);
		if
		:: at[c] == d + 1 -> tok[c] = db.token; expires[c] = db.left
		:: else
		fi
	fi;
	park(d, ON_EXPIRY)
}

inline refused(d, c, why)
{
	if
	:: cancelled[S(d, c)] ->
		answer(d, c, CANCELLED);
		cancelled[S(d, c)] = 0;
		st[S(d, c)] = LEAVE
	:: else ->
#ifdef WAIT
		st[S(d, c)] = (placed[S(d, c)] -> PARKED : REG)
#else
		answer(d, c, HELD);
		st[S(d, c)] = NONE
#endif
	fi;
	park(d, why)
}

/* Free, but somebody else is first: perhaps a row that its daemon knows nothing of. */
inline not_first(d, c)
{
	if
	:: !placed[S(d, c)] && !cancelled[S(d, c)] -> asking[d] = 0; again[d] = 0; st[S(d, c)] = REG
	:: else ->
		if
		:: !SOME(d, REG) && MAY_LEAVE -> forget_strays(d); tell_first_if_free()
		:: else
		fi;
		if
		:: !FIRST(c) -> refused(d, c, ON_POLL)
		:: else
		fi
	fi
}

/* Rows of ours that nobody here knows of, left behind by a lost connection. */
#define KNOWN(s) (st[s] != NONE && st[s] != GIVE && st[s] != GIVING)
inline forget_strays(d)
{
	for (i : 0 .. CLIENTS - 1) {
		db.place[S(d, i)] = (KNOWN(S(d, i)) -> db.place[S(d, i)] : 0)
	}
	find_head()
}
#define STRAY(d) (db.head > 0 && db.place[S(d, db.head - 1)] > 0 && !KNOWN(S(d, db.head - 1)) && !SOME(d, REG))

/* Places may be lost: each is drawn again, of a request that asks once it has its answer. */
inline redraw(d)
{
	for (i : 0 .. CLIENTS - 1) {
		if
		:: st[S(d, i)] == PARKED -> st[S(d, i)] = REG; placed[S(d, i)] = 0
#ifndef REDRAW_PARKED_ONLY
		:: ASKS(S(d, i)) -> placed[S(d, i)] = 0
#endif
		:: else
		fi
	}
	i = 0
}

/* queue.sql */
inline draw_place(d, c)
{
	register(d, c);
	if
	:: db.seen[d] != FRESH || doubt[d] ->
		db.seen[d] = FRESH;
		find_head();
#ifndef REG_REVIVES
		redraw(d);
#endif
		doubt[d] = 0
	:: else
	fi;
	if
	:: SURE ->
		find_whether_covered(d, S(d, c));
#ifdef NO_SECOND_ASK
		asked[S(d, c)] = 1;
		timer[d] = (timer[d] == NONE && !asking[d] -> ON_EXPIRY : timer[d]);
#endif
		st[S(d, c)] = PARKED;
		placed[S(d, c)] = 1;
		ask_if_unasked(d)
	:: else /* a release is under way: once more */
	fi
}

#define D  (_pid / CLIENTS)
#define C  (_pid % CLIENTS)
#define ME (_pid)

active [SLOTS] proctype slot()
{
end:	do
	:: d_step { st[ME] == ASK && HOLDS(C) -> granted(D, C) } /* asked again with the same nonce */
	:: d_step { st[ME] == ASK && TAKEN && !HOLDS(C) -> st[ME] = (db.released -> FREED_SOON : TAKEN_UNTIL) }
	:: d_step { st[ME] == TAKEN_UNTIL -> refused(D, C, ON_EXPIRY) }
	:: d_step { st[ME] == FREED_SOON -> refused(D, C, ON_MIN_HOLD) }
#ifdef WAIT
	:: d_step { st[ME] == ASK && !TAKEN && !FIRST(C) -> not_first(D, C) }
	:: d_step { st[ME] == ASK && !TAKEN && FIRST(C) && !locked -> take_over(D, C, 0, 0); granted(D, C) }
	:: d_step { st[ME] == ASK && !TAKEN && FIRST(C) && !locked && drops > 0 && !late ->
		drops--; meddled = 1; late = ASK; late_slot = ME; late_age = 0 }
#else
	:: d_step { st[ME] == ASK && !TAKEN && guarded -> refused(D, C, ON_POLL) }
	:: d_step { st[ME] == ASK && !TAKEN && !locked && NOT_GUARDED ->
		st[ME] = ASKED;
		age[ME] = 0;
		if
#ifndef TOKEN_EARLY
		:: db.token > 0
#endif
		:: else -> db.seq++; drawn[ME] = epoch * EPOCH + db.seq
		fi }
	:: d_step { st[ME] == ASKED && !locked ->
		if
#ifdef NO_EXPIRY_CHECK
		:: NOT_GUARDED ->
#else
		:: !TAKEN && NOT_GUARDED ->
#endif
			take_over(D, C, drawn[ME], age[ME]);
			granted(D, C)
		:: else -> st[ME] = ASK
		fi;
		drawn[ME] = 0;
		age[ME] = TTL }
	:: d_step { st[ME] == ASKED && drops > 0 && !late ->
		drops--; meddled = 1;
		late = ASK; late_slot = ME; late_token = drawn[ME]; late_age = age[ME];
		st[ME] = ASK; drawn[ME] = 0; age[ME] = TTL }
#endif

	:: d_step { st[ME] == REG && !cancelled[ME] && at[C] == D + 1 && (SURE || db.place[ME] == 0) ->
		draw_place(D, C) }
	:: d_step { st[ME] == REG && drops > 0 && !late ->
		drops--; meddled = 1; late = REG; late_slot = ME;
#ifndef DRAW_UNAWARE
		doubt[D] = 1
#endif
		}
	:: d_step { st[ME] == REG && (cancelled[ME] || at[C] != D + 1) ->
		answer(D, C, CANCELLED);
		cancelled[ME] = 0;
		st[ME] = LEAVE;
		ask_if_unasked(D) }

	:: d_step { st[ME] == PARKED && at[C] != D + 1 -> st[ME] = LEAVE } /* its client has gone */
	:: d_step { cancel[C] && at[C] == D + 1 ->
		cancel[C] = 0;
		if
		:: st[ME] == PARKED -> answer(D, C, CANCELLED); st[ME] = LEAVE
		:: ASKS(ME) || st[ME] == REG -> cancelled[ME] = 1
		:: else /* it was answered */
		fi }
	:: d_step { st[ME] == LEAVE && MAY_LEAVE ->
		st[ME] = NONE; placed[ME] = 0; asked[ME] = 0;
		timer[D] = (SOME(D, PARKED) -> timer[D] : NONE);
		unregister(D, C);
		tell_first_if_free() }

	:: d_step { st[ME] == GIVE && !locked ->
		if
#ifndef CANCEL_KEEPS_GRANT
		:: HOLDS(C) -> locked = C + 1; look_for_first(target); st[ME] = GIVING
#endif
		:: else -> answer(D, C, CANCELLED); cancelled[ME] = 0; st[ME] = NONE
		fi }
	:: d_step { st[ME] == GIVING ->
		st[ME] = GIVE; /* to be answered */
		if
		:: locked == C + 1 -> commit_release()
		:: else
		fi }
	:: d_step { st[ME] == GIVING && locked == C + 1 && drops > 0 && !late ->
		drops--; meddled = 1; late = GIVING; late_slot = ME; st[ME] = GIVE }
	od
}

inline die(d)
{
	up[d] = 0; listening[d] = 0; note[d] = 0; asking[d] = 0; again[d] = 0; pass[d] = 0; doubt[d] = 0;
	timer[d] = NONE;
	for (i : 0 .. CLIENTS - 1) {
		n = S(d, i);
#ifdef LATE
		if
		:: !late && (st[n] == ASK || st[n] == ASKED) ->
			late = ASK; late_slot = n; late_token = drawn[n]; late_age = (st[n] == ASK -> 0 : age[n])
		:: !late && st[n] == REG -> late = REG; late_slot = n
		:: !late && st[n] == GIVING && locked == i + 1 -> late = GIVING; late_slot = n
		:: else
		fi;
#endif
		if
		:: st[n] == GIVING && locked == i + 1 && !(late == GIVING && late_slot == n) -> locked = 0; target = 0
		:: else
		fi;
		st[n] = NONE; placed[n] = 0; asked[n] = 0; cancelled[n] = 0; drawn[n] = 0; age[n] = TTL;
		if
		:: at[i] == d + 1 -> at[i] = 0; cancel[i] = 0
		:: else
		fi
	}
	i = 0
}

#undef D
#undef C
#undef ME
#define D     (_pid - SLOTS)
#define OTHER (1 - D)
/* Whether the one that it would wake finds something that it did not know, or can make it known. */
#define STRAY_THERE(d) (STRAY(d) && MAY_LEAVE && up[d] && listening[d] && !note[d] && !pass[d])
#ifdef TOLD_ONCE
#define POLL_PAYS (TAKEN || db.head == 0 || st[S(D, db.head - 1)] == PARKED || STRAY(D))
#else
#define POLL_PAYS (TAKEN || db.head == 0 || st[S(D, db.head - 1)] == PARKED || \
		   (!SOME(D, REG) && (STRAY_THERE(0) || STRAY_THERE(DAEMONS - 1))))
#endif

active [DAEMONS] proctype daemon()
{
end:	do
	:: d_step { note[D] ->
		note[D] = 0;
		if
		:: WAITING(D) || SOME(D, REG) -> wake(D)
		:: else ->
#ifndef NOT_PASSED_ON
			pass[D] = 1
#endif
			skip
		fi }
	:: d_step { pass[D] && MAY_LEAVE -> pass[D] = 0; forget_strays(D); tell_first_if_free() }
	:: d_step { !asking[D] && listening[D] && SOME(D, PARKED) &&
		((timer[D] == ON_EXPIRY && !TAKEN && !db.released) || (timer[D] == ON_MIN_HOLD && !TAKEN) ||
		 (timer[D] == ON_POLL && POLL_PAYS)) ->
		next_turn(D) }

	:: d_step { deaf > 0 && listening[D] -> deaf--; listening[D] = 0; note[D] = 0 }
	:: d_step { up[D] && !listening[D] ->
		listening[D] = 1;
		pass[D] = 1;
#ifndef NO_REDRAW
		redraw(D);
#endif
		wake(D) }

	:: d_step { !up[D] && db.seen[D] == FRESH -> db.seen[D] = STALE; find_head() }
	:: d_step { pauses > 0 && up[D] && db.seen[D] == FRESH && WAITING(D) && !late ->
		pauses--; meddled = 1; db.seen[D] = STALE; find_head() }
	:: d_step { up[D] && db.seen[D] != FRESH && WAITING(D) -> /* a beat */
#ifdef BEAT_UNAWARE
		if
		:: db.seen[D] == GONE -> redraw(D)
		:: else
		fi;
#else
		redraw(D);
#endif
		db.seen[D] = FRESH;
		find_head() }
#if DAEMONS > 1
#ifndef DEATH_UNNOTICED
	:: d_step { up[D] && db.seen[D] == FRESH && WAITING(D) && db.seen[OTHER] == STALE && MAY_BURY -> bury(OTHER) }
#endif
	:: d_step { crashes > 0 && up[D] && up[OTHER] -> crashes--; meddled = 1; die(D) }
#endif
	od
}
#undef D
