"""Slots, intervals and values through real daemons: each tick runs once, whatever the clocks of the hosts say."""
import pathlib
import subprocess
import threading

import psycopg
import pytest

import raw
import world
from raw import EHELD, ENOTHELD, field
from world import ctl, ctl_json, ctl_start, until

OK, USAGE, DATA, HELD = 0, 64, 65, 75
EDATA, EDONE = 2, 18
SLOT, ON_FAILURE, EVERY_MS = 7, 8, 9  # fields of an Acquire
EXIT_STATUS, UNDONE = 2, 4  # of a Release
VALUE, SET_VALUE = 3, 4  # of a Renewal


@pytest.fixture
def hosts(database, start_daemon):
    """Two hosts, each with a daemon of its own on the shared database."""
    return [start_daemon(database) for _ in range(2)]


@pytest.fixture
def here(directory):
    return pathlib.Path(directory)


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def waiters(daemon, name):
    return ctl_json(daemon, "get", name)[0]["waiters"]


def done(process_or_done, *words):
    """Refused since there is nothing left to do, in one line with these words."""
    if isinstance(process_or_done, subprocess.Popen):
        out, err = process_or_done.communicate(timeout=world.GIVE_UP)
    else:
        out, err = process_or_done.stdout, process_or_done.stderr
    assert (process_or_done.returncode, out) == (HELD, ""), err
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err, err


class Client(raw.Client):
    """One that sends what leasectl would not. Each answer is a raw.Answer."""

    def __init__(self, daemon):
        super().__init__(daemon.socket)

    def acquire(self, name, nonce, wait_ms=0, more=b""):
        return self.ask(raw.acquire(1, name, nonce, wait_ms=wait_ms, more=more))

    def release(self, name, nonce, token, more=b""):
        return self.ask(raw.frame(field(1, 1) + field(5, field(1, raw.claim(name, token, nonce)) + more)))

    def renew(self, name, nonce, token, more=b""):
        return self.ask(raw.frame(field(1, 1) + field(4, field(1, field(1, raw.claim(name, token, nonce)) + more))))


def is_refused(answer, status):
    return answer.kind == "failure" and answer.status == status and answer.why


# Slots.


def test_the_same_minutes_on_two_hosts_whose_clocks_are_5_minutes_apart(hosts, here):
    """Both fire each minute's line, one of them five minutes later, with other slots of the name in between."""
    minutes = [f"03:{minute:02}" for minute in range(12)]
    log = here / "log"

    def fire(host, minute):
        return ctl_start(host, "run", "-w", "30s", "-E", "0", "--slot", minute, "report", "--", "sh", "-c", f"echo {minute} >>{log}")
    for now in range(len(minutes) + 5):
        fired = [fire(hosts[i], minutes[at]) for i, at in enumerate((now, now - 5)) if 0 <= at < len(minutes)]
        for process in fired:
            assert process.communicate(timeout=world.GIVE_UP) and process.returncode == OK
    assert log.read_text().split() == minutes


