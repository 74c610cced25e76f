"""One client wants too much: it is held back, or goes; the others do not notice."""
import threading
import time

import pytest

import raw
import world
from test_strangers import still_works
from test_waiting import waiters
from world import until

HOUR_MS = 3600000


@pytest.fixture
def other(daemon):
    with raw.Client(daemon.socket) as client:
        yield client


def ask_and_never_read(daemon, greedy, other, chunks):
    """Chunks of answers pile up, one after the other; returns how many it took for the daemon to close."""
    for n in range(chunks):
        try:
            greedy.send(raw.ping(1) * 1000)
        except (BrokenPipeError, ConnectionResetError):
            return n
        other.ask(raw.ping(1))  # behind them
    return chunks


def test_cancels_of_a_client_that_never_reads_end_it_alone(daemon, other):
    """The answer to one of its cancels finds no room; that ends the session in the middle of the cancel."""
    assert other.acquire(b"x", 1, HOUR_MS)
    with raw.Client(daemon.socket) as greedy:
        room = ask_and_never_read(daemon, greedy, other, 10000)
    with raw.Client(daemon.socket) as greedy:
        greedy.send(*(raw.acquire(i, b"x", i, wait_ms=HOUR_MS) for i in range(1000, 3000)))
        until(lambda: waiters(daemon, "x") == 2000, "all to wait")
        assert ask_and_never_read(daemon, greedy, other, room - 2) == room - 2
        greedy.send(*(raw.cancel(1, i) for i in range(1000, 3000)))
        until(lambda: daemon.log().count("client_does_not_read") == 2, "its end")
    until(lambda: waiters(daemon, "x") == 0, "its waiters to leave")
    still_works(daemon)


def send_aside(client, frames):
    """Sends as fast as the daemon reads, which may be slow."""
    thread = threading.Thread(target=send_until_closed, args=(client, frames), daemon=True)
    thread.start()
    return thread


def send_until_closed(client, frames):
    try:
        client.send(*frames)
    except OSError:
        pass


def slowest_ping(client):
    slowest = 0
    for _ in range(20):
        begin = time.monotonic()
        assert client.ask(raw.ping(1)).kind == "pong"
        slowest = max(slowest, time.monotonic() - begin)
    return slowest


def slowest_renewal(client, name, token, nonce, times=5):
    slowest = 0
    for i in range(times):
        begin = time.monotonic()
        assert client.ask(raw.renew(2 + i, [raw.claim(name, token, nonce)])).statuses == [0]
        slowest = max(slowest, time.monotonic() - begin)
    return slowest


@pytest.mark.parametrize("name", [b"x", b"mine"], ids=["another name", "the same name"])
def test_one_claim_thousands_of_times_keeps_nobody_waiting(daemon, other, name):
    token = other.acquire(b"mine", 1)
    with raw.Client(daemon.socket) as greedy:
        send_aside(greedy, [raw.renew(1, [raw.claim(name, 5, 2)] * 1500)] * 40)
        time.sleep(0.2)
        assert slowest_renewal(other, b"mine", token, 1) < 1.5
    daemon.kill()  # else it first answers them all


def test_a_client_that_floods_leaves_the_queue_to_others(database, start_daemon):
    """Renewals count one by one, not by message: what one client may have in flight is a part of max_queued."""
    daemon = start_daemon(database, args=["--max-queued", "20000"])
    with raw.Client(daemon.socket) as other, raw.Client(daemon.socket) as greedy:
        token = other.acquire(b"mine", 1)
        claims = [raw.claim(b"%d" % i, 5, 2) for i in range(1400)]
        send_aside(greedy, [raw.renew(i, claims) for i in range(40)])
        assert slowest_renewal(other, b"mine", token, 1, times=20) < 1.5
        assert sorted(greedy.answer().request for _ in range(40)) == list(range(40))


def test_a_client_with_thousands_of_waits_is_still_heard(database, start_daemon):
    """4096 acquires wait; more are refused; renewals, pings and cancels are answered as ever."""
    daemon = start_daemon(database, args=["--idle-timeout", "4s"])
    with raw.Client(daemon.socket) as holder, raw.Client(daemon.socket) as greedy:
        held, mine = holder.acquire(b"x", 1, HOUR_MS), greedy.acquire(b"mine", 1)
        before, value = daemon.memory_kb("VmSize"), raw.field(6, b"v" * 1000)
        greedy.send(*(raw.acquire(10 + i, b"x", 10 + i, wait_ms=HOUR_MS, more=value) for i in range(4096)))
        refused = greedy.ask(raw.acquire(9, b"x", 9, wait_ms=HOUR_MS))
        assert refused.status == raw.EBUSY and "4096 acquires wait" in refused.why
        assert world.SANITIZED or daemon.memory_kb("VmSize") - before < 4096 * 10  # no more than they are

        def all_wait():
            greedy.ask(raw.ping(1)), holder.ask(raw.ping(1))
            return waiters(daemon, "x") == 4096
        until(all_wait, "all to wait")
        end = time.monotonic() + 5  # longer than silence may last
        while time.monotonic() < end:
            assert greedy.ask(raw.ping(1)).kind == "pong"
            assert greedy.ask(raw.renew(1, [raw.claim(b"mine", mine, 1)])).statuses == [0]
            assert holder.ask(raw.ping(1)).kind == "pong"
            time.sleep(0.1)
        flood = send_aside(greedy, [raw.cancel(1, 1 << 40)] * 200000)  # of nothing
        assert slowest_ping(holder) < 1.5
        while flood.is_alive():
            assert holder.ask(raw.ping(1)).kind == "pong"
            time.sleep(0.1)
        cancelled = greedy.ask(raw.cancel(1, 4000))
        assert (cancelled.request, cancelled.status) == (4000, raw.ECANCELLED)
        assert holder.release(b"x", held, 1)
        assert greedy.answer().kind == "granted"


def test_a_client_that_is_not_read_for_a_while_is_not_silent(own_postgres, start_daemon):
    """The database is away, the client's requests fill its share, and its pings stay in the socket."""
    daemon = start_daemon(own_postgres.conninfo(), args=["--idle-timeout", "1s", "--request-timeout", "2s"])
    own_postgres.stop()
    with raw.Client(daemon.socket) as greedy:
        greedy.send(*[raw.get(2, b"x")] * 4200)
        for _ in range(4):
            time.sleep(0.3)
            greedy.send(raw.ping(1))
        answers = [greedy.answer() for _ in range(4204)]
        assert sum(a.kind == "failure" and a.status == raw.EUNAVAILABLE for a in answers) == 4200


def test_large_requests_count_as_several(own_postgres, start_daemon):
    """The database is away: what a client has in flight is bounded in bytes too, whatever fills its frames."""
    daemon = start_daemon(own_postgres.conninfo())
    own_postgres.stop()
    with raw.Client(daemon.socket) as greedy:
        before = daemon.memory_kb()
        flood = send_aside(greedy, [raw.acquire(i + 1, b"%d" % i, i + 1, more=raw.field(100, b"x" * 60000)) for i in range(2000)])
        flood.join(3)
        assert flood.is_alive() and (world.SANITIZED or daemon.memory_kb() - before < 40000)
    daemon.kill()
