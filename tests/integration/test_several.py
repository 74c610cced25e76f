"""Several holders of one lease: places (--count), readers and writers (--shared)."""
import pathlib
import random
import threading
import time

import psycopg
import pytest
import raw
import world
from test_contention import SECONDS, SEED, Crowd, check_no_deadlock, make_trouble
from test_waiting import claim, granted, queue_up, waiters
from world import ctl, ctl_json, ctl_start, until

OK, HELD, LOST = 0, 75, 76
SHARED = 10000
COUNT = 12  # the field of Acquire


def take(daemon, *args):
    return ctl_json(daemon, "acquire", "-t", "10m", *args)[0]


def release(daemon, lease, name="x"):
    assert ctl(daemon, "release", name, *claim(lease)).returncode == OK


def is_refused(daemon, *args):
    return ctl(daemon, "acquire", *args).returncode == HELD


def test_two_places(daemon):
    leases = [take(daemon, "--count", "2", "x") for _ in range(2)]
    assert leases[0]["token"] < leases[1]["token"] and leases[0]["holder"] != leases[1]["holder"]
    refused = ctl(daemon, "acquire", "--count", "2", "x")
    assert refused.returncode == HELD and "and 1 besides" in refused.stderr, refused.stderr
    for lease in leases:
        assert ctl(daemon, "renew", "x", *claim(lease)).returncode == OK
    release(daemon, leases[0])
    assert ctl(daemon, "release", "x", *claim(leases[0])).returncode == LOST
    leases[0] = take(daemon, "--count", "2", "x")
    assert leases[0]["token"] > leases[1]["token"] and is_refused(daemon, "--count", "2", "x")


def test_places_are_given_first_come_first_served(daemon):
    leases = [take(daemon, "--count", "2", "x") for _ in range(2)]
    line = queue_up(daemon, "x", 4, "-t", "10m", "--count", "2")
    for i, process in enumerate(line):
        release(daemon, leases.pop(i % 2))
        leases.append(granted(process))
        assert all(later.poll() is None for later in line[i + 1:])


def test_all_who_hold_it_are_shown(daemon):
    leases = [take(daemon, "--count", "3", "x", "--value", str(i)) for i in range(3)]
    shown = ctl_json(daemon, "get", "x")
    assert [row["token"] for row in shown] == [lease["token"] for lease in leases]
    assert [row["holder"] for row in shown] == [lease["holder"] for lease in leases]
    assert [row["value"] for row in shown] == ["0", "1", "2"]
    assert {(row["name"], row["state"], row["max_holders"]) for row in shown} == {("x", "held", 3)}
    take(daemon, "y")
    listed = ctl_json(daemon, "list")
    assert [(row["name"], row["token"]) for row in listed[:3]] == [("x", lease["token"]) for lease in leases]
    assert len(listed) == 4 and "max_holders" not in listed[3]
    text = ctl(daemon, "get", "x")
    assert text.returncode == OK and text.stdout.count("x: held by ") == text.stdout.count(", one of at most 3\n") == 3
    release(daemon, leases[1])
    assert [row["token"] for row in ctl_json(daemon, "get", "x")] == [leases[0]["token"], leases[2]["token"]]
    for lease in (leases[0], leases[2]):
        release(daemon, lease)
    free = ctl(daemon, "get", "x")
    assert (free.returncode, free.stdout) == (HELD, "x: free\n")


def test_nobody_is_beside_an_exclusive_holder(daemon):
    lease = take(daemon, "x")
    for args in (["--count", "5"], ["--count", str(SHARED)], ["--shared"], []):
        assert is_refused(daemon, *args, "x")
    release(daemon, lease)
    for args in (["--count", "5"], ["--shared"]):
        lease = take(daemon, *args, "x")
        assert is_refused(daemon, "x") and is_refused(daemon, "--count", "1", "x")
        release(daemon, lease)


