"""Slots, intervals and changed values in plain SQL, without a daemon."""
import threading

import psycopg
import pytest

from test_sql import LE_ARGUMENT, LE_NOT_HELD, expire, refused, release, renew, take
from world import until

LE_DONE = "LE005"


def run(conn, status=0, undone=False, **more):
    """Acquires and gives back."""
    token = take(conn, **more)
    assert token
    conn.execute("SELECT leased.release('x', %s, 'h', 1, %s, %s, %s)", (token, more.get("nonce", 1), status, undone))
    return token


def test_a_completed_slot_is_refused_with_who_and_how(db):
    token = run(db, status=3, slot="03:00")
    text = refused(LE_DONE, take, db, nonce=2, slot="03:00")
    assert 'the slot "03:00" was completed at' in text and f"by h:1:0000000000000001 (role:daemon) with token {token}, exit status 3" in text
    run(db, slot="03:01")
    refused(LE_DONE, take, db, slot="03:00")  # not only the last one
    assert db.execute("SELECT slot, exit_status, token > 0 FROM leased.slots ORDER BY slot").fetchall() == [("03:00", 3, True), ("03:01", 0, True)]
    assert db.execute("SELECT count(*) FROM leased.events").fetchone()[0] == 2
    run(db)  # without a slot nothing is refused, and nothing remembered
    assert db.execute("SELECT count(*) FROM leased.slots").fetchone()[0] == 2


def test_at_once_also_while_another_holds_the_lease(db):
    run(db, slot="a")
    held = take(db, nonce=5, slot="b")
    refused(LE_DONE, take, db, slot="a")
    assert take(db, slot="b") is None and take(db, slot="c") is None  # somebody is at it
    assert take(db, nonce=5, slot="b") == held  # the same holder, the same grant
    release(db, held, nonce=5)
    assert "no exit status" in refused(LE_DONE, take, db, slot="b")


def test_a_failure_completes_it_unless_it_may_run_again(db):
    run(db, status=1, slot="a", slot_on_failure="again")
    run(db, status=-1, slot="a", slot_on_failure="again")
    run(db, status=0, slot="a", slot_on_failure="again")
    refused(LE_DONE, take, db, slot="a", slot_on_failure="again")
    run(db, status=None, slot="b", slot_on_failure="again")  # released, and nobody says that it failed
    refused(LE_DONE, take, db, slot="b")
    run(db, status=1, slot="c")
    refused(LE_DONE, take, db, slot="c", slot_on_failure="again")


def test_what_was_undone_or_lost_leaves_it_open(db):
    run(db, undone=True, slot="a", every="1 h")
    take(db, slot="a", every="1 h")
    expire(db)
    token = take(db, nonce=2, slot="a", every="1 h")
    assert token
    assert [row[0] for row in db.execute("SELECT ended FROM leased.events ORDER BY token")] == ["released", "expired"]
    release(db, token, nonce=2, status=0)
    refused(LE_DONE, take, db, nonce=3, slot="a")
    refused(LE_DONE, take, db, nonce=3, every="1 h")


def test_a_stolen_run_is_none(db):
    take(db, slot="a", every="1 h")
    db.execute("SELECT leased.steal('x', 'it hangs')")
    run(db, slot="a", every="1 h", nonce=2)


def test_a_refusal_leaves_no_trace(db):
    """The end of an expired grant is told by the next one that takes over, and once."""
    run(db, slot="a")
    take(db, nonce=2)
    expire(db)
    for _ in range(3):
        refused(LE_DONE, take, db, slot="a")
    assert db.execute("SELECT count(*) FROM leased.events WHERE ended = 'expired'").fetchone()[0] == 0
    assert take(db, nonce=3)
    assert db.execute("SELECT count(*) FROM leased.events WHERE ended = 'expired'").fetchone()[0] == 1


def test_slots_are_forgotten_a_few_at_a_time(db):
    """40 that may be forgotten, and 12 that may not, of two names: a release of x takes ten of the old ones of x."""
    db.execute("INSERT INTO leased.slots SELECT n, 's' || i, i, 0, now() - interval '2 h', now() + (i - 40.5) * interval '1 min', 'h', 1, 1, 'p'"
               " FROM generate_series(1, 52) i, unnest(ARRAY['x', 'y']) n")
    refused(LE_DONE, take, db, slot="s41")
    run(db, slot="s40")  # forgotten; and completed anew
    refused(LE_DONE, take, db, slot="s40", nonce=2)
    count = "SELECT count(*) FILTER (WHERE forget_at < now()), count(*) FILTER (WHERE forget_at > now()) FROM leased.slots WHERE name = %s"
    for i, old in enumerate((19, 9, 0, 0)):
        run(db, slot=f"new{i}")
        assert db.execute(count, ("x",)).fetchone() == (old, 14 + i)
    assert db.execute(count, ("y",)).fetchone() == (40, 12)


def test_how_long_a_slot_is_remembered_is_up_to_its_grant(db):
    run(db, slot="a", slot_keep="1 ms")
    run(db, slot="a", slot_keep="2 d")
    refused(LE_DONE, take, db, slot="a", slot_keep="1 ms")
    assert db.execute("SELECT forget_at - done_at = interval '48 h' FROM leased.slots").fetchone()[0]


