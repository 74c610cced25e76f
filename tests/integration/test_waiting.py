"""Waiting: first come, first served; who leaves the queue leaves nothing behind."""
import json
import signal
import time

import world
from world import ctl, ctl_json, ctl_start, until

HELD = 75


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def waiters(daemon, name):
    return ctl_json(daemon, "get", name)[0]["waiters"]


def queue_up(daemon, name, n, *args):
    """n waiters, each in line before the next one comes."""
    line = []
    for i in range(n):
        line.append(ctl_start(daemon, "-o", "json", "acquire", "-w", "10m", *args, name))
        until(lambda: waiters(daemon, name) == i + 1, f"waiter {i}")
    return line


def granted(process):
    return json.loads(process.communicate(timeout=world.GIVE_UP)[0])


def test_first_come_first_served(daemon):
    lease = ctl_json(daemon, "acquire", "x")[0]
    line = queue_up(daemon, "x", 6)
    tokens = [lease["token"]]
    for process in line:
        assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
        lease = granted(process)  # if it were another's turn this would wait for ever
        tokens.append(lease["token"])
    assert tokens == sorted(set(tokens))


def test_an_expiry_hands_over_to_the_first(daemon):
    ctl(daemon, "acquire", "-t", "8s", "x")
    line = queue_up(daemon, "x", 2, "-t", "1s")
    first, second = granted(line[0]), granted(line[1])
    assert first["token"] < second["token"]


def test_a_waiter_that_dies_leaves_the_queue(daemon):
    lease = ctl_json(daemon, "acquire", "x")[0]
    line = queue_up(daemon, "x", 3)
    line[0].kill()
    line[0].communicate()
    until(lambda: waiters(daemon, "x") == 2, "the dead waiter to leave")
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    lease = granted(line[1])
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    granted(line[2])


def test_a_crowd_costs_one_statement_a_turn(database, start_daemon):
    """60 waiters, one release: the round trips to the database do not grow with the crowd."""
    daemon = start_daemon(database, args=["--log-level", "debug", "--poll-interval", "10m"])
    lease = ctl_json(daemon, "acquire", "x")[0]
    line = [ctl_start(daemon, "acquire", "-w", "10m", "x") for _ in range(60)]
    until(lambda: waiters(daemon, "x") == 60, "all waiters")
    before = daemon.log().count("to=busy")
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    until(lambda: sum(p.poll() is not None for p in line) == 1, "a grant")
    assert waiters(daemon, "x") == 59
    assert 0 < daemon.log().count("to=busy") - before <= 5  # release and grant, one look of ours, and slack
    for process in line:
        process.kill()
        process.communicate()


def test_a_cancelled_wait_leaves_no_grant(daemon):
    """Waiters give up just when the lease is given back: afterwards nobody holds it."""
    for i in range(15):
        name = f"cancel/{i}"
        lease = ctl_json(daemon, "acquire", name)[0]
        waiter = ctl_start(daemon, "run", "-w", "10m", name, "--", "true")
        until(lambda: waiters(daemon, name) == 1, "the waiter")
        release = ctl_start(daemon, "release", name, *claim(lease))
        time.sleep(0.002 * i)
        waiter.send_signal(signal.SIGINT)
        waiter.communicate(timeout=world.GIVE_UP)
        release.communicate(timeout=world.GIVE_UP)
        until(lambda: ctl(daemon, "get", name).returncode == HELD, f"{name} to be free", 5)


def test_waiters_survive_a_restart_of_their_daemon(database, start_daemon):
    """The daemon has no state that matters: its waiters queue again at the next one."""
    a, b = start_daemon(database), start_daemon(database, args=["--poll-interval", "200ms"])
    lease = ctl_json(b, "acquire", "-t", "10m", "x")[0]
    waiter = ctl_start([a, b], "-o", "json", "acquire", "-w", "10m", "x")
    until(lambda: waiters(a, "x") == 1, "the waiter")
    a.kill()
    until(lambda: waiters(b, "x") == 1, "the waiter at the other daemon")
    assert ctl(b, "release", "x", *claim(lease)).returncode == 0
    assert granted(waiter)["token"] > lease["token"]
