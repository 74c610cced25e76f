"""The role model in the database: who may do what, nothing more, and nobody's objects in front of the server's own."""
import collections
import re
import signal
import subprocess

import psycopg
import pytest

import world
from world import ctl, ctl_json, ctl_start, until

DAEMON = """
channel SELECT
cluster SELECT
daemons SELECT INSERT UPDATE DELETE
events SELECT INSERT
leases SELECT INSERT UPDATE DELETE
queue SELECT
schema_version SELECT
settings SELECT
slots SELECT INSERT UPDATE DELETE
waiters SELECT INSERT UPDATE DELETE
watchers SELECT
place_seq USAGE
token_seq USAGE
change_line(text,leased.leases) EXECUTE
complete_slot(leased.leases,integer,timestamp with time zone) EXECUTE
epoch_base() EXECUTE
has_line(text[],bigint) EXECUTE
has_room(text,integer) EXECUTE
is_done(text,text,bigint) EXECUTE
lock_first(text,text,integer,bigint,text) EXECUTE
lock_over(text,integer,timestamp with time zone) EXECUTE
next_run(timestamp with time zone,bigint) EXECUTE
notify_next(text[],bigint) EXECUTE
notify_stolen(text,bigint,text,text,text) EXECUTE
put_grant(leased.leases) EXECUTE
take(text[],text,integer,bigint,text,bigint,bigint,text,bigint,text,boolean,bigint,bigint,integer) EXECUTE
tell(text[]) EXECUTE
tell_change(text,leased.leases) EXECUTE
timeline() EXECUTE
trim(bigint,bigint) EXECUTE
"""
APP = """
get(text) EXECUTE
guard(text,bigint) EXECUTE
history(text,integer) EXECUTE
release(text,bigint,text,integer,bigint,integer,boolean) EXECUTE
renew(text,bigint,text,integer,bigint,interval,text) EXECUTE
try_acquire(text,text,integer,bigint,interval,interval,text,text,text,interval,interval,integer,text[]) EXECUTE
"""
MONITOR = """
cluster SELECT
daemons SELECT
events SELECT
leases SELECT
queue SELECT
schema_version SELECT
settings SELECT
slots SELECT
waiters SELECT
walks SELECT
watchers SELECT
get(text) EXECUTE
history(text,integer) EXECUTE
"""
# What a role can do to each object of the schema, however it came to that right.
RIGHTS = """
WITH roles AS (SELECT oid AS role FROM pg_roles WHERE rolname = %(role)s)
SELECT 'schema', p FROM roles, unnest(ARRAY['USAGE', 'CREATE']) p WHERE has_schema_privilege(role, 'leased', p)
UNION ALL
SELECT relname::text, p FROM roles, pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
 WHERE relnamespace = 'leased'::regnamespace AND relkind NOT IN ('S', 'i', 'c')
   AND CASE WHEN p IN ('DELETE', 'TRUNCATE', 'TRIGGER') THEN has_table_privilege(role, c.oid, p) ELSE has_any_column_privilege(role, c.oid, p) END
UNION ALL
SELECT relname::text, p FROM roles, pg_class c, unnest(ARRAY['USAGE', 'SELECT', 'UPDATE']) p
 WHERE relnamespace = 'leased'::regnamespace AND relkind = 'S' AND has_sequence_privilege(role, c.oid, p)
UNION ALL
SELECT substr(replace(f.oid::regprocedure::text, '"', ''), 8), 'EXECUTE' FROM roles, pg_proc f
 WHERE pronamespace = 'leased'::regnamespace AND has_function_privilege(role, f.oid, 'EXECUTE')
"""


def parse(listed):
    rights = collections.defaultdict(set)
    for line in listed.strip().splitlines():
        thing, *privileges = re.split(r" (?=[A-Z])", line)
        rights[thing] |= set(privileges)
    return dict(rights)


