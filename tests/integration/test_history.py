"""Who held a lease, how long, and how it ended: through the daemon and in plain SQL; on, off, and what is shown."""
import re
import signal

import psycopg
import pytest

import world
from world import ctl, ctl_json, until

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def db(database, daemon):
    with psycopg.connect(database, autocommit=True) as conn:
        yield conn


def run(daemon, name, code=0):
    assert ctl(daemon, "run", name, "--", "sh", "-c", f"exit {code}").returncode == code


def lapse(daemon, db, name):
    """Takes a lease that expires, and waits until it has."""
    token = ctl_json(daemon, "acquire", "-t", "300ms", name)[0]["token"]
    until(lambda: db.execute("SELECT expires_at < clock_timestamp() FROM leased.leases WHERE name = %s", (name,)).fetchone()[0], "the expiry")
    return token


def add(db, name, n, ended="released", age="1 s", status=None, **more):
    """Rows as if they had been written so long ago; tokens from the sequence."""
    db.execute("INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal, acquired_at, ended_at, exit_status, stolen_by, reason)"
               " SELECT %(name)s, nextval('leased.token_seq'), %(ended)s, 'web1', 7, i, 'root@web1', now() - %(age)s::interval - interval '90 s',"
               " now() - %(age)s::interval + i * interval '1 us', %(status)s, %(by)s, %(reason)s FROM generate_series(1, %(n)s) i",
               dict(name=name, n=n, ended=ended, age=age, status=status, by=more.get("by"), reason=more.get("reason")))


def test_the_history_of_a_lease(daemon, db):
    run(daemon, "x")
    run(daemon, "x", 3)
    expired = lapse(daemon, db, "x")
    taken = ctl_json(daemon, "acquire", "x")[0]
    ctl(daemon, "release", "x", "--holder", taken["holder"], "--token", str(taken["token"]))
    held = ctl_json(daemon, "acquire", "x")[0]
    ctl(daemon, "acquire", "y")
    rows = ctl_json(daemon, "history", "x")
    assert [(row["ended"], row.get("exit_status")) for row in rows] == [("held", None), ("released", None), ("expired", None), ("released", 3), ("released", 0)]
    assert [row["token"] for row in rows] == sorted((row["token"] for row in rows), reverse=True)
    assert rows[0]["token"] == held["token"] and rows[0]["holder"] == held["holder"] and rows[2]["token"] == expired
    assert set(rows[0]) == {"name", "token", "ended", "holder", "principal", "acquired_at", "held_for_ms"}
    assert set(rows[3]) == set(rows[0]) | {"ended_at", "exit_status"}
    assert all(row["name"] == "x" and "@" in row["principal"] and TIME.fullmatch(row["acquired_at"]) for row in rows)
    assert rows[2]["held_for_ms"] == 300 and TIME.fullmatch(rows[2]["ended_at"])
    assert ctl_json(daemon, "history", "never") == []


def test_the_table(daemon, db):
    run(daemon, "a b", 3)
    add(db, "a b", 1, "stolen", by="ops@web2", reason="it\nhangs")
    lines = ctl(daemon, "history", "a b").stdout.splitlines()
    assert lines[0].split() == ["NAME", "ENDED", "STATUS", "TOKEN", "ACQUIRED", "AT", "HELD", "FOR", "HOLDER", "STOLEN", "BY"]
    assert re.fullmatch(r"a b +stolen +- +\d+ \S+Z +1m30s web1:7:0000000000000001 +ops@web2: it\\x0ahangs", lines[1])
    assert re.fullmatch(r"a b +released +3 +\d+ \S+Z +\d+m?s \S+:\d+:[0-9a-f]{16} *", lines[2])
    assert ctl(daemon, "history", "--no-headers", "a b").stdout.splitlines() == lines[1:]
    stolen = ctl_json(daemon, "history", "a b")[0]
    assert (stolen["stolen_by"], stolen["reason"], stolen["held_for_ms"]) == ("ops@web2", "it\nhangs", 90000)


def test_a_theft_is_told_with_its_reason(daemon, db):
    lease = ctl_json(daemon, "acquire", "x")[0]
    assert ctl(daemon, "steal", "--reason", "it hangs", "x").returncode == 0
    run(daemon, "x")
    for rows in (ctl_json(daemon, "history", "x")[1:], ctl_json(daemon, "history", "--failed")):
        assert [(row["token"], row["ended"], row["reason"]) for row in rows] == [(lease["token"], "stolen", "it hangs")] and "@" in rows[0]["stolen_by"]