def test_the_smallest_count_of_all_decides(daemon):
    first, second = (take(daemon, "--count", "3", "x") for _ in range(2))
    assert is_refused(daemon, "--count", "2", "x")  # a smaller one counts at once
    third = take(daemon, "--count", "4", "x")
    assert is_refused(daemon, "--count", "4", "x")  # a larger one when those with the smaller one have gone
    release(daemon, first)
    release(daemon, second)
    for _ in range(3):
        take(daemon, "--shared", "x")
    assert is_refused(daemon, "--shared", "x")
    release(daemon, third)
    smaller = ctl(daemon, "acquire", "--count", "3", "x")
    assert smaller.returncode == HELD and "and 2 besides" in smaller.stderr, smaller.stderr
    take(daemon, "--count", "4", "x")
    assert is_refused(daemon, "--shared", "x")


def test_a_waiting_writer_stops_later_readers_and_gets_in(daemon):
    readers = [take(daemon, "--shared", "x") for _ in range(3)]
    writer = queue_up(daemon, "x", 1, "-t", "10m")[0]
    assert is_refused(daemon, "--shared", "x")
    late = ctl_start(daemon, "-o", "json", "acquire", "-t", "10m", "-w", "10m", "--shared", "x")
    until(lambda: waiters(daemon, "x") == 2, "the late reader")
    for reader in readers:
        assert writer.poll() is None and late.poll() is None
        release(daemon, reader)
    lease = granted(writer)
    assert late.poll() is None and is_refused(daemon, "--shared", "x")
    release(daemon, lease)
    granted(late)
    take(daemon, "--shared", "x")


def test_who_comes_after_one_that_died_keeps_its_place(database, start_listening):
    """The dead one's row cannot go at once: when it does, that of the next one here stays."""
    here, there = start_listening(2, args=["--poll-interval", "10m"])
    leaves, stays = take(there, "--shared", "x"), take(there, "--shared", "x")
    dead = queue_up(here, "x", 1)[0]
    with psycopg.connect(database) as db:
        db.execute("SELECT FROM leased.leases WHERE token = %s FOR NO KEY UPDATE", (stays["token"],))
        dead.kill()
        dead.communicate()
        release(there, leaves)  # tells the daemon, where nobody waits any more
        time.sleep(1.3)
        writer = ctl_start(here, "-o", "json", "acquire", "-t", "10m", "-w", "10m", "x")
        time.sleep(0.1)
    time.sleep(1.5)
    assert waiters(there, "x") == 1 and writer.poll() is None
    release(there, stays)
    granted(writer)


def test_who_stands_behind_a_waiter_elsewhere_is_held_up_as_by_one_here(start_listening):
    """Told at once, and waiting without asking again and again."""
    daemons = start_listening(2, args=["--poll-interval", "10m", "--log-level", "debug"])
    reader = take(daemons[0], "--shared", "x")
    writer = queue_up(daemons[0], "x", 1, "-t", "10m")[0]
    for daemon in daemons:
        for args in (["x"], ["y", "--and", "x"]):
            begin = time.monotonic()
            refused = ctl(daemon, "acquire", "--shared", *args)
            assert refused.returncode == HELD and reader["holder"] in refused.stderr, refused.stderr
            assert time.monotonic() - begin < 1
    late = [ctl_start(daemons[1], "-o", "json", "acquire", "-t", "10m", "-w", "10m", "--shared", *args) for args in (["x"], ["y", "--and", "x"])]
    until(lambda: waiters(daemons[0], "x") == 3, "the late readers")
    time.sleep(1)
    before = daemons[1].log().count("to=busy")
    time.sleep(3)
    assert daemons[1].log().count("to=busy") - before < 6  # it says that it is alive, once a second
    writer.send_signal(world.signal.SIGINT)
    writer.communicate()
    for process in late:
        granted(process)


