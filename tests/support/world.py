"""What integration tests start: PostgreSQL, PgBouncer, daemons, leasectl. All real, all private.

Everything listens on Unix sockets in a temporary directory, or on free loopback ports; whatever a test
starts is stopped by pid when its fixture ends.
"""
import ctypes
import functools
import glob
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

BIN = pathlib.Path(os.environ["LEASED_BIN_DIR"])
LEASED = BIN / "server" / "leased"
LEASECTL = pathlib.Path(os.environ.get("LEASED_CTL_DIR") or BIN) / "client" / "leasectl"
SANITIZED = "-fsanitize" in (BIN / "build.ninja").read_text() if (BIN / "build.ninja").exists() else False
# Looking for leaks takes a while at each exit: only where a process lives long enough to leak.
NO_LEAKS = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0"}
LEAKS = {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1"}
GIVE_UP = 60  # seconds; far above what a loaded machine needs


def pg_bin():
    return max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))


def until(condition, what, give_up=GIVE_UP):
    """Waits until condition() is true and returns its value."""
    end = time.monotonic() + give_up
    pause = 0.01
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)  # most conditions start a process: asked without rest they are the load of the tests
    raise AssertionError(f"gave up waiting for {what}")


def rounds(seconds, enough):
    """Goes round for a while, and on a slow machine until enough() has happened."""
    begin = time.monotonic()
    while (gone := time.monotonic() - begin) < seconds or not enough():
        assert gone < seconds + GIVE_UP, "too little happens"
        yield


started = []  # by start(), and not known to have ended
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def start(command, die_by=signal.SIGKILL, **kwargs):
    """Starts a process that ends with its test (end_started) and with pytest, should that be killed."""
    # The kernel watches the thread that forks, so a thread that ends before its children cannot promise.
    promise = threading.current_thread() is threading.main_thread()
    process = subprocess.Popen(command, **kwargs, preexec_fn=(
        lambda: libc.prctl(PR_SET_PDEATHSIG, die_by)) if promise else None)
    started.append(process)
    return process


def end_started(since=0):
    """Kills by pid what is left of all that was started after the first `since`."""
    for process in started[since:]:
        if process.poll() is None:
            process.kill()
            process.wait(GIVE_UP)
    del started[since:]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# Nobody works as the superuser "leased" but who says so: daemons and tests are the role "daemon", an ordinary
# one that owns its databases. What leased_daemon may do suffices too: see test_roles.py.
ROLES = """\
CREATE ROLE leased_owner;
CREATE ROLE leased_daemon;
CREATE ROLE leased_app;
CREATE ROLE leased_monitor;
CREATE ROLE daemon LOGIN IN ROLE leased_daemon;
ALTER DATABASE postgres OWNER TO daemon;
CREATE DATABASE with_schema OWNER daemon;
"""


def answers(directory, port=5432):
    return subprocess.run([f"{pg_bin()}/pg_isready", "-q", "-h", directory, "-p", str(port)]).returncode == 0


def make_cluster(data):
    """One whose database "with_schema" has ours, to make others from: migrating each cost more than most tests."""
    subprocess.run([f"{pg_bin()}/initdb", "-D", data, "-U", "leased", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8",
                    "--no-sync", "--wal-segsize=1"], check=True, capture_output=True)
    with temporary_directory() as sockets:
        server = start([f"{pg_bin()}/postgres", "-D", data, "-k", sockets, "-c", "listen_addresses=", "-c", "fsync=off"],
                       stderr=subprocess.DEVNULL, die_by=signal.SIGQUIT)
        until(lambda: answers(sockets), "PostgreSQL to start")
        subprocess.run([f"{pg_bin()}/psql", "-qX", "-v", "ON_ERROR_STOP=1", f"host={sockets} user=leased dbname=postgres"], input=ROLES.encode(), check=True)
        subprocess.run([LEASED, "schema", "apply", "--database", f"host={sockets} user=daemon dbname=with_schema"], check=True,
                       env={**os.environ, **LEAKS})
        server.send_signal(signal.SIGINT)
        server.wait(GIVE_UP)