def rights_of(conn, role):
    rights = collections.defaultdict(set)
    conn.execute("SET search_path = pg_catalog")
    for thing, privilege in conn.execute(RIGHTS, {"role": role}):
        rights[thing].add(privilege)
    return dict(rights)


def roles_script():
    return subprocess.run([world.LEASED, "schema", "roles"], check=True, capture_output=True).stdout


def psql(conninfo, script):
    return subprocess.run([f"{world.pg_bin()}/psql", "-q", "-v", "ON_ERROR_STOP=1", conninfo], input=script, capture_output=True)


@pytest.fixture
def db(postgres):
    """As an administrator leaves it: one command, and a login for each role."""
    name = postgres.create_database("template1")
    subprocess.run([world.LEASED, "schema", "apply", "--database", postgres.conninfo(name, "leased")], check=True)
    with postgres.connect(name) as conn:
        conn.execute("SET search_path = pg_catalog")
        conn.execute(f"CREATE ROLE login_{name} LOGIN IN ROLE leased_daemon; CREATE ROLE reader_{name} LOGIN IN ROLE leased_monitor")
        yield conn


def login(db, who="login"):
    return f"host={db.info.host} user={who}_{db.info.dbname} dbname={db.info.dbname}"


def test_each_role_has_the_rights_listed_here_and_no_others(db):
    assert rights_of(db, "leased_daemon") == {"schema": {"USAGE"}, **parse(DAEMON)}
    assert rights_of(db, "leased_app") == {"schema": {"USAGE"}, **parse(APP)}
    assert rights_of(db, "leased_monitor") == {"schema": {"USAGE"}, **parse(MONITOR)}
    db.execute(f"CREATE ROLE stranger_{db.info.dbname}")
    assert rights_of(db, f"stranger_{db.info.dbname}") == {}
    # What is not told above is the owner's alone, and nobody may pass a right on.
    owners = """SELECT DISTINCT owner::regrole::text FROM (SELECT relowner AS owner, relnamespace AS place FROM pg_class UNION ALL
        SELECT proowner, pronamespace FROM pg_proc UNION ALL SELECT nspowner, oid FROM pg_namespace) o WHERE place = 'leased'::regnamespace"""
    assert db.execute(owners).fetchall() == [("leased_owner",)]
    passed_on = """SELECT a.* FROM (SELECT relacl AS acl, relowner AS owner FROM pg_class WHERE relnamespace = 'leased'::regnamespace UNION ALL
        SELECT proacl, proowner FROM pg_proc WHERE pronamespace = 'leased'::regnamespace UNION ALL
        SELECT nspacl, nspowner FROM pg_namespace WHERE nspname = 'leased') o, aclexplode(acl) a WHERE is_grantable AND grantee <> owner"""
    assert db.execute(passed_on).fetchall() == []
    attributes = db.execute("SELECT rolname FROM pg_roles WHERE rolname ~ '^leased_' AND (rolsuper OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolbypassrls OR rolreplication)")
    assert attributes.fetchall() == []
    for role in "owner", "daemon", "app", "monitor":
        assert not db.execute("SELECT has_database_privilege(%s, current_database(), 'CREATE')", (f"leased_{role}",)).fetchone()[0]
        assert db.execute("SELECT 1 FROM pg_auth_members WHERE member = to_regrole(%s)", (f"leased_{role}",)).fetchall() == []


