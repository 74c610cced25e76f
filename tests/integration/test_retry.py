"""Asked again: whoever did not hear the answer gets it, whatever has happened since (PROTOCOL.md, section 5)."""
import raw
import world
from test_waiting import waiters
from world import until

HOUR_MS = 3600000


def test_a_grant_is_found_again_though_others_wait(daemon):
    with raw.Client(daemon.socket) as lost, raw.Client(daemon.socket) as other, raw.Client(daemon.socket) as again:
        token = lost.acquire(b"x", 1, wait_ms=HOUR_MS)
        lost.close()
        other.send(raw.acquire(1, b"x", 2, wait_ms=HOUR_MS))
        until(lambda: waiters(daemon, "x") == 1, "the other one to wait")
        assert again.acquire(b"x", 1, wait_ms=HOUR_MS) == token


def test_a_wait_that_is_asked_for_twice_lasts_and_ends_with_one_grant(database, start_daemon):
    """The first connection is cut off, but nobody knows that yet."""
    daemon = start_daemon(database, args=["--poll-interval", "200ms"])
    with raw.Client(daemon.socket) as holder, raw.Client(daemon.socket) as once, raw.Client(daemon.socket) as twice:
        held = holder.acquire(b"x", 1)
        for client in once, twice:
            client.send(raw.acquire(1, b"x", 7, wait_ms=HOUR_MS))
        assert twice.answer(within=1) is None and once.answer(within=0) is None
        assert holder.release(b"x", held, 1)
        assert once.answer().token == twice.answer().token > held


def test_a_release_asked_for_again_is_done_though_the_lease_has_gone_on(daemon):
    with raw.Client(daemon.socket) as holder, raw.Client(daemon.socket) as following:
        claim = raw.claim(b"x", holder.acquire(b"x", 1), 1)
        following.send(raw.acquire(1, b"x", 2, wait_ms=HOUR_MS))
        until(lambda: waiters(daemon, "x") == 1, "the next one to wait")
        assert holder.ask(raw.release(2, claim)).kind == "released"
        assert following.answer().kind == "granted"
        assert holder.ask(raw.release(3, claim, retry=True)).kind == "released"
        assert holder.ask(raw.release(4, claim)).status == raw.ENOTHELD
        assert following.answer(within=0) is None and world.ctl(daemon, "get", "x").returncode == 0
