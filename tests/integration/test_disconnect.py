"""--release-on-disconnect: the lease is free as soon as its holder is gone, and never while the job still runs."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import world
from test_strangers import acquire_frame, field, granted_token, greeted
from world import alive, ctl, ctl_json, ctl_start, until

ON_DISCONNECT = field(10, 1)


def is_free(daemon, name):
    return ctl(daemon, "get", name).returncode == 75


def start_job(daemons, directory, script, *options):
    """A job under lease x; returns leasectl's process and the job's pid."""
    out = pathlib.Path(directory) / "pid"
    process = ctl_start(daemons, "run", "--release-on-disconnect", "-t", "10m", *options, "x", "--", "sh", "-c",
                        f"{script}echo $$ > {out}.new; mv {out}.new {out}; while :; do sleep 0.1; done")
    until(out.exists, "the job")
    return process, int(out.read_text())


def test_a_killed_run_frees_its_lease_when_its_job_has_ended(daemon, directory):
    process, pid = start_job(daemon, directory, "")
    process.kill()
    until(lambda: is_free(daemon, "x"), "the lease to be free", 10)
    assert not alive(pid)
    assert "event=given_back name=x" in daemon.log()


def test_a_job_that_ignores_term_keeps_the_lease_until_it_is_killed(daemon, directory):
    process, pid = start_job(daemon, directory, "trap '' TERM; ", "--grace", "2s")
    begin = time.monotonic()
    process.kill()
    until(lambda: is_free(daemon, "x"), "the lease to be free", 20)
    assert not alive(pid)
    assert time.monotonic() - begin > 1.5


def test_the_next_in_line_takes_over_at_once(daemon, directory):
    process, pid = start_job(daemon, directory, "")
    waiter = ctl_start(daemon, "-o", "json", "acquire", "-w", "10m", "x")
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    process.kill()
    waiter.communicate(timeout=10)
    assert waiter.returncode == 0 and not alive(pid)


def test_without_the_option_the_lease_stays(daemon):
    with greeted(daemon) as s:
        s.sendall(acquire_frame(b"y", 7))
        granted_token(s)
    time.sleep(0.3)
    assert not is_free(daemon, "y")


def test_the_end_of_a_connection_counts(daemon):
    with greeted(daemon) as s:
        s.sendall(acquire_frame(b"x", 7, 600000, ON_DISCONNECT))
        granted_token(s)
        assert not is_free(daemon, "x")
    until(lambda: is_free(daemon, "x"), "the lease to be free", 10)


def test_a_released_lease_is_not_given_back_twice(daemon):
    """The next holder is not harmed by the end of the one before."""
    with greeted(daemon) as s:
        s.sendall(acquire_frame(b"x", 7, 600000, ON_DISCONNECT))
        lease = until(lambda: ctl_json(daemon, "get", "x")[0].get("holder") and ctl_json(daemon, "get", "x")[0], "the grant")
        assert ctl(daemon, "release", "x", "--holder", lease["holder"], "--token", str(lease["token"])).returncode == 0
        assert ctl(daemon, "acquire", "-t", "10m", "x").returncode == 0
    time.sleep(0.3)
    assert not is_free(daemon, "x")


CHILD_KEEPS_SOCKET = """
import os, sys, time
sys.path[:0] = [{tests!r}, {support!r}]
from test_strangers import HELLO, acquire_frame, field, granted_token
import socket, struct
s = socket.socket(socket.AF_UNIX)
s.connect({address!r})
s.sendall(HELLO)
s.recv(struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
s.sendall(acquire_frame(b"x", 7, 600000, field(10, 1)))
granted_token(s)
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("held", flush=True)
time.sleep(30)
"""


def test_the_death_of_the_process_counts_while_a_child_keeps_the_connection(daemon):
    tests = os.path.dirname(os.path.abspath(__file__))
    code = CHILD_KEEPS_SOCKET.format(tests=tests, support=os.path.join(tests, "../support"), address=str(daemon.socket))
    process = world.start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "held\n"
    assert not is_free(daemon, "x")
    process.kill()
    until(lambda: is_free(daemon, "x"), "the lease to be free", 10)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_daemon_that_leaves_gives_nothing_back(database, start_daemon, directory):
    """Its clients go on elsewhere; there the same rule holds from the next renewal on."""
    a, b = start_daemon(database), start_daemon(database)
    out = pathlib.Path(directory) / "up"
    process = ctl_start([a, b], "run", "--release-on-disconnect", "-t", "6s", "x", "--", "sh", "-c", f"touch {out}; sleep 600")
    until(out.exists, "the job")
    token = ctl_json(b, "get", "x")[0]["token"]
    assert a.stop() == 0
    expires = ctl_json(b, "get", "x")[0]["expires_in_ms"]
    until(lambda: ctl_json(b, "get", "x")[0].get("expires_in_ms", 0) > expires, "a renewal through the other daemon")
    assert ctl_json(b, "get", "x")[0]["token"] == token
    process.kill()
    begin = time.monotonic()
    until(lambda: is_free(b, "x"), "the lease to be free", 10)
    assert time.monotonic() - begin < 2


def test_who_may_be_watched(database, start_daemon):
    port = world.free_port()
    daemon = start_daemon(database, args=["--listen", f"tcp:127.0.0.1:{port}"])
    done = ctl(f"tcp:127.0.0.1:{port}", "run", "--release-on-disconnect", "x", "--", "true")
    assert done.returncode == 65 and "Unix socket" in done.stderr
    with greeted(daemon) as s:  # init belongs to root
        s.sendall(acquire_frame(b"x", 7, 60000, ON_DISCONNECT + field(14, 1)))
        s.settimeout(10)
        assert b"belongs to somebody else" in s.recv(4096)
    assert is_free(daemon, "x")