def test_readers_that_wait_get_in_together(daemon):
    writer = take(daemon, "x")
    line = queue_up(daemon, "x", 5, "-t", "10m", "--shared")
    release(daemon, writer)
    begin = time.monotonic()
    tokens = [granted(process)["token"] for process in line]
    assert len(set(tokens)) == 5 and time.monotonic() - begin < 10
    assert len(ctl_json(daemon, "get", "x")) == 5


def test_a_line_of_all_kinds_over_two_daemons(database, start_daemon):
    """Places, readers and writers in one line: each gets in when its turn and its company allow."""
    daemons = [start_daemon(database, args=["--poll-interval", "10m"]) for _ in range(2)]
    for daemon in daemons:
        daemon.wait_event("notifications_ready")
    first = take(daemons[0], "x")
    line = []
    for i, args in enumerate((["--shared"], ["--count", "2"], [], ["--shared"])):
        line.append(ctl_start(daemons[i % 2], "-o", "json", "acquire", "-t", "10m", "-w", "10m", *args, "x"))
        until(lambda: waiters(daemons[0], "x") == i + 1, f"waiter {i}")
    release(daemons[1], first)
    shared, counted = granted(line[0]), granted(line[1])
    assert line[2].poll() is None and line[3].poll() is None
    release(daemons[1], shared)
    assert line[2].poll() is None
    release(daemons[0], counted)
    writer = granted(line[2])
    assert line[3].poll() is None
    release(daemons[0], writer)
    granted(line[3])


def test_a_minimum_hold_and_an_expiry_take_places(daemon):
    for _ in range(2):
        release(daemon, take(daemon, "--count", "3", "--min-hold", "10m", "x"))
    ctl(daemon, "acquire", "-t", "3s", "--count", "3", "x")
    assert is_refused(daemon, "--count", "3", "x") and len(ctl_json(daemon, "get", "x")) == 3
    granted(ctl_start(daemon, "-o", "json", "acquire", "-w", "1m", "-t", "10m", "--count", "3", "x"))
    assert is_refused(daemon, "--count", "3", "x")


def test_a_minimum_hold_does_not_hide_who_holds_it(daemon):
    release(daemon, take(daemon, "--count", "3", "--min-hold", "5m", "x"))
    lease = take(daemon, "--count", "3", "x")
    wrong = ctl(daemon, "renew", "x", "--holder", lease["holder"], "--token", "1")
    assert wrong.returncode == LOST and "holds it with token" in wrong.stderr, wrong.stderr
    assert ctl(daemon, "steal", "x", "--reason", "r").returncode == OK
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == LOST
    for _ in range(2):
        take(daemon, "--count", "3", "x")
    several = ctl(daemon, "steal", "x", "--reason", "r")
    assert several.returncode == 65 and "say whose" in several.stderr, several.stderr


def test_each_token_is_a_proof_of_its_own(daemon, database):
    leases = [take(daemon, "--count", "3", "x") for _ in range(3)]
    release(daemon, leases[0])
    assert ctl(daemon, "steal", "x", "--reason", "r", "--token", str(leases[1]["token"])).returncode == OK
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("SELECT leased.guard('x', %s)", (leases[2]["token"],))
        for lease in leases[:2]:
            with pytest.raises(psycopg.Error) as raised:
                db.execute("SELECT leased.guard('x', %s)", (lease["token"],))
            assert raised.value.sqlstate == "LE001"
    assert [row["token"] for row in ctl_json(daemon, "get", "x")] == [leases[2]["token"]]


def test_a_steal_ends_one_run_of_several(daemon, directory):
    processes = []
    for i in range(2):
        up = pathlib.Path(directory) / f"up{i}"
        processes.append(ctl_start(daemon, "run", "-t", "10m", "--shared", "x", "--", "sh", "-c", f"touch {up}; exec sleep 600"))
        until(up.exists, "the job")
    first = ctl_json(daemon, "get", "x")[0]["token"]
    assert ctl(daemon, "steal", "x", "--reason", "r", "--token", str(first)).returncode == OK
    processes[0].communicate(timeout=10)
    assert processes[0].returncode == LOST and processes[1].poll() is None
    assert len(ctl_json(daemon, "get", "x")) == 1


