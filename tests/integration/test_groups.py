"""One lease with several names: all or none, with one token."""
import pathlib
import shlex
import subprocess
import threading
import time

import psycopg
import pytest
import raw
import world
from test_contention import check_no_deadlock
from test_steal import hold
from test_waiting import claim, granted
from world import ctl, ctl_json, ctl_start, until

OK, DATA, HELD, LOST = 0, 65, 75, 76
EDATA = 2
ALSO, ALSO_OF_CLAIM = 11, 4  # fields of Acquire and of Claim


def also(*names):
    return [word for name in names for word in ("--and", name)]


def take(daemon, *args):
    return ctl_json(daemon, "acquire", "-t", "10m", *args)[0]


def is_free(daemon, *names):
    return all(ctl_json(daemon, "get", name)[0]["state"] == "free" for name in names)


def tokens(daemon, *names):
    return [ctl_json(daemon, "get", name)[0]["token"] for name in names]


def test_all_names_have_one_token_and_one_holder(daemon, database):
    lease = take(daemon, "a", *also("b/c", "d"), "--value", "v")
    assert (lease["name"], lease["also"]) == ("a", ["b/c", "d"])
    rows = [ctl_json(daemon, "get", name)[0] for name in ("a", "b/c", "d")]
    assert {(row["token"], row["holder"], row["value"]) for row in rows} == {(lease["token"], lease["holder"], "v")}
    assert len({row["expires_at"] for row in rows}) == 1
    with psycopg.connect(database, autocommit=True) as db:
        for name in ("a", "b/c", "d"):
            db.execute("SELECT leased.guard(%s, %s)", (name, lease["token"]))
            with pytest.raises(psycopg.Error):
                db.execute("SELECT leased.guard(%s, %s)", (name, lease["token"] + 1))


@pytest.mark.parametrize("held", ["a", "b", "c"])
def test_with_one_of_them_held_none_is_granted(daemon, held):
    lease = take(daemon, held)
    refused = ctl(daemon, "acquire", "a", *also("b", "c"))
    assert refused.returncode == HELD and lease["holder"] in refused.stderr
    assert is_free(daemon, *({"a", "b", "c"} - {held}))
    assert ctl(daemon, "acquire", "-w", "300ms", "a", *also("b", "c")).returncode == HELD
    assert is_free(daemon, *({"a", "b", "c"} - {held})) and tokens(daemon, held) == [lease["token"]]


def test_the_one_that_is_held_is_named(daemon):
    take(daemon, "b")
    assert '"b"' in ctl(daemon, "acquire", "a", *also("b")).stderr


def test_a_grant_of_some_of_them_is_none_of_all(daemon, database):
    """Asked again by the same holder, who has not, or no longer, all of them."""
    with raw.Client(daemon.socket) as client:
        assert client.acquire(b"a", 1)
        assert client.ask(raw.acquire(2, b"a", 1, more=raw.field(ALSO, b"b"))).kind == "failure"
        assert is_free(daemon, "b")
    both = "SELECT token FROM leased.try_acquire('c', 'h', 1, 1, also => '{d}')"
    with psycopg.connect(database, autocommit=True) as db:
        token = db.execute(both).fetchone()
        assert token and db.execute(both).fetchone() == token
        db.execute("SELECT leased.steal('d', 'r')")
        assert not db.execute(both).fetchone()
        assert db.execute("SELECT token FROM leased.try_acquire('c', 'h', 1, 1)").fetchone() == token


def test_the_token_is_higher_than_any_before(daemon):
    for name in ("a", "b", "a", "b", "b"):
        lease = take(daemon, name)
        assert ctl(daemon, "release", name, *claim(lease)).returncode == OK
    assert take(daemon, "a", *also("b"))["token"] > lease["token"]


def test_it_is_renewed_and_released_as_a_whole(daemon):
    lease = ctl_json(daemon, "acquire", "-t", "60s", "a", *also("b", "c"))[0]
    renewed = ctl_json(daemon, "renew", "-t", "10m", "a", *also("b", "c"), *claim(lease))[0]
    assert renewed["expires_in_ms"] > 300000
    assert all(ctl_json(daemon, "get", name)[0]["expires_in_ms"] > 300000 for name in "abc")
    assert ctl(daemon, "release", "a", *also("b", "c"), "--exit-status", "3", *claim(lease)).returncode == OK
    assert is_free(daemon, *"abc")
    assert [ctl_json(daemon, "history", name)[0]["exit_status"] for name in "abc"] == [3, 3, 3]


