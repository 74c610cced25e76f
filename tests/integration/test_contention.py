"""Many clients, several daemons, deaths at random from a recorded seed; a checker proves what design section 3 says.

LEASED_SOAK=SECONDS makes it longer, LEASED_SEED=N repeats a run's choices.
"""
import os
import pathlib
import random
import signal
import subprocess
import time

import psycopg

import world

CONTENDER = world.BIN / "tests" / "support" / "contender"
SECONDS = float(os.environ.get("LEASED_SOAK") or 30)
SEED = int(os.environ.get("LEASED_SEED") or random.randrange(1 << 16))


class Crowd:
    def __init__(self, directory, servers, count, threads, names, ttl_ms, seed, *more, env=None):
        self.env = env or {**os.environ, **world.NO_LEAKS}
        self.dir, self.servers, self.args, self.seed = pathlib.Path(directory), servers, (threads, names, ttl_ms, *more), seed
        self.processes, self.logs = [], []
        for _ in range(count):
            self.add()

    def add(self):
        log = self.dir / f"client{self.seed}-{len(self.logs)}.log"
        self.logs.append(log)
        command = [CONTENDER, self.servers, str(self.seed * 1000 + len(self.logs)), *map(str, self.args)]
        self.processes.append(subprocess.Popen(command, stdout=open(log, "wb"), stderr=subprocess.DEVNULL,
                                               env=self.env))

    def kill_one(self, rng):
        """Like a crash: its lease runs out. Another one joins."""
        process = self.processes.pop(rng.randrange(len(self.processes)))
        process.kill()
        process.wait(world.GIVE_UP)
        self.add()

    def freeze_one(self, rng, thaw):
        process = rng.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        thaw.append((time.monotonic() + rng.uniform(0.2, 3), process))

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        codes = [process.wait(world.GIVE_UP) for process in self.processes]
        # One that had not even connected ends by the signal itself.
        assert set(codes) <= {0, -signal.SIGTERM}, codes

    def beliefs(self):
        """(name, token, from_ns, to_ns, max_holders) of every whole line."""
        for log in self.logs:
            text = log.read_text()
            for line in text[:text.rfind("\n") + 1].splitlines():
                name, *numbers = line.split(" ")
                yield (name, *map(int, numbers))


def check_rows(rows, what):
    """(name, token, begin, end): per name, no two overlap, and tokens rise with time."""
    by_name = {}
    for name, token, begin, end in rows:
        assert begin <= end, (what, name, token)
        by_name.setdefault(name, []).append((begin, end, token))
    for name, grants in by_name.items():
        grants.sort()
        for (_, end, token), (begin, _, later) in zip(grants, grants[1:]):
            assert end <= begin, f"{what}: {name}: tokens {token} and {later} overlap by {end - begin}"
            assert token < later, f"{what}: {name}: token {later} came after {token}"
    return sum(map(len, by_name.values()))


def check_database(database):
    with psycopg.connect(database) as conn:
        ended = conn.execute("SELECT name, token, acquired_at, ended_at FROM leased.events").fetchall()
        # What has not been taken over yet ends at its expiry, or has ended at its release.
        lasting = conn.execute("SELECT name, token, acquired_at, expires_at FROM leased.leases WHERE released_at IS NULL").fetchall()
        assert check_rows(ended + lasting, "database") > 0
    return {(name, token) for name, token, _, _ in ended + lasting}


def steal(database, name):
    with psycopg.connect(database, autocommit=True) as conn:
        try:
            conn.execute("SELECT leased.steal(%s, 'chaos')", (name,))
        except psycopg.Error as e:
            assert e.sqlstate == "LE001", e  # nobody holds it


def stolen_tokens(database):
    with psycopg.connect(database) as conn:
        return set(conn.execute("SELECT name, token FROM leased.events WHERE ended = 'stolen'").fetchall())


def check_no_deadlock(postgres):
    assert "deadlock detected" not in postgres.log.read_text()


def make_trouble(rng, crowd, daemons, n_frozen, enough, steal_one=None):
    """For a while clients die and freeze, daemons die and come back, leases are stolen; then the crowd ends."""
    frozen, down = [], None
    for _ in world.rounds(SECONDS, enough):
        time.sleep(rng.uniform(0.02, 0.3))
        what = rng.random()
        if what < 0.35:
            crowd.kill_one(rng)
        elif what < 0.6 and len(frozen) < n_frozen:
            crowd.freeze_one(rng, frozen)
        elif what < 0.7 and not down:
            down = rng.choice(daemons)
            down.kill()
        elif what < 0.8 and down:
            down.start(wait=None)
            down = None
        elif what < 0.9 and steal_one:
            steal_one()
        for at, process in [f for f in frozen if f[0] < time.monotonic()]:
            process.send_signal(signal.SIGCONT)
            frozen.remove((at, process))
    crowd.stop()


def test_fifty_clients_three_daemons_five_names(own_postgres, start_daemon, directory):
    print(f"LEASED_SEED={SEED}")
    rng = random.Random(SEED)
    database = own_postgres.conninfo()
    daemons = [start_daemon(database, args=["--poll-interval", "300ms"]) for _ in range(3)]
    crowd = Crowd(directory, world.servers(daemons), 50, 2, 5, 1000, SEED)

    def untroubled():
        """Whoever is frozen while its lease is stolen cannot be told: there only the token protects."""
        stolen = stolen_tokens(database)
        return [belief[:4] for belief in crowd.beliefs() if belief[:2] not in stolen]
    make_trouble(rng, crowd, daemons, 5, lambda: len(untroubled()) > SECONDS, lambda: steal(database, f"c/{rng.randrange(5)}"))
    assert {belief[:2] for belief in crowd.beliefs()} <= check_database(database)
    assert check_rows(untroubled(), "clients") > SECONDS
    check_no_deadlock(own_postgres)


def test_batches_of_two_daemons_never_deadlock(own_postgres, start_daemon, directory):
    """Two daemons, each with clients that take, renew and release the same 200 names in random order."""
    database = own_postgres.conninfo()
    daemons = [start_daemon(database) for _ in range(2)]
    crowds = [Crowd(pathlib.Path(directory), daemon.address, 4, 16, 200, 900, SEED + i * 100) for i, daemon in enumerate(daemons)]
    for _ in world.rounds(2 * SECONDS, lambda: all(any(crowd.beliefs()) for crowd in crowds)):
        time.sleep(0.5)
    for crowd in crowds:
        crowd.stop()
    check_database(database)
    check_no_deadlock(own_postgres)
    for daemon in daemons:
        assert "40P01" not in daemon.log() and "event=batch_failed" not in daemon.log()


def test_the_checker_can_fail():
    """The proof is worth something only if a violation would be found."""
    for rows in ([("x", 1, 0, 10), ("x", 2, 9, 12)], [("x", 2, 0, 1), ("x", 1, 2, 3)], [("x", 1, 0, 1), ("x", 1, 2, 3)]):
        try:
            check_rows(rows, "made up")
        except AssertionError:
            continue
        raise AssertionError(f"not found: {rows}")
    assert check_rows([("x", 1, 0, 1), ("x", 2, 1, 2), ("y", 1, 0, 9)], "made up") == 3