def work(daemon, directory):
    """All verbs, once each."""
    lease = ctl_json(daemon, "acquire", "--value", "v", "x")[0]
    claim = ["x", "--holder", lease["holder"], "--token", str(lease["token"])]
    watch = ctl_start(daemon, "watch", "x")
    waiter = ctl_start(daemon, "acquire", "-w", "1m", "x")
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    assert ctl(daemon, "renew", "--value", "w", *claim).returncode == 0
    assert ctl(daemon, "release", *claim).returncode == 0
    assert waiter.wait(world.GIVE_UP) == 0
    assert ctl(daemon, "steal", "x", "--reason", "it hangs").returncode == 0
    for options in (["--count", "2"], ["--count", "2"], ["--shared"]):
        assert ctl(daemon, "acquire", *options, "many").returncode == (75 if options == ["--shared"] else 0)
    assert ctl(daemon, "acquire", "-t", "1s", "a", "--and", "b").returncode == 0
    assert ctl(daemon, "run", "--slot", "1", "--every", "1h", "s", "--", "true").returncode == 0
    assert ctl(daemon, "run", "--slot", "1", "s", "--", "true").returncode == 75
    until(lambda: {row["name"]: row["state"] for row in ctl_json(daemon, "list")}["a"] == "free", "an expiry")
    assert [row["ended"] for row in ctl_json(daemon, "history", "x")] == ["stolen", "released"]
    assert {row["name"] for row in ctl_json(daemon, "history", "--failed", "--since", "1h")} == {"x", "a", "b"}
    watch.send_signal(signal.SIGINT)
    assert "stolen" in watch.communicate(timeout=world.GIVE_UP)[0]


def test_a_daemon_with_leased_daemons_rights_can_do_all_that_daemons_do(db, directory, start_daemon):
    daemon = start_daemon(login(db), args=["--history-keep", "7d"])
    daemon.wait_event("notifications_ready")
    work(daemon, directory)
    assert db.execute("SELECT history_keep_ms FROM leased.settings").fetchone()[0] == 7 * 86400000
    until(lambda: db.execute("SELECT min(due_at) > now() + interval '30 min' FROM leased.walks").fetchone()[0], "the housekeeping")
    assert "batch_failed" not in daemon.log() and "database_unavailable" not in daemon.log()
    assert {row["grade"] for row in ctl_json(daemon, "doctor")} == {"ok"}
    with psycopg.connect(login(db, "reader"), autocommit=True) as reader:
        assert reader.execute("SELECT count(*) FROM leased.leases").fetchone()[0] == 6
        assert reader.execute("SELECT ended FROM leased.history('x')").fetchone() == ("stolen",)
        for forbidden in "DELETE FROM leased.leases", "SELECT leased.steal('x', 'r')", "SELECT nextval('leased.token_seq')", "SELECT * FROM leased.trim(0)":
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(forbidden)


def test_functions_with_their_owners_rights_have_their_path_pinned_and_run_no_text(db):
    functions = db.execute("SELECT 'leased.' || proname, prosecdef, proconfig, prosrc FROM pg_proc p WHERE pronamespace = 'leased'::regnamespace").fetchall()
    definers = {name for name, is_definer, *_ in functions if is_definer}
    assert definers >= {"leased.guard", "leased.renew", "leased.release", "leased.try_acquire", "leased.steal", "leased.trim", "leased.epoch_base"}
    for name, is_definer, settings, body in functions:
        assert not re.search(r"\bEXECUTE\b", re.sub("'[^']*'", "", body), re.I), name
        if is_definer:
            assert settings == ["search_path=pg_catalog, pg_temp"], name


