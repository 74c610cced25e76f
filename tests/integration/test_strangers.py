"""Bytes from strangers: closed with a reason, others unharmed, memory bounded."""
import random
import signal
import socket
import struct
import time

import psycopg
import pytest

import raw
import world
from raw import HELLO, field
from world import ctl, ctl_json, ctl_start, until

BODY_MAX = 61440


def connect(daemon):
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(daemon.socket))  # waits for room in the backlog, as one with a timeout does not
    s.settimeout(world.GIVE_UP)
    return s


def greeted(daemon):
    s = connect(daemon)
    s.sendall(HELLO)
    length = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0]
    welcome = s.recv(length, socket.MSG_WAITALL)
    assert daemon_principal(daemon).encode() in welcome
    return s


def daemon_principal(daemon):
    return next(f["finding"] for f in ctl_json(daemon, "doctor") if f["check"] == "principal").split()[-1]


def still_works(daemon):
    assert ctl(daemon, "run", "probe", "--", "true").returncode == 0


@pytest.fixture
def quick(database, start_daemon):
    """Short timeouts, so that silence ends within the test."""
    return start_daemon(database, args=["--handshake-timeout", "1s", "--idle-timeout", "2s"])


BEFORE_HELLO = {
    "length 0": (b"\0\0\0\0", b"length 0"), "length 4 GiB": (b"\xff\xff\xff\xff", b"over the limit"),
    "length 2 GiB": (b"\x80\0\0\0", b"over the limit"), "over the hello's limit": (struct.pack(">I", 513) + b"x" * 513, b"over the limit"),
    "garbage": (struct.pack(">I", 9) + b"\xff" * 9, b""), "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"over the limit"),
    "not a hello": (bytes.fromhex("00000002" "4a00"), b"must be a hello"), "another version": (bytes.fromhex("00000006" "1204" "0802" "1003"), b"version 1"),
}


@pytest.mark.parametrize("data,why", BEFORE_HELLO.values(), ids=BEFORE_HELLO.keys())
def test_a_bad_first_frame_is_closed_with_a_reason(quick, data, why):
    with connect(quick) as s:
        s.sendall(data)
        assert why in raw.last_words(s)
    still_works(quick)


AFTER_HELLO = {
    "length 0": b"\0\0\0\0", "over the limit": struct.pack(">I", BODY_MAX + 1), "garbage": struct.pack(">I", 5) + b"\xff" * 5,
    "a second hello": HELLO, "an unknown request": bytes.fromhex("00000005" "0801" "fa01" "00"), "nothing": bytes.fromhex("00000002" "0801"),
}


@pytest.mark.parametrize("data", AFTER_HELLO.values(), ids=AFTER_HELLO.keys())
def test_a_bad_later_frame_is_closed_with_a_reason(quick, data):
    with greeted(quick) as s:
        s.sendall(data)
        words = raw.last_words(s)
        assert words and words[4:6] != b"", words
    still_works(quick)


def test_silence_is_closed(quick):
    silent, cut, idle = connect(quick), connect(quick), greeted(quick)
    cut.sendall(HELLO[:7])
    assert b"no hello came in time" in raw.last_words(silent)
    assert b"no hello came in time" in raw.last_words(cut)
    assert b"ping more often" in raw.last_words(idle)
    still_works(quick)


def test_a_slow_sender_is_served_and_a_client_that_pings_stays(quick):
    with connect(quick) as s:
        for i in range(len(HELLO)):
            s.sendall(HELLO[i:i + 1])
        assert s.recv(4, socket.MSG_WAITALL)
    run = ctl_start(quick, "run", "-t", "10m", "x", "--", "sleep", "5")  # longer than the idle timeout
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == 0


