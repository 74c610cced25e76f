"""Daemons that the tests of a file share: to start one costs more than most tests do.

Each test gets them as new: nobody is connected, and the database knows of no lease.
"""
import pathlib

import world
from world import until

WIPE = "DELETE FROM leased.leases; DELETE FROM leased.waiters; DELETE FROM leased.slots; DELETE FROM leased.events"
CONNECTED = "03"  # the column St of /proc/net/unix


def has_clients(daemon):
    """The kernel lists each accepted connection by the path of its listener."""
    rows = (line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines())
    return any(row[5] == CONNECTED and row[7:] == [str(daemon.socket)] for row in rows)


class Kept:
    def __init__(self, directory, postgres):
        self.directory = directory
        name = postgres.create_database()
        self.database = postgres.conninfo(name)
        self.admin = postgres.connect(name)
        self.daemons = []
        self.started = 0

    def is_idle(self):
        """No daemon serves anybody, is known to watch, or works at anything that was asked."""
        return not any(map(has_clients, self.daemons)) and self.admin.execute(
            "SELECT NOT EXISTS (SELECT FROM leased.watchers) AND NOT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE application_name LIKE 'leased writer%' AND datname = current_database() AND state <> 'idle')").fetchone()[0]

    def lend(self, count):
        """The first `count`, alive and as new."""
        self.daemons = [daemon for daemon in self.daemons if daemon.process.poll() is None]
        until(self.is_idle, "kept daemons to have nothing to do")
        self.admin.execute(WIPE)
        while len(self.daemons) < count:
            self.started += 1
            self.daemons.append(world.Daemon(self.directory, self.database, f"kept{self.started}"))
            self.daemons[-1].wait_event("notifications_ready")
            world.started.remove(self.daemons[-1].process)  # it does not end with the test
        for daemon in self.daemons[:count]:
            daemon.seen = daemon.log_path.stat().st_size
        return self.daemons[:count]

    def drop(self, show=False):
        """Stops all: a test failed, or there are no more."""
        daemons, self.daemons = self.daemons, []
        for daemon in daemons:
            daemon.end(show)