def test_doctor_tells_what_the_daemons_role_has_and_does_not_need(db, postgres, start_daemon):
    name = db.info.dbname

    def told(daemon, check):
        finding = next(f for f in ctl_json(daemon, "doctor") if f["check"] == check)
        return finding["grade"], finding["finding"]
    admin = db.execute("SELECT current_user").fetchone()[0]
    db.execute(f"ALTER ROLE login_{name} CREATEROLE CREATEDB; GRANT pg_read_all_data TO login_{name}; GRANT TRUNCATE ON leased.events TO leased_daemon; "
               f"GRANT CREATE ON DATABASE {name} TO login_{name}; REASSIGN OWNED BY leased_owner TO {admin}")
    daemon = start_daemon(login(db))
    grade, why = told(daemon, "rights")
    assert grade == "warn" and "leased_daemon" in why
    assert "CREATEROLE, CREATEDB, CREATE on the database, TRUNCATE, TRIGGER or REFERENCES on its tables, membership in pg_read_all_data:" in why
    grade, why = told(daemon, "owner")
    assert grade == "warn" and f"belongs to {admin}, a superuser" in why and "leased schema roles" in why
    assert ctl(daemon, "doctor").returncode == 0
    # The owner of everything, in the simplest case; then what doctor has said to do.
    own = start_daemon(postgres.conninfo(postgres.create_database("template1")))
    assert "what the owner of the database may, what the owner of the schema may:" in told(own, "rights")[1]
    assert told(own, "owner") == ("ok", "the schema belongs to daemon")
    assert psql(postgres.conninfo(name, admin), roles_script()).returncode == 0
    db.execute(f"ALTER ROLE login_{name} NOCREATEROLE NOCREATEDB; REVOKE pg_read_all_data FROM login_{name}; REVOKE TRUNCATE ON leased.events FROM leased_daemon; "
               f"REVOKE CREATE ON DATABASE {name} FROM login_{name}")
    mended = start_daemon(login(db))
    assert told(mended, "owner") == ("ok", "the schema belongs to leased_owner")
    assert told(mended, "rights")[0] == "ok"


def test_only_daemons_hear_and_tell_what_happens(db, start_daemon):
    """Every role may LISTEN and NOTIFY: who is none of theirs hears no name, and nobody stops by its word."""
    daemon = start_daemon(login(db))
    daemon.wait_event("notifications_ready")
    db.execute(f"CREATE ROLE other_{db.info.dbname} LOGIN IN ROLE leased_app, leased_monitor, pg_monitor")
    channel = db.execute("SELECT name FROM leased.channel").fetchone()[0]
    jobs = [ctl_start(daemon, "run", "-t", "10m", name, "--", "sleep", "60") for name in ("kept", "stolen")]
    until(lambda: len(ctl_json(daemon, "list")) == 2, "both leases")
    kept = ctl_json(daemon, "get", "kept")[0]
    with psycopg.connect(login(db, "other"), autocommit=True) as other:
        heard = []
        other.add_notify_handler(lambda notify: heard.append(notify.payload))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT name FROM leased.channel")
        assert not [query for query, in other.execute("SELECT query FROM pg_stat_activity") if channel in (query or "")]
        other.execute("LISTEN leased")
        forged = f"s\t{kept['token']}\tkept\t{kept['principal']}\tforged: by nobody"
        other.execute("SELECT pg_notify('leased', %s)", (forged,))
        assert ctl(daemon, "steal", "stolen", "--reason", "r").returncode == 0
        assert jobs[1].wait(world.GIVE_UP) == 76
        other.execute("SELECT 1")
        assert heard == [forged] and jobs[0].poll() is None


# Either takes the administrator's role back from the owner of the schema, as whom a migration runs.
AMBUSHES = ["""
CREATE TABLE leased.schema_version (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
CREATE FUNCTION leased.t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM leased.f(); RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON leased.schema_version FOR EACH ROW EXECUTE FUNCTION leased.t();
""", "CREATE VIEW leased.schema_version AS SELECT leased.f() AS version"]


@pytest.mark.parametrize("ambush", AMBUSHES)
def test_a_superuser_applies_no_schema_that_somebody_put_there_first(postgres, ambush):
    name = postgres.create_database("template1")
    with postgres.connect(name) as admin:
        admin.execute(f"CREATE ROLE evil_{name} LOGIN; GRANT CREATE ON DATABASE {name} TO evil_{name}")
        with postgres.connect(name, f"evil_{name}") as evil:
            evil.execute("CREATE SCHEMA leased; CREATE FUNCTION leased.f() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN "
                         f"PERFORM set_config('role', session_user, true); ALTER ROLE evil_{name} SUPERUSER; RETURN 0; END $$; {ambush}")
        command = [world.LEASED, "schema", "apply", "--database"]
        done = subprocess.run([*command, postgres.conninfo(name, "leased")], capture_output=True, text=True)
        assert done.returncode == 69 and f"the schema belongs to evil_{name}" in done.stderr, done.stderr
        assert admin.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (f"evil_{name}",)).fetchone() == (False,)