def test_thousands_that_say_nothing(quick):
    """Memory stays bounded, real clients go on, and all are closed in time."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(2000 if world.SANITIZED else 10000, hard - 200)
    before = quick.memory_kb()
    crowd = []
    for i in range(count):
        crowd.append(connect(quick))
        if i % 3 == 0:
            crowd[-1].send(struct.pack(">I", 400) + b"x" * 20)  # a frame that never ends
        if i % 2000 == 0:
            still_works(quick)
    assert world.SANITIZED or quick.memory_kb() - before < 60000
    for s in crowd:
        raw.last_words(s)
        s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    still_works(quick)


def test_a_client_that_never_reads_is_closed(quick):
    """Its answers pile up to a bound, then it goes; memory comes back within it."""
    pings = (struct.pack(">I", 4) + bytes.fromhex("0801" "4a00")) * 8000
    before = quick.memory_kb()
    with greeted(quick) as s:
        s.setblocking(False)
        end = time.monotonic() + world.GIVE_UP
        while time.monotonic() < end and "client_does_not_read" not in quick.log():
            try:
                s.send(pings)
            except BlockingIOError:
                time.sleep(0.001)
            except (BrokenPipeError, ConnectionResetError):
                break
        assert "client_does_not_read" in quick.log()
    assert world.SANITIZED or quick.memory_kb() - before < 40000  # a sanitizer keeps what was freed
    still_works(quick)


def test_more_clients_than_allowed_are_told_so(database, start_daemon):
    daemon = start_daemon(database, args=["--max-clients", "5"])
    crowd = [greeted(daemon) for _ in range(4)]
    with connect(daemon) as fifth, connect(daemon) as sixth:
        assert b"too many clients" in raw.last_words(sixth)
        fifth.sendall(HELLO)
        assert fifth.recv(4)
    for s in crowd:
        s.close()
    until(lambda: ctl(daemon, "get", "x").returncode == 75, "room again")


def test_random_bytes_after_the_hello(quick):
    rng = random.Random(7)
    for _ in range(200):
        with greeted_quickly(quick) as s:
            body = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60)))
            try:
                s.sendall(struct.pack(">I", len(body)) + body)
                s.shutdown(socket.SHUT_WR)
                raw.last_words(s)
            except (BrokenPipeError, ConnectionResetError):
                pass
    still_works(quick)


def greeted_quickly(daemon):
    s = connect(daemon)
    s.sendall(HELLO)
    return s


def test_a_client_that_is_cut_in_the_middle_of_a_frame(quick):
    for _ in range(50):
        with greeted_quickly(quick) as s:
            s.sendall(struct.pack(">I", 60000) + b"x" * 1000)
    still_works(quick)


def test_term_answers_what_is_in_flight_and_leaves(database, start_daemon):
    daemon = start_daemon(database)
    jobs = [ctl_start(daemon, "acquire", f"t/{i}") for i in range(30)]
    daemon.signal(signal.SIGTERM)
    for job in jobs:
        job.communicate(timeout=world.GIVE_UP)
        assert job.returncode in (0, 69)
    assert daemon.process.wait(world.GIVE_UP) == 0


def test_term_answers_what_waits_for_a_row_and_takes_nothing_more(daemon, database):
    """A renewal that found its row locked, and is about to ask again. A client that has not even said hello comes too late."""
    with raw.Client(daemon.socket) as client, connect(daemon) as late, psycopg.connect(database) as db:
        claim = raw.claim(b"x", client.acquire(b"x", 1), 1)
        db.execute("SELECT FROM leased.leases FOR UPDATE")
        client.send(raw.renew(2, [claim]))
        assert client.answer(within=0.2) is None
        daemon.signal(signal.SIGTERM)
        daemon.wait_event("stopping")
        late.sendall(HELLO + acquire_frame(b"y", 1))
        client.send(raw.ping(3))
        assert client.answer(within=0.2) is None
        db.rollback()
        assert client.answer().statuses == [0]
        assert client.answer().kind == "goodbye"
        assert b"the daemon stops" in raw.last_words(late)
    assert daemon.process.wait(world.GIVE_UP) == 0
    with psycopg.connect(database) as db:
        assert db.execute("SELECT name FROM leased.leases").fetchall() == [("x",)]


def test_hup_reads_the_configuration_again_or_keeps_it(database, directory, start_daemon):
    conf = f"{directory}/leased.conf"
    with open(conf, "w") as f:
        f.write("ttl_max = 1h\n")
    daemon = start_daemon(database, args=["--config", conf])
    assert ctl(daemon, "acquire", "-t", "2h", "x").returncode == 65
    with open(conf, "w") as f:
        f.write("ttl_max = 3h\n")
    daemon.reload()
    assert ctl(daemon, "acquire", "-t", "2h", "x").returncode == 0
    assert "reload_incomplete" not in daemon.log()
    with open(conf, "w") as f:
        f.write("ttl_max = 3h\nsocket_mode = 0600\nconnect_timeout = 9s\n")
    daemon.reload("reload_incomplete")
    assert 'unchanged="socket_mode, connect_timeout"' in daemon.log()
    with open(conf, "w") as f:
        f.write("ttl_max = 3h\nttl_maxx = 1\n")
    daemon.reload("reload_failed")
    assert "line 2" in daemon.log() and "did you mean ttl_max" in daemon.log()
    assert ctl(daemon, "acquire", "-t", "2h", "y").returncode == 0


def test_hup_in_dev_mode_has_nothing_to_complain_about(directory):
    """Its database and its address are not in the configuration, and do not count as changed."""
    log = world.pathlib.Path(directory, "log")
    with open(log, "wb") as f:
        dev = world.start([world.LEASED, "--dev"], stderr=f, die_by=signal.SIGTERM)
    until(lambda: "event=ready" in log.read_text(), "the daemon")
    dev.send_signal(signal.SIGHUP)
    until(lambda: "event=reloaded" in log.read_text(), "the reload")
    assert "reload_incomplete" not in log.read_text()
    dev.terminate()
    assert dev.wait(world.GIVE_UP) == 0


def test_another_daemons_socket_is_not_taken_and_a_dead_ones_is(database, start_daemon):
    daemon = start_daemon(database, "one")
    import subprocess
    second = subprocess.run(daemon.command, capture_output=True, text=True, timeout=world.GIVE_UP)
    assert second.returncode == 78 and "another daemon answers there" in second.stderr
    still_works(daemon)
    daemon.kill()
    daemon.start()
    still_works(daemon)


def test_a_missing_directory_is_named(directory):
    """Not "permission denied", which is what libuv makes of it."""
    import subprocess
    command = [world.LEASED, "--database", "dbname=x", "--listen", f"unix:{directory}/none/leased.sock"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=world.GIVE_UP)
    assert done.returncode == 78
    assert f"{directory}/none: No such file or directory: make this directory" in done.stderr


def acquire_frame(name, nonce, ttl_ms=60000, more=b""):
    return raw.acquire(5, name, nonce, ttl_ms, more=more)


def granted_token(s):
    message = raw.fields(s.recv(struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL))
    assert message[1] == 5
    return raw.fields(message[3])[1]


def test_an_acquire_that_was_cut_before_its_answer_gets_the_same_grant(quick, start_daemon, database):
    """The client never read the answer; asked again with the same nonce, at this daemon or another."""
    other = start_daemon(database)
    for i in range(5):
        name = f"cut/{i}".encode()
        with greeted(quick) as s:  # else the Welcome meets a closed socket, and nothing more is read
            s.sendall(acquire_frame(name, 1000 + i))
        until(lambda: ctl(quick, "get", name).returncode == 0, "the grant that nobody heard of")
        shown = ctl_json(quick, "get", name)[0]["token"]
        for daemon in (quick, other):
            with greeted(daemon) as s:
                s.sendall(acquire_frame(name, 1000 + i))
                assert granted_token(s) == shown
            assert ctl(daemon, "acquire", name).returncode == 75  # another nonce is another holder
