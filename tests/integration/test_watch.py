"""Watching: what is held, then every change once, whatever load, losses and deaths."""
import os
import random
import signal
import threading
import time

import psycopg
import pytest
import raw
import world
from follower import check_database, check_story
from test_contention import Crowd
from world import ctl, ctl_json, ctl_start, until

SECONDS = float(os.environ.get("LEASED_SOAK") or 5)
SEED = int(os.environ.get("LEASED_SEED") or random.randrange(1 << 16))
LISTENERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'leased listener' AND datname = current_database()"


@pytest.fixture
def three(start_listening):
    return start_listening(3)


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


class SqlCrowd:
    """Clients of the SQL functions, in transactions of all kinds: some stay open, some are rolled back."""

    def __init__(self, database, count, names, seed):
        self.over = threading.Event()
        self.failed = []
        self.threads = [threading.Thread(target=self.work, args=(database, names, random.Random(seed + i))) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, database, names, rng):
        try:
            with psycopg.connect(database) as db:
                while not self.over.is_set():
                    self.turn(db, f"s/{rng.randrange(names)}", rng)
        except Exception as error:  # noqa: BLE001 - told by stop()
            self.failed.append(error)
            raise

    def turn(self, db, name, rng):
        me = (name, "sql-host", 1, rng.getrandbits(63) - rng.getrandbits(63))
        db.isolation_level = rng.choice([psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ])
        try:
            db.execute("SELECT 1")  # its snapshot, perhaps long before the change
            if rng.random() < 0.1:
                db.execute("SELECT leased.steal(%s, 'chaos')", (f"c/{rng.randrange(6)}",))
            time.sleep(rng.choice([0, 0, rng.uniform(0, 0.1)]))
            got = db.execute("SELECT token FROM leased.try_acquire(%s, %s, %s, %s, %s)", (*me, f"{rng.randrange(150, 1200)} ms")).fetchone()
            time.sleep(rng.choice([0, 0, rng.uniform(0, 0.05)]))
            if rng.random() < 0.2:
                db.rollback()
                return
            db.commit()
            if got and rng.random() < 0.7:
                time.sleep(rng.uniform(0, 0.4))
                db.execute("SELECT leased.renew(%s, %s, %s, %s, %s)", (name, *got, *me[1:]))
                db.execute("SELECT leased.release(%s, %s, %s, %s, %s)", (name, *got, *me[1:]))
                db.commit()
        except psycopg.Error as error:
            assert error.sqlstate in ("LE001", "40001"), error
            db.rollback()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(world.GIVE_UP)
        assert not self.failed, self.failed


class Load:
    """Programs over all daemons, and SQL beside them."""

    def __init__(self, database, directory, daemons):
        print(f"LEASED_SEED={SEED}")
        self.rng = random.Random(SEED)
        self.crowd = Crowd(directory, world.servers(daemons), 8, 3, 6, 800, SEED)
        self.sql = SqlCrowd(database, 4, 4, SEED)

    def stop(self):
        self.crowd.stop()
        self.sql.stop()


def settle(follower, database):
    """Its events, once all that was left has expired."""
    follower.until(lambda events: not check_story(events)[0], "the last leases to expire")
    follower.stop()
    return check_database(follower.events(), database, follower.prefix)


def test_every_change_once_under_load(three, database, directory, follow):
    """Those that begin in the middle of it miss nothing either."""
    first = follow(three[0])
    load = Load(database, directory, three)
    late = []
    for _ in world.rounds(SECONDS, lambda: sum(e["event"] == "granted" for e in first.events()) > 20 * SECONDS):
        time.sleep(load.rng.uniform(0, SECONDS / 4))
        late.append(follow(load.rng.choice(three), load.rng.choice(["", "c/", "s/", "c/3"]), wait=False))
    load.stop()
    seen, truth = settle(first, database)
    assert seen == sum(map(len, truth.values())) > 20 * SECONDS
    for follower in late:
        settle(follower, database)
        assert follower.count("snapshot") == 1
    for daemon in three:
        assert "watches_begin_anew" not in daemon.log()


def test_a_lost_listener_brings_a_fresh_snapshot(three, database, directory, follow):
    followers = [follow(daemon) for daemon in three]
    load = Load(database, directory, three)
    with psycopg.connect(database, autocommit=True) as db:
        for round in range(2, 4):
            time.sleep(1)
            assert db.execute(LISTENERS).rowcount == 3
            for follower in followers:
                follower.until(lambda events: sum(e["event"] == "ready" for e in events) >= round, "a fresh snapshot")
    load.stop()
    for follower in followers:
        settle(follower, database)


