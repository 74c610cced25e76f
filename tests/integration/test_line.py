"""One line a name over all daemons of a database. The poll is set to 10 minutes: only notifications help."""
import json
import pathlib
import signal
import socket
import time

import psycopg
import pytest
import raw
import world
from test_strangers import acquire_frame, field, greeted
from test_waiting import claim, granted, waiters
from world import ctl, ctl_json, ctl_start, until

NO_POLL = ["--poll-interval", "10m"]


@pytest.fixture
def three(start_listening):
    return start_listening(3, args=NO_POLL)


@pytest.fixture
def pgbouncer(postgres, directory):
    pool = world.PgBouncer(directory, postgres)
    yield pool
    pool.stop()


def stand(daemon, name, place, *args):
    """A waiter that is the place-th in line when this returns."""
    process = ctl_start(daemon, "-o", "json", "acquire", "-t", "10m", "-w", "10m", *args, name)
    daemon = daemon if isinstance(daemon, world.Daemon) else daemon[-1]
    until(lambda: waiters(daemon, name) == place, f"waiter {place}")
    return process


def release(daemon, lease, name="x"):
    assert ctl(daemon, "release", name, *claim(lease)).returncode == 0


def test_first_come_first_served_over_all_daemons(three):
    lease = ctl_json(three[0], "acquire", "-t", "10m", "x")[0]
    line = [stand(three[i % 3], "x", i + 1) for i in range(7)]
    tokens = [lease["token"]]
    for i, process in enumerate(line):
        release(three[(i + 1) % 3], lease)
        lease = granted(process)
        tokens.append(lease["token"])
    assert tokens == sorted(set(tokens))


def test_a_release_in_sql_wakes_the_first_in_line(three, database):
    with psycopg.connect(database, autocommit=True) as db:
        token = db.execute("SELECT token FROM leased.try_acquire('x', 'h', 1, 42, '10 min')").fetchone()[0]
        line = [stand(three[i], "x", i + 1) for i in range(2)]
        db.execute("SELECT leased.release('x', %s, 'h', 1, 42)", (token,))
        granted(line[0])
        assert line[1].poll() is None
        assert not db.execute("SELECT * FROM leased.try_acquire('x', 'h', 1, 43)").fetchall()


def test_nobody_passes_those_who_wait(three):
    """Between a release and the next grant the lease is free, but not for somebody who does not stand in line."""
    lease = ctl_json(three[0], "acquire", "-t", "10m", "x")[0]
    line = [stand(three[1], "x", 1)]
    line[0].send_signal(signal.SIGSTOP)  # its daemon asks for it all the same
    release(three[0], lease)
    assert ctl(three[2], "acquire", "x").returncode == 75
    line[0].send_signal(signal.SIGCONT)
    granted(line[0])


def test_a_waiter_that_leaves_makes_room_for_the_next(three):
    lease = ctl_json(three[0], "acquire", "-t", "10m", "x")[0]
    line = [stand(three[i % 3], "x", i + 1) for i in range(4)]
    line[0].send_signal(signal.SIGINT)
    line[1].kill()
    for process in line[:2]:
        process.communicate(timeout=world.GIVE_UP)
    until(lambda: waiters(three[0], "x") == 2, "two to leave")
    release(three[1], lease)
    granted(line[2])
    assert line[3].poll() is None


def test_a_waiter_keeps_its_place_when_its_daemon_dies(three):
    """It goes on at another daemon, before those who came after it."""
    lease = ctl_json(three[2], "acquire", "-t", "10m", "x")[0]
    first = stand(three[0:2], "x", 1)
    second = stand(three[2], "x", 2)
    three[0].kill()
    until(lambda: ctl_json(three[1], "doctor")[0]["finding"].endswith("1 waiters"), "the first to stand at its next daemon")
    release(three[2], lease)
    lease = granted(first)
    assert second.poll() is None
    release(three[1], lease)
    granted(second)


def test_waiters_of_a_dead_daemon_make_room(three):
    lease = ctl_json(three[2], "acquire", "-t", "10m", "x")[0]
    lost = stand(three[0], "x", 1)
    second = stand(three[1], "x", 2)
    lost.send_signal(signal.SIGSTOP)
    three[0].kill()
    release(three[2], lease)
    begin = time.monotonic()
    granted(second)
    assert time.monotonic() - begin < 15  # the grace is 5 s


