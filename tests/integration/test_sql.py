"""The SQL functions without a daemon: what any driver gets through any pool, and what the role leased_app may do."""
import subprocess
import threading

import psycopg
import pytest

import world
from world import until

LE_NOT_HELD, LE_ARGUMENT = "LE001", "LE002"
MAX_TOKEN = 2 ** 53 - 1


def apply_schema(conninfo):
    subprocess.run([world.LEASED, "schema", "apply", "--database", conninfo], check=True)


@pytest.fixture
def empty(postgres):
    """A database without our schema."""
    return postgres.conninfo(postgres.create_database("template1"))


def take(conn, name="x", nonce=1, host="h", pid=1, ttl="90 s", **more):
    """The token, or None."""
    extra = "".join(f", {key} => %({key})s" for key in more)
    row = conn.execute(f"SELECT token FROM leased.try_acquire(%(name)s, %(host)s, %(pid)s, %(nonce)s, %(ttl)s{extra})",
                       dict(name=name, host=host, pid=pid, nonce=nonce, ttl=ttl, **more)).fetchone()
    return row and row[0]


def renew(conn, token, name="x", nonce=1, host="h", pid=1, ttl=None):
    return conn.execute("SELECT leased.renew(%s, %s, %s, %s, %s, %s)", (name, token, host, pid, nonce, ttl)).fetchone()[0]


def release(conn, token, name="x", nonce=1, host="h", pid=1, status=None):
    conn.execute("SELECT leased.release(%s, %s, %s, %s, %s, %s)", (name, token, host, pid, nonce, status))


def refused(sqlstate, call, *args, **kwargs):
    with pytest.raises(psycopg.Error) as raised:
        call(*args, **kwargs)
    assert raised.value.sqlstate == sqlstate, raised.value
    return str(raised.value)


def expire(conn, name="x"):
    conn.execute("UPDATE leased.leases SET expires_at = clock_timestamp() WHERE name = %s", (name,))


def test_one_holder_and_the_same_holder_again(db):
    token = take(db)
    assert token > 0
    assert take(db) == token  # the same nonce: the same grant
    assert take(db, nonce=2) is None  # the same host and pid are not the same holder
    assert take(db, pid=2) is None and take(db, host="g") is None
    assert db.execute("SELECT holder, principal, token FROM leased.get('x')").fetchone() == ("h:1:0000000000000001", "role:daemon", token)
    release(db, token)
    assert db.execute("SELECT count(*) FROM leased.get('x')").fetchone()[0] == 0
    assert take(db, nonce=2) > token


def test_claims_must_fit_exactly(db):
    token = take(db)
    for wrong in (dict(nonce=2), dict(host="g"), dict(pid=2)):
        assert "held by h:1:" in refused(LE_NOT_HELD, renew, db, token, **wrong)
        refused(LE_NOT_HELD, release, db, token, **wrong)
    refused(LE_NOT_HELD, renew, db, token + 1)
    renew(db, token)
    release(db, token, status=3)
    assert "it was released" in refused(LE_NOT_HELD, release, db, token)
    refused(LE_NOT_HELD, renew, db, token)
    assert "nobody holds it" in refused(LE_NOT_HELD, renew, db, 1, name="never")
    assert db.execute("SELECT ended, exit_status FROM leased.events").fetchall() == [("released", 3)]


def test_expired_is_lost_even_if_nobody_took_it(db):
    token = take(db)
    expire(db)
    assert "expired" in refused(LE_NOT_HELD, renew, db, token)
    refused(LE_NOT_HELD, release, db, token)
    assert take(db) > token  # even the same holder gets a new grant
    assert db.execute("SELECT token, ended FROM leased.events").fetchall() == [(token, "expired")]


def test_a_renewal_that_waits_past_the_expiry_has_lost(database, db):
    token = take(db, ttl="0.4 s")
    with psycopg.connect(database) as other:
        other.execute("SELECT * FROM leased.leases WHERE name = 'x' FOR UPDATE")
        outcome = []
        thread = threading.Thread(target=lambda: outcome.append(refused(LE_NOT_HELD, renew, db, token)))
        thread.start()
        until(lambda: other.execute("SELECT clock_timestamp() > expires_at FROM leased.leases WHERE name = 'x'").fetchone()[0], "the expiry")
        other.rollback()
        thread.join()
    assert "expired" in outcome[0]


