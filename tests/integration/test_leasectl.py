"""What leasectl takes and prints: options, exit codes, JSON, and what doctor finds."""
import itertools
import json
import os
import re
import shlex
import signal
import subprocess

import pytest

import world
from world import ctl, ctl_json, ctl_start, until

OK, USAGE, DATA, UNAVAILABLE, INTERNAL, HELD, LOST, DENIED = 0, 64, 65, 69, 70, 75, 76, 77
NOBODY = "unix:/nowhere/leased.sock"
COMMANDS = ("run", "acquire", "renew", "release", "steal", "get", "list", "history", "watch", "elect", "whoami", "doctor",
            "keygen")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def refused(done, code, *words):
    """The code, and one line on stderr with the words in it; nothing on stdout."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("leasectl: ") and done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    for word in words:
        assert word in done.stderr


USAGE_ERRORS = {
    "no command": ([], "command is missing"),
    "unknown command": (["frobnicate"], 'unknown command "frobnicate"'),
    "unknown long option": (["acquire", "--frobnicate", "x"], "unknown option --frobnicate"),
    "unknown short option": (["acquire", "-nq", "x"], "unknown option -q"),
    "value where none is taken": (["acquire", "--no-wait=3", "x"], "--no-wait=3: this option takes no value"),
    "value missing": (["acquire", "x", "--ttl"], "--ttl needs a value"),
    "output form": (["-o", "xml", "list"], "-o is text or json"),
    "address empty": (["-s", "", "list"], "-s needs an address"),
    "address": (["-s", "bogus", "list"], "connect: an address is"),
    "host name": (["-s", "tcp:db2.example:7420", "list"], "db2.example: host names are not looked up"),
    "host name, for doctor": (["-s", "tcp:db2.example:7420", "doctor"], "host names are not looked up"),
    "address, for doctor": (["-s", f"{NOBODY},bogus", "doctor"], "connect: an address is"),
    "no name": (["acquire"], "The name is missing"),
    "two names": (["acquire", "a", "b\nc"], 'unexpected "b?c"'),
    "no separator": (["run", "x", "true"], 'unexpected "true"'),
    "no command to run": (["run", "x"], "behind --"),
    "nothing behind the separator": (["run", "x", "--"], "no command behind --"),
    "nothing behind elect's": (["elect", "x", "--"], "no command behind --"),
    "no name to run under": (["run", "--", "true"], "behind --"),
    "grace": (["run", "-t", "10s", "--grace", "5s", "x", "--", "true"], "below half of the ttl"),
    "grace of elect": (["elect", "--grace", "1h", "x"], "below half of the ttl"),
    "conflict exit": (["acquire", "-E", "256", "x"], '"256"'),
    "conflict exit, negative": (["acquire", "-E", "-1", "x"], '"-1"'),
    "wait": (["acquire", "-w", "soon", "x"], 'the wait "soon"'),
    "no claim": (["release", "x"], "--holder and --token"),
    "half a claim": (["renew", "x", "--token", "1"], "--holder and --token"),
    "holder": (["release", "x", "--holder", "h", "--token", "1"], 'the holder "h"'),
    "token": (["release", "x", "--holder", "h:1:0000000000000001", "--token", "9007199254740992"], "the token"),
    "token, negative": (["release", "x", "--holder", "h:1:0000000000000001", "--token", "-1"], "the token"),
    "option of another command": (["get", "--ttl", "5s", "x"], "unknown option --ttl"),
    "count": (["acquire", "--count", "many", "x"], 'the count "many"'),
    "count, zero": (["run", "--count", "0", "x", "--", "true"], "the count is how many"),
    "count, negative": (["acquire", "--count", "-1", "x"], 'the count "-1"'),
    "count, too large": (["acquire", "--count=10001", "x"], "a number up to 10000"),
    "count, far too large": (["acquire", "--count=18446744073709551617", "x"], "a number up to 10000"),
    "count and shared": (["acquire", "--count", "2", "--shared", "x"], "either --count or --shared"),
    "count and slot": (["acquire", "--count", "2", "--slot", "s", "x"], "are for one holder"),
    "shared and every": (["run", "--shared", "--every", "1h", "x", "--", "true"], "are for one holder"),
    "elect one of two": (["elect", "--count", "2", "x"], "no --count, --shared or --and"),
    "elect shared": (["elect", "--shared", "x"], "no --count, --shared or --and"),
    "elect two": (["elect", "--and", "y", "x"], "no --count, --shared or --and"),
    "observe a release": (["release", "--observe", "x"], "unknown option --observe"),
    "exit status of an election": (["elect", "--exit-status", "1", "x"], "unknown option --exit-status"),
    "release one of two": (["release", "--count", "2", "x"], "unknown option --count"),
    "elect does not wait for so long": (["elect", "-w", "5s", "x"], "unknown option -w"),
    "list": (["list", "a", "b"], 'unexpected "b"'),
    "history of nothing": (["history"], "The name is missing (or --failed)"),
    "history of two": (["history", "a", "b"], 'unexpected "b"'),
    "history of two prefixes": (["history", "--failed", "a", "b"], 'unexpected "b"'),
    "history since when": (["history", "--since", "yesterday", "x"], '--since "yesterday"'),
    "history since now": (["history", "--since", "0", "x"], "--since must be above zero"),
    "doctor": (["doctor", "x"], 'unexpected "x"'),
}


@pytest.mark.parametrize("args,word", USAGE_ERRORS.values(), ids=USAGE_ERRORS.keys())
def test_a_usage_error_is_one_before_anybody_is_asked(args, word):
    refused(ctl(NOBODY, *args), USAGE, word)


@pytest.mark.parametrize("ttl", ["0", "0ms", "-1", "", "1e308", "inf", "5x", "99999999999999h", "1.0001s"])
def test_a_ttl_that_is_none_is_a_usage_error(ttl):
    for command in (["acquire", "x"], ["run", "x", "--", "true"], ["elect", "x"], ["renew", "x", "--holder", "h:1:0000000000000001", "--token", "1"]):
        refused(ctl(NOBODY, command[0], f"--ttl={ttl}", *command[1:]), USAGE, "the ttl")


LATER = (["bench"],)


@pytest.mark.parametrize("args", LATER, ids=" ".join)
def test_what_does_not_exist_is_unknown_and_not_in_the_help(args):
    refused(ctl(NOBODY, *args), USAGE, "unknown")
    word = next((a for a in args if a.startswith("--")), args[0])
    helps = [ctl(NOBODY, "--help").stdout] + [ctl(NOBODY, command, "--help").stdout for command in COMMANDS]
    assert not any(re.search(rf"(^|\s){word}\b", text, re.M) for text in helps)


def test_help_and_version_go_to_stdout():
    version = ctl(NOBODY, "--version")
    assert (version.returncode, version.stderr) == (OK, "") and re.fullmatch(r"leasectl \d+\.\d+\.\d+\n", version.stdout)
    for args in [["--help"], ["-h"]] + [[command, option] for command in COMMANDS for option in ("--help", "-h")] + [["run", "x", "--help"]]:
        done = ctl(NOBODY, *args)
        assert (done.returncode, done.stderr) == (OK, "") and done.stdout.startswith("Usage: leasectl ")
    listed = ctl(NOBODY, "--help").stdout
    assert all(re.search(rf"^  {command} ", listed, re.M) for command in COMMANDS)


def test_a_bad_prefix_or_value_is_bad_data():
    refused(ctl(NOBODY, "list", "a\nb"), DATA, "U+000A")
    refused(ctl(NOBODY, "list", "x" * 256), DATA, "255")
    refused(ctl(NOBODY, "history", "a\nb"), DATA, "U+000A")
    refused(ctl(NOBODY, "history", "--failed", "x" * 256), DATA, "255")
    refused(ctl(NOBODY, "acquire", "--value", "v" * 4097, "x"), DATA, "4096")
    refused(ctl(NOBODY, "acquire", "x", "--and", "y", "--and", "a\nb"), DATA, "name 3 of 3", "U+000A")
    refused(ctl(NOBODY, "acquire", "x", "--and", "y", "--and", "y"), DATA, 'name 3 of 3 is there twice: "y"')
    refused(ctl(NOBODY, "run", "x", "--and", "x", "--", "true"), DATA, "there twice")


def test_every_command_says_that_nobody_answers():
    holder = ["--holder", "h:1:0000000000000001", "--token", "1"]
    commands = (["run", "x", "--", "true"], ["acquire", "x"], ["renew", "x", *holder], ["release", "x", *holder], ["get", "x"], ["history", "x"], ["list", "--no-headers"])
    for process in [ctl_start(NOBODY, *args) for args in commands]:  # each is patient for two seconds
        out, err = process.communicate(timeout=world.GIVE_UP)
        assert (process.returncode, out) == (UNAVAILABLE, "") and "no daemon answers: unix:/nowhere/leased.sock: connect: " in err


def test_an_error_says_on_which_lease(daemon):
    holder = ["--holder", "h:1:0000000000000001", "--token", "1"]
    for verb in ("renew", "release"):
        refused(ctl(daemon, verb, *holder, "a b"), LOST, f'leasectl: {verb} "a b": ')


def test_a_socket_that_lets_nobody_in_says_so(daemon):
    daemon.socket.chmod(0)
    refused(ctl(daemon, "get", "x"), DENIED, "Permission denied", "socket_mode", daemon.address)
    daemon.socket.chmod(0o600)  # others use it after us


def test_the_daemon_is_found_by_option_variable_and_list(daemon, directory):
    def run(*args, **env):
        return subprocess.run([world.LEASECTL, *args], capture_output=True, text=True, env=env, timeout=world.GIVE_UP).returncode

    assert run("acquire", "x", LEASED_SERVER=daemon.address) == OK
    assert run("-s", daemon.address, "get", "x", LEASED_SERVER=NOBODY) == OK
    assert run(f"--server={NOBODY},{daemon.address}", "get", "x") == OK
    assert run("-s", NOBODY, "get", "x", LEASED_SERVER=daemon.address) == UNAVAILABLE


def test_a_double_dash_ends_the_options(daemon):
    assert ctl(daemon, "--", "acquire", "--", "-n").returncode == OK
    assert ctl_json(daemon, "list", "--", "-n")[0]["name"] == "-n"
    told = ctl(daemon, "run", "-t", "5s", "--", "--ttl", "--", "sh", "-c", "echo $LEASED_NAME $*", "sh", "--", "-x")
    assert (told.returncode, told.stdout) == (OK, "--ttl -- -x\n")
    assert ctl(daemon, "list", "--no-head", "--", "x").stdout == "" and ctl(daemon, "doctor", "--").returncode == OK
    assert ctl(daemon, "elect", "--", "-e", "--", "sh", "-c", "exit 3").returncode == 3


def test_acquire_prints_a_line_for_awk_and_eval(daemon):
    plain = ctl(daemon, "acquire", "billing/nightly").stdout
    assert re.fullmatch(r"holder=\S+:\d+:[0-9a-f]{16} token=\d+ expires_in_ms=\d+ name=billing/nightly\n", plain)
    hostile = "it's $(kill $$) `id` ; # \" c\\d"
    line = ctl(daemon, "acquire", hostile).stdout
    assert dict(word.split("=", 1) for word in shlex.split(line))["name"] == hostile
    shell = subprocess.run(["sh", "-c", 'eval "$1"; printf %s "$name"', "sh", line], capture_output=True, text=True, check=True)
    assert (shell.stdout, shell.stderr) == (hostile, "")
    release = ["sh", "-c", 'eval "$1"; shift; "$@" release "$name" --holder "$holder" --token "$token"', "sh", line, world.LEASECTL, "-s", daemon.address]
    assert subprocess.run(release, capture_output=True, text=True).returncode == OK


def test_shapes_of_json(daemon):
    lease = ctl_json(daemon, "acquire", "-t", "60s", "--value", "v\tö", "x")[0]
    assert set(lease) == {"name", "holder", "token", "expires_in_ms"}
    assert type(lease["token"]) is int and 50000 < lease["expires_in_ms"] <= 60000
    seen = ctl_json(daemon, "get", "x")[0]
    assert set(seen) == {"name", "state", "token", "expires_in_ms", "expires_at", "holder", "principal", "held_for_ms", "acquired_at", "ttl_ms", "value", "waiters"}
    assert (seen["state"], seen["token"], seen["holder"], seen["value"], seen["ttl_ms"], seen["waiters"]) == ("held", lease["token"], lease["holder"], "v\tö", 60000, 0)
    assert TIME.fullmatch(seen["acquired_at"]) and TIME.fullmatch(seen["expires_at"]) and seen["acquired_at"] < seen["expires_at"]
    assert "@" in seen["principal"] and 0 <= seen["held_for_ms"] < 60000
    assert ctl_json(daemon, "list")[0].keys() == seen.keys()
    renewed = ctl_json(daemon, "renew", "x", *claim(lease))[0]
    assert set(renewed) == {"name", "token", "expires_in_ms"} and renewed["token"] == lease["token"]
    assert ctl_json(daemon, "release", "x", *claim(lease)) == [{"name": "x", "released": True}]
    free = ctl_json(daemon, "get", "x")[0]
    assert free == {"name": "x", "state": "free", "token": lease["token"], "waiters": 0}
    assert ctl_json(daemon, "get", "never") == [{"name": "never", "state": "free", "waiters": 0}]
    raw = ctl(daemon, "-o", "json", "list").stdout
    assert raw.isascii() and raw.count("\n") == 1 and raw.endswith("}\n")


def test_an_error_stays_text_and_keeps_stdout_clean(daemon):
    ctl(daemon, "acquire", "x")
    refused(ctl(daemon, "-o", "json", "acquire", "x"), HELD, 'acquire "x"', "holds it with token")


def test_losing_the_race_can_be_a_success_that_says_nothing(daemon):
    """cron mails whatever is printed. What else goes wrong is still told."""
    ctl(daemon, "acquire", "x")
    for form, wait in itertools.product([[], ["-o", "json"]], [[], ["-w", "200ms"]]):
        for args in (["run", "-E", "0", *wait, "x", "--", "echo", "ran"], ["acquire", "-E0", *wait, "x"]):
            done = ctl(daemon, *form, *args)
            assert (done.returncode, done.stdout, done.stderr) == (OK, "", ""), args
    refused(ctl(daemon, "acquire", "-E", "3", "x"), 3, "holds it with token")
    refused(ctl(daemon, "run", "-E", "3", "x", "--", "true"), 3, "holds it with token")
    refused(ctl(NOBODY, "run", "-E", "0", "x", "--", "true"), UNAVAILABLE, "no daemon answers")
    refused(ctl(daemon, "acquire", "-E", "0", "-t", "48h", "x"), DATA, "ttl_max")


def test_the_table(daemon):
    ctl(daemon, "acquire", "a", "--value", "1\n2 " + "ö" * 40)
    ctl(daemon, "acquire", "b b", "--min-hold", "5m")
    ctl(daemon, "run", "c", "--", "true")
    lines = ctl(daemon, "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "HOLDER", "TOKEN", "EXPIRES", "IN", "HELD", "FOR", "WAITERS", "VALUE"]
    a, b, c = lines[1:]
    assert a.split()[:2] == ["a", "held"] and "1\\x0a2 öö" in a and a.endswith("ö")
    assert b.startswith("b b ") and c.split()[1:3] == ["free", "-"]
    assert ctl(daemon, "list", "--no-headers", "b").stdout.splitlines()[0].startswith("b b")


def test_hostile_names_are_harmless_in_errors(daemon):
    name = "evil\u202etxt.exe\u2028"
    assert ctl(daemon, "acquire", name).returncode == OK
    error = ctl(daemon, "acquire", name).stderr
    assert "\u202e" not in error and "\u2028" not in error and "evil???txt.exe" in error
    shown = ctl(daemon, "get", name).stdout
    assert "\u202e" not in shown and "\\xe2\\x80\\xae" in shown


def test_output_that_cannot_be_written_is_an_error(daemon):
    with open("/dev/full", "w") as full:
        for args in (["acquire", "x"], ["list"], ["doctor"]):
            done = ctl_start(daemon, *args, stdout=full)
            assert "write the output: No space left on device\n" in done.communicate(timeout=world.GIVE_UP)[1]
            assert done.returncode == INTERNAL
    assert ctl(daemon, "get", "x").returncode == HELD  # given back: nobody was told its token


@pytest.mark.parametrize("command", ["acquire", "elect"])
def test_a_grant_that_nobody_reads_of_is_given_back(daemon, command):
    reader, writer = os.pipe()
    os.close(reader)
    done = ctl_start(daemon, command, "x", stdout=writer)
    os.close(writer)
    assert done.communicate(timeout=world.GIVE_UP)[1] == "leasectl: write the output: Broken pipe\n"
    assert done.returncode == INTERNAL and ctl(daemon, "get", "x").returncode == HELD


def test_closed_descriptors_are_not_taken_for_others(daemon):
    """Otherwise what is printed goes to whatever was opened next: a socket, the watcher."""
    def run(redirect, *args):
        shell = ["sh", "-c", f'exec "$@" {redirect}', "sh", world.LEASECTL, "-s", daemon.address, *args]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=world.GIVE_UP, env={**os.environ, **world.NO_LEAKS})
        return done.returncode, done.stdout, done.stderr

    for command in ("acquire", "elect"):
        assert run(">&-", command, "x") == (INTERNAL, "", "leasectl: write the output: Bad file descriptor\n")
        assert ctl(daemon, "get", "x").returncode == HELD
    assert run("2>&-", "run", "x", "--", "no-such-command") == (127, "", "")
    assert run("<&- >&- 2>&-", "run", "x", "--", "sh", "-c", "exit 3") == (3, "", "")


def test_a_signal_takes_acquire_out_of_the_queue(daemon):
    lease = ctl_json(daemon, "acquire", "x")[0]
    waiter = ctl_start(daemon, "acquire", "-w", "10m", "x")
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    waiter.send_signal(signal.SIGINT)
    assert waiter.communicate(timeout=world.GIVE_UP) == ("", "")
    assert waiter.returncode == 128 + signal.SIGINT
    assert ctl_json(daemon, "get", "x")[0]["waiters"] == 0
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == OK


# doctor


def findings(server, code):
    done = ctl(server, "-o", "json", "doctor")
    assert done.returncode == code, done.stdout
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(set(row) == {"server", "check", "grade", "finding"} for row in rows)
    return rows


def grades(rows):
    return {row["check"]: row["grade"] for row in rows}


def test_doctor_in_words(daemon):
    done = ctl(daemon, "doctor")
    assert done.returncode == OK and all(re.match(r"(ok|warn|fail) +[a-z_ ]+: \S", line) for line in done.stdout.splitlines())


def test_doctor_asks_every_address(daemon):
    rows = findings(f"{daemon.address},{NOBODY}", UNAVAILABLE)
    assert grades(r for r in rows if r["server"] == daemon.address)["daemon"] == "ok"
    assert grades(r for r in rows if r["server"] == NOBODY) == {"daemon": "fail"}


def test_doctor_sees_a_database_that_is_down(own_postgres, start_daemon):
    daemon = start_daemon(own_postgres.conninfo())
    own_postgres.stop()
    until(lambda: ctl(daemon, "doctor").returncode == UNAVAILABLE, "the outage to be seen")
    row = next(r for r in findings(daemon, UNAVAILABLE) if r["check"] == "database")
    assert row["grade"] == "fail" and "not usable: " in row["finding"]
    refused(ctl(daemon, "acquire", "x"), UNAVAILABLE, 'acquire "x"', "the database did not answer in time", "No such file")


def test_doctor_sees_settings_that_weaken_or_surprise(postgres, start_daemon):
    name = postgres.create_database()
    with postgres.connect() as conn:
        conn.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        conn.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = serializable")
    rows = findings(start_daemon(postgres.conninfo(name)), OK)
    commit = next(r for r in rows if r["check"] == "synchronous_commit")
    assert commit["grade"] == "warn" and "turn it on" in commit["finding"]
    assert "serializable" in next(r for r in rows if r["check"] == "isolation")["finding"]


def test_doctor_sees_a_pool(postgres, directory, start_daemon):
    name = postgres.create_database()
    bouncer = world.PgBouncer(directory, postgres)
    try:
        rows = findings(start_daemon(bouncer.conninfo(name)), OK)
        assert "PgBouncer" in next(r for r in rows if r["check"] == "pool")["finding"]
    finally:
        bouncer.stop()


def test_doctor_misses_the_role(own_postgres, start_daemon):
    """The schema's owner may not create roles: the daemon works, and the SQL functions are its own."""
    with own_postgres.connect() as conn:
        conn.execute("DROP DATABASE with_schema")
        conn.execute("DROP ROLE leased_app; CREATE ROLE plain LOGIN")
        conn.execute("CREATE DATABASE leases OWNER plain")
    rows = findings(start_daemon(own_postgres.conninfo("leases", user="plain")), OK)
    assert grades(rows)["role"] == "warn" and "leased schema roles" in next(r for r in rows if r["check"] == "role")["finding"]
