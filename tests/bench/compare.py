"""leased beside peers that do the same work against the same PostgreSQL in the same run: ratios count.

A peer is one statement a request on its own connection (pgbench): direct with prepared statements, and through
PgBouncer in transaction mode. Everything is durable: fsync and synchronous_commit are on, max_connections is
PostgreSQL's default of 100, so direct clients end there.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402

PLACE = pathlib.Path(sys.argv[1])
SECONDS = float(os.environ.get("LEASED_BENCH_SECONDS") or 4)
ROUNDS = int(os.environ.get("LEASED_BENCH_ROUNDS") or 3)

ACQUIRE = r"""INSERT INTO leased.leases AS l (name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, renewed_at,
 expires_at, ttl_ms) VALUES ('peer/' || :client_id, nextval('leased.token_seq'), 'h', 1, 42, 'p', now(), now(),
 now() + interval '90 s', 90000) ON CONFLICT (name) WHERE NOT is_extra DO UPDATE SET token = greatest(nextval('leased.token_seq'), l.token + 1),
 holder_host = excluded.holder_host, holder_pid = excluded.holder_pid, holder_nonce = excluded.holder_nonce,
 principal = excluded.principal, acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at,
 expires_at = excluded.expires_at, released_at = NULL WHERE l.expires_at <= now() RETURNING token \gset
"""
# With the row of the history: the same work as leased does.
RELEASE = """WITH l AS (UPDATE leased.leases SET released_at = now(), expires_at = now() WHERE name = 'peer/' || :client_id
 AND token = :token AND holder_nonce = 42 AND released_at IS NULL AND expires_at > now() RETURNING *)
 INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal, acquired_at, ended_at)
 SELECT name, token, 'released', holder_host, holder_pid, holder_nonce, principal, acquired_at, now() FROM l;
"""
RENEW = """UPDATE leased.leases SET renewed_at = now(), expires_at = now() + interval '90 s' WHERE name = 'hold/' || :client_id
 AND token = :client_id + 1 AND holder_nonce = 42 AND released_at IS NULL AND expires_at > now() RETURNING expires_at;
"""


def one_acquire():
    """The daemon's own statement with arrays of one, for a new name each time."""
    values = {1: "ARRAY['one/' || :r]::text[]", 2: "'{h}'::text[]", 3: "'{1}'::int4[]", 4: "'{5}'::int8[]", 5: "'{p}'::text[]",
              6: "'{90000}'::int8[]", 7: "'{0}'::int8[]", 8: "'{null}'::text[]", 9: "'{0}'::int8[]", 10: "(SELECT last_epoch FROM leased.cluster)", 11: "77", 12: "true"}
    text = re.sub(r"--.*", "", (PLACE / "acquire.sql").read_text())
    for number, value in sorted(values.items(), reverse=True):
        text = re.sub(rf"\${number}(::\w+(\[\])?)?", lambda _, value=value: value, text)
    return "\\set r random(1, 1000000000000)\n" + " ".join(text.split()) + ";\n"


def percentile(samples, share):
    return sorted(samples)[int(share * (len(samples) - 1))] if samples else 0