@pytest.mark.parametrize("arguments", [dict(name=""), dict(name="x" * 256), dict(name="a\nb"), dict(name="a\x7f"), dict(name="a\u0085"), dict(name=None),
                                       dict(ttl="0"), dict(ttl="-1 s"), dict(ttl=None), dict(host=None), dict(nonce=None), dict(min_hold="-1 s"),
                                       dict(ttl="1000000 years"), dict(ttl="0.0004 s"), dict(min_hold="1000000 years"), dict(pid=None), dict(pid=0), dict(pid=-1),
                                       dict(host=""), dict(host="h" * 256), dict(host="a:b"), dict(host="a b"), dict(host="a\x1b[2J"),
                                       dict(value="v" * 4097)],
                         ids=lambda arguments: "{}={:.20}".format(*next((key, repr(value)) for key, value in arguments.items())))
def test_bad_arguments(db, arguments):
    refused(LE_ARGUMENT, take, db, **arguments)
    assert db.execute("SELECT count(*) FROM leased.leases").fetchone()[0] == 0


def test_the_longest_arguments(db):
    token = take(db, name="é" * 127 + "x", host="h" * 255, pid=2 ** 31 - 1, nonce=-2 ** 63, value="v" * 4096)
    assert db.execute("SELECT holder FROM leased.get(%s)", ("é" * 127 + "x",)).fetchone()[0] == f"{'h' * 255}:2147483647:8000000000000000"
    renew(db, token, name="é" * 127 + "x", host="h" * 255, pid=2 ** 31 - 1, nonce=-2 ** 63)


def test_a_renewal_for_ever_is_refused(db):
    token = take(db)
    for ttl in ("0", "-1 s", "1000000 years"):
        refused(LE_ARGUMENT, renew, db, token, ttl=ttl)
    renew(db, token, ttl="1 h")


def test_an_acquire_never_waits_for_a_row(database, db):
    """Whatever lock somebody holds on the row of an expired lease: no grant, at once. A wait would end with 55P03."""
    token = take(db)
    expire(db)
    db.execute("SET lock_timeout = '1ms'")
    with psycopg.connect(database) as other:
        for lock in ("FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE"):
            other.execute(f"SELECT * FROM leased.leases WHERE name = 'x' {lock}")
            assert take(db, nonce=2) is None
            assert take(db, name=lock)  # other names go on
            other.rollback()
    assert take(db, nonce=2) > token


def test_a_guarded_lease_is_renewed_but_not_taken_over(database, db):
    token = take(db)
    db.execute("SET lock_timeout = '1ms'")
    with psycopg.connect(database) as app:
        app.execute("SELECT leased.guard('x', %s)", (token,))
        renew(db, token)
        release(db, token)
        assert take(db, nonce=2) is None
        app.commit()
    assert take(db, nonce=2) > token


def test_a_key_update_waits_for_a_guarded_transaction(database, db):
    """What a take-over without SKIP LOCKED does, and what the guard is built on."""
    token = take(db)
    with psycopg.connect(database) as app, psycopg.connect(database, autocommit=True) as other:
        app.execute("SELECT leased.guard('x', %s)", (token,))
        thread = threading.Thread(target=other.execute, args=("UPDATE leased.leases SET token = token + 1 WHERE name = 'x'",))
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        until(lambda: db.execute(waits, (other.info.backend_pid,)).fetchone()[0], "the key update to wait")
        assert db.execute("SELECT token FROM leased.leases").fetchone()[0] == token
        app.commit()
        thread.join()
    assert db.execute("SELECT token FROM leased.leases").fetchone()[0] == token + 1


def test_minimum_hold(db):
    token = take(db, min_hold="1 h")
    release(db, token)
    assert take(db, nonce=2) is None
    assert db.execute("SELECT count(*) FROM leased.get('x')").fetchone()[0] == 0


