"""steal: ends somebody else's lease; the holder stops at once, the next in line takes over, it is recorded."""
import pathlib
import time

import psycopg
import pytest
import world
from test_waiting import claim, granted, waiters
from world import alive, ctl, ctl_json, ctl_start, until


def hold(daemons, directory, name="x", *options):
    """A run that renews only every 200 s: it cannot find out by itself. Returns leasectl and the job's pid."""
    out = pathlib.Path(directory) / f"pid-{name}"
    process = ctl_start(daemons, "run", "-t", "10m", *options, name, "--", "sh", "-c",
                        f"echo $$ > {out}.new; mv {out}.new {out}; while :; do sleep 0.1; done")
    until(out.exists, "the job")
    return process, int(out.read_text())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same daemon", "another daemon"])
def test_the_holder_stops_at_once_and_the_next_takes_over(database, start_daemon, directory, elsewhere):
    a, b = start_daemon(database, args=["--poll-interval", "10m"]), start_daemon(database)
    for daemon in (a, b):
        daemon.wait_event("notifications_ready")
    holder, pid = hold(a, directory)
    waiter = ctl_start(b, "-o", "json", "acquire", "-t", "10m", "-w", "10m", "x")
    until(lambda: waiters(a, "x") == 1, "the waiter")
    held = ctl_json(a, "get", "x")[0]
    stolen = ctl_json(b if elsewhere else a, "steal", "x", "--reason", "it hangs since noon")[0]
    assert stolen["stolen"] is True and stolen["token"] == held["token"] and stolen["holder"] == held["holder"]
    assert granted(waiter)["token"] > held["token"]
    err = holder.communicate(timeout=10)[1]
    assert holder.returncode == 76 and "it hangs since noon" in err and "stolen by" in err, err
    assert not alive(pid)
    with psycopg.connect(database, autocommit=True) as db:
        rows = db.execute("SELECT token, ended, stolen_by, reason FROM leased.events WHERE name = 'x' AND ended = 'stolen'").fetchall()
    assert rows == [(held["token"], "stolen", held["principal"], "it hangs since noon")]


def test_what_is_stolen_cannot_be_used_any_more(daemon, database):
    lease = ctl_json(daemon, "acquire", "-t", "10m", "--min-hold", "10m", "x")[0]
    assert ctl(daemon, "steal", "x", "--reason", "r", "--token", str(lease["token"] + 1)).returncode == 76
    assert ctl(daemon, "steal", "x", "--reason", "r", "--token", str(lease["token"])).returncode == 0
    assert ctl(daemon, "renew", "x", *claim(lease)).returncode == 76
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 76
    with psycopg.connect(database, autocommit=True) as db, pytest.raises(psycopg.Error, match="was released"):
        db.execute("SELECT leased.guard('x', %s)", (lease["token"],))
    assert ctl(daemon, "get", "x").returncode == 75  # the minimum hold has ended too
    assert ctl(daemon, "steal", "x", "--reason", "r").returncode == 75
    assert ctl(daemon, "steal", "nobody/had/it", "--reason", "r").returncode == 75


def test_a_steal_in_sql(postgres, daemon, database, directory):
    holder, _ = hold(daemon, directory)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("SELECT leased.steal('x', 'by hand')")
        assert "by hand" in holder.communicate(timeout=10)[1]
        with pytest.raises(psycopg.Error, match="nobody holds it"):
            db.execute("SELECT leased.steal('x', 'again')")
        for reason in ("", "a\nb", "x" * 1025, None):
            with pytest.raises(psycopg.Error, match="reason"):
                db.execute("SELECT leased.steal('x', %s)", (reason,))
    with postgres.connect(database.split("dbname=")[1]) as app:
        app.execute("SET ROLE leased_app")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute("SELECT leased.steal('x', 'r')")


def test_who_may_not(database, start_daemon):
    port = world.free_port()
    daemon = start_daemon(database, args=["--listen", f"tcp:127.0.0.1:{port}"])
    lease = ctl_json(daemon, "acquire", "x")[0]
    done = ctl(f"tcp:127.0.0.1:{port}", "steal", "x", "--reason", "r")
    assert done.returncode == 77 and 'everybody may not: a rule "steal x" is missing' in done.stderr
    assert ctl_json(daemon, "get", "x")[0]["token"] == lease["token"]


@pytest.mark.parametrize("args,code", [
    (["x"], 64), (["x", "--reason", ""], 65), (["x", "--reason", "a\x1b[31m"], 65), (["x", "--reason", "r" * 1025], 65),
    (["", "--reason", "r"], 65), (["x", "--reason", "r", "--token", "-1"], 64), (["x", "--reason", "r", "--wait", "1s"], 64)])
def test_bad_input(daemon, args, code):
    assert ctl(daemon, "steal", *args).returncode == code


def test_through_a_pool_the_holder_hears_on_the_same_daemon(postgres, directory, start_daemon):
    """No notifications: those of this daemon are told all the same, the others with their next renewal."""
    pool = world.PgBouncer(directory, postgres)
    try:
        daemon = start_daemon(pool.conninfo(postgres.create_database()))
        holder, _ = hold(daemon, directory)
        assert ctl(daemon, "steal", "x", "--reason", "r").returncode == 0
        holder.communicate(timeout=10)
        assert holder.returncode == 76
    finally:
        pool.stop()


def test_a_flood_of_steals_and_acquires(database, start_daemon):
    """Two daemons, one name, each grant is stolen: tokens rise, nobody gets stuck."""
    a, b = start_daemon(database), start_daemon(database)
    last = 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        lease = ctl_json(a, "acquire", "-t", "10m", "-w", "10s", "x")[0]
        assert lease["token"] > last
        last = lease["token"]
        assert ctl(b, "steal", "x", "--reason", "r").returncode == 0