class Bench:
    def __init__(self):
        self.dir = PLACE / "work"
        self.dir.mkdir()
        self.cluster = world.Postgres(self.dir, "fsync=on\nshared_buffers=256MB\nmax_connections=100\nmax_wal_size=4GB\n").start()
        (self.dir / "pool").mkdir()
        self.pool = world.PgBouncer(self.dir / "pool", self.cluster, "default_pool_size=20\n")
        self.daemon = world.Daemon(self.dir, self.cluster.conninfo())

    def stop(self):
        self.daemon.stop()
        self.pool.stop()
        self.cluster.stop()

    def sql(self, text):
        with self.cluster.connect() as conn:
            cursor = conn.execute(text)
            return cursor.fetchone() if cursor.description else None

    def pgbench(self, script, clients, pooled=False):
        """(transactions a second, p50 ms, p99 ms), or None where there are not enough connections."""
        if clients > 90 and not pooled:
            return None
        path, log = self.dir / "script.sql", self.dir / "latency"
        path.write_text(script)
        host = [f"-h{self.pool.dir}", "-p6432", "-Mextended"] if pooled else [f"-h{self.cluster.dir}", "-Mprepared"]
        done = subprocess.run([f"{world.pg_bin()}/pgbench", *host, "-Uleased", "-n", f"-c{clients}", "-j1", f"-T{int(SECONDS)}", "-l",
                               f"--log-prefix={log}", "-f", path, "postgres"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        logs = list(self.dir.glob("latency*"))
        samples = [int(line.split()[2]) / 1000 for file in logs for line in file.read_text().splitlines()]
        for file in logs:
            file.unlink()
        return float(re.search(r"tps = ([\d.]+)", done.stdout).group(1)), percentile(samples, 0.5), percentile(samples, 0.99)

    def load(self, mode, clients, seconds=SECONDS, *more):
        done = subprocess.run([PLACE / "load", self.daemon.address, mode, str(clients), str(seconds), *map(str, more)],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return dict(pair.split("=") for pair in done.stdout.split())

    def leased(self, mode, clients, leases=1):
        found = self.load(mode, clients, SECONDS, leases)
        return float(found["per_second"]), float(found["p50_ms"]), float(found["p99_ms"])

    def cpu_seconds(self):
        """(daemon, PostgreSQL with all its processes) since their start."""
        ticks = os.sysconf("SC_CLK_TCK")

        def used(pid, children):
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except FileNotFoundError:
                return 0  # it has just ended
            return sum(map(int, fields[11:15 if children else 13])) / ticks
        postmaster = self.cluster.process.pid
        pids = subprocess.run(["pgrep", "-P", str(postmaster)], capture_output=True, text=True).stdout.split()
        return used(self.daemon.process.pid, False), used(postmaster, True) + sum(used(pid, False) for pid in pids)


def medians(measure):
    """Of three rounds; each measure is a tuple or None."""
    rounds = [measure() for _ in range(ROUNDS)]
    return None if None in rounds else tuple(map(statistics.median, zip(*rounds)))


def show(found):
    return "-" if found is None else f"{found[0]:,.0f} ({found[1]:.2f} / {found[2]:.2f})"


def ratio(ours, theirs):
    return "-" if theirs is None else f"{ours[0] / theirs[0]:.1f}×"


def compare_cycles(bench):
    print("\nAcquire + release, cycles a second (p50 / p99 of a cycle in ms)\n")
    print("| clients | direct | through PgBouncer | leased | × direct | × PgBouncer |\n|---|---|---|---|---|---|")
    for clients in (1, 16, 64, 256):
        direct = medians(lambda: bench.pgbench(ACQUIRE + RELEASE, clients))
        pooled = medians(lambda: bench.pgbench(ACQUIRE + RELEASE, clients, pooled=True))
        ours = medians(lambda: bench.leased("cycle", clients))
        print(f"| {clients} | {show(direct)} | {show(pooled)} | {show(ours)} | {ratio(ours, direct)} | {ratio(ours, pooled)} |", flush=True)


def compare_acquire(bench):
    direct = medians(lambda: bench.pgbench(one_acquire(), 1))
    ours = medians(lambda: bench.leased("acquire", 1))
    print(f"\nOne client, p50 of a single acquire of a new name: the same statement sent directly {direct[1]:.2f} ms, "
          f"leased {ours[1]:.2f} ms: {ours[1] / direct[1]:.2f}×", flush=True)


def compare_renewals(bench):
    bench.sql("INSERT INTO leased.leases (name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, renewed_at, expires_at,"
              " ttl_ms) SELECT 'hold/' || i, i + 1, 'h', 1, 42, 'p', now(), now(), now() + interval '1 day', 90000 FROM generate_series(0, 300) i")
    print("\nRenewals a second (p50 / p99 of a request in ms); last, clients that hold 100 leases and renew them as libleased does, in one message\n")
    print("| clients | direct | through PgBouncer | leased | × direct | × PgBouncer | leased, 100 each | × direct |\n|---|---|---|---|---|---|---|---|")
    for clients in (1, 16, 64, 256):
        direct = medians(lambda: bench.pgbench(RENEW, clients))
        pooled = medians(lambda: bench.pgbench(RENEW, clients, pooled=True))
        ours = medians(lambda: bench.leased("renew", clients))
        many = medians(lambda: bench.leased("renew", clients, 100))
        print(f"| {clients} | {show(direct)} | {show(pooled)} | {show(ours)} | {ratio(ours, direct)} | {ratio(ours, pooled)} | {show(many)} | "
              f"{ratio(many, direct)} |", flush=True)


def compare_history(bench, clients=64):
    """The same cycles with and without the row that each grant leaves, in turns; each round begins with an empty table."""
    found = {"14d": [], "0": []}
    for turn in range(2 * ROUNDS):
        for keep in sorted(found, reverse=turn % 2 == 0):
            bench.daemon.stop()
            bench.sql("TRUNCATE leased.events")
            bench.sql("CHECKPOINT")
            bench.daemon = world.Daemon(bench.dir, bench.cluster.conninfo(), args=["--history-keep", keep])
            before, cpu = bench.sql("SELECT wal_bytes FROM pg_stat_wal")[0], bench.cpu_seconds()
            done = float(bench.load("cycle", clients)["done"]) * (SECONDS + 1) / SECONDS  # with the second of warming up
            time.sleep(1)  # statistics
            wal, used = bench.sql("SELECT wal_bytes FROM pg_stat_wal")[0] - before, sum(bench.cpu_seconds()) - sum(cpu)
            found[keep].append((done / (SECONDS + 1), float(wal) / done, used / done * 1e6))
    kept, none = (tuple(map(statistics.median, zip(*found[keep]))) for keep in ("14d", "0"))
    pairs = sorted(a[0] / b[0] for a, b in zip(found["14d"], found["0"]))
    print(f"\n{clients} clients, cycles a second: with history {kept[0]:,.0f}, without {none[0]:,.0f}; of each pair {statistics.median(pairs):.2f}× ({pairs[0]:.2f} to {pairs[-1]:.2f});"
          f" WAL bytes a cycle {kept[1]:.0f} and {none[1]:.0f}; CPU µs a cycle {kept[2]:.0f} and {none[2]:.0f}", flush=True)


def hold(bench, clients, leases, seconds, every_ms=30000):
    """Held leases, each renewed every 30 s by clients that each hold many; what that costs."""
    command = [PLACE / "load", bench.daemon.address, "hold", str(clients), str(seconds + 40), str(leases), str(every_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "all leases are held" not in process.stderr.readline():
        assert process.poll() is None, "load has ended"
    time.sleep(every_ms / 1000 + 2)  # the first renewals come in over a whole interval
    size = "SELECT pg_relation_size('leased.leases'), wal_bytes, (SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'leased %') FROM pg_stat_wal"
    before, cpu, begin = bench.sql(size), bench.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    after, cpu_after, took = bench.sql(size), bench.cpu_seconds(), time.monotonic() - begin
    memory = bench.daemon.memory_kb() / 1024
    out = dict(pair.split("=") for pair in process.communicate()[0].split())
    renewed = clients * leases * took * 1000 / every_ms
    daemon, server = (b - a for a, b in zip(cpu, cpu_after))
    print(f"\n{clients * leases:,} leases held by {clients:,} clients, each renewed every {every_ms / 1000:.0f} s, for {took:.0f} s:\n"
          f"  renewals a second {renewed / took:,.0f}; late {out['late']}, lost {out['lost']}; p50 {out['p50_ms']} ms, p99 {out['p99_ms']} ms, worst {out['max_ms']} ms a message\n"
          f"  cores used: daemon {daemon / took:.3f}, PostgreSQL {server / took:.3f}, together {(daemon + server) / took:.2f}\n"
          f"  CPU ms per 1,000 renewals: daemon {daemon * 1e6 / renewed:.1f}, PostgreSQL {server * 1e6 / renewed:.1f}\n"
          f"  WAL bytes a renewal {float(after[1] - before[1]) / renewed:.0f}; table {before[0] / 1e6:.0f} MB -> {after[0] / 1e6:.0f} MB\n"
          f"  memory of the daemon {memory:.0f} MB; connections to the database {after[2]}", flush=True)


def main():
    bench = Bench()
    try:
        print(f"{os.cpu_count()} cores, PostgreSQL {bench.sql('SHOW server_version')[0]}, medians of {ROUNDS} rounds of {SECONDS:.0f} s")
        if sys.argv[2:] == ["cycles"]:
            compare_acquire(bench)
            compare_cycles(bench)
        elif sys.argv[2:] == ["renewals"]:
            compare_renewals(bench)
        elif sys.argv[2:] == ["history"]:
            compare_history(bench)
        elif sys.argv[2:] == ["million"]:
            hold(bench, 1000, 1000, 300)
            bench.sql("DELETE FROM leased.leases")
            bench.sql("VACUUM FULL leased.leases")
            hold(bench, 10000, 100, 60)
        else:
            compare_acquire(bench)
            compare_cycles(bench)
            compare_renewals(bench)
            compare_history(bench)
            hold(bench, 100, 1000, 30)
    finally:
        bench.stop()


main()