def test_another_session_user_has_no_power(postgres, database, db):
    name = database.split("dbname=")[1]
    with postgres.connect() as admin:
        admin.execute(f"CREATE ROLE a_{name} LOGIN IN ROLE leased_app; CREATE ROLE b_{name} LOGIN IN ROLE leased_app")
    with postgres.connect(name, f"a_{name}") as a, postgres.connect(name, f"b_{name}") as b:
        token = take(a)
        assert take(b) is None  # the same nonce of another principal
        refused(LE_NOT_HELD, renew, b, token)
        refused(LE_NOT_HELD, release, b, token)
        release(a, token)


def test_leased_app_may_call_the_functions_and_touch_nothing_else(postgres, database, db):
    name = database.split("dbname=")[1]
    with postgres.connect() as admin:
        admin.execute(f"CREATE ROLE app_{name} LOGIN IN ROLE leased_app")
    relations = [row[0] for row in db.execute("SELECT 'leased.' || relname FROM pg_class WHERE relnamespace = 'leased'::regnamespace AND relkind IN ('r', 'S')")]
    functions = db.execute("SELECT proname, oid FROM pg_proc WHERE pronamespace = 'leased'::regnamespace").fetchall()
    assert len(relations) >= 4 and len(functions) >= 9
    with postgres.connect(name, f"app_{name}") as app:
        token = take(app)
        renew(app, token)
        app.execute("SELECT leased.guard('x', %s)", (token,))
        app.execute("SELECT * FROM leased.get('x')")
        release(app, token)
        for relation in relations:
            refused("42501", app.execute, f"SELECT * FROM {relation}")
            for statement in ("DELETE FROM {}", "UPDATE {} SET ctid = ctid", "TRUNCATE {}", "DROP TABLE {}"):
                with pytest.raises(psycopg.Error):
                    app.execute(statement.format(relation))
        refused("42501", app.execute, "SELECT nextval('leased.token_seq')")
        refused("42501", app.execute, "CREATE TABLE leased.mine ()")
        for proname, oid in functions:
            may = app.execute("SELECT has_function_privilege(%s::oid, 'EXECUTE')", (oid,)).fetchone()[0]
            assert may == (proname in ("try_acquire", "renew", "release", "guard", "get", "history")), proname


def test_a_hostile_search_path_has_no_effect(db):
    """Objects of the caller's with the names that the functions use."""
    db.execute("CREATE SCHEMA evil")
    db.execute("CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '1970-01-01'::timestamptz $$")
    db.execute("CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '1970-01-01'::timestamptz $$")
    db.execute("CREATE FUNCTION evil.is_equal(bigint, bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$")
    db.execute("CREATE OPERATOR evil.= (leftarg = bigint, rightarg = bigint, function = evil.is_equal)")
    db.execute("CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '1970-01-01'::timestamptz $$")
    db.execute("CREATE FUNCTION pg_temp.octet_length(text) RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$")
    db.execute("CREATE TYPE pg_temp.interval AS ENUM ('evil')")
    db.execute("SET search_path = evil, pg_temp, pg_catalog")
    for relation in ("leases", "events", "cluster", "settings", "pg_database", "pg_class"):
        db.execute(f"CREATE TEMP TABLE {relation} (name text, token bigint)")
    db.execute("CREATE TEMP SEQUENCE token_seq")
    token = take(db)
    assert take(db, nonce=2) is None
    refused(LE_NOT_HELD, renew, db, token + 1)
    refused(LE_NOT_HELD, renew, db, token, nonce=2)
    refused(LE_ARGUMENT, take, db, name="x" * 256)
    renew(db, token)
    refused(LE_NOT_HELD, db.execute, "SELECT leased.guard('x', %s::bigint)", (token + 1,))
    db.execute("SELECT leased.guard('x', %s::bigint)", (token,))
    release(db, token)
    assert take(db, nonce=2) > token


