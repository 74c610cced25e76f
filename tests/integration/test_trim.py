"""Housekeeping: old history and idle leases go, in small steps and once for all daemons; nothing else goes."""
import pathlib
import random
import threading
import time

import psycopg
import pytest

from test_contention import SEED, Crowd, check_no_deadlock, check_rows
from test_history import add
from test_sql import refused, take
import world
from world import ctl, ctl_json, until

WEEK_MS = 7 * 86400000


def step(db, history=2 * WEEK_MS, idle=4 * WEEK_MS):
    """One step of the walks through history and leases, due or not: (events, leases)."""
    for walk in ("events", "leases"):
        db.execute("UPDATE leased.walks SET due_at = clock_timestamp() WHERE walked = %s", (walk,))
    return db.execute("SELECT leased.trim_events(%s), leased.trim_leases(%s, %s)", (history, idle, history)).fetchone()


def whole_walk(db, **keep):
    """Steps until both walks have come to their end and found nothing more: the sums."""
    sums, rounds = [0, 0], 0
    while True:
        found = step(db, **keep)
        sums = [a + b for a, b in zip(sums, found)]
        rounds = 0 if any(found) else rounds + 1
        if rounds > 1 and db.execute("SELECT max(next_block) FROM leased.walks").fetchone()[0] == 0:
            return sums


def old_lease(db, name, age, released=True, min_hold="0"):
    """A lease that became free so long ago."""
    token = take(db, name=name, min_hold=min_hold)
    db.execute("UPDATE leased.leases SET acquired_at = now() - %(age)s::interval - interval '1 h', expires_at = now() - %(age)s::interval,"
               " released_at = CASE WHEN %(released)s THEN now() - %(age)s::interval - interval '1 min' END WHERE name = %(name)s",
               dict(name=name, age=age, released=released))
    return token


def names(db, table="leases"):
    return [row[0] for row in db.execute(f"SELECT name FROM leased.{table} ORDER BY name")]


def test_old_history_goes_and_no_other(db):
    add(db, "young", 3000, age="6 days")
    add(db, "old", 3000, age="8 days")
    add(db, "old", 5, "stolen", age="8 days", by="ops")
    assert whole_walk(db, history=WEEK_MS) == [3005, 0]
    assert db.execute("SELECT name, count(*) FROM leased.events GROUP BY name").fetchall() == [("young", 3000)]
    assert whole_walk(db, history=0) == [3000, 0]


def test_a_step_is_small_and_says_when_the_next_is_due(db):
    def trim(**settings):
        return db.execute("SELECT n_events, due_in_ms FROM leased.trim(%(history)s)", {"history": None, **settings}).fetchone()
    add(db, "old", 20000, age="8 days")
    begin = time.monotonic()
    n, due = trim(history=WEEK_MS)
    assert n == 1000 and 0 <= due <= 50  # there is more to delete
    assert trim()[0] == 0 or (time.monotonic() - begin) * 1000 >= due  # not before it is due
    whole_walk(db, history=WEEK_MS)
    assert 1800000 < trim()[1] <= WEEK_MS / 24
    assert trim(history=WEEK_MS)[1] > 1800000  # told again
    assert trim(history=5)[1] <= 1000  # who keeps it for a shorter time does not wait for so long


def test_only_rows_that_have_been_idle_for_long_go(database, db):
    old_lease(db, "idle", "8 days")
    old_lease(db, "expired long ago", "8 days", released=False)
    old_lease(db, "idle for a while", "6 days")
    old_lease(db, "guarded", "8 days")
    old_lease(db, "being taken", "8 days")
    take(db, name="held")
    db.execute("UPDATE leased.leases SET acquired_at = now() - interval '9 days', renewed_at = now() - interval '1 s' WHERE name = 'held'")
    token = take(db, name="in its minimum hold", min_hold="10 days")
    db.execute("SELECT leased.release('in its minimum hold', %s, 'h', 1, 1)", (token,))
    left = ["being taken", "guarded", "held", "idle for a while", "in its minimum hold"]
    with psycopg.connect(database) as guard, psycopg.connect(database) as taker:
        guard.execute("SELECT FROM leased.leases WHERE name = 'guarded' FOR KEY SHARE")
        assert take(taker, name="being taken", nonce=2)
        assert whole_walk(db, idle=WEEK_MS) == [0, 2]
        assert names(db) == left
        taker.commit()
    # The guard has let go; the other one was taken at that moment, and stays.
    assert whole_walk(db, idle=WEEK_MS) == [0, 1]
    assert names(db) == [name for name in left if name != "guarded"]
    # The grant that had expired is in the history all the same; those of the others ended by a release.
    assert db.execute("SELECT name FROM leased.events WHERE ended = 'expired'").fetchall() == [("expired long ago",)]
    assert db.execute("SELECT ended, ended_at < now() - interval '7 days' FROM leased.history('expired long ago')").fetchone() == ("expired", True)