def test_slots_of_names_that_are_not_used_any_more_go_too(db):
    db.execute("INSERT INTO leased.slots SELECT 'n' || i, 's', i, 0, now(), now() + CASE WHEN i % 2 = 0 THEN interval '1 h' ELSE interval '-1 h' END,"
               " 'h', 1, 1, 'p' FROM generate_series(1, 5000) i")
    steps = 0
    while db.execute("SELECT count(*) FROM leased.slots").fetchone()[0] > 2500:
        db.execute("UPDATE leased.walks SET due_at = now()")
        db.execute("SELECT leased.trim()")
        steps += 1
    assert steps >= 3  # 1,000 at most in one
    assert db.execute("SELECT min(forget_at) > now() FROM leased.slots").fetchone()[0]


def test_an_idle_row_stays_while_its_interval_lasts(db):
    for name, every in (("a", "40 d"), ("b", "1 h"), ("c", None)):
        token = take(db, name=name, **(dict(every=every) if every else {}))
        release(db, token, name=name)
    db.execute("UPDATE leased.leases SET expires_at = now() - interval '31 d', ran_at = now() - interval '31 d'")
    for _ in range(3):
        db.execute("UPDATE leased.walks SET due_at = now()")
        db.execute("SELECT leased.trim()")
    assert db.execute("SELECT name FROM leased.leases").fetchall() == [("a",)]
    refused(LE_DONE, take, db, name="a", every="40 d")


def test_at_most_one_run_an_interval(db):
    run(db, every="1 h")
    text = refused(LE_DONE, take, db, every="1 h")
    assert "it ran at" in text and "the next run may start at" in text
    for minutes, allowed in ((59, False), (59.85, True), (3000, True)):
        db.execute("UPDATE leased.leases SET ran_at = clock_timestamp() - %s * interval '1 min'", (minutes,))
        if allowed:
            run(db, every="1 h", undone=True)
        else:
            refused(LE_DONE, take, db, every="1 h")
    run(db)
    refused(LE_DONE, take, db, every="1 h")  # a run without an interval counts too
    assert db.execute("SELECT every_ms FROM leased.leases").fetchone()[0] == 3600000  # how long the row is needed


@pytest.mark.parametrize("limit", [dict(slot="s"), dict(every="1 h")], ids=str)
def test_of_two_at_the_same_moment_one_runs(database, db, limit):
    """They meet at a name that is new, and at an expired row: each runs as soon as it is granted."""
    for name in ("new", "old"):
        if name == "old":
            take(db, name="old", nonce=99)
            expire(db, name="old")
        start, granted = threading.Barrier(6), []

        def contend(nonce):
            with psycopg.connect(database, autocommit=True) as conn:
                start.wait()
                for _ in range(30):
                    try:
                        token = take(conn, name=name, nonce=nonce, **limit)
                    except psycopg.Error as error:
                        assert error.sqlstate == LE_DONE
                        return
                    if token:
                        release(conn, token, name=name, nonce=nonce, status=0)
                        granted.append(token)
        threads = [threading.Thread(target=contend, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == 1


@pytest.mark.parametrize("limit", [dict(slot="s"), dict(every="1 h")], ids=str)
def test_what_was_committed_while_it_waited_counts(database, db, limit):
    """The name is new, and somebody has taken it and given it back in a transaction that is still open."""
    with psycopg.connect(database) as first, psycopg.connect(database, autocommit=True) as second:
        release(first, take(first, slot="s"), status=0)
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(refused(LE_DONE, take, second, nonce=2, **limit)))
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        until(lambda: db.execute(waits, (second.info.backend_pid,)).fetchone()[0], "the second to wait")
        first.commit()
        thread.join()
    assert outcome


def test_a_value_changes_with_a_renewal(db):
    token = take(db, value="a")

    def value():
        return db.execute("SELECT value FROM leased.get('x')").fetchone()[0]

    def change(new):
        db.execute("SELECT leased.renew('x', %s, 'h', 1, 1, value => %s)", (token, new))
    renew(db, token)
    assert value() == "a"
    for new in ("b", "v" * 4096, "ö\n"):
        change(new)
        assert value() == new
        renew(db, token, ttl="2 h")
        assert value() == new
    change("")
    assert value() is None
    refused(LE_ARGUMENT, change, "v" * 4097)
    refused(LE_ARGUMENT, change, "é" * 2049)
    release(db, token)
    refused(LE_NOT_HELD, change, "late")


BAD_ARGUMENTS = (dict(slot=""), dict(slot="s" * 256), dict(slot="é" * 128), dict(slot="a\nb"), dict(slot="\x7f"), dict(slot="\u0085"),
                 dict(slot="s", slot_on_failure="maybe"), dict(slot="s", slot_on_failure=None), dict(every="0"), dict(every="-1 s"),
                 dict(every="0.0004 s"), dict(every="1000000 years"), dict(slot="s", slot_keep="0"), dict(slot="s", slot_keep=None))


def test_bad_arguments(db):
    for arguments in BAD_ARGUMENTS:
        refused(LE_ARGUMENT, take, db, **arguments)
    assert db.execute("SELECT count(*) FROM leased.leases").fetchone()[0] == 0


def test_the_longest_slot(db):
    run(db, slot="é" * 127 + "s", every="10 years")
    refused(LE_DONE, take, db, slot="é" * 127 + "s")
