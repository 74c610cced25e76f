"""The process as a service: what it has given up, and what the unit forbids; all verbs work under that all the same."""
import os
import pathlib
import signal
import socket
import subprocess

import pytest

import world
from world import ctl, ctl_json, ctl_start, until

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "leased.service"
EXPOSURE = 1.3  # as server/SECURITY.md says
CONFIGURATION = 78


def test_systemd_finds_no_fault_in_the_unit_and_little_exposure(directory):
    unit = pathlib.Path(directory) / "leased.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/sbin/leased", str(world.LEASED)))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert verified.returncode == 0 and "leased.service" not in verified.stderr, verified.stderr
    security = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}", UNIT]
    judged = subprocess.run(security, capture_output=True, text=True)
    assert judged.returncode == 0 and f"leased.service: {EXPOSURE} OK" in judged.stdout, judged.stdout + judged.stderr


# The same filter without systemd: what is not in the list kills, and so do sockets of other families.
FILTERED = """
import os, re, seccomp, subprocess, sys

def expand(name):
    if not name.startswith("@"):
        return {name}
    listed = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    return set().union(*(expand(word) for word in re.findall(r"^    ([@\\w-]+)$", listed, re.M)))

allowed = set()
for line in re.findall(r"^SystemCallFilter=(.*)$", open(sys.argv[1]).read(), re.M):
    named = set().union(*map(expand, line.lstrip("~").split()))
    allowed = allowed - named if line.startswith("~") else allowed | named
families = re.search(r"^RestrictAddressFamilies=(.*)$", open(sys.argv[1]).read(), re.M).group(1).split()
numbers = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
filter = seccomp.SyscallFilter(seccomp.KILL_PROCESS)
for name in allowed - {"socket"}:
    try:
        filter.add_rule(seccomp.ALLOW, name)
    except (RuntimeError, ValueError, OSError):
        pass  # of another architecture, or younger than libseccomp
for family in families:
    filter.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, numbers[family]))
filter.load()
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="module")
def tcp_postgres():
    with world.temporary_directory() as directory:
        cluster = world.Postgres(directory, "listen_addresses='localhost'", port=world.free_port()).start()
        yield cluster
        cluster.stop()


class Filtered(world.Daemon):
    def __init__(self, *args, **kwargs):
        self.filtered = ["/usr/bin/python3", "-c", FILTERED, UNIT]
        super().__init__(*args, **kwargs)

    def start(self, wait="database_ready"):
        self.command = [*self.filtered, *self.command]
        super().start(wait)


@pytest.mark.skipif(world.SANITIZED, reason="LeakSanitizer traces the process, which the filter forbids")
def test_what_the_unit_allows_is_enough(tcp_postgres, directory):
    """All that the daemon does, from the first word to systemd to the last; the database by name."""
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(f"{directory}/notify")
    told.settimeout(world.GIVE_UP)
    port = world.free_port()
    conninfo = tcp_postgres.conninfo(tcp_postgres.create_database()).replace(f"host={tcp_postgres.dir}", "host=localhost")
    daemon = Filtered(directory, conninfo, args=["--listen", f"tcp:127.0.0.1:{port}"], env={"NOTIFY_SOCKET": f"{directory}/notify"})
    assert told.recv(100) == b"READY=1"
    assert told.recv(100) == b"WATCHDOG=1"
    daemon.wait_event("notifications_ready")

    lease = ctl_json(daemon, "acquire", "x")[0]
    claim = ["x", "--holder", lease["holder"], "--token", str(lease["token"])]
    watch = ctl_start(daemon, "watch", "x")
    waiter = ctl_start(f"tcp:127.0.0.1:{port}", "acquire", "-w", "1m", "x")
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    assert ctl(daemon, "renew", *claim).returncode == 0
    assert ctl(daemon, "release", *claim).returncode == 0
    assert waiter.wait(world.GIVE_UP) == 0
    assert ctl(daemon, "steal", "x", "--reason", "r").returncode == 0
    watch.send_signal(signal.SIGINT)
    assert watch.wait(world.GIVE_UP) is not None
    assert len(ctl_json(daemon, "history", "x")) == 2 and len(ctl_json(daemon, "list")) == 1
    assert {row["check"] for row in ctl_json(daemon, "doctor") if row["grade"] != "ok"} == {"rights"}  # the role owns its database

    # Release on disconnect watches a process of somebody else's (a pidfd), also now that we cannot be traced.
    job = ctl_start(daemon, "run", "--release-on-disconnect", "-t", "10m", "job", "--", "sleep", "600")
    until(lambda: ctl(daemon, "get", "job").returncode == 0, "the job")
    job.kill()
    until(lambda: ctl(daemon, "get", "job").returncode == 75, "the lease to be free")
    assert "event=given_back" in daemon.log()

    # The server goes away and comes back; the configuration is read again.
    tcp_postgres.stop()
    tcp_postgres.start()
    assert ctl(daemon, "run", "-w", "10s", "x", "--", "true").returncode == 0
    daemon.reload()
    daemon.process.terminate()
    assert daemon.process.wait(world.GIVE_UP) == 0
    words = set()
    while b"STOPPING=1" not in words:
        words.add(told.recv(100))
    told.close()


def test_what_the_filter_forbids_kills(directory):
    """Or the test above would prove nothing."""
    for forbidden in ("import os; os.chown('.', -1, -1)", "import socket; socket.socket(socket.AF_NETLINK)"):
        done = subprocess.run(["/usr/bin/python3", "-c", FILTERED, UNIT, "/usr/bin/python3", "-c", forbidden], cwd=directory)
        assert done.returncode == -signal.SIGSYS


def status_of(daemon):
    lines = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_what_the_daemon_gives_up_by_itself(daemon):
    status = status_of(daemon)
    assert status["NoNewPrivs"] == "1" and status["Umask"] == "0077"
    limits = pathlib.Path(f"/proc/{daemon.process.pid}/limits").read_text()
    assert "Max core file size        0                    0" in limits
    for private in ("environ", "mem", "maps"):  # the user behind the tests is the daemon's own
        with pytest.raises(PermissionError):
            pathlib.Path(f"/proc/{daemon.process.pid}/{private}").read_bytes()


def refused(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=world.GIVE_UP, env={**os.environ, **world.NO_LEAKS})
    assert done.returncode == CONFIGURATION, done
    return done.stderr


def test_root_is_refused_and_other_users_only_root_can_become(database, directory, start_daemon):
    """What really happens when root names a user: tests/as_root."""
    start = [world.LEASED, "--database", database, "--listen", f"unix:{directory}/r.sock"]
    as_root = ["unshare", "--user", "--map-root-user"]
    assert "does not work as root: name a user with --user" in refused(*as_root, *start)
    assert "that is root" in refused(*as_root, *start, "--user", "root")
    assert "become user daemon: " in refused(*as_root, *start, "--user", "daemon")  # not mapped there
    assert "become user daemon: only root can" in refused(*start, "--user", "daemon")
    assert "there is no such user" in refused(*start, "--user", "no-such-user")
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert ctl(start_daemon(database, args=["--user", me]), "acquire", "x").returncode == 0
    assert subprocess.run([*as_root, world.LEASED, "schema", "print"], capture_output=True).returncode == 0