@functools.cache
def kept_cluster():
    """Where this build keeps one with this schema."""
    schema = subprocess.run([LEASED, "schema", "print"], check=True, capture_output=True).stdout
    return BIN / "tests" / f"cluster-{hashlib.sha256(schema + ROLES.encode()).hexdigest()[:16]}"


def copy_of_cluster(data):
    """Making one takes seconds of CPU, a copy next to nothing: once for each build and schema will do."""
    kept = kept_cluster()
    if not kept.exists() and os.access(kept.parent, os.W_OK):
        made = pathlib.Path(tempfile.mkdtemp(dir=kept.parent))
        make_cluster(made / "data")
        try:
            (made / "data").rename(kept)
        except OSError:
            pass  # another test was faster
        shutil.rmtree(made)
    if kept.exists():
        shutil.copytree(kept, data)
        data.chmod(0o700)  # or the server refuses
    else:
        make_cluster(data)


class Postgres:
    """A private cluster. It crashes in tests, but never together with the machine: nothing need reach the disk."""

    def __init__(self, directory, settings="", port=5432, make=copy_of_cluster):
        self.dir = pathlib.Path(directory)
        self.port = port
        self.data = self.dir / "data"
        self.log = self.dir / "log"
        self.process = None
        self.databases = 0
        self.configure(settings, make)

    def configure(self, settings, make=copy_of_cluster):
        """A new cluster: make() gets its directory."""
        make(self.data)
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses=''\nunix_socket_directories='{self.dir}'\nport={self.port}\n"
                       f"max_connections=200\nshared_buffers=32MB\nfsync=off\n"
                       f"shared_preload_libraries=plpgsql\n{settings}\n")

    def start(self, env=None):
        with open(self.log, "ab") as log:
            self.process = start([f"{pg_bin()}/postgres", "-D", self.data], stdout=log,
                                 stderr=subprocess.STDOUT, die_by=signal.SIGQUIT, env=env)
        until((self.dir / f".s.PGSQL.{self.port}").exists, "PostgreSQL to start")
        until(lambda: answers(self.dir, self.port), "PostgreSQL to start")
        return self

    def stop(self, how=signal.SIGINT):
        """SIGINT: fast. SIGQUIT: immediate, as a crash."""
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(GIVE_UP)
            self.process = None

    def conninfo(self, dbname="postgres", user="daemon"):
        return f"host={self.dir} port={self.port} user={user} dbname={dbname}"

    def connect(self, dbname="postgres", user="leased", **kwargs):
        import psycopg
        return psycopg.connect(self.conninfo(dbname, user), autocommit=True, **kwargs)

    def create_database(self, template="with_schema"):
        """A new one; with template1 one without our schema."""
        self.databases += 1
        name = f"t{os.getpid()}_{self.databases}"
        with self.connect() as conn:
            conn.execute(f"CREATE DATABASE {name} OWNER daemon TEMPLATE {template} STRATEGY FILE_COPY")
        return name