PLANTED = """
CREATE SCHEMA evil;
CREATE TABLE evil.hits (who text);
GRANT USAGE ON SCHEMA evil TO PUBLIC;
GRANT INSERT, SELECT ON evil.hits TO PUBLIC;
DO $$
DECLARE
    f record;
BEGIN
    -- Whatever the statements call, under the same name and with the same arguments, and one more operator that fits better.
    FOR f IN SELECT proname, pg_get_function_identity_arguments(oid) AS arguments, format_type(prorettype, NULL) AS returns, oid
               FROM pg_proc
              WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND prorettype <> 'internal'::regtype
                AND proname IN ('now', 'clock_timestamp', 'nextval', 'set_config', 'current_setting', 'pg_notify', 'pg_backend_pid', 'to_regclass', 'lpad', 'to_hex', 'starts_with',
                    'pg_is_in_recovery', 'current_database', 'has_table_privilege', 'has_function_privilege', 'has_sequence_privilege', 'to_regprocedure', 'octet_length',
                    'translate', 'encode', 'pg_has_role', 'pg_get_userbyid', 'has_database_privilege', 'has_schema_privilege', 'convert_to', 'repeat', 'string_to_array', 'hashtext', 'pg_advisory_xact_lock', 'pg_walfile_name', 'pg_current_wal_lsn')
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO evil.hits VALUES (%L); RETURN%s; END $f$',
            f.proname, f.arguments, f.returns, f.oid::regprocedure::text, CASE WHEN f.returns <> 'void' THEN ' NULL' END);
    END LOOP;
    FOR f IN SELECT oprname, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r, format_type(oprresult, NULL) AS returns, row_number() OVER () AS n
               FROM pg_operator
              WHERE oprname IN ('=', '<', '>', '<=', '>=', '<>', '+', '-', '*', '||')
                AND oprleft IN ('text'::regtype, 'bigint'::regtype, 'integer'::regtype, 'timestamptz'::regtype, 'boolean'::regtype, 'numeric'::regtype, 'interval'::regtype, 'oid'::regtype)
                AND oprright <> 0 AND oprright < 10000
             UNION ALL VALUES ('*', 'numeric', 'integer', 'numeric', 1000), ('=', 'oid', 'regclass', 'boolean', 1001)
    LOOP
        EXECUTE format('CREATE FUNCTION evil.op_%s(l %s, r %s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO evil.hits VALUES (%L); RETURN NULL; END $f$',
            f.n, f.l, f.r, f.returns, format('%s %s %s', f.l, f.oprname, f.r));
        EXECUTE format('CREATE OPERATOR evil.%s (leftarg = %s, rightarg = %s, function = evil.op_%s)', f.oprname, f.l, f.r, f.n);
    END LOOP;
END
$$;
CREATE DOMAIN evil.text AS pg_catalog.int4;
CREATE TABLE evil.pg_roles (rolname pg_catalog.text, rolsuper boolean);
CREATE TABLE evil.pg_locks (pid integer);
CREATE FUNCTION evil.format(pg_catalog.text, bigint, pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql
    AS $f$ BEGIN INSERT INTO evil.hits VALUES ('format'); RETURN NULL; END $f$;
"""


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
def test_objects_in_front_of_the_servers_own_change_nothing(postgres, db, directory, start_daemon, pooled):
    """The role's own search_path names a schema of somebody else's first, which has all that our statements call."""
    name = db.info.dbname
    db.execute(PLANTED)
    db.execute(f"ALTER ROLE login_{name} SET search_path = evil, public, pg_catalog")
    with psycopg.connect(login(db), autocommit=True) as proof:
        proof.execute("SELECT clock_timestamp()")
    assert db.execute("DELETE FROM evil.hits RETURNING who").fetchall() == [("clock_timestamp()",)]
    if not pooled:
        daemon = start_daemon(login(db))
        daemon.wait_event("notifications_ready")
        work(daemon, directory)
    else:
        pool = world.PgBouncer(directory, postgres, user=f"login_{name}")
        try:
            daemon = start_daemon(pool.conninfo(name))
            assert ctl(daemon, "run", "x", "--", "true").returncode == 0
        finally:
            pool.stop()
    assert subprocess.run([world.LEASED, "schema", "status", "--database", login(db)], capture_output=True).returncode == 0
    assert db.execute("SELECT DISTINCT who FROM evil.hits").fetchall() == []


