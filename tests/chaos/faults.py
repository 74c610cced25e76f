"""The faults. Each breaks one thing for a while; what it leaves broken, Site.heal() mends."""
import contextlib
import os
import signal
import time

import psycopg

BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'leased%' OR backend_type = 'walwriter'"
KINDS = {}


def fault(function):
    KINDS[function.__name__.replace("_", " ")] = function
    return function


def for_a_while(rng, most=3):
    time.sleep(rng.uniform(0.2, most))


def frozen(pids, rng, most=3):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    for_a_while(rng, most)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@fault
def client_killed(site, rng):
    for _ in range(3):
        rng.choice(site.crowds).kill_one(rng)
        for_a_while(rng, 0.5)


@fault
def client_frozen(site, rng):
    """Past its ttl: what it held is taken over, and it must know at once when it wakes."""
    frozen([process.pid for process in rng.sample(rng.choice(site.crowds).processes, 2)], rng, 4)


@fault
def daemon_killed(site, rng):
    rng.choice(site.daemons).kill()
    for_a_while(rng)


@fault
def daemon_frozen(site, rng):
    frozen([rng.choice(site.daemons).process.pid], rng, 4)


@fault
def all_daemons_killed(site, rng):
    for daemon in site.daemons:
        daemon.kill()
    for_a_while(rng)


@fault
def pgbouncer_killed(site, rng):
    site.pool.process.kill()
    site.pool.process.wait()
    for_a_while(rng)


@fault
def pgbouncer_frozen(site, rng):
    frozen([site.pool.process.pid], rng, 4)


@fault
def postgres_crashed(site, rng):
    site.primary.stop(signal.SIGQUIT)
    for_a_while(rng, 1)


@fault
def postgres_restarted(site, rng):
    site.primary.stop()
    site.primary.start()


@fault
def postgres_frozen(site, rng):
    with site.admin() as db:
        pids = [pid for pid, in db.execute(BACKENDS).fetchall()]
    frozen(pids, rng)


@fault
def standby_promoted(site, rng):
    site.promote()


@fault
def standby_gone(site, rng):
    """Nothing can be committed until it is back."""
    site.standby.stop(signal.SIGQUIT)
    for_a_while(rng)


def either(site, rng):
    return rng.choice([site.to_database, site.to_daemon])


@fault
def connections_cut(site, rng):
    either(site, rng).cut()
    for_a_while(rng)


@fault
def network_stalled(site, rng):
    """What was sent arrives after all, much later."""
    either(site, rng).stall()
    for_a_while(rng, 4)


@fault
def network_slow(site, rng):
    either(site, rng).slow(rng.uniform(0.05, 0.5))
    for_a_while(rng, 4)


@fault
def disk_full(site, rng):
    filler = site.primary.disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
        while True:
            f.write(bytes(65536))
    for_a_while(rng)
    filler.unlink()


@fault
def clock_of_a_client_stepped(site, rng):
    for step_s in rng.choice([(3600, 0), (-3600, 0), (86400 * 400, 0)]):
        site.client_clock.write_text(f"{step_s:+}\n")
        for_a_while(rng, 1.5)


@fault
def clock_of_the_server_put_ahead(site, rng):
    site.set_server_clock(rng.choice([1, 5, 3600]))
    for_a_while(rng, 1)


@fault
def clock_of_the_server_put_back(site, rng):
    """Leases last for so much longer."""
    site.set_server_clock(-rng.uniform(0.5, 3).__round__())
    for_a_while(rng, 1)


@fault
def table_locked(site, rng):
    with site.admin() as db, db.transaction():
        db.execute("LOCK TABLE leased.leases IN ACCESS EXCLUSIVE MODE")
        for_a_while(rng, site.lock_s)


@fault
def vacuum_full(site, rng):
    with site.admin() as db:
        for table in "leases", "waiters", "events":
            db.execute(f"VACUUM FULL leased.{table}")


@fault
def no_connection_left(site, rng):
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(contextlib.closing(site.primary.connect(user="daemon")))
        with site.admin() as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'leased writer 1'")
        for_a_while(rng)


def possible(site):
    """Those that can be had here, and why others cannot."""
    without = {}
    if not site.primary.disk:
        without["disk full"] = "no file system may be mounted here"
    if not site.stepping:
        without.update({kind: "libfaketime is not installed" for kind in KINDS if kind.startswith("clock")})
    return {kind: fault for kind, fault in KINDS.items() if kind not in without}, without