def test_the_worst_result_is_the_result(daemon):
    """What is not held does not keep the others from being released."""
    lease = take(daemon, "a", *also("b", "c"))
    assert ctl(daemon, "steal", "b", "--reason", "r").returncode == OK
    assert ctl(daemon, "renew", "a", *also("b", "c"), *claim(lease)).returncode == LOST
    assert ctl(daemon, "release", "a", *also("b", "c"), *claim(lease)).returncode == LOST
    assert is_free(daemon, *"abc")
    assert ctl(daemon, "release", "a", *also("b", "c"), *claim(lease)).returncode == LOST


def test_names_can_be_read_by_a_shell(daemon):
    names = ["b", "it's", "c d"]
    line = ctl(daemon, "acquire", "a", *also(*names)).stdout
    assert shlex.split(dict(word.split("=", 1) for word in shlex.split(line))["also"]) == names
    script = """eval "$1"; shift; eval "set -- \\"\\$@\\" $(eval "set -- $also"; for n; do printf " --and '%s'" "$(printf %s "$n" | sed "s/'/'\\\\\\\\''/g")"; done)"
                "$@" "$name" --holder "$holder" --token "$token" """
    done = subprocess.run(["sh", "-c", script, "sh", line, world.LEASECTL, "-s", daemon.address, "release"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (OK, "") and is_free(daemon, "a", *names)


def test_slot_is_of_the_first_name_and_min_hold_of_each(daemon):
    lease = take(daemon, "--slot", "s", "--min-hold", "2s", "a", *also("b"))
    assert ctl(daemon, "release", "a", *also("b"), *claim(lease)).returncode == OK
    assert [ctl_json(daemon, "get", name)[0]["state"] for name in "ab"] == ["min-hold", "min-hold"]
    until(lambda: is_free(daemon, "a", "b"), "the minimum hold to end")
    done = ctl(daemon, "acquire", "--slot", "s", "a", *also("c"))
    assert done.returncode == HELD and "completed" in done.stderr and is_free(daemon, "c")
    take(daemon, "--slot", "s", "b")


def test_groups_with_company(daemon):
    first = take(daemon, "--shared", "a", *also("b"))
    second = take(daemon, "--shared", "b", *also("c", "a"))
    assert ctl(daemon, "acquire", "a").returncode == HELD and ctl(daemon, "acquire", "d", *also("c")).returncode == HELD
    assert {row["token"] for row in ctl_json(daemon, "get", "b")} == {first["token"], second["token"]}
    assert ctl(daemon, "release", "a", *also("b"), *claim(first)).returncode == OK
    assert tokens(daemon, *"abc") == [second["token"]] * 3
    assert ctl(daemon, "release", "b", *also("a", "c"), *claim(second)).returncode == OK  # in any order
    assert is_free(daemon, *"abcd")


# limits


def test_64_names(daemon):
    names = [f"n/{i:02}/{'x' * 245}" for i in range(64)]
    lease = take(daemon, names[0], *also(*names[1:]))
    assert lease["also"] == names[1:] and set(tokens(daemon, *names[::9])) == {lease["token"]}
    assert ctl(daemon, "renew", names[0], *also(*names[1:]), *claim(lease)).returncode == OK
    assert ctl(daemon, "release", names[0], *also(*names[1:]), *claim(lease)).returncode == OK
    assert {row["state"] for row in ctl_json(daemon, "list")} == {"free"}


@pytest.mark.parametrize("names", [["b", "a"], ["b", "c", "b"], [f"n{i}" for i in range(64)], [f"n{i}" for i in range(10000)],
                                   ["b", "c\nd", "e"], ["b", "", "e"], ["b", "x" * 256]],
                         ids=["the first twice", "another twice", "65", "10001", "control character", "empty", "too long"])
def test_names_that_cannot_be_are_bad_data(daemon, names):
    done = ctl(daemon, "acquire", "a", *also(*names))
    assert (done.returncode, done.stdout) == (DATA, "") and done.stderr.count("\n") == 1, done.stderr
    more = b"".join(raw.field(ALSO, name.encode()) for name in names)
    with raw.Client(daemon.socket) as client:
        if len(more) < 60000:
            assert client.ask(raw.acquire(1, b"a", 1, more=more)).status == EDATA
            held = raw.claim(b"a", 1, 1) + b"".join(raw.field(ALSO_OF_CLAIM, name.encode()) for name in names)
            assert client.ask(raw.release(2, held)).status == EDATA
            answer = client.ask(raw.renew(3, [held]))
            assert answer.kind == "failure" and answer.status == EDATA
        assert client.acquire(b"a", 2)
    assert {row["name"] for row in ctl_json(daemon, "list")} == {"a"}


# run


def test_a_run_keeps_all_of_them(daemon, directory):
    up, go = pathlib.Path(directory) / "up", pathlib.Path(directory) / "go"
    process = ctl_start(daemon, "run", "-t", "2s", "a", *also("b", "c"), "--", "sh", "-c",
                        f"echo $LEASED_NAME $LEASED_TOKEN; touch {up}; until [ -e {go} ]; do sleep 0.1; done; exit 3")
    until(up.exists, "the job")
    first = tokens(daemon, *"abc")
    time.sleep(4)
    assert tokens(daemon, *"abc") == first and len(set(first)) == 1 and process.poll() is None
    go.touch()
    assert process.communicate(timeout=world.GIVE_UP)[0] == f"a {first[0]}\n"
    assert process.returncode == 3 and is_free(daemon, *"abc")
    assert [ctl_json(daemon, "history", name)[0]["exit_status"] for name in "abc"] == [3, 3, 3]


@pytest.mark.parametrize("stolen", ["a", "b"])
def test_a_steal_of_one_ends_the_run_and_frees_the_others(daemon, directory, stolen):
    process, _ = hold(daemon, directory, "a", *also("b", "c"))
    token = tokens(daemon, "a")[0]
    assert ctl(daemon, "steal", stolen, "--reason", "because", "--token", str(token)).returncode == OK
    err = process.communicate(timeout=10)[1]
    assert process.returncode == LOST and f'"{stolen}" was stolen by' in err and "because" in err, err
    until(lambda: is_free(daemon, *"abc"), "the others to be free", 5)
    endings = {name: ctl_json(daemon, "history", name)[0]["ended"] for name in "abc"}
    assert endings == {name: "stolen" if name == stolen else "released" for name in "abc"}


def test_the_others_stay_taken_until_the_command_has_ended(daemon, directory):
    up = pathlib.Path(directory) / "up"
    process = ctl_start(daemon, "run", "-t", "60s", "--grace", "20s", "a", *also("b"), "--", "sh", "-c",
                        f"trap 'sleep 2; exit' TERM; touch {up}; while :; do sleep 0.1; done")
    until(up.exists, "the job")
    assert ctl(daemon, "steal", "b", "--reason", "r").returncode == OK
    time.sleep(1)
    assert process.poll() is None and not is_free(daemon, "a")
    process.communicate(timeout=world.GIVE_UP)
    assert process.returncode == LOST
    until(lambda: is_free(daemon, "a"), "the other one to be free", 5)


def test_a_killed_run_frees_all_of_them(daemon, directory):
    up = pathlib.Path(directory) / "up"
    process = ctl_start(daemon, "run", "--release-on-disconnect", "-t", "10m", "a", *also("b", "c"), "--", "sh", "-c", f"touch {up}; sleep 600")
    until(up.exists, "the job")
    process.kill()
    process.wait()
    until(lambda: is_free(daemon, *"abc"), "all to be free", 10)


# waiting


def test_a_wait_holds_nothing_and_ends_when_all_are_free(daemon):
    b = take(daemon, "b")
    group = ctl_start(daemon, "-o", "json", "acquire", "-t", "10m", "-w", "10m", "a", *also("b", "c"))
    time.sleep(1)
    c = take(daemon, "c")  # free for others while the group waits
    assert is_free(daemon, "a")
    assert ctl(daemon, "release", "b", *claim(b)).returncode == OK
    time.sleep(0.5)
    assert group.poll() is None and is_free(daemon, "a", "b")
    assert ctl(daemon, "release", "c", *claim(c)).returncode == OK
    assert [granted(group)["token"]] * 3 == tokens(daemon, *"abc")


def test_a_wait_ends_when_the_last_one_expires(daemon):
    ctl(daemon, "acquire", "-t", "2s", "b")
    ctl(daemon, "acquire", "-t", "4s", "c")
    lease = granted(ctl_start(daemon, "-o", "json", "acquire", "-t", "10m", "-w", "1m", "a", *also("b", "c")))
    assert tokens(daemon, *"abc") == [lease["token"]] * 3


def test_a_release_at_another_daemon_ends_the_wait(database, start_daemon):
    daemons = [start_daemon(database, args=["--poll-interval", "10m"]) for _ in range(2)]
    for daemon in daemons:
        daemon.wait_event("notifications_ready")
    leases = {name: take(daemons[0], name) for name in "abc"}
    group = ctl_start(daemons[1], "-o", "json", "acquire", "-t", "10m", "-w", "10m", "a", *also("b", "c"))
    time.sleep(1)
    for name, lease in leases.items():
        assert group.poll() is None
        assert ctl(daemons[0], "release", name, *claim(lease)).returncode == OK
    assert [granted(group)["token"]] * 3 == tokens(daemons[0], *"abc")


def test_who_gives_up_waiting_leaves_nothing(daemon):
    for signo in (world.signal.SIGINT, world.signal.SIGKILL):
        lease = take(daemon, "b")
        group = ctl_start(daemon, "acquire", "-w", "10m", "a", *also("b"))
        time.sleep(0.5)
        group.send_signal(signo)
        group.communicate(timeout=world.GIVE_UP)
        assert ctl(daemon, "release", "b", *claim(lease)).returncode == OK
        time.sleep(0.5)
        assert is_free(daemon, "a", "b")


def test_a_wait_survives_its_daemon(database, start_daemon):
    a, b = start_daemon(database), start_daemon(database)
    lease = take(b, "b")
    group = ctl_start([a, b], "-o", "json", "acquire", "-t", "10m", "-w", "10m", "a", *also("b"))
    time.sleep(1)
    a.kill()
    time.sleep(1)
    assert ctl(b, "release", "b", *claim(lease)).returncode == OK
    assert [granted(group)["token"]] * 2 == tokens(b, "a", "b")


def test_a_grant_that_crosses_the_end_of_a_wait_is_given_back(daemon):
    for i in range(15):
        lease = take(daemon, f"b{i}")
        group = ctl_start(daemon, "run", "-w", "10m", f"a{i}", *also(f"b{i}"), "--", "true")
        time.sleep(0.3)
        release = ctl_start(daemon, "release", f"b{i}", *claim(lease))
        time.sleep(0.002 * i)
        group.send_signal(world.signal.SIGINT)
        group.communicate(timeout=world.GIVE_UP)
        release.communicate(timeout=world.GIVE_UP)
        until(lambda: is_free(daemon, f"a{i}", f"b{i}"), "both to be free", 5)


def cycle(daemon, names, first_nonce, end, counts):
    """Takes and releases the names until the end."""
    grants, nonce = 0, first_nonce
    with raw.Client(daemon.socket) as client:
        while time.monotonic() < end:
            nonce += 1
            token = client.acquire(names[0], nonce, 60000, 20000, b"".join(raw.field(ALSO, name) for name in names[1:]))
            if token:
                held = raw.claim(names[0], token, nonce) + b"".join(raw.field(ALSO_OF_CLAIM, name) for name in names[1:])
                assert client.ask(raw.release(2, held)).kind == "released"
                grants += 1
    counts.append(grants)


def test_groups_in_opposite_orders_do_not_block_each_other(own_postgres, start_daemon):
    daemons = [start_daemon(own_postgres.conninfo()) for _ in range(2)]
    names = [b"a", b"b", b"c", b"d"]
    orders = [names, names[::-1], names[2:] + names[:2], [b"b", b"d"], [b"c", b"a"]]
    counts, end = [[] for _ in orders], time.monotonic() + 8
    threads = [threading.Thread(target=cycle, args=(daemons[i % 2], order, 1000000 * i, end, counts[i])) for i, order in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(count and count[0] > 3 for count in counts), counts
    check_no_deadlock(own_postgres)
    for daemon in daemons:
        assert "40P01" not in daemon.log()
    assert is_free(daemons[0], *"abcd")
