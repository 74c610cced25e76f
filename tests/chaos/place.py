"""What a chaos run breaks: two PostgreSQL servers, one the synchronous standby of the other, PgBouncer, a network,
daemons that reach the database in three ways, and programs that contend for a few leases."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import world
from proxy import Proxy
from test_contention import Crowd
from world import until

FAKETIME = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
NAMES, TTL_MS = 6, 2000
# Both wait for a standby with each commit: a promotion loses nothing, as long as nobody is asked to go on without.
SETTINGS = "synchronous_standby_names='*'\nwal_level=replica\nmax_wal_senders=5\nhot_standby=on\nmax_connections=40\nwal_keep_size=64MB\n"


def stepped(clock):
    """What starts a program whose time of day is as much ahead as the file says; its other clocks are not."""
    return {**os.environ, **world.NO_LEAKS, "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}


class Node(world.Postgres):
    """One server. Its disk is small where we may mount one (see run)."""

    def __init__(self, directory, clock, primary=None):
        directory.mkdir()
        self.clock = clock
        self.primary = primary
        disk = os.environ.get(f"LEASED_DISK_{directory.name.upper()}")
        self.disk = pathlib.Path(disk) if disk else None
        if self.disk:
            (directory / "data").symlink_to(self.disk / "data")
        super().__init__(directory, SETTINGS, make=self.make)

    def make(self, data):
        place = self.disk / "data" if self.disk else data
        shutil.rmtree(place, ignore_errors=True)
        if self.primary:
            subprocess.run([f"{world.pg_bin()}/pg_basebackup", "-h", self.primary.dir, "-U", "leased", "-D", place, "-R", "-c", "fast", "-X", "stream"],
                           check=True, capture_output=True)
        else:
            world.copy_of_cluster(place)
            place.chmod(0o700)

    def follow(self, primary):
        """Becomes its standby, with a fresh copy."""
        self.primary = primary
        self.configure(SETTINGS, make=self.make)
        return self.start()

    def start(self):
        return super().start(env=stepped(self.clock) if FAKETIME else None)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def revive(self):
        """Starts it if it has ended, however that came."""
        if not self.is_running():
            self.process = None
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def socket(self):
        return self.dir / ".s.PGSQL.5432"


class Site:
    def __init__(self, directory, seed, lock_s):
        self.dir = pathlib.Path(directory)
        self.lock_s = lock_s  # how long a table is locked at most
        self.server_clock, self.client_clock = self.dir / "server.clock", self.dir / "client.clock"
        for clock in self.server_clock, self.client_clock:
            clock.write_text("+0\n")
        self.offset_s = self.went_back_s = 0
        self.forward = []  # when the server's clock was put ahead, as in beliefs: nanoseconds of CLOCK_BOOTTIME
        self.primary = Node(self.dir / "a", self.server_clock).start()
        self.standby = Node(self.dir / "b", self.server_clock, self.primary).start()
        self.to_database = self.proxy("to-database", self.primary.socket(), ".s.PGSQL.5432")
        self.pool_dir = self.dir / "pool"
        self.pool_dir.mkdir()
        self.pool = world.PgBouncer(self.pool_dir, self.primary)
        both = f"host={self.primary.dir},{self.standby.dir} user=daemon dbname=postgres"
        proxied = f"host={self.dir / 'to-database'} user=daemon dbname=postgres"
        self.daemons = [world.Daemon(self.dir, conninfo, f"d{i}", args=["--poll-interval", "500ms"], wait=None)
                        for i, conninfo in enumerate((both, proxied, self.pool.conninfo("postgres")))]
        for daemon in self.daemons:
            daemon.wait_event("database_ready")
        self.to_daemon = self.proxy("to-daemon", self.daemons[1].socket, "leased.sock")
        servers = world.servers(self.daemons)
        self.crowds = [Crowd(self.dir, f"unix:{self.dir}/to-daemon/leased.sock,{servers}", 4, 2, NAMES, TTL_MS, seed),
                       Crowd(self.dir, servers, 4, 2, NAMES, TTL_MS, seed + 1)]
        self.stepping = Crowd(self.dir, servers, 4, 2, NAMES, TTL_MS, seed + 2, env=stepped(self.client_clock)) if FAKETIME else None

    def proxy(self, name, target, socket):
        (self.dir / name).mkdir()
        return Proxy(self.dir / name / socket, target)

    def admin(self):
        """Waits for no standby."""
        return self.primary.connect(options="-c synchronous_commit=local")

    def promote(self):
        """The primary is gone without a word; its standby takes over, and it comes back as the standby."""
        old, new = self.primary, self.standby
        old.stop(signal.SIGQUIT)
        subprocess.run([f"{world.pg_bin()}/pg_ctl", "promote", "-D", new.data, "-s"], check=True)
        self.primary, self.standby = new, old
        self.to_database.target = str(new.socket())
        self.to_database.cut()
        self.to_database.heal()
        self.pool.route(new)
        old.follow(new)

    def is_replicated(self):
        with self.admin() as db:
            return db.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()

    def set_server_clock(self, by_s):
        self.offset_s += by_s
        self.went_back_s += max(0, -by_s)
        if by_s > 0:
            self.forward.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        self.server_clock.write_text(f"{self.offset_s:+}\n")

    def all_crowds(self):
        return self.crowds + ([self.stepping] if self.stepping else [])

    def beliefs(self):
        return [belief[:4] for crowd in self.all_crowds() for belief in crowd.beliefs()]

    def heal(self):
        """Whatever a fault has left: all run, and the standby has all."""
        for proxy in self.to_database, self.to_daemon:
            proxy.heal()
        for node in self.primary, self.standby:
            node.revive()
        for daemon in self.daemons:
            if daemon.process.poll() is not None:
                daemon.start(wait=None)
        if self.pool.process.poll() is not None:
            self.pool.start()
        until(self.is_replicated, "the standby to follow")

    def end_crowds(self):
        for crowd in self.all_crowds():
            crowd.stop()

    def stop(self):
        for daemon in self.daemons:
            daemon.end()
        self.pool.stop()
        for node in self.standby, self.primary:
            node.stop()
