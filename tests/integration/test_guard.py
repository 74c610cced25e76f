"""Proof at the moment of a write, with the daemon's batches beside it."""
import threading

import psycopg
import pytest

import world
from world import ctl, ctl_json, ctl_start, until

HELD = 75


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def test_a_take_over_waits_for_a_guarded_transaction(daemon, database):
    lease = ctl_json(daemon, "acquire", "-t", "500ms", "x")[0]
    with psycopg.connect(database) as app:
        app.execute("SELECT leased.guard('x', %s)", (lease["token"],))
        until(lambda: ctl(daemon, "get", "x").returncode == HELD, "the expiry")
        refused = ctl(daemon, "acquire", "x")
        assert refused.returncode == HELD and "guarded" in refused.stderr
        waiter = ctl_start(daemon, "acquire", "-w", "10m", "x")
        other = ctl(daemon, "acquire", "y")  # other names are not delayed
        assert other.returncode == 0 and waiter.poll() is None
        app.commit()
    waiter.communicate(timeout=world.GIVE_UP)
    assert waiter.returncode == 0


def test_renewals_pass_a_guarded_transaction(daemon, database):
    lease = ctl_json(daemon, "acquire", "x")[0]
    with psycopg.connect(database) as app:
        app.execute("SELECT leased.guard('x', %s)", (lease["token"],))
        for _ in range(3):
            assert ctl(daemon, "renew", "x", *claim(lease)).returncode == 0
        assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
        assert "guarded" in ctl(daemon, "acquire", "x").stderr  # free, but still used


def test_a_stale_token_raises_and_names_lease_and_holder(daemon, database):
    old = ctl_json(daemon, "acquire", "x")[0]
    ctl(daemon, "release", "x", *claim(old))
    new = ctl_json(daemon, "acquire", "x")[0]
    with psycopg.connect(database) as app:
        with pytest.raises(psycopg.Error) as raised:
            app.execute("SELECT leased.guard('x', %s)", (old["token"],))
        assert raised.value.sqlstate == "LE001"
        assert '"x"' in str(raised.value) and new["holder"] in str(raised.value)
        app.rollback()
        app.execute("SELECT leased.guard('x', %s)", (new["token"],))


def test_a_batch_is_not_delayed_by_a_guarded_row(daemon, database):
    """Fifty names in flight with one guarded among them: all others are granted while it is held."""
    lease = ctl_json(daemon, "acquire", "-t", "300ms", "n/guarded")[0]
    with psycopg.connect(database) as app:
        app.execute("SELECT leased.guard('n/guarded', %s)", (lease["token"],))
        until(lambda: ctl(daemon, "get", "n/guarded").returncode == HELD, "the expiry")
        guarded = ctl_start(daemon, "acquire", "-w", "10m", "n/guarded")
        others = [ctl_start(daemon, "acquire", f"n/{i}") for i in range(50)]
        for other in others:
            other.communicate(timeout=world.GIVE_UP)
            assert other.returncode == 0
        assert guarded.poll() is None
        app.rollback()
    guarded.communicate(timeout=world.GIVE_UP)
    assert guarded.returncode == 0


def test_no_guarded_write_commits_after_a_later_token(daemon, database):
    """Writers with leases that expire under them, against take-overs: the written tokens never fall."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("CREATE TABLE written (id bigserial PRIMARY KEY, token bigint)")
    stop = threading.Event()

    def write():
        with psycopg.connect(database, autocommit=True) as conn:
            while not stop.is_set():
                row = conn.execute("SELECT token FROM leased.try_acquire('w', 'h', 1, (random() * 1e15)::bigint, '0.25 s')").fetchone()
                if not row:
                    continue
                try:
                    for _ in range(20):
                        with conn.transaction():
                            conn.execute("SELECT leased.guard('w', %s)", row)
                            conn.execute("SELECT pg_sleep(random() * 0.04)")
                            conn.execute("INSERT INTO written (token) VALUES (%s)", row)
                except psycopg.Error as error:
                    assert error.sqlstate == "LE001", error

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    stop.wait(6)
    stop.set()
    for thread in threads:
        thread.join()
    with psycopg.connect(database) as conn:
        tokens = [row[0] for row in conn.execute("SELECT token FROM written ORDER BY id")]
    assert len(set(tokens)) > 3 and tokens == sorted(tokens)


def test_a_row_locked_by_hand_delays_its_own_lease_only(daemon, database):
    lease = ctl_json(daemon, "acquire", "locked")[0]
    other = ctl_json(daemon, "acquire", "other")[0]
    with psycopg.connect(database) as dba:
        dba.execute("SELECT * FROM leased.leases WHERE name = 'locked' FOR UPDATE")
        stuck = ctl_start(daemon, "renew", "locked", *claim(lease))
        for _ in range(2):
            assert ctl(daemon, "renew", "other", *claim(other)).returncode == 0
        assert stuck.poll() is None
        dba.rollback()
    stuck.communicate(timeout=world.GIVE_UP)
    assert stuck.returncode == 0


def test_an_uncommitted_insert_delays_its_own_lease_only(daemon, database):
    """An application holds a new name in an open transaction: the batch with it fails, its neighbours do not."""
    with psycopg.connect(database) as app:
        app.execute("SELECT * FROM leased.try_acquire('open', 'h', 1, 1)")
        stuck = ctl_start(daemon, "acquire", "open")
        others = [ctl_start(daemon, "acquire", f"o/{i}") for i in range(10)]
        for other in others:
            other.communicate(timeout=world.GIVE_UP)
            assert other.returncode == 0
        err = stuck.communicate(timeout=world.GIVE_UP)[1]
        assert stuck.returncode == 69 and "locked" in err
        app.commit()
    assert ctl(daemon, "acquire", "open").returncode == HELD
