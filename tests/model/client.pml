/* A client: acquires once, uses the lease, gives it back. */

#define C (_pid - SLOTS - DAEMONS)

inline check_holders()
{
	n = 0;
	for (i : 0 .. CLIENTS - 1) {
		n = n + (left[i] > 0 -> 1 : 0)
	}
	assert(n <= 1 || lost)
}

inline submit(d)
{
	at[C] = d + 1;
	since[C] = 0;
	first[C] = (tried -> first[C] : TTL - MARGIN);
	started = (tried -> started : started + 1);
	tried = 1;
#ifdef WAIT
	st[S(d, C)] = (WAITING(d) || SOME(d, REG) -> REG : ASK);
	asking[d] = asking[d] || st[S(d, C)] == ASK
#else
	st[S(d, C)] = ASK
#endif
}

/* What is forgotten keeps states alike. */
inline end_call()
{
	at[C] = 0; ans[C] = NONE; cancel[C] = 0; first[C] = 0; expires[C] = 0; since[C] = TTL;
	tried = 0; cancelling = 0
}

inline end_renewal()
{
	rn[C] = NONE; expires[C] = 0; since[C] = TTL
}

inline forget_token()
{
#ifndef WRITES
	tok[C] = 0; /* else a client that does not know goes on writing */
#endif
	skip
}

#ifdef RENEW_ANY
#define MAY_RENEW   HELD_NOW
#define STILL_RENEW true
#else
#define MAY_RENEW   (HOLDS(C) && db.token == tok[C])
#define STILL_RENEW (db.holder == C + 1 && db.token == tok[C] && !db.released)
#endif
#define MAY_START   (tried || started == C)
#ifdef HOMES
#define MAY_START_0 (tried || C == 0 || !up[1])
#else
#define MAY_START_0 true
#endif

active [CLIENTS] proctype client()
{
	bit tried, cancelling, confirming;
	byte step;

send:	if
	:: d_step { MAY_START && MAY_START_0 && up[0] && st[S(0, C)] == NONE -> submit(0) }
#if DAEMONS > 1
	:: d_step { MAY_START && (tried || C > 0 || !up[0]) && up[1] && st[S(1, C)] == NONE -> submit(1) }
#endif
	fi;

	do
	:: atomic { ans[C] == GRANTED -> goto take }
	:: d_step { ans[C] == HELD -> end_call(); forget_token() }; goto done
	:: d_step { ans[C] == CANCELLED -> assert(!HOLDS(C) || meddled); end_call(); forget_token() }; goto done
	:: d_step { cancels > 0 && !cancelling && at[C] > 0 -> cancels--; cancelling = 1; cancel[C] = 1 }
	:: d_step { cuts > 0 && at[C] > 0 -> cuts--; meddled = 1; at[C] = 0; ans[C] = NONE; cancel[C] = 0 }
	:: atomic { at[C] == 0 -> /* the connection is lost: again with the same nonce */
		ans[C] = NONE; expires[C] = 0; tok[C] = 0;
		if
		:: cancelling -> end_call(); forget_token(); goto done
		:: else -> goto send
		fi }
	:: d_step { deaths > 0 -> deaths--; meddled = 1; end_call(); forget_token() }; goto done
	od;

take:	atomic {
		d_step {
#ifdef DEADLINE_FROM_ANSWER
			left[C] = TTL - MARGIN;
#elif defined(DEADLINE_FROM_RETRY)
			left[C] = LESS(TTL - MARGIN, since[C]);
#else
			left[C] = MIN(first[C], LESS(expires[C], MARGIN + since[C]));
#endif
			left[C] = (cancelling -> 0 : left[C]);
			confirming = (left[C] == 0);
			check_holders();
			n = cancelling;
			end_call()
		}
		if
		:: n -> goto release
		:: else
		fi
	}

	do
	:: d_step { rn[C] == NONE && confirming -> rn[C] = SENT; since[C] = 0 } /* the wait has used it up */
	:: d_step { rn[C] == NONE && left[C] > 0 && renewals > 0 -> renewals--; rn[C] = SENT; since[C] = 0 }
	:: d_step { rn[C] == SENT && !locked -> rn[C] = (MAY_RENEW -> BEGUN : LOST) }
	:: d_step { rn[C] == BEGUN && !locked ->
		if
		:: STILL_RENEW ->
			db.left = LESS(TTL, since[C]);
			expires[C] = db.left;
			rn[C] = (TAKEN -> RENEWED : LOST)
		:: else -> rn[C] = LOST
		fi }
	:: d_step { rn[C] == BEGUN && drops > 0 && !late ->
		drops--; meddled = 1; late = BEGUN; late_slot = C; late_token = tok[C]; late_age = since[C];
		rn[C] = SENT }
	:: d_step { rn[C] != NONE && cuts > 0 -> cuts--; meddled = 1; end_renewal() }
	:: d_step { rn[C] == RENEWED && (confirming || left[C] > 0) ->
		left[C] = MAX(left[C], LESS(expires[C], MARGIN + since[C]));
		confirming = 0;
		end_renewal();
		check_holders() }
	:: d_step { rn[C] == LOST -> left[C] = 0; confirming = 0; end_renewal() }
	:: d_step { !confirming && left[C] == 0 -> end_renewal(); forget_token() }; goto done
	:: d_step { !confirming && left[C] > 0 -> left[C] = 0; end_renewal() }; goto release
	:: d_step { deaths > 0 -> deaths--; meddled = 1; left[C] = 0; confirming = 0; end_renewal(); forget_token() };
		goto done
	od;

release:
	do
	:: d_step { step == 0 && HOLDS(C) && db.token == tok[C] && !locked ->
		look_for_first(target);
#ifdef STALE_LOOK
		step = 1
#else
		locked = C + 1;
		step = 2
#endif
		}
#ifdef STALE_LOOK
	:: d_step { step == 1 && HOLDS(C) && !locked -> locked = C + 1; step = 2 }
	:: d_step { step == 1 && !HOLDS(C) -> step = 0; target = 0; forget_token() }; goto done
#endif
	:: d_step { step == 0 && !(HOLDS(C) && db.token == tok[C]) && !locked -> forget_token() }; goto done
	:: d_step { step == 2 && locked == C + 1 -> commit_release(); step = 0; forget_token() }; goto done
	:: d_step { step == 2 && locked == C + 1 && drops > 0 && !late ->
		drops--; meddled = 1; late = GIVING; late_slot = C; step = 0 }
	:: d_step { step == 2 && locked != C + 1 -> step = 0 } /* a failover ended it */
	od;

done:
end:	false
}
#undef C