def test_guard_waits_for_the_take_over_that_came_first(database, db):
    """The take-over holds the row: the guard waits, then sees the new token."""
    old = take(db)
    expire(db)
    with psycopg.connect(database) as other:
        assert take(other, nonce=2) > old
        outcome = []

        def guard():
            with psycopg.connect(database) as app:
                outcome.append(refused(LE_NOT_HELD, app.execute, "SELECT leased.guard('x', %s)", (old,)))
        thread = threading.Thread(target=guard)
        thread.start()
        until(lambda: db.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0] > 0, "the guard to wait")
        other.commit()
        thread.join()
    assert "h:1:0000000000000002" in outcome[0]


def test_guard_refuses_expired_and_released(db):
    token = take(db)
    db.execute("SELECT leased.guard('x', %s)", (token,))
    expire(db)
    assert "expired" in refused(LE_NOT_HELD, db.execute, "SELECT leased.guard('x', %s)", (token,))
    token = take(db)
    release(db, token)
    assert "released" in refused(LE_NOT_HELD, db.execute, "SELECT leased.guard('x', %s)", (token,))
    refused(LE_NOT_HELD, db.execute, "SELECT leased.guard('never', 1)")


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_guard_behind_an_old_snapshot(database, db, level):
    token = take(db)
    with psycopg.connect(database) as app:
        app.isolation_level = level
        app.execute("SELECT 1 FROM leased.leases")  # the snapshot
        renew(db, token)
        app.execute("SELECT leased.guard('x', %s)", (token,))  # a renewal behind it does not matter
        app.rollback()
        app.execute("SELECT 1 FROM leased.leases")
        expire(db)
        take(db, nonce=2)
        text = refused("40001", app.execute, "SELECT leased.guard('x', %s)", (token,))
        assert "taken over after this transaction began" in text


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_guard_past_the_expiry_that_an_old_snapshot_shows(database, db, level):
    """It may have been renewed behind the snapshot: to be tried again, and only then lost or held for certain."""
    def try_twice(**renewal):
        with psycopg.connect(database) as app:
            app.isolation_level = level
            token = take(db, name=str(renewal), ttl="1.5 s")
            app.execute("SELECT 1 FROM leased.leases")
            if renewal:
                renew(db, token, name=str(renewal), **renewal)
            until(lambda: app.execute("SELECT clock_timestamp() > expires_at FROM leased.leases WHERE name = %s", (str(renewal),)).fetchone()[0], "the expiry")
            assert "renewal" in refused("40001", app.execute, "SELECT leased.guard(%s, %s)", (str(renewal), token))
            app.rollback()
            app.execute("SELECT leased.guard(%s, %s)", (str(renewal), token))
    try_twice(ttl="1 h")
    assert "expired" in refused(LE_NOT_HELD, try_twice)


def test_a_release_behind_an_old_snapshot_lets_nobody_in(database, db):
    """The guard cannot see that release, but while it holds there is no later grant."""
    token = take(db)
    with psycopg.connect(database) as app:
        app.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        app.execute("SELECT 1 FROM leased.leases")
        release(db, token)
        app.execute("SELECT leased.guard('x', %s)", (token,))
        assert take(db, nonce=2) is None
        app.commit()
    assert take(db, nonce=2) > token


def test_tokens_rise_through_everything(db):
    seen = [take(db)]

    def another():
        token = take(db, nonce=len(seen) + 1)
        assert token > seen[-1]
        seen.append(token)
    release(db, seen[-1])
    another()
    expire(db)
    another()
    db.execute("DELETE FROM leased.leases")
    another()
    expire(db)
    db.execute("UPDATE leased.leases SET token = %s", (seen[-1] + 1000,))  # as if a sequence were behind
    seen[-1] += 1000
    another()
    refused("23514", db.execute, "UPDATE leased.leases SET token = %s", (MAX_TOKEN + 1,))
    db.execute("UPDATE leased.leases SET token = %s", (MAX_TOKEN,))