class PgBouncer:
    """Transaction mode, in front of a cluster."""

    def __init__(self, directory, postgres, settings="", user="daemon"):
        self.dir = pathlib.Path(directory)
        self.config = self.dir / "pgbouncer.ini"
        self.settings, self.user = settings, user
        self.configure(postgres)
        self.start()

    def configure(self, postgres):
        self.config.write_text(
            f"[databases]\n* = host={postgres.dir} user={self.user}\n[pgbouncer]\nlisten_addr=\n"
            f"unix_socket_dir={self.dir}\nlisten_port=6432\npool_mode=transaction\nauth_type=any\n"
            f"max_client_conn=500\ndefault_pool_size=10\nlogfile={self.dir}/pgbouncer.log\n{self.settings}\n")

    def start(self):
        (self.dir / ".s.PGSQL.6432").unlink(missing_ok=True)
        self.process = start(["/usr/sbin/pgbouncer", self.config], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        until(lambda: (self.dir / ".s.PGSQL.6432").exists(), "PgBouncer to start")

    def route(self, postgres):
        """Sends it to another server, as what manages a cluster does at a failover."""
        self.configure(postgres)
        self.process.send_signal(signal.SIGHUP)

    def conninfo(self, dbname):
        return f"host={self.dir} port=6432 user=daemon dbname={dbname}"

    def stop(self):
        self.process.terminate()
        self.process.wait(GIVE_UP)


class Daemon:
    def __init__(self, directory, conninfo, name="leased", args=(), env=None, wait="database_ready"):
        self.dir = pathlib.Path(directory)
        self.socket = self.dir / f"{name}.sock"
        self.address = f"unix:{self.socket}"
        self.log_path = self.dir / f"{name}.log"
        self.command = [LEASED, *(["--database", conninfo] if conninfo else []), "--listen", self.address, *args]
        self.env = {**os.environ, **LEAKS, **(env or {})}
        self.process = None
        self.start(wait)

    def start(self, wait="database_ready"):
        self.seen = self.log_path.stat().st_size if self.log_path.exists() else 0
        with open(self.log_path, "ab") as log:
            self.process = start(self.command, stderr=log, env=self.env)
        if wait:
            self.wait_event(wait)

    def log(self):
        """What it has said since the last start."""
        with open(self.log_path, "rb") as f:
            f.seek(self.seen)
            return f.read().decode()

    def wait_event(self, event):
        def seen():
            if self.process.poll() is not None:
                raise AssertionError(f"leased ended with {self.process.returncode}:\n{self.log()}")
            return f"event={event}" in self.log()
        until(seen, f"event {event}")

    def signal(self, signo):
        self.process.send_signal(signo)

    def reload(self, event="reloaded"):
        """SIGHUP, and waits until it has said so once more."""
        before = self.log().count(f"event={event}")
        self.signal(signal.SIGHUP)
        until(lambda: self.log().count(f"event={event}") > before, event)

    def kill(self):
        self.process.kill()
        self.process.wait(GIVE_UP)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(GIVE_UP)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        return self.process.returncode

    def end(self, show=False):
        """Stops it, and looks whether it ended as it should and found nothing wrong with itself."""
        code = self.stop()
        text = self.log_path.read_text(errors="replace")
        if show:
            print(f"--- {self.log_path.name}\n{text}")
        assert "AddressSanitizer" not in text and "runtime error" not in text, text
        assert code in (0, -9), f"leased ended with {code}:\n{text}"

    def memory_kb(self, what="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{what}:")[1].split()[0])


def servers(daemons):
    if isinstance(daemons, str):
        return daemons
    if isinstance(daemons, Daemon):
        return daemons.address
    return ",".join(d.address for d in daemons)


def ctl(daemons, *args, **kwargs):
    """Runs leasectl to its end."""
    return subprocess.run([LEASECTL, "-s", servers(daemons), *args], capture_output=True,
                          timeout=GIVE_UP, **{"text": True, "env": {**os.environ, **NO_LEAKS}, **kwargs})


def ctl_json(daemons, *args):
    """The objects that leasectl prints."""
    done = ctl(daemons, "-o", "json", *args)
    return [json.loads(line) for line in done.stdout.splitlines()]


def ctl_start(daemons, *args, **kwargs):
    """Starts leasectl; the caller waits for it, and what a failing test leaves is killed."""
    return start([LEASECTL, "-s", servers(daemons), *args],
                 **{"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, **NO_LEAKS},
                               **kwargs})


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends while we read
        return False
    return state not in "ZX"


def temporary_directory():
    return tempfile.TemporaryDirectory(prefix="lsd", dir=os.environ.get("TMPDIR", "/tmp"),
                                       ignore_cleanup_errors=True)
