"""One client wants too much: it is held back, or goes; the others do not notice."""
import time

import pytest

import raw
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
        greedy.send(*[raw.renew(1, [raw.claim(name, 5, 2)] * 1500)] * 40)
        assert slowest_renewal(other, b"mine", token, 1) < 1.5
    daemon.kill()  # else it first answers them all