def test_an_expired_grant_is_told_before_anybody_takes_the_lease_again(daemon, db):
    token = lapse(daemon, db, "x")
    for rows in (ctl_json(daemon, "history", "x"), ctl_json(daemon, "history", "--failed")):
        assert [(row["token"], row["ended"], row["held_for_ms"]) for row in rows] == [(token, "expired", 300)]
    run(daemon, "x")
    assert [row["ended"] for row in ctl_json(daemon, "history", "x")] == ["released", "expired"]
    assert [row["token"] for row in ctl_json(daemon, "history", "--failed")] == [token]


def test_what_failed_in_the_night(daemon, db):
    add(db, "old", 1, "expired", age="3 days")
    add(db, "a/stolen", 1, "stolen", age="5 h", by="ops", reason="hangs")
    add(db, "a/fine", 1, "released", age="4 h", status=0)
    add(db, "a/untold", 1, "released", age="4 h")
    add(db, "b/failed", 1, "released", age="3 h", status=-1)
    add(db, "a%/odd", 1, "expired", age="2 h")
    lapse(daemon, db, "a/lapsed")
    ctl(daemon, "acquire", "a/held")
    names = [row["name"] for row in ctl_json(daemon, "history", "--failed", "--since", "24h")]
    assert names == ["a/lapsed", "a%/odd", "b/failed", "a/stolen"]  # newest first, whatever kind it is
    assert [row["name"] for row in ctl_json(daemon, "history", "--failed", "--since", "24h", "a/")] == ["a/lapsed", "a/stolen"]
    assert [row["name"] for row in ctl_json(daemon, "history", "--failed", "--since", "150m", "a")] == ["a/lapsed", "a%/odd"]
    assert [row["name"] for row in ctl_json(daemon, "history", "--failed")] == [*names, "old"]
    assert [row["name"] for row in ctl_json(daemon, "history", "--failed", "a%")] == ["a%/odd"]
    assert ctl_json(daemon, "history", "--since", "1h", "b/failed") == []


def test_many_pages(daemon, db):
    """More than one frame, more than one step; none is missed, none comes twice."""
    long = "n" * 255
    add(db, long, 5000)
    rows = ctl_json(daemon, "history", long)
    assert len(rows) == 5000 and [row["token"] for row in rows] == sorted({row["token"] for row in rows}, reverse=True)
    add(db, long, 3000, age="2 h")  # higher tokens, and yet older: they fill the first steps with nothing to tell
    assert len(ctl_json(daemon, "history", "--since", "1h", long)) == 5000

    for i in range(5):
        add(db, f"f/{i}", 900, "expired", age="3 h")  # times that many share
    db.execute("INSERT INTO leased.leases (name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, renewed_at, expires_at, ttl_ms)"
               " SELECT 'f/lapsed/' || i, nextval('leased.token_seq'), 'h', 1, i, 'p', now() - interval '5 h', now(), now() - interval '1 s' * i, 90000"
               " FROM generate_series(1, 4500) i")
    rows = ctl_json(daemon, "history", "--failed", "f/")
    assert len(rows) == 9000 and len({row["token"] for row in rows}) == 9000
    ends = [row["ended_at"] for row in rows]
    assert ends == sorted(ends, reverse=True)
    assert len(ctl_json(daemon, "history", "--failed", "f/lapsed/4")) == 612  # 4, 40, 400 and 4000, and so on
    assert len(ctl_json(daemon, "history", "--failed", "f/4")) == 900