def test_a_taker_that_meets_the_deletion_gets_the_lease(database, db):
    """In plain SQL: a row that is locked by its deletion is not taken for one that is held."""
    start, taken = threading.Barrier(2), []

    def take_all():
        with psycopg.connect(database, autocommit=True) as conn:
            for i in range(60):
                start.wait()
                taken.append(take(conn, name=f"n/{i}", nonce=2))
    thread = threading.Thread(target=take_all)
    thread.start()
    gone = 0
    for i in range(60):
        old_lease(db, f"n/{i}", "40 days")
        start.wait()
        gone += step(db)[1]
    thread.join()
    assert None not in taken and len(set(taken)) == 60 and gone > 0


@pytest.mark.parametrize("history", [0, WEEK_MS])
def test_what_is_too_old_for_the_history_is_not_written_into_it(db, history):
    old_lease(db, "x", "8 days", released=False)
    assert step(db, history=history, idle=1)[1] == 1
    assert names(db) == names(db, "events") == []


def test_tokens_rise_after_a_row_was_deleted(db):
    last = old_lease(db, "x", "8 days")
    for nonce in range(2, 6):
        assert step(db, idle=WEEK_MS) == (0, 1)
        token = take(db, nonce=nonce)
        assert token > last
        old_lease(db, "y", "1 day")
        db.execute("UPDATE leased.leases SET expires_at = now() - interval '8 days', released_at = now() - interval '8 days' WHERE name = 'x'")
        last = token
    db.execute("UPDATE leased.cluster SET last_epoch = last_epoch + 3, epoch_base = epoch_base + 3")  # as after promotions
    assert step(db, idle=WEEK_MS) == (0, 1)
    assert take(db) > last + 2 ** 42
    assert whole_walk(db, idle=WEEK_MS) == [0, 0]


def test_a_row_that_is_ahead_of_the_sequence_stays(db):
    """As if the sequence were behind (an engine that caches it): without the row the next token could be lower."""
    token = old_lease(db, "x", "8 days")
    db.execute("UPDATE leased.leases SET token = token + 5")
    assert whole_walk(db, idle=WEEK_MS) == [0, 0]
    for i in range(5):
        take(db, name=f"n/{i}")
    assert whole_walk(db, idle=WEEK_MS) == [0, 1]
    assert take(db) > token + 5


def test_settings_have_bounds(db):
    for history, idle in ((-1, None), (2 ** 62, None), (None, 3599999), (None, 2 ** 62)):
        refused("23514", db.execute, "SELECT leased.trim(%s, %s)", (history, idle))
    assert db.execute("SELECT history_keep_ms, idle_keep_ms FROM leased.settings").fetchone() == (2 * WEEK_MS, 30 * 86400000)


def test_housekeeping_that_fails_harms_nobody(database, db, start_daemon):
    """An object of a stranger in the way of the deletion: leases and reads go on over the same connections."""
    db.execute("CREATE FUNCTION leased.stop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM leased.nowhere; END'; CREATE TRIGGER stop BEFORE UPDATE ON leased.walks FOR EACH ROW EXECUTE FUNCTION leased.stop()")
    daemon = start_daemon(database)
    daemon.wait_event("batch_failed")
    assert "leased.nowhere" in daemon.log()
    assert ctl(daemon, "run", "x", "--", "true").returncode == 0
    assert len(ctl_json(daemon, "history", "x")) == 1
    assert daemon.log().count("event=database_ready") <= 2 and "event=database_unavailable" not in daemon.log()