def test_the_next_daemon_goes_on_when_one_dies(three, database, directory, follow):
    follower = follow(three)
    load = Load(database, directory, three[1:])
    for round, daemon in enumerate(three[:2]):
        time.sleep(1)
        daemon.kill()
        follower.until(lambda events: sum(e["event"] == "ready" for e in events) >= round + 2, "a fresh snapshot")
    load.stop()
    settle(follower, database)
    assert "trying again" in follower.process.stderr.read()


def test_a_frozen_daemon_that_was_taken_for_dead_begins_anew(pair, database, follow):
    follower, other = follow(pair[0]), follow(pair[1])
    pair[0].process.send_signal(signal.SIGSTOP)
    time.sleep(5.5)
    other.stop()  # nobody watches any more: what comes now is not told
    with psycopg.connect(database, autocommit=True) as db:
        until(lambda: not db.execute("SELECT FROM leased.watchers").fetchall(), "the watcher to be taken for dead")
        db.execute("SELECT leased.try_acquire('untold', 'h', 1, 1)")
    pair[0].process.send_signal(signal.SIGCONT)
    follower.until(lambda events: sum(e["event"] == "ready" for e in events) == 2, "a fresh snapshot")
    assert list(follower.held()) == ["untold"]


def test_an_expiry_is_told_and_a_renewal_is_none(pair, follow):
    follower = follow(pair[0])
    ctl(pair[1], "acquire", "-t", "1s", "x")
    assert ctl(pair[1], "run", "-t", "1s", "y", "--", "sleep", "2.5").returncode == 0
    events = follower.until(lambda events: {e["event"] for e in events if e.get("name") == "y"} >= {"released"}, "the release")
    assert [e["event"] for e in events if e.get("name") == "x"] == ["granted", "expired"]
    assert [e["event"] for e in events if e.get("name") == "y"] == ["granted", "released"]


def test_a_row_that_is_locked_has_not_expired_for_certain(pair, database, follow):
    """A release that began in time counts, however late it is committed."""
    follower = follow(pair[0])
    with psycopg.connect(database) as db:
        token = db.execute("SELECT token FROM leased.try_acquire('x', 'h', 1, 1, '1 s')").fetchone()[0]
        db.commit()
        db.execute("SELECT leased.release('x', %s, 'h', 1, 1)", (token,))
        time.sleep(2)
        assert follower.held() == {"x": token}
        db.commit()
    events = follower.until(lambda events: events[-1]["event"] != "granted", "the end")
    assert events[-1]["event"] == "released"


def test_a_steal_is_told_with_its_holder(pair, follow):
    follower = follow(pair[0])
    lease = ctl_json(pair[1], "acquire", "x")[0]
    assert ctl(pair[0], "steal", "--reason", "it hangs", "x").returncode == 0
    events = follower.until(lambda events: len(events) == 4, "the steal")
    assert events[3] == {"event": "stolen", "name": "x", "token": lease["token"], "holder": lease["holder"]}


def test_a_take_over_tells_the_expiry_first(pair, database, follow):
    follower = follow(pair[0])
    with psycopg.connect(database, autocommit=True) as db:
        for nonce in range(5):
            until(lambda: db.execute("SELECT * FROM leased.try_acquire('x', 'h', 1, %s, '200 ms')", (nonce,)).fetchone(), "the next")
    events = follower.until(lambda events: len(events) == 12, "the last expiry")
    assert [e["event"] for e in events[2:]] == ["granted", "expired"] * 5


def test_names_hosts_and_values_at_the_limits(pair, database, follow):
    names = ["n" * 255, "\U0010ffff" * 63 + "abc", "a\\b\"c'd%s", "ä/ö", " ", "~"]
    hosts = ["h" * 255, "ü" * 127, "h\\t"]
    values = ["\n\t\\" * 1365, "v" * 4096, "\u0001\u007f", "", None]
    follower = follow(pair[0])
    with psycopg.connect(database, autocommit=True) as db:
        for i in range(12):
            name, host, value = names[i % 6], hosts[i % 3], values[i % 5]
            token = db.execute("SELECT token FROM leased.try_acquire(%s, %s, 2147483647, %s, '10 m', '0', %s)",
                               (name, host, -i - 1, value)).fetchone()[0]
            events = follower.until(lambda events: events[-1].get("token") == token, "the grant")
            assert events[-1] == {"event": "granted", "name": name, "token": token, "expires_in_ms": 600000,
                                  "holder": f"{host}:2147483647:{(1 << 64) - i - 1:016x}", **({"value": value} if value else {})}
            late = follow(pair[1], name)
            held = [e for e in late.events() if e["event"] == "held"]
            assert len(held) == 1 and {**held[0], "event": "", "expires_in_ms": 0} == {**events[-1], "event": "", "expires_in_ms": 0}
            late.stop()
            db.execute("SELECT leased.release(%s, %s, %s, 2147483647, %s)", (name, token, host, -i - 1))
            follower.until(lambda events: events[-1]["event"] == "released" and events[-1]["name"] == name, "the release")


