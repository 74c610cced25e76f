"""The database is away, wrong, frozen or crashes; PgBouncer stands between. Nothing granted is lost, nothing lost is granted."""
import os
import re
import signal
import subprocess
import threading
import time

import psycopg
import pytest

import raw
import world
from world import ctl, ctl_json, ctl_start, until

HELD, LOST, UNAVAILABLE = 75, 76, 69


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def finding(daemon, check):
    return next(f for f in ctl_json(daemon, "doctor") if f["check"] == check)


def test_it_starts_without_a_database_says_so_and_recovers(own_postgres, start_daemon):
    own_postgres.stop()
    daemon = start_daemon(own_postgres.conninfo(), wait="database_unavailable", args=["--request-timeout", "500ms"])
    assert "event=ready" in daemon.log()
    refused = ctl(daemon, "acquire", "x")
    assert refused.returncode == UNAVAILABLE and "No such file" in refused.stderr
    assert ctl(daemon, "get", "a b").stderr.startswith('leasectl: get "a b": ')
    assert finding(daemon, "database")["grade"] == "fail" and ctl(daemon, "doctor").returncode == UNAVAILABLE
    own_postgres.start()
    daemon.wait_event("database_ready")
    assert ctl(daemon, "acquire", "x").returncode == 0


def test_a_daemon_without_database_is_passed_by_for_one_that_has_it(database, directory, start_daemon):
    """Each client begins at the first address; elect makes a new one for every campaign."""
    both = [start_daemon(f"host={directory}/none dbname=x", wait="database_unavailable"), start_daemon(database)]
    done = ctl(both, "run", "x", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert ctl(both, "list").returncode == 0
    lease = ctl_json(both, "acquire", "-t", "2s", "boss")[0]
    leader = ctl_start(both, "elect", "boss")
    assert leader.stdout.readline().startswith("leading")
    assert ctl_json(both[1], "get", "boss")[0]["token"] > lease["token"]
    leader.terminate()
    leader.communicate(timeout=world.GIVE_UP)


def test_a_restart_rides_out_and_keeps_leases(own_postgres, start_daemon):
    daemon = start_daemon(own_postgres.conninfo())
    lease = ctl_json(daemon, "acquire", "x")[0]
    own_postgres.stop()
    waiting = ctl_start(daemon, "renew", "x", *claim(lease))
    own_postgres.start()
    waiting.communicate(timeout=world.GIVE_UP)
    assert waiting.returncode == 0
    assert ctl_json(daemon, "get", "x")[0]["token"] == lease["token"]


def test_in_an_outage_only_those_wait_that_wish_to(own_postgres, start_daemon):
    """Whoever does not wait is told in time, also behind one that does, and behind others like it."""
    daemon = start_daemon(own_postgres.conninfo(), args=["--request-timeout", "500ms"])
    own_postgres.stop(signal.SIGQUIT)
    with raw.Client(daemon.socket) as waiting, raw.Client(daemon.socket) as others:
        waiting.send(raw.acquire(1, b"x", 1, wait_ms=3600000))
        others.ask(raw.ping(1))
        others.send(*(raw.acquire(i, name, i, 60000) for i in range(10, 16) for name in (b"x", b"y")))
        answers = [others.answer(within=3) for _ in range(12)]
        assert all(answer and answer.status == raw.EUNAVAILABLE for answer in answers), answers
        assert waiting.answer(within=0) is None
        own_postgres.start()
        assert waiting.answer().kind == "granted"


def test_without_a_database_a_short_wait_is_short(directory, start_daemon):
    """Shorter than request_timeout, which is 10 s here."""
    daemon = start_daemon(f"host={directory}", wait="database_unavailable")
    with raw.Client(daemon.socket) as client:
        client.send(raw.acquire(1, b"x", 1, wait_ms=500))
        answer = client.answer(within=5)
        assert answer and answer.status == raw.EUNAVAILABLE and "No such file" in answer.why


def test_a_frozen_database_is_given_up_and_the_truth_is_told_later(own_postgres, start_daemon):
    daemon = start_daemon(own_postgres.conninfo(), args=["--request-timeout", "700ms"])
    lease = ctl_json(daemon, "acquire", "x")[0]
    with own_postgres.connect() as conn:
        frozen = [row[0] for row in conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'leased writer%'")]
    frozen.append(own_postgres.process.pid)
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    refused = ctl(daemon, "renew", "x", *claim(lease))
    assert refused.returncode == UNAVAILABLE and "did not answer in time" in refused.stderr
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    until(lambda: ctl(daemon, "renew", "x", *claim(lease)).returncode == 0, "the database to answer again")


def test_behind_a_locked_table_the_clock_decides_when_the_lock_is_gone(database, start_daemon):
    """Expired is lost: a flight that began before the expiry does not save a lease."""
    daemon = start_daemon(database, args=["--lock-timeout", "30s"])
    with raw.Client(daemon.socket) as client, psycopg.connect(database) as db:
        claims = {name: raw.claim(name, client.acquire(name, 1, 400), 1) for name in (b"x", b"y")}
        db.execute("LOCK TABLE leased.leases IN ACCESS EXCLUSIVE MODE")
        client.send(raw.renew(2, [claims[b"x"]], 60000), raw.release(3, claims[b"y"]))
        time.sleep(0.6)
        db.rollback()
        answers = {answer.request: answer for answer in (client.answer(), client.answer())}
        assert answers[2].statuses == [raw.ELOST] and answers[3].status == raw.ELOST


def test_a_crash_in_the_middle_of_load_loses_no_grant(own_postgres, start_daemon):
    """PostgreSQL is stopped with immediate and started again, three times, under acquires and releases."""
    daemon = start_daemon(own_postgres.conninfo())
    stop = threading.Event()
    grants, failures = [], []

    def work(k):
        i = 0
        while not stop.is_set():
            i += 1
            done = ctl(daemon, "-o", "json", "acquire", "-t", "10m", f"c/{k}/{i}")
            if done.returncode == 0:
                import json
                grants.append(json.loads(done.stdout))
            elif done.returncode != UNAVAILABLE:
                failures.append(done.stderr)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        before = len(grants)
        until(lambda: len(grants) > before + 20, "grants")
        own_postgres.stop(signal.SIGQUIT)
        own_postgres.start()
    before = len(grants)
    until(lambda: len(grants) > before + 20, "grants after the last crash")
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    for lease in grants:
        seen = ctl_json(daemon, "get", lease["name"])[0]
        assert seen["state"] == "held" and seen["token"] == lease["token"] and seen["holder"] == lease["holder"]
    tokens = [lease["token"] for lease in grants]
    assert len(set(tokens)) == len(tokens)


def test_a_read_only_server_is_refused_in_one_line(own_postgres, start_daemon):
    with own_postgres.connect() as conn:
        conn.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        conn.execute("SELECT pg_reload_conf()")
    daemon = start_daemon(own_postgres.conninfo(), wait="database_unavailable", args=["--request-timeout", "500ms"])
    assert "read-only" in daemon.log()
    assert "read-only" in ctl(daemon, "acquire", "x").stderr


def test_a_server_that_becomes_read_only_is_left(own_postgres, start_daemon):
    """25006 must not last for ever: the connection is dropped and a primary looked for."""
    daemon = start_daemon(own_postgres.conninfo(), args=["--request-timeout", "700ms"])
    with own_postgres.connect() as conn:
        conn.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        conn.execute("SELECT pg_reload_conf()")
    until(lambda: ctl(daemon, "acquire", "x").returncode == UNAVAILABLE, "the refusal")
    with own_postgres.connect() as conn:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute("ALTER SYSTEM RESET default_transaction_read_only")
        conn.execute("SELECT pg_reload_conf()")
    until(lambda: ctl(daemon, "acquire", "y").returncode == 0, "writes again")


def test_a_standby_is_refused_and_the_primary_found(own_postgres, start_daemon, directory):
    """Two hosts in the conninfo, the standby first."""
    with own_postgres.connect() as conn:
        conn.execute("SELECT pg_create_physical_replication_slot('s')")
    standby_dir = f"{directory}/standby"
    subprocess.run([f"{world.pg_bin()}/pg_basebackup", "-h", own_postgres.dir, "-U", "leased", "-D", standby_dir, "-R", "-S", "s", "-c", "fast"],
                   check=True, capture_output=True)
    standby = subprocess.Popen([f"{world.pg_bin()}/postgres", "-D", standby_dir, "-c", f"unix_socket_directories={directory}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: subprocess.run([f"{world.pg_bin()}/pg_isready", "-q", "-h", directory]).returncode == 0, "the standby")
        alone = start_daemon(f"host={directory} user=daemon dbname=postgres", wait="database_unavailable")
        assert "read-only" in alone.log() or "standby" in alone.log()
        daemon = start_daemon(f"host={directory},{own_postgres.dir} user=daemon dbname=postgres")
        assert ctl(daemon, "acquire", "x").returncode == 0
        assert finding(daemon, "primary")["grade"] == "ok"
    finally:
        standby.send_signal(signal.SIGINT)
        standby.wait(world.GIVE_UP)


def test_the_wrong_schema_version_is_said(postgres, start_daemon):
    database = postgres.conninfo(postgres.create_database("template1"))
    daemon = start_daemon(database, "off", wait="database_unavailable", args=["--schema-apply", "no"])
    assert "leased schema apply" in daemon.log()
    status = [world.LEASED, "schema", "status", "--database", database]
    assert subprocess.run(status, capture_output=True).returncode == 78
    subprocess.run([world.LEASED, "schema", "apply", "--database", database], check=True)
    assert subprocess.run(status, capture_output=True).returncode == 0
    daemon.wait_event("database_ready")
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO leased.schema_version (version, name) VALUES (9999, 'from the future')")
    newer = start_daemon(database, "newer", wait="database_unavailable")
    assert "newer than" in newer.log()


def test_missing_rights_are_said_and_those_said_are_enough(postgres, start_daemon):
    """A role that is given what the daemon asks for, and nothing else, can do all that daemons do."""
    name = postgres.create_database()
    role = f"weak_{name}"
    with postgres.connect(name) as conn:
        conn.execute(f"CREATE ROLE {role} LOGIN")
        daemon = start_daemon(postgres.conninfo(name, role), wait="database_unavailable")
        assert "permission denied" in daemon.log()
        owner = start_daemon(postgres.conninfo(name), args=["--poll-interval", "10m"])
        conn.execute(f"GRANT USAGE ON SCHEMA leased TO {role}; GRANT SELECT ON leased.schema_version TO {role}")

        def grant_and_look():
            asked = [line for line in daemon.log().splitlines() if "lacks rights on the schema" in line]
            for right, thing in re.findall(r"(\w+) ON (leased\.\w+(?:\([^)]*\))?)", asked[-1] if asked else ""):
                kind = "FUNCTION" if right == "EXECUTE" else "SEQUENCE" if right == "USAGE" else "TABLE"
                conn.execute(f"GRANT {right} ON {kind} {thing} TO {role}")
            return "event=database_ready" in daemon.log()
        until(grant_and_look, "all rights to be granted")
    for there in daemon, owner:  # in line at one, released at the other
        lease = ctl_json(daemon, "acquire", "-t", "10m", "x")[0]
        waiter = ctl_start(there, "acquire", "-w", "1m", "-t", "1s", "x")
        until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
        assert ctl(daemon, "renew", "x", *claim(lease)).returncode == 0
        time.sleep(1.2)  # a sign of life of the waiter's daemon
        assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
        assert waiter.wait(world.GIVE_UP) == 0
        until(lambda: ctl_json(daemon, "list")[0]["state"] == "free", "the expiry")
    lease = ctl_json(daemon, "acquire", "x")[0]
    assert ctl(daemon, "steal", "x", "--reason", "it hangs").returncode == 0
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == LOST
    assert "batch_failed" not in daemon.log()


def test_a_server_that_lets_us_in_and_refuses_to_work_is_asked_less_and_less(postgres, database, start_daemon):
    daemon = start_daemon(database, args=["--request-timeout", "2s"])
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not today' USING ERRCODE = '42501'; END$$;"
                     "CREATE TRIGGER refuse BEFORE INSERT ON leased.leases EXECUTE FUNCTION refuse()")
        refused = ctl(daemon, "acquire", "x")
        assert refused.returncode == UNAVAILABLE and "not today" in refused.stderr
        assert 1 < daemon.log().count("event=database_ready") < 16
        conn.execute("DROP TRIGGER refuse ON leased.leases")
    assert ctl(daemon, "acquire", "x").returncode == 0


def test_a_database_of_another_encoding_is_refused_in_one_line(postgres, start_daemon):
    with postgres.connect() as conn:
        conn.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    daemon = start_daemon(postgres.conninfo("latin"), wait="database_unavailable", args=["--request-timeout", "500ms"])
    assert "has the encoding LATIN1" in daemon.log() and "schema_apply" not in daemon.log()
    assert "ENCODING 'UTF8'" in ctl(daemon, "acquire", "x").stderr


def test_an_ordinary_role_that_owns_its_database_is_enough(postgres, start_daemon):
    name = postgres.create_database("template1")
    with postgres.connect() as conn:
        conn.execute(f"CREATE ROLE owner_{name} LOGIN")
        conn.execute(f"ALTER DATABASE {name} OWNER TO owner_{name}")
    daemon = start_daemon(postgres.conninfo(name, f"owner_{name}"))
    lease = ctl_json(daemon, "acquire", "x")[0]
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0


def test_an_unreadable_timeline_is_no_obstacle(own_postgres, start_daemon):
    """A hardened server has taken the WAL functions from PUBLIC: leases work, doctor says what is lost."""
    with own_postgres.connect() as conn:
        conn.execute("CREATE ROLE plain LOGIN")
        conn.execute("CREATE DATABASE leases OWNER plain")
    with own_postgres.connect("leases") as conn:
        conn.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_lsn() FROM PUBLIC")
    daemon = start_daemon(own_postgres.conninfo("leases", "plain"))
    lease = ctl_json(daemon, "acquire", "x")[0]
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    assert ctl_json(daemon, "acquire", "x")[0]["token"] > lease["token"]
    assert finding(daemon, "timeline")["grade"] == "warn"


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_the_databases_default_isolation_does_not_matter(postgres, start_daemon, isolation):
    name = postgres.create_database()
    with postgres.connect() as conn:
        conn.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    daemon = start_daemon(postgres.conninfo(name))
    contend(daemon)


def contend(daemon):
    """A few contenders on one name, each with a short job: all of them get it, one after the other."""
    jobs = [ctl_start(daemon, "run", "-w", "1m", "busy", "--", "true") for _ in range(12)]
    for job in jobs:
        out, err = job.communicate(timeout=world.GIVE_UP)
        assert job.returncode == 0, err


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_all_verbs_work_through_pgbouncer(postgres, directory, start_daemon, isolation):
    name = postgres.create_database()
    with postgres.connect() as conn:
        conn.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    pool = world.PgBouncer(directory, postgres)
    try:
        daemon = start_daemon(pool.conninfo(name))
        assert "pooled=yes" in daemon.log()
        assert "PgBouncer" in finding(daemon, "pool")["finding"]
        lease = ctl_json(daemon, "acquire", "x")[0]
        assert ctl(daemon, "acquire", "x").returncode == HELD
        assert ctl(daemon, "renew", "x", *claim(lease)).returncode == 0
        assert [row["name"] for row in ctl_json(daemon, "list")] == ["x"]
        assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
        contend(daemon)
        with postgres.connect(name) as conn:
            assert conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()[0] == 0
            # Settings of a batch end with its transaction: the pool's connections are as they were.
        with psycopg.connect(pool.conninfo(name), autocommit=True, prepare_threshold=None) as conn:
            for _ in range(5):
                assert conn.execute("SHOW statement_timeout").fetchone()[0] == "0"
                assert conn.execute("SHOW default_transaction_isolation").fetchone()[0] == isolation
    finally:
        pool.stop()


def test_daemons_that_start_at_once_do_not_collide(postgres, start_daemon):
    database = postgres.conninfo(postgres.create_database("template1"))
    daemons = [start_daemon(database, wait=None) for _ in range(6)]
    for daemon in daemons:
        daemon.wait_event("database_ready")
        assert "database_unavailable" not in daemon.log()
    assert sum(daemon.log().count("event=schema_apply") for daemon in daemons) == 1
    with psycopg.connect(database) as conn:
        assert [row[0] for row in conn.execute("SELECT version FROM leased.schema_version ORDER BY 1")] == [1, 2]