def test_at_the_same_moment_exactly_one_gets_the_slot(hosts):
    """8 connections to two daemons ask for one slot after the other, and release what they get."""
    granted, slots = [], 60

    def contend(worker):
        with Client(hosts[worker % 2]) as client:
            for slot in range(slots):
                nonce = worker << 32 | slot
                answer = client.acquire(b"x", nonce, 20000, field(SLOT, f"s{slot}".encode()))
                if answer.kind == "granted":
                    granted.append(slot)
                    assert client.release(b"x", nonce, answer.token, field(EXIT_STATUS, 0)).kind == "released"
                else:
                    assert is_refused(answer, EDONE), answer
    threads = [threading.Thread(target=contend, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(granted) == list(range(slots))


def test_a_completed_slot_says_by_whom_and_how_it_ended(hosts):
    ran = ctl(hosts[0], "run", "--slot", "03:00", "x", "--", "sh", "-c", "echo $LEASED_HOLDER $LEASED_TOKEN; exit 3")
    holder, token = ran.stdout.split()
    assert ran.returncode == 3
    refused = ctl(hosts[1], "run", "--slot", "03:00", "x", "--", "false")
    done(refused, 'acquire "x"', 'the slot "03:00" was completed', " ago by ", holder, f"token {token}", "exit status 3")
    done(ctl(hosts[1], "acquire", "-w", "10m", "--slot", "03:00", "x"), "was completed")
    assert ctl(hosts[1], "run", "-E", "0", "--slot", "03:00", "x", "--", "false").returncode == OK
    for slot in ("03:01", "03:0", "03:00 ", "3:00"):  # another slot, and others only look alike
        assert ctl(hosts[1], "run", "--slot", slot, "x", "--", "true").returncode == OK
    assert ctl(hosts[1], "run", "--slot", "03:00", "y", "--", "true").returncode == OK  # of another name
    assert ctl(hosts[1], "run", "x", "--", "true").returncode == OK  # and without a slot nothing is refused


def test_a_failing_run_may_run_again_if_it_says_so(hosts, database):
    def run(host, code, *args):
        return ctl(host, "run", "--slot", "s", *args, "x", "--", "sh", "-c", f"exit {code}")
    again = "--slot-on-failure=again"
    assert run(hosts[0], 3, again).returncode == 3
    assert run(hosts[1], 127, again).returncode == 127
    assert ctl(hosts[0], "run", "--slot", "s", again, "x", "--", "/no/such/command").returncode == 127
    assert run(hosts[1], 0, again).returncode == 0
    done(run(hosts[0], 0, again), "exit status 0")
    assert run(hosts[0], 3, "--slot", "t", "--slot-on-failure", "done").returncode == 3
    done(run(hosts[1], 0, "--slot", "t", again), "exit status 3")  # it was up to the run
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT slot, exit_status FROM leased.slots ORDER BY slot").fetchall() == [("s", 0), ("t", 3)]


def test_a_slot_whose_holder_was_killed_runs_again(hosts, here, database):
    """The second host waits for the outcome, and takes over when there is none."""
    script = f"echo $$ >>{here}/pids; sleep 1000"
    first = ctl_start(hosts[0], "run", "-t", "1s", "--slot", "s", "x", "--", "sh", "-c", script)
    until(lambda: (here / "pids").exists(), "the first run")
    second = ctl_start(hosts[1], "run", "-w", "1m", "--slot", "s", "x", "--", "sh", "-c", "exit 5")
    until(lambda: waiters(hosts[1], "x") == 1, "the second host to wait")
    first.kill()
    assert second.wait(world.GIVE_UP) == 5
    done(ctl(hosts[0], "run", "--slot", "s", "x", "--", "false"), "exit status 5")
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT ended, exit_status FROM leased.events ORDER BY token").fetchall() == [("expired", None), ("released", 5)]


def test_a_holder_that_went_without_a_word_leaves_the_slot_open(daemon, here):
    """Its lease comes back at once, but not as one whose work is done."""
    limits = ["--slot", "s", "--every", "1h"]
    first = ctl_start(daemon, "run", "--release-on-disconnect", "-t", "10m", *limits, "x", "--", "sh", "-c", f"touch {here}/first; sleep 1000")
    until((here / "first").exists, "the first run")
    first.kill()
    assert ctl(daemon, "run", "-w", "1m", *limits, "x", "--", "true").returncode == OK
    done(ctl(daemon, "run", *limits, "x", "--", "true"), "exit status 0")


def test_waits_end_when_the_slot_is_completed(hosts):
    """Those of the tick that ran learn it, on either daemon; the next tick's gets its turn."""
    first = ctl_start(hosts[0], "run", "--slot", "1", "x", "--", "sh", "-c", "echo; read line; exit 0", stdin=subprocess.PIPE)
    assert first.stdout.readline()
    same = [ctl_start(host, "run", "-w", "10m", "--slot", "1", "x", "--", "false") for host in (hosts[0], hosts[0], hosts[1])]
    until(lambda: waiters(hosts[0], "x") == 3, "those of the same tick")
    other = ctl_start(hosts[0], "run", "-w", "10m", "--slot", "2", "x", "--", "echo", "ran")
    until(lambda: waiters(hosts[1], "x") == 4, "the next tick's")
    first.communicate("go\n", timeout=world.GIVE_UP)
    for process in same:
        done(process, 'the slot "1" was completed')
    assert other.communicate(timeout=world.GIVE_UP)[0] == "ran\n" and other.returncode == OK
    assert waiters(hosts[0], "x") == waiters(hosts[1], "x") == 0 and ctl(hosts[0], "get", "x").returncode == HELD


def test_a_done_slot_does_not_wait_for_the_one_that_runs(hosts):
    """Held by another tick for long, and others stand in line: refused at once all the same."""
    assert ctl(hosts[0], "run", "--slot", "1", "x", "--", "true").returncode == OK
    lease = ctl_json(hosts[0], "acquire", "-t", "10m", "--slot", "2", "x")[0]
    done(ctl(hosts[0], "run", "-w", "10m", "--slot", "1", "x", "--", "false"), "was completed")
    waiter = ctl_start(hosts[0], "acquire", "-w", "10m", "x")
    until(lambda: waiters(hosts[0], "x") == 1, "the waiter")
    for _ in range(2):
        done(ctl(hosts[0], "run", "-w", "10m", "--slot", "1", "x", "--", "false"), "was completed")
    running = ctl(hosts[0], "acquire", "--slot", "2", "x")
    assert running.returncode == HELD and "holds it" in running.stderr
    assert ctl(hosts[1], "release", "x", *claim(lease), "--exit-status", "0").returncode == OK
    assert waiter.wait(world.GIVE_UP) == OK


def test_by_hand_the_release_completes_it(daemon):
    def by_hand(slot, *release):
        lease = ctl_json(daemon, "acquire", "--slot", slot, "--slot-on-failure", "again", "x")[0]
        assert ctl(daemon, "release", "x", *claim(lease), *release).returncode == OK
    by_hand("1", "--exit-status", "4")
    by_hand("1", "--exit-status=0")
    done(ctl(daemon, "acquire", "--slot", "1", "x"), "exit status 0")
    by_hand("2")
    done(ctl(daemon, "acquire", "--slot", "2", "x"), "no exit status")


def test_what_was_undone_completes_nothing(daemon):
    """As a client says that was granted what it had given up."""
    limits = field(SLOT, b"s") + field(EVERY_MS, 3600000)
    with Client(daemon) as client:
        for nonce in range(3):
            token = client.acquire(b"x", nonce, more=limits).token
            again = client.acquire(b"x", nonce, more=limits)  # asked again
            assert (again.kind, again.token) == ("granted", token)
            assert client.release(b"x", nonce, token, field(UNDONE, 1)).kind == "released"
        token = client.acquire(b"x", 4, more=limits).token
        assert client.release(b"x", 4, token).kind == "released"
        for more in (limits, field(SLOT, b"s"), field(EVERY_MS, 3600000)):
            assert is_refused(client.acquire(b"x", 5, more=more), EDONE)


def test_a_signal_that_crosses_the_grant_leaves_the_slot_open(daemon, here):
    """Whoever is interrupted before its command has started has not run it."""
    for i in range(12):
        lease = ctl_json(daemon, "acquire", "x")[0]
        waiter = ctl_start(daemon, "run", "-w", "10m", "--slot", str(i), "x", "--", "touch", str(here / str(i)))
        until(lambda: waiters(daemon, "x") == 1, "the waiter")
        release = ctl_start(daemon, "release", "x", *claim(lease))
        world.time.sleep(0.003 * i)
        waiter.terminate()
        waiter.communicate(timeout=world.GIVE_UP)
        release.communicate(timeout=world.GIVE_UP)
        again = ctl(daemon, "run", "-w", "10s", "--slot", str(i), "x", "--", "true")
        if again.returncode == OK:
            assert not (here / str(i)).exists(), "it ran, and ran again"
        else:
            done(again, "was completed")


def test_a_slot_is_forgotten_after_its_time(database, start_daemon):
    daemon = start_daemon(database, args=["--slot-keep", "2s"])
    assert ctl(daemon, "run", "--slot", "s", "x", "--", "true").returncode == OK
    done(ctl(daemon, "run", "--slot", "s", "x", "--", "true"), "was completed")
    assert until(lambda: ctl(daemon, "run", "--slot", "s", "x", "--", "true").returncode == OK, "the slot to be forgotten")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("INSERT INTO leased.slots SELECT 'x', 'old' || i, i, 0, now() - interval '1 h', now() - i * interval '1 minute', 'h', 1, 1, 'p' FROM generate_series(1, 25) i")
        for left in (15, 5, 0):
            assert ctl(daemon, "run", "--slot", f"new{left}", "x", "--", "true").returncode == OK
            assert conn.execute("SELECT count(*) FROM leased.slots WHERE slot LIKE 'old%'").fetchone()[0] == left


def test_a_slot_outlives_the_row_of_its_lease(hosts, database):
    """Rows of leases that nobody uses go some day."""
    assert ctl(hosts[0], "run", "--slot", "s", "x", "--", "true").returncode == OK
    with psycopg.connect(database) as conn:
        conn.execute("DELETE FROM leased.leases")
    done(ctl(hosts[1], "run", "--slot", "s", "x", "--", "true"), "was completed")
    assert ctl(hosts[1], "run", "--slot", "t", "x", "--", "true").returncode == OK


def test_a_refusal_leaves_no_trace(daemon, database):
    """That a grant has expired is told by the next one that takes over, not by those that are refused."""
    assert ctl(daemon, "run", "--slot", "s", "x", "--", "true").returncode == OK
    assert ctl(daemon, "acquire", "-t", "300ms", "x").returncode == OK
    until(lambda: ctl(daemon, "get", "x").returncode == HELD, "the expiry")
    with psycopg.connect(database, autocommit=True) as conn:
        for _ in range(2):
            done(ctl(daemon, "run", "--slot", "s", "x", "--", "true"), "was completed")
            assert conn.execute("SELECT count(*) FROM leased.events").fetchone()[0] == 1
        assert ctl(daemon, "run", "--slot", "t", "x", "--", "true").returncode == OK
        assert conn.execute("SELECT ended FROM leased.events ORDER BY token").fetchall() == [("released",), ("expired",), ("released",)]


def test_what_was_committed_behind_the_snapshot_counts(daemon, database):
    """The daemon's statement begins while the row is not there to see, and waits for it: it must not go by its snapshot."""
    for name, limit in (("slot", field(SLOT, b"s")), ("interval", field(EVERY_MS, 3600000))):
        with psycopg.connect(database) as app, psycopg.connect(database, autocommit=True) as watch, Client(daemon) as client:
            token = app.execute("SELECT token FROM leased.try_acquire(%s, 'h', 1, 1, slot => 's')", (name,)).fetchone()[0]
            app.execute("SELECT leased.release(%s, %s, 'h', 1, 1, 0)", (name, token))
            answers = []
            thread = threading.Thread(target=lambda: answers.append(client.acquire(name.encode(), 7, more=limit)))
            thread.start()
            until(lambda: watch.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0], "the daemon to wait for the row")
            app.commit()
            thread.join()
        assert is_refused(answers[0], EDONE), answers


# At most once an interval.


def test_every_hour_on_two_hosts_at_once(hosts, here):
    for i in range(8):
        script = f"echo >>{here}/{i}"
        fired = [ctl_start(host, "run", "--every", "1h", f"n{i}", "--", "sh", "-c", script) for host in hosts]
        for process in fired:
            process.communicate(timeout=world.GIVE_UP)
        assert sorted(process.returncode for process in fired) == [OK, HELD]
        assert (here / str(i)).read_text() == "\n"
    late = ctl(hosts[0], "run", "--every", "1h", "n0", "--", "false")
    done(late, "it ran", " ago, by ", "the next run may start in 59m")
    assert ctl(hosts[1], "run", "--every", "1h", "-E", "0", "n0", "--", "false").returncode == OK
    assert ctl(hosts[1], "run", "n0", "--", "true").returncode == OK  # by hand, without an interval
    assert ctl(hosts[1], "run", "--every", "1ms", "n0", "--", "true").returncode == OK


def test_every_ends_a_wait(hosts):
    first = ctl_start(hosts[0], "run", "--every", "1h", "x", "--", "sh", "-c", "echo; read line", stdin=subprocess.PIPE)
    assert first.stdout.readline()
    waiting = [ctl_start(host, "run", "-w", "10m", "--every", "1h", "x", "--", "false") for host in hosts]
    until(lambda: waiters(hosts[0], "x") == 2, "the waiters")
    first.communicate("go\n", timeout=world.GIVE_UP)
    for process in waiting:
        done(process, "it ran")


def test_a_run_that_was_lost_does_not_count(daemon, database):
    def acquire(*args):
        return ctl(daemon, "acquire", "-w", "30s", "--every", "1h", *args, "x").returncode

    assert acquire("-t", "300ms") == OK and acquire("-t", "300ms") == OK  # each expires by itself
    assert ctl(daemon, "run", "-w", "30s", "--every", "1h", "x", "--", "true").returncode == OK
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("UPDATE leased.leases SET ran_at = ran_at - interval '40 min', acquired_at = acquired_at - interval '40 min'")
        assert ctl(daemon, "acquire", "-t", "300ms", "x").returncode == OK  # and is lost; the run before still counts
        until(lambda: ctl(daemon, "get", "x").returncode == HELD, "the expiry")
        done(ctl(daemon, "acquire", "--every", "1h", "x"), "it ran 40m", " ago, the next run may start in 19m")
        conn.execute("UPDATE leased.leases SET ran_at = ran_at - interval '20 min'")
        assert acquire() == OK


def test_schedulers_jitter(daemon, database):
    """A run may come early by a twentieth of the interval, at most 10 s."""
    assert ctl(daemon, "run", "x", "--", "true").returncode == OK
    with psycopg.connect(database, autocommit=True) as conn:
        for every, ago, want in (("1h", 3585, HELD), ("1h", 3591, OK), ("1d", 86385, HELD), ("1d", 86391, OK), ("1m", 55, HELD), ("1m", 57.1, OK)):
            conn.execute("UPDATE leased.leases SET ran_at = clock_timestamp() - %s * interval '1 s'", (ago,))
            assert ctl(daemon, "run", "--every", every, "x", "--", "true").returncode == want, (every, ago)


def test_a_minimum_hold_beside_it(daemon):
    assert ctl(daemon, "run", "--every", "1h", "--min-hold", "1s", "x", "--", "true").returncode == OK
    assert ctl_json(daemon, "get", "x")[0]["state"] == "min-hold"
    done(ctl(daemon, "run", "--every", "1h", "-w", "10m", "x", "--", "true"), "it ran")  # at once: the hold is not waited for
    held = ctl(daemon, "run", "--every", "1ms", "x", "--", "true")
    assert held.returncode == HELD and "minimum hold" in held.stderr
    assert ctl(daemon, "run", "--every", "1ms", "-w", "30s", "x", "--", "true").returncode == OK


# Values.


def test_a_value_changes_while_held(hosts):
    lease = ctl_json(hosts[0], "acquire", "-t", "60s", "--value", "10.0.0.5", "x")[0]

    def value():
        seen = [ctl_json(host, *args)[0].get("value") for host in hosts for args in (("get", "x"), ("list", "x"))]
        assert seen == [seen[0]] * 4
        return seen[0]
    assert value() == "10.0.0.5"
    for new in ("10.0.0.6", "ö\n\t\x01" + "v" * 4091, "short again"):
        changed = ctl_json(hosts[1], "renew", "x", *claim(lease), "--value", new)
        assert changed[0]["token"] == lease["token"] and changed[0]["expires_in_ms"] > 50000
        assert value() == new
        assert ctl(hosts[0], "renew", "x", *claim(lease), "-t", "70s").returncode == OK
        assert value() == new  # a renewal without one keeps it
    assert ctl(hosts[0], "renew", "x", *claim(lease), "--value=").returncode == OK
    assert value() is None
    assert ctl(hosts[0], "release", "x", *claim(lease)).returncode == OK
    assert ctl(hosts[0], "renew", "x", *claim(lease), "--value", "late").returncode == 76
    assert ctl(hosts[0], "acquire", "x").returncode == OK and value() is None


def test_renewals_in_the_background_leave_the_value_alone(daemon):
    change = f'{world.LEASECTL} -s {daemon.address} renew "$LEASED_NAME" --holder "$LEASED_HOLDER" --token "$LEASED_TOKEN" --value new >&2; echo; read line'
    run = ctl_start(daemon, "run", "-t", "900ms", "--grace", "100ms", "--value", "old", "x", "--", "sh", "-c", change, stdin=subprocess.PIPE)
    assert run.stdout.readline()
    seen = ctl_json(daemon, "get", "x")[0]
    until(lambda: ctl_json(daemon, "get", "x")[0]["expires_at"] > seen["expires_at"], "a renewal")
    assert ctl_json(daemon, "get", "x")[0]["value"] == seen["value"] == "new"
    run.communicate("go\n", timeout=world.GIVE_UP)
    assert run.returncode == OK


def test_changing_values_stays_hot(daemon, database):
    """No index holds the value: also when it is large, the row stays on its page."""
    with Client(daemon) as client:
        token = client.acquire(b"x", 1).token
        for i in range(200):
            value = chr(97 + i % 26).encode() * (20 * i)
            assert client.renew(b"x", 1, token, field(VALUE, value) + field(SET_VALUE, 1)).statuses == [0]
    daemon.stop()  # its backends report at their end
    with psycopg.connect(database, autocommit=True) as conn:
        def updates():
            conn.execute("SELECT pg_stat_clear_snapshot()")
            return conn.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'leased' AND relname = 'leases'").fetchone()
        until(lambda: updates()[0] >= 200, "the statistics")
        # Not all: large versions fill a page while another's snapshot keeps the old ones. An index would leave none.
        assert updates()[1] >= 0.5 * updates()[0], updates()


def test_all_of_it_through_a_transaction_pool(postgres, directory, start_daemon):
    """Where no statement is prepared, and the isolation level is set anew for each batch."""
    name = postgres.create_database()
    with postgres.connect() as conn:
        conn.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    bouncer = world.PgBouncer(directory, postgres)
    try:
        daemon = start_daemon(bouncer.conninfo(name))
        assert ctl(daemon, "run", "--slot", "s", "x", "--", "true").returncode == OK
        done(ctl(daemon, "run", "--slot", "s", "x", "--", "true"), "exit status 0")
        done(ctl(daemon, "run", "--every", "1h", "x", "--", "true"), "it ran")
        lease = ctl_json(daemon, "acquire", "x")[0]
        assert ctl(daemon, "renew", "x", *claim(lease), "--value", "v").returncode == OK
        assert ctl_json(daemon, "get", "x")[0]["value"] == "v"
        daemon.stop()
    finally:
        bouncer.stop()


# Bad input.


@pytest.mark.parametrize("args,code,word", [
    (["--slot", ""], DATA, "empty"), (["--slot", "s" * 256], DATA, "255"), (["--slot", "é" * 128], DATA, "255"), (["--slot", "a\nb"], DATA, "U+000A"),
    (["--slot", b"\xff"], DATA, "UTF-8"), (["--slot-on-failure", "maybe", "--slot", "s"], USAGE, "done or again"),
    (["--slot-on-failure", "again"], USAGE, "needs a --slot"), (["--every", "0"], USAGE, "interval"), (["--every", "-1h"], USAGE, "interval"),
    (["--every", "soon"], USAGE, "interval"), (["--every", "11y"], USAGE, "interval"), (["--every", "90000h"], USAGE, "interval"),
    (["--value", b"\xc3"], DATA, "UTF-8")], ids=str)
def test_bad_options_are_refused_before_anybody_is_asked(args, code, word):
    for command in (["acquire", *args, "x"], ["run", *args, "x", "--", "true"]):
        refused = ctl("unix:/nowhere", *command)
        assert refused.returncode == code and word in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    assert ctl("unix:/nowhere", "elect", "--slot", "s", "x").returncode == USAGE  # a campaign has no ticks


def test_bad_values_and_exit_statuses_are_refused(daemon):
    lease = ctl_json(daemon, "acquire", "--value", "good", "x")[0]
    assert ctl(daemon, "renew", "x", *claim(lease), "--value", "v" * 4097).returncode == DATA
    assert ctl(daemon, "renew", "x", *claim(lease), "--value", b"\xff").returncode == DATA
    for status in ("", "256", "-1", "x"):
        assert ctl(daemon, "release", "x", *claim(lease), f"--exit-status={status}").returncode == USAGE
    assert ctl_json(daemon, "get", "x")[0]["value"] == "good"


BAD_ACQUIRES = {
    "slot of 256 bytes": field(SLOT, b"s" * 256), "slot with NUL": field(SLOT, b"a\0b"), "slot with a newline": field(SLOT, b"a\n"),
    "slot that is no UTF-8": field(SLOT, b"\xff"), "slot_on_failure 2": field(SLOT, b"s") + field(ON_FAILURE, 2),
    "slot_on_failure -1": field(SLOT, b"s") + field(ON_FAILURE, 2 ** 64 - 1), "slot_on_failure alone": field(ON_FAILURE, 1),
    "interval over ten years": field(EVERY_MS, 315576000001), "interval of 2^64 - 1": field(EVERY_MS, 2 ** 64 - 1),
}


def test_what_leasectl_would_not_send(daemon):
    with Client(daemon) as client:
        for what, more in BAD_ACQUIRES.items():
            assert is_refused(client.acquire(b"x", 1, more=more), EDATA), what
        assert client.acquire(b"x", 1, more=field(SLOT, b"s" * 255) + field(EVERY_MS, 315576000000)).kind == "granted"
        assert is_refused(client.acquire(b"x", 2, more=field(SLOT, b"s" * 255)), EHELD)


def test_values_that_leasectl_would_not_send(daemon):
    with Client(daemon) as client:
        token = client.acquire(b"x", 1).token
        for more in (field(VALUE, b"v"), field(VALUE, b"a\0b") + field(SET_VALUE, 1), field(VALUE, b"\xff") + field(SET_VALUE, 1),
                     field(VALUE, b"v" * 4097) + field(SET_VALUE, 1)):
            assert is_refused(client.renew(b"x", 1, token, more), EDATA)
        assert client.renew(b"x", 2, token, field(VALUE, b"stolen") + field(SET_VALUE, 1)).statuses == [ENOTHELD]  # not its holder
        assert "value" not in ctl_json(daemon, "get", "x")[0]