def test_a_killed_holder_gives_its_place_back(daemon, directory):
    up = pathlib.Path(directory) / "up"
    killed = ctl_start(daemon, "run", "--release-on-disconnect", "-t", "10m", "--count", "2", "x", "--", "sh", "-c", f"touch {up}; sleep 600")
    until(up.exists, "the job")
    stays = take(daemon, "--count", "2", "x")
    assert is_refused(daemon, "--count", "2", "x")
    killed.kill()
    killed.wait()
    until(lambda: ctl(daemon, "acquire", "-t", "10m", "--count", "2", "x").returncode == OK, "a place", 10)
    assert stays["token"] in [row["token"] for row in ctl_json(daemon, "get", "x")]


def test_jobs_with_two_places(daemon, directory):
    log = pathlib.Path(directory) / "log"
    job = f"echo 1 $(date +%s%N) >>{log}; sleep 0.3; echo -1 $(date +%s%N) >>{log}"
    processes = [ctl_start(daemon, "run", "--count", "2", "-w", "1m", "x", "--", "sh", "-c", job) for _ in range(8)]
    for process in processes:
        process.communicate(timeout=world.GIVE_UP)
        assert process.returncode == OK
    running, most = 0, 0
    for _, step in sorted((int(at), int(step)) for step, at in (line.split() for line in log.read_text().splitlines())):
        running += step
        most = max(most, running)
    assert (running, most) == (0, 2)


def test_a_request_can_be_retried(daemon):
    with raw.Client(daemon.socket) as client:
        token = client.acquire(b"x", 1, more=raw.field(COUNT, 2))
        other = client.acquire(b"x", 2, more=raw.field(COUNT, 2))
        assert token and other and token != other
        assert client.acquire(b"x", 1, more=raw.field(COUNT, 2)) == token
        assert client.acquire(b"x", 2, more=raw.field(COUNT, 2)) == other
        assert client.acquire(b"x", 3, more=raw.field(COUNT, 2)) is None
        roomy = client.acquire(b"y", 1, more=raw.field(COUNT, 5))
        assert client.acquire(b"y", 1, more=raw.field(COUNT, 5)) == roomy  # though there is room for another one
        assert client.release(b"y", roomy, 1) and client.acquire(b"y", 2)
        for nonce, held in ((1, token), (2, other)):
            assert client.release(b"x", held, nonce)
        for count in (SHARED + 1, 2**32 - 1):
            assert client.ask(raw.acquire(1, b"x", 4, more=raw.field(COUNT, count))).status == 2  # EDATA
        assert client.acquire(b"x", 5)


def test_who_comes_back_is_kept_out_by_those_who_hold_it(daemon):
    """Its own grant is over: not that one's expiry is waited for, again and again."""
    with raw.Client(daemon.socket) as client:
        assert client.acquire(b"x", 1, 1000, more=raw.field(COUNT, SHARED)) and client.acquire(b"x", 2, more=raw.field(COUNT, SHARED))
        until(lambda: len(ctl_json(daemon, "get", "x")) == 1, "the first to expire")
        refused = client.ask(raw.acquire(3, b"x", 1))
        assert refused.status == raw.EHELD and "holds it with token" in refused.why, refused.why


@pytest.mark.parametrize("count", [SHARED, 3])
def test_all_at_once(daemon, count):
    """Who does not wait, and comes while another one asks, is not refused while there is room."""
    with raw.Client(daemon.socket) as client:
        kinds = {}
        client.send(*(raw.acquire(10 + i, b"x", 10 + i, more=raw.field(COUNT, count)) for i in range(40)))
        for _ in range(40):
            answer = client.answer()
            kinds.setdefault(answer.kind, []).append(answer.request)
        assert len(kinds["granted"]) == min(40, count), kinds