def test_without_a_history(database, db, daemon, start_daemon):
    """history_keep = 0: nothing is written, by the daemon or by the functions; and it can be turned on again."""
    run(daemon, "before")
    daemon.stop()
    config = daemon.dir / "leased.conf"
    config.write_text("history_keep = 0\n")
    off = start_daemon(database, "off", args=["--config", config])
    until(lambda: db.execute("SELECT count(*) FROM leased.events").fetchone()[0] == 0, "what there was to be forgotten")
    assert db.execute("SELECT history_keep_ms, idle_keep_ms FROM leased.settings").fetchone() == (0, 30 * 86400000)

    def use():
        run(off, "x", 3)
        lapse(off, db, "x")
        run(off, "x")
        ctl(off, "acquire", "x")
        assert ctl(off, "steal", "--reason", "it hangs", "x").returncode == 0
        db.execute("SELECT * FROM leased.try_acquire('y', 'h', 1, 1, ttl => '1 ms')")
        db.execute("SELECT pg_sleep(0.01)")
        token = db.execute("SELECT token FROM leased.try_acquire('y', 'h', 1, 2)").fetchone()[0]
        db.execute("SELECT leased.release('y', %s, 'h', 1, 2)", (token,))
    use()
    assert db.execute("SELECT count(*) FROM leased.events").fetchone()[0] == 0
    ctl(off, "acquire", "x")
    told = ctl(off, "-o", "json", "history", "x")
    assert told.stdout.count('"ended":"held"') == 1 and told.stdout.count("\n") == 1
    assert told.stderr == "leasectl: history: this daemon writes none (history_keep = 0)\n" and told.returncode == 0

    config.write_text("history_keep = 1h\n")
    off.signal(signal.SIGHUP)
    until(lambda: db.execute("SELECT history_keep_ms FROM leased.settings").fetchone()[0] == 3600000, "the database to be told")
    db.execute("DELETE FROM leased.leases")
    use()
    rows = db.execute("SELECT name, ended FROM leased.events ORDER BY token").fetchall()
    assert rows == [("x", "released"), ("x", "expired"), ("x", "released"), ("x", "stolen"), ("y", "expired"), ("y", "released")]
    told = ctl(off, "history", "--since", "2h", "x")
    assert told.stderr == "leasectl: history: a grant is told of for 1h after its end (history_keep)\n"
    assert ctl(off, "history", "--since", "30m", "x").stderr == ""


def test_the_sql_function(postgres, database, db, daemon):
    run(daemon, "x", 3)
    token = lapse(daemon, db, "x")
    rows = db.execute("SELECT token, ended, exit_status, held_for = ended_at - acquired_at, holder ~ '^[^:]+:[0-9]+:[0-9a-f]{16}$' FROM leased.history('x')").fetchall()
    assert rows == [(token, "expired", None, True, True), (rows[1][0], "released", 3, True, True)]
    ctl(daemon, "acquire", "x")
    assert db.execute("SELECT ended, ended_at, held_for > '0' FROM leased.history('x', 1)").fetchall() == [("held", None, True)]
    assert len(db.execute("SELECT * FROM leased.history('x')").fetchall()) == 3
    with postgres.connect(database.split("dbname=")[1]) as app:
        app.execute("SET ROLE leased_app")
        assert len(app.execute("SELECT * FROM leased.history('x')").fetchall()) == 3
        for forbidden in ("SELECT * FROM leased.events", "SELECT * FROM leased.trim()", "SELECT leased.trim_events(0)", "UPDATE leased.settings SET idle_keep_ms = 0"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(forbidden)


def test_through_a_transaction_pool(postgres, directory, start_daemon):
    name = postgres.create_database()
    bouncer = world.PgBouncer(directory, postgres)
    try:
        daemon = start_daemon(bouncer.conninfo(name))
        with postgres.connect(name) as db:
            run(daemon, "x", 3)
            lapse(daemon, db, "x")
            assert [row["ended"] for row in ctl_json(daemon, "history", "x")] == ["expired", "released"]
            assert len(ctl_json(daemon, "history", "--failed", "--since", "1h")) == 2
            assert db.execute("SELECT history_keep_ms FROM leased.settings").fetchone()[0] == 14 * 86400000
    finally:
        bouncer.stop()


def test_reading_delays_no_lease(database, start_daemon):
    """While one connection is stuck with a read of the past, leases go on over the other."""
    patient = [word for name in ("lock", "statement", "request") for word in (f"--{name}-timeout", "5m")]
    daemon = start_daemon(database, args=patient)
    until(lambda: daemon.log().count("event=database_ready") == 2, "both connections")
    lease = ctl_json(daemon, "acquire", "x")[0]

    def stuck(conn):
        return conn.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'leased writer%'").fetchone()[0]
    with psycopg.connect(database, autocommit=True) as db, psycopg.connect(database) as other:
        until(lambda: db.execute("SELECT min(due_at) > now() + interval '30 min' FROM leased.walks").fetchone()[0], "the housekeeping to rest")
        other.execute("LOCK TABLE leased.events IN ACCESS EXCLUSIVE MODE")
        readers = [world.ctl_start(daemon, "history", "x") for _ in range(3)]
        until(lambda: stuck(db) == 1, "a read to wait")
        for _ in range(10):
            assert ctl(daemon, "renew", "x", "--holder", lease["holder"], "--token", str(lease["token"])).returncode == 0
            assert ctl(daemon, "get", "x").returncode == 0
        assert stuck(db) == 1  # one at a time
        other.rollback()
        for reader in readers:
            assert "held" in reader.communicate(timeout=world.GIVE_UP)[0]