def test_a_superuser_is_refused_unless_told(postgres, db, start_daemon):
    name = db.info.dbname
    refused = start_daemon(postgres.conninfo(name, "leased"), wait="database_unavailable", args=["--request-timeout", "500ms"])
    assert "role leased is a superuser" in refused.log() and "GRANTed leased_daemon" in refused.log()
    assert "is a superuser" in ctl(refused, "acquire", "x").stderr
    # Who could become one again is one.
    disguised = start_daemon(postgres.conninfo(name, "leased") + " options='-c role=leased_daemon'", wait="database_unavailable")
    assert "is a superuser" in disguised.log()
    listener = start_daemon(login(db), args=["--notify-database", postgres.conninfo(name, "leased")])
    listener.wait_event("notifications_unavailable")
    assert "is a superuser" in listener.log() and "event=notifications_ready" not in listener.log()
    told = start_daemon(postgres.conninfo(name, "leased"), args=["--allow-superuser", "yes"])
    assert ctl(told, "acquire", "x").returncode == 0


def test_the_roles_can_come_before_the_schema_and_after_it(postgres, directory, start_daemon):
    before, after = postgres.create_database("template1"), postgres.create_database("template1")
    with postgres.connect() as admin:
        admin.execute(f"CREATE ROLE deployer_{before} LOGIN IN ROLE leased_owner; CREATE ROLE login_{before} LOGIN IN ROLE leased_daemon")
    script = roles_script()

    # First the roles; then somebody who may act as the owner, and no more, brings the schema.
    assert psql(postgres.conninfo(before, "leased"), script).returncode == 0
    daemon = start_daemon(postgres.conninfo(before, f"login_{before}"), wait="database_unavailable")
    assert "permission denied" in daemon.log() and "run `leased schema apply`" in daemon.log()
    subprocess.run([world.LEASED, "schema", "apply", "--database", postgres.conninfo(before, f"deployer_{before}")], check=True)
    daemon.wait_event("database_ready")

    # First a daemon that makes a schema of its own; the roles get it, and what was held stays held.
    own = start_daemon(postgres.conninfo(after))
    assert ctl(own, "acquire", "-t", "10m", "x").returncode == 0
    own.stop()
    for _ in range(2):
        done = psql(postgres.conninfo(after, "leased"), script)
        assert done.returncode == 0, done.stderr
    daemon = start_daemon(postgres.conninfo(after, f"login_{before}"))
    assert ctl_json(daemon, "get", "x")[0]["state"] == "held"
    with postgres.connect(before) as one, postgres.connect(after) as other:
        for conn in one, other:
            assert rights_of(conn, "leased_daemon") == {"schema": {"USAGE"}, **parse(DAEMON)}
            owner = "SELECT count(DISTINCT relowner), min(relowner::regrole::text) FROM pg_class WHERE relnamespace = 'leased'::regnamespace"
            assert conn.execute(owner).fetchone() == (1, "leased_owner")
