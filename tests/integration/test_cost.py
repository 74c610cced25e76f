"""What renewals do to the table: HOT updates, a flat size; and what a million requests do to the daemon's memory."""
import re
import subprocess

import psycopg

import world

LOAD = world.BIN / "tests" / "bench" / "load"


TTL_MS = 3600000  # nothing is lost on a slow machine, which renews less often


def hold(daemon, clients, seconds, leases, every_ms):
    done = subprocess.run([LOAD, daemon.address, "hold", *map(str, (clients, seconds, leases, every_ms, TTL_MS))], capture_output=True, text=True,
                          timeout=world.GIVE_UP * 3)
    assert done.returncode == 0, done.stderr
    return dict(pair.split("=") for pair in done.stdout.split())


def test_renewals_are_hot_and_the_table_stays_small(postgres, database, start_daemon):
    """100,000 renewals with autovacuum on: at least 99 % HOT, not more than twice the fresh size."""
    daemon = start_daemon(database)
    with psycopg.connect(database, autocommit=True) as conn:
        hold(daemon, 20, 0, 500, 1000)
        fresh = conn.execute("SELECT pg_relation_size('leased.leases')").fetchone()[0]
        renewed = 0
        while renewed < 100000:
            found = hold(daemon, 20, 6, 500, 500)
            assert found["lost"] == "0"
            renewed += int(found["done"])

        def statistics():
            conn.execute("SELECT pg_stat_clear_snapshot()")
            return conn.execute("SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size('leased.leases'), (SELECT count(*) FROM leased.leases) FROM pg_stat_user_tables"
                                " WHERE schemaname = 'leased' AND relname = 'leases'").fetchone()
        world.until(lambda: statistics()[0] >= renewed, "the statistics")
        updates, hot, size, rows = statistics()
        assert hot >= 0.99 * updates, (hot, updates)
        assert size <= 2 * fresh * rows / 10000, (size, fresh, rows)  # each round of load has names of its own


def test_large_batches_keep_the_plan(postgres, database):
    """Nested loops over the sorted array, whatever the statistics say: rows are visited in name order."""
    subprocess.run([world.LEASED, "schema", "apply", "--database", database], check=True)
    schema = world.pathlib.Path(__file__).resolve().parents[2] / "schema"
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("INSERT INTO leased.leases (name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, renewed_at, expires_at, ttl_ms)"
                     " SELECT 'n/' || i, i, 'h', 1, i, 'p', now(), now(), now() + interval '1 h', 90000 FROM generate_series(1, 20000) i")
        conn.execute("ANALYZE leased.leases")
        settings = (schema / "settings.sql").read_text().replace("$1", "'0'").replace("$2", "'0'").replace("$3", "false")
        conn.execute(settings)
        for parts in ("renew", "renew_value", "release", "release release_again", "acquire", "acquire_limited", "look look_one",
                      "look look_several", "queue", "leave", "list", "held", "history", "lapsed", "failed"):
            text, name = "".join((schema / f"{part}.sql").read_text() for part in parts.split()), parts.replace(" ", "_")
            conn.execute(f"PREPARE {name} AS {text}")  # as the daemon does: the casts in it say of which types they are
            nulls = ", ".join("NULL" for _ in set(re.findall(r"\$\d+", re.sub("--.*", "", text))))
            plan = "\n".join(row[0] for row in conn.execute(f"EXPLAIN EXECUTE {name}({nulls})"))
            assert "Seq Scan on leases" not in plan and "Seq Scan on events" not in plan and "Hash Join" not in plan and "Merge Join" not in plan, plan
            assert "Index" in plan or name == "acquire_limited", plan  # which leaves it to leased.take()


def test_memory_stays_flat(database, start_daemon):
    """The daemon keeps nothing of a lease: 5,000 of them held and renewed leave no trace."""
    daemon = start_daemon(database)
    hold(daemon, 20, 2, 10, 500)
    before = daemon.memory_kb()
    hold(daemon, 20, 4, 250, 2000)
    assert daemon.memory_kb() - before < 20000