def test_concurrent_takers_of_a_new_name_get_one_grant(database, db):
    start, granted = threading.Barrier(8), []

    def contend(nonce):
        with psycopg.connect(database, autocommit=True) as conn:
            for i in range(20):
                start.wait()
                token = take(conn, name=f"n/{i}", nonce=nonce)
                if token:
                    granted.append((i, token))
    threads = [threading.Thread(target=contend, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(i for i, _ in granted) == list(range(20))


def test_tokens_survive_a_promotion_that_lost_the_last_grants(own_postgres, directory):
    """Asynchronous failover: the standby never saw the last tokens, and gives none of them again."""
    apply_schema(own_postgres.conninfo())
    with own_postgres.connect() as conn:
        conn.execute("SELECT pg_create_physical_replication_slot('s')")
        take(conn, name="before")
        standby_dir = f"{directory}/standby"
        subprocess.run([f"{world.pg_bin()}/pg_basebackup", "-h", own_postgres.dir, "-U", "leased", "-D", standby_dir, "-R", "-S", "s", "-c", "fast"],
                       check=True, capture_output=True)
        # The standby stays off: whatever is granted from here on never reaches it.
        lost = [take(conn, name="x", nonce=i) or (expire(conn), take(conn, name="x", nonce=i))[1] for i in range(1, 100)]
    own_postgres.stop(world.signal.SIGQUIT)
    standby = subprocess.Popen([f"{world.pg_bin()}/postgres", "-D", standby_dir, "-c", f"unix_socket_directories={directory}", "-c", "primary_conninfo="],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: subprocess.run([f"{world.pg_bin()}/pg_isready", "-q", "-h", directory]).returncode == 0, "the standby")
        with psycopg.connect(f"host={directory} user=leased dbname=postgres", autocommit=True) as conn:
            conn.execute("SELECT pg_promote()")
            assert conn.execute("SELECT count(*) FROM leased.get('before')").fetchone()[0] == 1
            assert take(conn, name="x", nonce=1000) > max(lost)
            assert take(conn, name="new") > max(lost)
    finally:
        standby.send_signal(world.signal.SIGINT)
        standby.wait(world.GIVE_UP)


def restore(dump, conninfo):
    subprocess.run([f"{world.pg_bin()}/psql", "-q", "-v", "ON_ERROR_STOP=1", conninfo], input=dump, check=True, capture_output=True)


def test_tokens_rise_over_a_dump_and_restore(postgres, database, db, own_postgres):
    last = [take(db, name=f"n/{i}") for i in range(50)][-1]
    dump = subprocess.run([f"{world.pg_bin()}/pg_dump", database], check=True, capture_output=True).stdout
    given_after = take(db, name="after-the-dump")
    restore(dump, own_postgres.conninfo(user="leased"))
    with own_postgres.connect() as conn:
        token = take(conn, name="elsewhere")
        assert token > given_after > last and token <= MAX_TOKEN
        assert take(conn, name="once-more") > token


def test_tokens_rise_over_a_restore_into_the_same_cluster(postgres, database, db):
    """The system identifier stays; what is younger than the dump is lost, and its tokens are not given again."""
    take(db)
    dump = subprocess.run([f"{world.pg_bin()}/pg_dump", database], check=True, capture_output=True).stdout
    given_after = [take(db, name=f"n/{i}") for i in range(5)][-1]

    other = postgres.conninfo(postgres.create_database("template1"))
    restore(dump, other)
    with psycopg.connect(other, autocommit=True) as conn:
        first = take(conn, name="y")
        assert given_after < first < take(conn, name="z")
        assert take(conn, name="z", nonce=2) is None

    db.execute("DROP SCHEMA leased CASCADE")
    restore(dump, database)
    assert take(db, name="y") > given_after


def test_tokens_rise_in_a_copy_by_template(postgres, database, db):
    """The copy's objects keep their OIDs; the database has one of its own."""
    take(db)
    name = database.split("dbname=")[1]
    with postgres.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (name,))
        admin.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    with postgres.connect(name) as conn:
        given_after = [take(conn, name=f"n/{i}") for i in range(5)][-1]
    with postgres.connect(f"{name}_copy") as conn:
        assert take(conn, name="y") > given_after


def test_an_ordinary_role_owns_the_schema(postgres, empty):
    """No superuser, no right to make roles: the functions work, and leased_app was made by somebody else."""
    name = empty.split("dbname=")[1]
    with postgres.connect(name) as admin:
        admin.execute(f"CREATE ROLE plain_{name} LOGIN; CREATE ROLE user_{name} LOGIN IN ROLE leased_app")
        admin.execute(f"ALTER DATABASE {name} OWNER TO plain_{name}")
    apply_schema(postgres.conninfo(name, f"plain_{name}"))
    with postgres.connect(name, f"user_{name}") as app:
        token = take(app)
        renew(app, token)
        app.execute("SELECT leased.guard('x', %s)", (token,))
        release(app, token)
        assert take(app) > token


def test_an_ordinary_role_without_leased_app(own_postgres):
    """A fresh cluster where nobody may make the role: the owner can still use the functions, nobody else can."""
    with own_postgres.connect() as admin:
        admin.execute("DROP DATABASE with_schema")
        admin.execute("DROP ROLE leased_app; CREATE ROLE plain LOGIN; CREATE ROLE stranger LOGIN")
        admin.execute("CREATE DATABASE d OWNER plain")
    apply_schema(own_postgres.conninfo("d", "plain"))
    with own_postgres.connect("d", "plain") as owner, own_postgres.connect("d", "stranger") as stranger:
        assert take(owner)
        refused("42501", take, stranger)


def test_a_hidden_system_identifier_does_not_serialize_acquires(own_postgres):
    """The row of the epoch is written when something has changed, not by each acquire."""
    apply_schema(own_postgres.conninfo())
    with own_postgres.connect() as admin:
        admin.execute("CREATE ROLE plain LOGIN")
        admin.execute("CREATE DATABASE d OWNER plain")
    apply_schema(own_postgres.conninfo("d", "plain"))
    with own_postgres.connect("d", "plain") as conn:
        take(conn)
        with own_postgres.connect("d") as admin:
            admin.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        with psycopg.connect(own_postgres.conninfo("d", "plain")) as app:
            assert take(app, name="a")  # and stays in its transaction
            conn.execute("SET lock_timeout = '1ms'")
            assert take(conn, name="b") > take(conn, name="x")


def test_an_unreadable_timeline_leaves_the_base(postgres, database, db):
    """A hardened server: the functions are withdrawn, tokens still rise."""
    name = database.split("dbname=")[1]
    token = take(db)
    with postgres.connect(name) as admin:
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_control_system() FROM PUBLIC")
        admin.execute(f"CREATE ROLE owner_{name} LOGIN")
        relations = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'leased'::regnamespace AND relkind IN ('r', 'v', 'S')"
        for relation, in admin.execute(relations).fetchall():
            admin.execute(f"ALTER TABLE {relation} OWNER TO owner_{name}")
        admin.execute(f"ALTER SCHEMA leased OWNER TO owner_{name}")
        for signature, in admin.execute("SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'leased'::regnamespace").fetchall():
            admin.execute(f"ALTER FUNCTION {signature} OWNER TO owner_{name}")
        assert take(admin, name="y") > token


def test_the_printed_schema_is_the_applied_one(empty):
    """What a DBA gets by print works in psql, and the daemon finds nothing left to do."""
    script = subprocess.run([world.LEASED, "schema", "print"], check=True, capture_output=True).stdout
    subprocess.run([f"{world.pg_bin()}/psql", "-q", "-v", "ON_ERROR_STOP=1", empty], input=script, check=True, capture_output=True)
    assert subprocess.run([world.LEASED, "schema", "status", "--database", empty], capture_output=True).returncode == 0
    again = subprocess.run([f"{world.pg_bin()}/psql", "-v", "ON_ERROR_STOP=1", empty], input=script, capture_output=True, text=False)
    assert again.returncode != 0 and b"not at version 0" in again.stderr


def test_a_retry_inside_an_open_transaction(database, db):
    """An application takes a lease in a transaction that it rolls back: it never had it."""
    with psycopg.connect(database) as app:
        assert take(app, nonce=5)
        app.rollback()
    assert take(db, nonce=6)
