/* What nobody decides: time, what becomes of lost connections' transactions, failover, idle rows. */

inline tick(is_slow)
{
	db.left = LESS(db.left, 1);
	standby.left = LESS(standby.left, 1);
	late_age = MIN(late_age + 1, TTL);
	for (i : 0 .. SLOTS - 1) {
		age[i] = MIN(age[i] + 1, TTL)
	}
	if
	:: is_slow
	:: else ->
		for (i : 0 .. CLIENTS - 1) {
			left[i] = LESS(left[i], 1);
			first[i] = LESS(first[i], 1);
			since[i] = MIN(since[i] + 1, TTL)
		}
		i = 0
	fi
}

#define LATE_D (late_slot / CLIENTS)
#define LATE_C (late_slot % CLIENTS)
inline commit_late()
{
	if
	:: late == ASK && !TAKEN && FIRST(LATE_C) && NOT_GUARDED -> take_over(LATE_D, LATE_C, late_token, late_age)
	:: late == REG -> db.seen[LATE_D] = FRESH; register(LATE_D, LATE_C)
	:: late == GIVING && locked == LATE_C + 1 -> commit_release()
	:: late == BEGUN && db.holder == LATE_C + 1 && db.token == late_token && !db.released ->
		db.left = LESS(TTL, late_age)
	:: else
	fi
}

inline end_late()
{
	if
	:: late == GIVING && locked == LATE_C + 1 -> locked = 0; target = 0
	:: else
	fi;
	late = NONE; late_slot = 0; late_token = 0; late_age = TTL
}

inline copy(to, from)
{
	to.holder = from.holder; to.token = from.token; to.left = from.left; to.released = from.released;
	to.seq = from.seq; to.head = from.head;
	for (i : 0 .. SLOTS - 1) {
		to.place[i] = from.place[i]
	}
	for (i : 0 .. DAEMONS - 1) {
		to.seen[i] = from.seen[i]
	}
	i = 0
}

/* All connections are lost, with what was under way; the daemons ask again. */
inline fail_over()
{
	lost = lost || db.holder != standby.holder || db.token != standby.token ||
	       db.left != standby.left || db.released != standby.released;
	copy(db, standby);
	lagging = 0; standby.left = 0;
	meddled = 1;
#ifndef EPOCH_KEPT
	epoch++;
#endif
	locked = 0; target = 0; guarded = 0;
	late = NONE; late_slot = 0; late_token = 0; late_age = TTL;
	for (i : 0 .. SLOTS - 1) {
		st[i] = (st[i] == ASKED -> ASK : st[i]);
		drawn[i] = 0;
		age[i] = TTL
	}
	for (i : 0 .. CLIENTS - 1) {
		rn[i] = (rn[i] == BEGUN -> SENT : rn[i])
	}
	for (i : 0 .. DAEMONS - 1) {
		listening[i] = 0;
		note[i] = 0
	}
	i = 0
}

/* Long before a row is idle every transaction has ended, by its timeout. */
#ifdef DELETE_EARLY
#define MAY_DELETE true
#else
#define MAY_DELETE !(SOME(0, ASKED) || SOME(DAEMONS - 1, ASKED) || late == ASK)
#endif
#define GUARD_PASSES(c) (!guarded && HELD_NOW && tok[c] > 0 && tok[c] == db.token)

active proctype world()
{
end:	do
	:: d_step { ticks != 0 -> ticks = (ticks > 0 -> ticks - 1 : ticks); tick(0) }
	:: d_step { slow > 0 -> slow--; tick(1) }
	:: atomic { timeout && ticks == 0 && TAKEN -> tick(0) }

	:: d_step { late && (late == GIVING || late == REG || !locked) -> commit_late(); end_late() }
	:: d_step { late -> end_late() }

	:: d_step { failovers > 0 && !lagging -> lagging = 1; copy(standby, db) }
	:: d_step { lagging -> failovers--; fail_over() }

	:: d_step { deletes > 0 && db.token > 0 && !TAKEN && !locked && !guarded && MAY_DELETE ->
		deletes--; db.token = 0; db.holder = 0; db.released = 0 }
#ifdef WRITES
	:: d_step { GUARD_PASSES(0) -> guarded = 1; assert(db.holder == guarded) }
	:: d_step { GUARD_PASSES(1) -> guarded = 2; assert(db.holder == guarded) }
	:: d_step { guarded -> assert(db.holder == guarded); guarded = 0 } /* it commits */
#endif
	od
}