def count_steps(db):
    db.execute("CREATE SEQUENCE leased.steps; CREATE FUNCTION count_step() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''leased.steps''); RETURN NEW; END';"
               "CREATE TRIGGER count_step BEFORE UPDATE ON leased.walks FOR EACH ROW EXECUTE FUNCTION count_step()")
    return lambda: db.execute("SELECT last_value FROM leased.steps").fetchone()[0]


def test_three_daemons_make_no_more_steps_than_one(postgres, start_daemon):
    """What is to go goes, soon; and at rest a walk makes a step a second, the shortest rest, whoever makes it."""
    conninfo = postgres.conninfo(postgres.create_database())
    daemons = [start_daemon(conninfo, args=["--history-keep", "2s", "--idle-keep", "1h"]) for _ in range(3)]
    with psycopg.connect(conninfo, autocommit=True) as db:
        add(db, "old", 8000, age="1 h")
        for i in range(10):
            old_lease(db, f"idle/{i}", "2 h")
            old_lease(db, f"free/{i}", "30 min")
        held = ctl_json(daemons[0], "acquire", "-t", "1h", "held")[0]
        db.execute("UPDATE leased.walks SET due_at = now() WHERE walked = 'leases'")  # which would rest for minutes
        until(lambda: names(db, "events") == [] and len(names(db)) == 11 and "idle/0" not in names(db), "all to be trimmed")
        assert ctl(daemons[-1], "release", "held", "--holder", held["holder"], "--token", str(held["token"])).returncode == 0
        steps = count_steps(db)
        time.sleep(4)
        assert 2 <= steps() <= 4 + 6, steps()  # 6: the walk may still be under way, faster
    for daemon in daemons:
        assert "event=batch_failed" not in daemon.log()


def test_taking_and_deleting_the_same_rows(own_postgres, start_daemon, directory):
    """Rows go the moment they are free (much too early), while many clients of two daemons take them: one holder, rising tokens, no loss."""
    database = own_postgres.conninfo()
    daemons = [start_daemon(database, f"d{i}", args=["--poll-interval", "300ms"]) for i in range(2)]
    with psycopg.connect(database, autocommit=True) as db:
        until(lambda: db.execute("SELECT min(due_at) > now() + interval '30 min' FROM leased.walks").fetchone()[0], "the daemons' own steps")
        over, gone = threading.Event(), []

        def trim():
            with psycopg.connect(database, autocommit=True) as conn:
                while not over.is_set():
                    gone.append(step(conn, history=WEEK_MS, idle=0)[1])
        trimmers = [threading.Thread(target=trim) for _ in range(2)]
        for thread in trimmers:
            thread.start()
        crowds = [Crowd(pathlib.Path(directory), daemon.address, 4, 6, 40, 500, SEED + i * 100) for i, daemon in enumerate(daemons)]
        rng = random.Random(SEED)
        for _ in world.rounds(5, lambda: sum(gone) > 100 and sum(1 for crowd in crowds for _ in crowd.beliefs()) > 100):
            time.sleep(rng.uniform(0.1, 0.4))
            rng.choice(crowds).kill_one(rng)
        for crowd in crowds:
            crowd.stop()
        over.set()
        for thread in trimmers:
            thread.join()
    assert sum(gone) > 100, sum(gone)
    check_no_deadlock(own_postgres)
    beliefs = [belief for crowd in crowds for belief in crowd.beliefs()]
    assert check_rows((belief[:4] for belief in beliefs), "clients") > 100
    with psycopg.connect(database) as db:
        granted = db.execute("SELECT name, token FROM leased.events UNION ALL SELECT name, token FROM leased.leases WHERE released_at IS NULL").fetchall()
    assert len(granted) == len(set(granted)) and {belief[:2] for belief in beliefs} <= set(granted)
    for daemon in daemons:
        assert "event=batch_failed" not in daemon.log()