def test_many_changes_of_one_transaction(pair, database, follow):
    """More than one notification can hold."""
    follower = follow(pair[0])
    with psycopg.connect(database) as db:
        db.execute("SELECT t.token FROM generate_series(1, 3000) i, leased.try_acquire('n/' || i, 'h', 1, i, '10 min', '0', repeat('v', 300)) t")
    follower.until(lambda events: len(events) >= 3002, "all grants")
    assert len(follower.held()) == 3000
    late = follow(pair[1], "n/")  # and more than a page of them
    assert late.held() == follower.held()


def test_a_watch_waits_for_changes_that_began_before_it(pair, database, follow):
    """And only for those: who reads for hours holds up nobody."""
    with psycopg.connect(database) as reader, psycopg.connect(database) as open_one, psycopg.connect(database) as other:
        reader.execute("LOCK TABLE leased.leases, leased.daemons, leased.waiters IN ACCESS SHARE MODE")
        token = open_one.execute("SELECT token FROM leased.try_acquire('early', 'h', 1, 1)").fetchone()[0]
        follower = follow(pair[0], wait=False)
        time.sleep(1)
        assert follower.events() == []
        other.execute("SELECT leased.try_acquire('late', 'h', 1, 2)")  # begins after: is told
        open_one.commit()
        follower.until(lambda events: any(e["event"] == "ready" for e in events), "the snapshot")
        assert follower.held() == {"early": token}
        other.commit()
        follower.until(lambda events: events[-1].get("name") == "late", "the grant")


def test_a_watch_that_cannot_begin_says_why(database, start_daemon):
    daemon = start_daemon(database, args=["--request-timeout", "1s"])
    with psycopg.connect(database) as db:
        db.execute("SELECT leased.try_acquire('x', 'h', 1, 1)")
        done = ctl(daemon, "watch")
    assert done.returncode == 69 and "open for too long (process " in done.stderr, done.stderr


def test_a_snapshot_from_before_the_watch_tells_its_change(pair, database, follow):
    with psycopg.connect(database) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        db.execute("SELECT count(*) FROM leased.leases")
        follower = follow(pair[0])
        db.execute("SELECT leased.try_acquire('x', 'h', 1, 1)")
        db.commit()
    follower.until(lambda events: events[-1]["event"] == "granted", "the grant")


def test_nothing_is_told_when_nobody_watches(pair, database):
    with psycopg.connect(database, autocommit=True) as db:
        follower = ctl_start(pair[0], "watch")
        until(lambda: db.execute("SELECT FROM leased.watchers").fetchall(), "the watch")
        follower.send_signal(signal.SIGINT)
        assert follower.wait(world.GIVE_UP) == 0
        until(lambda: not db.execute("SELECT FROM leased.watchers").fetchall(), "its end")
        told = []
        db.add_notify_handler(told.append)
        db.execute("LISTEN " + db.execute("SELECT name FROM leased.channel").fetchone()[0])
        assert ctl(pair[1], "run", "x", "--", "true").returncode == 0
        db.execute("SELECT leased.try_acquire('x', 'h', 1, 1)")
        time.sleep(0.3)
        db.execute("SELECT 1")  # reads them
        assert told == []


def test_behind_a_pool_a_watch_is_refused(postgres, directory, start_daemon):
    pool = world.PgBouncer(directory, postgres)
    daemon = start_daemon(pool.conninfo(postgres.create_database()))
    daemon.wait_event("notifications_unavailable")
    done = ctl(daemon, "watch")
    assert done.returncode == 69 and "a pool stands before the database" in done.stderr, done.stderr
    daemon.stop()
    pool.stop()


def test_too_much_to_watch_is_refused(database, start_daemon):
    daemon = start_daemon(database, args=["--max-watched", "5", "--max-watches", "1"])
    for i in range(6):
        ctl(daemon, "acquire", f"n/{i}")
    done = ctl(daemon, "watch")
    assert done.returncode == 69 and "max_watched" in done.stderr, done.stderr
    one = ctl_start(daemon, "watch", "n/1")
    assert one.stdout.readline() == "snapshot\n"
    done = ctl(daemon, "watch", "n/2")
    assert done.returncode == 69 and "max_watches" in done.stderr, done.stderr
    assert ctl(daemon, "watch", "a\tb").returncode == 65
    assert ctl(daemon, "watch", "a", "b").returncode == 64