def test_a_daemon_that_was_taken_for_dead_waits_on(three, database):
    lease = ctl_json(three[2], "acquire", "-t", "10m", "x")[0]
    first = stand(three[0], "x", 1)
    second = stand(three[1], "x", 2)
    three[0].signal(signal.SIGSTOP)
    with psycopg.connect(database, autocommit=True) as db:
        until(lambda: db.execute("SELECT count(*) FROM leased.waiters").fetchone()[0] == 1, "the silent daemon to be taken for dead")
    three[0].signal(signal.SIGCONT)
    until(lambda: waiters(three[1], "x") == 2, "it to stand in line again")
    release(three[2], lease)
    lease = granted(second)
    release(three[1], lease)
    granted(first)


def test_a_stray_row_blocks_nobody(three, database):
    """As a daemon leaves it that loses its connection in the wrong moment: nobody waits behind it any more."""
    lease = ctl_json(three[0], "acquire", "-t", "10m", "x")[0]
    waiter = stand(three[1], "x", 1)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("INSERT INTO leased.waiters SELECT name, place - 1000, daemon, 'stray', 1, 1, 'p' FROM leased.waiters")
    release(three[0], lease)
    granted(waiter)


def crowd(daemon, name, n, first_nonce):
    """n waiters on one connection."""
    s = greeted(daemon)
    for i in range(n):
        frame = acquire_frame(name, first_nonce + i, 600000, field(4, 600000))
        s.sendall(frame)
    return s


def count_statements(daemons):
    return sum(daemon.log().count("to=busy") for daemon in daemons)


def test_one_release_costs_the_same_with_500_waiters(database, start_daemon):
    daemons = [start_daemon(database, args=[*NO_POLL, "--log-level", "debug", "--idle-timeout", "10m"]) for _ in range(3)]
    for daemon in daemons:
        daemon.wait_event("notifications_ready")
    lease = ctl_json(daemons[0], "acquire", "-t", "10m", "x")[0]
    sockets = [crowd(daemon, b"x", n, 1000 * (i + 1)) for i, (daemon, n) in enumerate(zip(daemons, (167, 167, 166)))]
    until(lambda: waiters(daemons[0], "x") == 500, "500 waiters")
    time.sleep(0.5)
    begin, beats = count_statements(daemons), time.monotonic()
    release(daemons[1], lease)
    readable = until(lambda: [s for s in sockets if is_readable(s)], "one grant")
    flights = count_statements(daemons) - begin
    assert flights <= 6 + 3 * (2 + time.monotonic() - beats), flights  # a beat a second and daemon comes on top
    time.sleep(0.5)
    assert [s for s in sockets if is_readable(s)] == readable
    assert waiters(daemons[2], "x") == 499
    for s in sockets:
        s.close()
    until(lambda: waiters(daemons[0], "x") == 0, "the crowd to leave")


def is_readable(s):
    s.setblocking(False)
    try:
        return len(s.recv(1, socket.MSG_PEEK)) == 1
    except BlockingIOError:
        return False
    finally:
        s.setblocking(True)


def test_through_a_pool_a_release_elsewhere_is_found_by_the_poll(postgres, pgbouncer, start_daemon):
    name = postgres.create_database()
    b = start_daemon(postgres.conninfo(name))
    a = start_daemon(pgbouncer.conninfo(name), args=["--poll-interval", "200ms"], wait=None)
    a.wait_event("notifications_unavailable")
    finding = next(f for f in ctl_json(a, "doctor") if f["check"] == "notifications")
    assert "pool" in finding["finding"] and finding["grade"] == "warn"
    lease = ctl_json(b, "acquire", "-t", "10m", "x")[0]
    waiter = stand(a, "x", 1)
    release(b, lease)
    assert granted(waiter)["token"] > lease["token"]


def test_a_direct_connection_beside_the_pool_brings_notifications(postgres, pgbouncer, start_daemon):
    name = postgres.create_database()
    direct = postgres.conninfo(name)
    a = start_daemon(pgbouncer.conninfo(name), args=[*NO_POLL, "--notify-database", direct])
    a.wait_event("notifications_ready")
    b = start_daemon(direct)
    lease = ctl_json(b, "acquire", "-t", "10m", "x")[0]
    waiter = stand(a, "x", 1)
    release(b, lease)
    granted(waiter)