def test_hundreds_of_readers(daemon):
    """More than one page of a list, and all of them at once."""
    n = 700
    with raw.Client(daemon.socket) as client:
        client.send(*(raw.acquire(i + 1, b"x", i + 1, 600000, 60000, raw.field(COUNT, SHARED)) for i in range(n)))
        answers = [client.answer() for _ in range(n)]
        assert {answer.kind for answer in answers} == {"granted"}
        tokens = {answer.request: answer.token for answer in answers}
        assert [row["token"] for row in ctl_json(daemon, "get", "x")] == sorted(tokens.values())
        assert len(ctl_json(daemon, "list")) == n and is_refused(daemon, "x")
        assert f"and {n - 1} besides" in ctl(daemon, "acquire", "x").stderr
        client.send(*(raw.release(i + 1, raw.claim(b"x", tokens[i + 1], i + 1)) for i in range(n)))
        assert {client.answer().kind for _ in range(n)} == {"released"}
    take(daemon, "x")


def check_company(beliefs, what):
    """(name, token, begin, end, max_holders): at no time more of a name than the smallest of them says. Returns the most."""
    by_name, most = {}, 0
    for name, token, begin, end, count in beliefs:
        by_name.setdefault(name, []).append((begin, end, token, count))
    for name, grants in by_name.items():
        lasting = []
        for grant in sorted(grants):
            lasting = [other for other in lasting if other[1] > grant[0]] + [grant]
            most = max(most, len(lasting))
            assert len(lasting) <= min(count for _, _, _, count in lasting), f"{what}: {name}: {lasting}"
    return most


TOO_MANY = """SELECT name, array_agg(token), array_agg(max_holders) FROM leased.leases WHERE expires_at > clock_timestamp()
              GROUP BY name HAVING count(*) > min(max_holders)"""


def test_clients_of_all_kinds_with_daemons_that_die(own_postgres, start_daemon, directory):
    print(f"LEASED_SEED={SEED}")
    rng = random.Random(SEED)
    daemons = [start_daemon(own_postgres.conninfo(), args=["--poll-interval", "300ms"]) for _ in range(3)]
    crowd = Crowd(directory, world.servers(daemons), 12, 4, 5, 1000, SEED, "several")
    over, found = threading.Event(), []

    def look():
        with own_postgres.connect() as db:
            while not over.is_set() and not found:
                found.extend(db.execute(TOO_MANY).fetchall())
                time.sleep(0.005)

    looking = threading.Thread(target=look)
    looking.start()

    def seen():
        beliefs = list(crowd.beliefs())
        return check_company(beliefs, "clients") > 1 and len(beliefs) > SECONDS
    make_trouble(rng, crowd, daemons, 3, seen)
    over.set()
    looking.join()
    assert not found, found
    beliefs = list(crowd.beliefs())
    assert seen()
    names = {}
    for name, token, *_ in beliefs:
        names.setdefault(token, set()).add(name)
    assert SECONDS < 10 or any(len(group) > 1 for group in names.values())  # seconds on a busy machine may see none
    check_no_deadlock(own_postgres)


def test_the_checker_can_fail():
    for beliefs in ([("x", 1, 0, 10, 1), ("x", 2, 9, 12, 1)], [("x", 1, 0, 10, 2), ("x", 2, 1, 9, 2), ("x", 3, 2, 8, 3)],
                    [("x", 1, 0, 10, SHARED), ("x", 2, 5, 6, 1)], [("x", 1, 0, 10, 1), ("x", 2, 5, 6, SHARED)]):
        with pytest.raises(AssertionError):
            check_company(beliefs, "made up")
    assert check_company([("x", 1, 0, 10, 2), ("x", 2, 1, 5, 3), ("x", 3, 5, 6, 2), ("y", 4, 0, 9, 1)], "made up") == 2