def test_a_client_that_does_not_read_loses_its_watch_and_nothing_else(pair, database):
    client = raw.Client(pair[0].socket)
    token = client.acquire(b"mine", 1, 600000)
    client.socket.sendall(raw.frame(raw.field(1, 2) + raw.field(13, raw.field(1, b"n/"))))
    before = pair[0].memory_kb()
    with psycopg.connect(database, autocommit=True) as db:
        for i in range(12):  # 18 MB
            db.execute("SELECT count(*) FROM generate_series(1, 300) i, leased.try_acquire(%s || i, 'h', 1, 7, '10 min', '0', repeat('v', 4096))", (f"n/{i}/",))
    assert world.SANITIZED or pair[0].memory_kb() - before < 20000  # a sanitizer keeps what was freed
    answers = []
    client.socket.settimeout(world.GIVE_UP)
    while not answers or answers[-1].kind == "change":
        answers.append(client.answer())
    assert 3 < len(answers) < 2000
    assert "not taken as fast as they come" in answers[-1].why
    assert client.release(b"mine", token, 1)
    client.socket.close()


def test_a_watch_ends_by_cancel_and_by_its_connection(pair, database):
    client = raw.Client(pair[0].socket)
    for id in (5, 6):
        client.socket.sendall(raw.frame(raw.field(1, id) + raw.field(13, raw.field(1, b"x") + raw.field(2, 1))))
        assert client.answer() == (id, "change", b"") and client.answer() == (id, "change", b"\x08\x02")
    client.socket.sendall(raw.frame(raw.field(1, 7) + raw.field(8, raw.field(1, 5))))
    answer = client.answer()
    assert answer.request == 5 and answer.status == 16
    ctl(pair[1], "acquire", "xx")  # exactly x, not what begins with it
    ctl(pair[1], "acquire", "x")
    answer = client.answer()
    assert answer.request == 6 and raw.fields(answer.body)[2] == b"x"
    for bad in (raw.field(1, b"a\tb"), raw.field(2, 1), raw.field(1, b"n" * 256)):
        client.socket.sendall(raw.frame(raw.field(1, 8) + raw.field(13, bad)))
        assert client.answer().status == 2
    client.socket.close()
    with psycopg.connect(database, autocommit=True) as db:
        until(lambda: not db.execute("SELECT FROM leased.watchers").fetchall(), "its end")


def test_elect_observe_prints_each_leader(pair, follow):
    observer = ctl_start(pair, "-o", "json", "elect", "--observe", "boss")
    lines = iter(lambda: world.json.loads(observer.stdout.readline()), None)
    assert next(lines) == {"event": "none", "name": "boss"}
    for i, daemon in enumerate(pair):
        leader = ctl_start(daemon, "-o", "json", "elect", "--value", f"at:{i}", "boss")
        told = world.json.loads(leader.stdout.readline())
        assert next(lines) == {"event": "leader", "name": "boss", "token": told["token"], "holder": told["holder"],
                               "expires_in_ms": 90000, "value": f"at:{i}"}
        leader.terminate()
        assert next(lines) == {"event": "none", "name": "boss"}
    pair[0].kill()  # at the next one the fresh snapshot says nothing new
    leader = ctl_start(pair[1], "elect", "boss", "--", "sleep", "60")
    assert next(lines)["event"] == "leader"
    leader.terminate()
    observer.send_signal(signal.SIGINT)
    assert observer.wait(world.GIVE_UP) == 0
    assert ctl(pair[1], "elect", "--observe", "-t", "5s", "boss").returncode == 64
    assert ctl(pair[1], "elect", "--observe", "boss", "--", "true").returncode == 64


def test_the_checker_can_fail():
    """The proof is worth something only if a violation would be found."""
    def event(kind, token=None, name="x"):
        return {"event": kind, **({"name": name, "token": token} if token else {})}
    start = [event("snapshot"), event("held", 1), event("ready")]
    assert check_story([*start, event("released", 1), event("granted", 2)])[0] == {"x": 2}
    for bad in ([event("granted", 2)], [event("released", 2)], [event("released", 1), event("released", 1)],
                [event("released", 1), event("granted", 1)], [event("held", 2, "y")], [event("value", 1, "y")]):
        with pytest.raises(AssertionError):
            check_story([*start, *bad])
    two = [*start[:2], event("held", 3), event("ready"), event("released", 1), event("granted", 5)]
    assert check_story(two, 2) == ({"x": [3, 5]}, {"x": {1: "released", 3: None, 5: None}})
    for bad in ([event("granted", 6)], [event("released", 1)], [event("released", 3), event("granted", 4)]):
        with pytest.raises(AssertionError):
            check_story([*two, *bad], 2)