def test_releases_and_waiters_that_cross(three):
    """A release that is under way while a waiter draws its place must not be missed."""
    for i in range(30):
        name = f"cross/{i}"
        lease = ctl_json(three[i % 3], "acquire", "-t", "10m", name)[0]
        waiter = ctl_start(three[(i + 1) % 3], "-o", "json", "acquire", "-w", "10m", name)
        time.sleep(0.002 * (i % 10))
        release(three[i % 3], lease, name)
        granted(waiter)


def test_the_line_survives_a_crash_of_the_server(own_postgres, start_daemon):
    """The line is not written durably: after a crash each waiter makes sure of its place."""
    a, b = (start_daemon(own_postgres.conninfo(), args=[*NO_POLL, "--request-timeout", "60s"]) for _ in range(2))
    for daemon in (a, b):
        daemon.wait_event("notifications_ready")
    lease = ctl_json(a, "acquire", "-t", "10m", "x")[0]
    line = [stand(daemon, "x", i + 1) for i, daemon in enumerate((a, b, a))]
    with own_postgres.connect() as db:
        db.execute("DELETE FROM leased.waiters")  # the worst that a crash can do
    own_postgres.stop(signal.SIGQUIT)
    own_postgres.start()
    for daemon in (a, b):
        until(lambda daemon=daemon: daemon.log().count("event=notifications_ready") == 2, "notifications again")
    until(lambda: waiters(a, "x") == 3, "all to stand in line again")
    for process in line:  # in whatever order the daemons came back
        release(a, lease)
        lease = until(lambda: next((json.loads(p.communicate()[0]) for p in line if p.poll() is not None and not p.stdout.closed),
                                   None), "the next grant")
        assert lease["token"]


def test_a_waiter_that_comes_while_a_batch_of_releases_is_under_way(three, database):
    """The batch looked at the line before the waiter stood there, and locks its lease after that."""
    with psycopg.connect(database, autocommit=True) as db, raw.Client(three[0].socket) as holder:
        db.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN NEW; END $$")
        db.execute("CREATE TRIGGER slow BEFORE UPDATE ON leased.leases FOR EACH ROW WHEN (NEW.name = 'a') EXECUTE FUNCTION slow()")
        tokens = [holder.acquire(name, 1, 600000) for name in (b"a", b"x")]
        holder.send(*(raw.release(i + 2, raw.claim(name, tokens[i], 1)) for i, name in enumerate((b"a", b"x"))))
        time.sleep(0.5)
        granted(ctl_start(three[1], "-o", "json", "acquire", "-t", "10m", "-w", "10m", "x"))


def test_the_first_in_line_leaves_during_a_minimum_hold(three):
    """The next one knew only the expiry of the lease as it was held."""
    lease = ctl_json(three[0], "acquire", "-t", "10m", "--min-hold", "4s", "x")[0]
    line = [stand(three[i + 1], "x", i + 1) for i in range(2)]
    release(three[0], lease)
    line[0].send_signal(signal.SIGINT)
    line[0].communicate(timeout=world.GIVE_UP)
    granted(line[1])


SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "schema"
LEAVE = "EXECUTE leave (ARRAY['x'], ARRAY[{place}::int8], 7)"
QUEUE = "EXECUTE queue (ARRAY['y'], ARRAY['h'], ARRAY[1], ARRAY[{nonce}::int8], ARRAY['p'], ARRAY[0::int8], 7)"


def test_two_flights_of_a_daemon_do_not_wait_for_each_other(daemon, database):
    """One draws a place and then deletes a row of the line, the other the other way about: no deadlock, no wait at all."""
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("INSERT INTO leased.daemons VALUES (7, now()); INSERT INTO leased.waiters VALUES ('x', 1, 7, 'h', 1, 1, 'p')")
    with psycopg.connect(database) as one, psycopg.connect(database) as other:
        for conn in one, other:
            for name in "queue", "leave":
                conn.execute(f"PREPARE {name} AS " + (SCHEMA / f"{name}.sql").read_text())
            conn.execute("SET statement_timeout = '5s'")
            conn.commit()
        one.execute(QUEUE.format(nonce=2))
        other.execute(LEAVE.format(place=1))
        other.execute(QUEUE.format(nonce=3))
        one.execute(LEAVE.format(place=-9))
        other.commit()
        one.commit()
    with psycopg.connect(database) as db:
        assert db.execute("SELECT name, holder_nonce FROM leased.waiters ORDER BY 2").fetchall() == [("y", 2), ("y", 3)]
