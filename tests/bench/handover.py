"""How long a hand-over takes: from just before a release is sent to the next contender's grant.

Two contenders pass one lock to and fro and hold it for a few milliseconds each, about 100 hand-overs a second;
both note times of one clock (CLOCK_MONOTONIC). Then the crash of a holder: from just before SIGKILL to the
next one's grant. Beside leased, in the same run: a blocking pg_advisory_lock, and a lock table that is polled.
"""
import multiprocessing
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import psycopg  # noqa: E402
import raw  # noqa: E402
import world  # noqa: E402

PLACE = pathlib.Path(sys.argv[1])
ROUNDS = int(os.environ.get("LEASED_BENCH_HANDOVERS") or 300)
CRASHES = int(os.environ.get("LEASED_BENCH_CRASHES") or 20)
HOLD_S = 0.007
TTL_MS = 4000
spawn = multiprocessing.get_context("fork")


class Leased:
    def __init__(self, path, on_disconnect=False):
        self.client = raw.Client(path)
        self.more = raw.field(10, 1) if on_disconnect else b""

    def acquire(self):
        self.nonce = int.from_bytes(os.urandom(8), "little")
        self.token = self.client.acquire(b"bench/handover", self.nonce, TTL_MS, 60000, self.more)
        assert self.token

    def release(self):
        assert self.client.release(b"bench/handover", self.token, self.nonce)


class Advisory:
    def __init__(self, conninfo):
        self.db = psycopg.connect(conninfo, autocommit=True)

    def acquire(self):
        self.db.execute("SELECT pg_advisory_lock(42)")

    def release(self):
        self.db.execute("SELECT pg_advisory_unlock(42)")


class Polling:
    """The usual lock table: a row, an expiry, a question every 100 ms."""

    def __init__(self, conninfo):
        self.db = psycopg.connect(conninfo, autocommit=True)

    def acquire(self):
        while not self.db.execute("UPDATE polled SET holder = pg_backend_pid(), expires_at = now() + interval '4 s' "
                                  "WHERE expires_at <= now()").rowcount:
            time.sleep(0.1)

    def release(self):
        self.db.execute("UPDATE polled SET expires_at = now() WHERE holder = pg_backend_pid()")


def contend(make, pipe, rounds):
    lock, times = make(), []
    pipe.send("ready")
    pipe.recv()
    for _ in range(rounds):
        lock.acquire()
        granted = time.monotonic()
        time.sleep(HOLD_S)
        times.append((granted, time.monotonic()))
        lock.release()
    pipe.send(times)


def start(make, work, *args):
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=work, args=(make, theirs, *args), daemon=True)
    process.start()
    ours.recv()
    return process, ours


def handovers(makes, rounds=ROUNDS):
    """Milliseconds from each release to the grant that follows it."""
    contenders = [start(make, contend, rounds) for make in makes]
    for _, pipe in contenders:
        pipe.send("go")
    held = sorted((*span, who) for who, (_, pipe) in enumerate(contenders) for span in pipe.recv())
    for process, _ in contenders:
        process.join()
    # A poller often takes what it has just given back: that is no hand-over.
    return sorted(1000 * (after[0] - before[1]) for before, after in zip(held, held[1:]) if after[2] != before[2])


def hold_for_ever(make, pipe):
    lock = make()
    lock.acquire()
    pipe.send("held")
    time.sleep(3600)


def wait_once(make, pipe):
    lock = make()
    pipe.send("ready")
    lock.acquire()
    pipe.send(time.monotonic())
    lock.release()


def crashes(makes, n):
    times = []
    for _ in range(n):
        holder, _ = start(makes[0], hold_for_ever)
        waiter, pipe = start(makes[1], wait_once)
        time.sleep(0.2)  # it stands in line by then
        begin = time.monotonic()
        os.kill(holder.pid, signal.SIGKILL)
        times.append(1000 * (pipe.recv() - begin))
        holder.join()
        waiter.join()
    return sorted(times)


def show(what, times):
    def at(share):
        return times[int(share * (len(times) - 1))]
    print(f"| {what} | {at(0.5):.1f} | {at(0.99):.1f} | {times[-1]:.1f} |", flush=True)


def main():
    work = PLACE / "work"
    work.mkdir()
    cluster = world.Postgres(work, "fsync=on").start()
    a, b = (world.Daemon(work, cluster.conninfo(), name, args=["--poll-interval", "10m"]) for name in ("a", "b"))
    try:
        for daemon in (a, b):
            daemon.wait_event("notifications_ready")
        with cluster.connect(user="daemon") as db:
            db.execute("CREATE TABLE polled AS SELECT 0 AS holder, now() AS expires_at")

        def advisory():
            return Advisory(cluster.conninfo())

        def polling():
            return Polling(cluster.conninfo())
        one, two = (lambda: Leased(a.socket)), (lambda: Leased(b.socket))
        gone, next_one = (lambda: Leased(a.socket, on_disconnect=True)), (lambda: Leased(a.socket))
        print("\nFrom a release to the next grant, ms, two contenders, about 100 hand-overs a second\n\n| | p50 | p99 | worst |\n|---|---|---|---|")
        show("blocking pg_advisory_lock", handovers((advisory, advisory)))
        show("lock table, polled every 100 ms", handovers((polling, polling), ROUNDS // 6))
        show("leased, one daemon", handovers((one, one)))
        show("leased, two daemons", handovers((one, two)))
        print("\nFrom the SIGKILL of a holder to the next grant, ms\n\n| | p50 | p99 | worst |\n|---|---|---|---|")
        show("blocking pg_advisory_lock", crashes((advisory, advisory), CRASHES))
        show("leased, released on disconnect", crashes((gone, next_one), CRASHES))
        show("leased, released on disconnect, two daemons", crashes((gone, two), CRASHES))
        show(f"leased, by expiry (ttl {TTL_MS / 1000:.0f} s)", crashes((one, two), 2))
    finally:
        a.stop()
        b.stop()
        cluster.stop()


main()
