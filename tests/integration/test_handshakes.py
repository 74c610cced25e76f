"""What handshakes cost is bounded over all addresses, and whoever is honest has his turn while others flood."""
import select
import socket
import time

import pytest

import noise
import raw
from test_sealed import Sealed, keygen, secret_of
from world import until

SLOW = ["--handshake-timeout", "10m", "--max-handshakes-per-second", "1"]


@pytest.fixture
def start_sealed(start_daemon, database, directory):
    def start(*args):
        return Sealed(start_daemon, database, directory, *args)
    return start


def ask(sealed, source):
    """Half a handshake."""
    s = sealed.socket(source)
    s.sendall(noise.Client(s, sealed.public).ask())
    return s


def answered(sockets):
    return len(select.select(sockets, [], [], 0)[0])


def greet(sealed, source):
    client = sealed.client(source)
    client.send(raw.HELLO)
    assert raw.fields(client.frame())[2]


def test_so_many_a_second_and_no_more(start_sealed):
    sealed = start_sealed("--handshake-timeout", "10m", "--max-handshakes-per-second", "30")
    begin = time.monotonic()
    crowd = [ask(sealed, f"127.0.1.{i}") for i in range(60)]
    now = answered(crowd)
    assert now <= 4 + 30 * (time.monotonic() - begin)
    until(lambda: answered(crowd) == 60, "all of them to be answered")
    assert time.monotonic() - begin > 1.8  # 3 are saved up
    assert not sealed.said("")


def test_who_shows_a_key_that_we_know_is_not_counted_and_who_shows_another_is(start_sealed):
    """Each goes on at once, so that one handshake a second is enough for the first, and not for the second."""
    sealed = start_sealed(*SLOW)
    begin = time.monotonic()
    for _ in range(50):
        greet(sealed, "127.0.0.2")
    assert time.monotonic() - begin < 40
    stranger = secret_of_new(sealed)
    begin = time.monotonic()
    for _ in range(3):
        client = noise.Client(sealed.socket("127.0.0.3"), sealed.public, stranger).connect()
        client.send(raw.HELLO)
        assert raw.last_words(client.socket) == b""
    assert time.monotonic() - begin > 1.9


def secret_of_new(sealed):
    path = sealed.dir / "stranger"
    keygen(path)
    return secret_of(path)


def test_an_address_has_its_turn_while_another_floods(start_sealed):
    sealed = start_sealed(*SLOW)
    crowd = [ask(sealed, "127.0.0.9") for _ in range(100)]
    greet(sealed, "127.0.0.10")
    assert answered(crowd) < 100  # in the order in which they came that would be 100 s


def test_a_known_address_comes_first_while_many_flood(start_sealed):
    sealed = start_sealed(*SLOW)
    greet(sealed, "127.0.0.10")
    crowd = [ask(sealed, f"127.0.1.{i}") for i in range(100)]
    greet(sealed, "127.0.0.10")
    assert answered(crowd) < 100


def test_who_waits_and_leaves_or_speaks_costs_nothing(start_sealed):
    sealed = start_sealed(*SLOW)
    gone = [ask(sealed, f"127.0.1.{i}") for i in range(40)]
    for s in gone[:20]:
        s.close()
    for s in gone[20:]:
        s.sendall(b"x")
        s.shutdown(socket.SHUT_WR)
        assert len(raw.last_words(s)) in (0, noise.SECOND)
    begin = time.monotonic()
    greet(sealed, "127.0.2.1")
    assert time.monotonic() - begin < 30


def test_whose_turn_does_not_come_in_time_is_closed(start_sealed):
    sealed = start_sealed("--handshake-timeout", "1s", "--max-handshakes-per-second", "1")
    crowd = [ask(sealed, "127.0.0.9") for _ in range(30)]
    for s in crowd:
        assert len(raw.last_words(s)) in (0, noise.SECOND)
    assert sealed.said("its turn did not come in time: max_handshakes_per_second")
    greet(sealed, "127.0.0.10")


def test_a_known_address_has_room_while_silent_strangers_fill_it(start_sealed):
    sealed = start_sealed("--handshake-timeout", "10m", "--max-handshakes", "40")
    greet(sealed, "127.0.0.10")
    crowd = [sealed.socket(f"127.0.1.{i}") for i in range(200)]
    for _ in range(5):
        greet(sealed, "127.0.0.10")
    for s in crowd:
        s.close()
