"""TCP with keys: who has them gets in, everybody else is closed without a word, and nobody else is disturbed."""
import concurrent.futures
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import psycopg
import pytest

import noise
import raw
import world
from world import ctl, ctl_json, ctl_start, until


def keygen(path, *options):
    """Makes a key file; returns its public text."""
    done = subprocess.run([world.LEASECTL, "keygen", *options, path], capture_output=True, text=True, check=True,
                          env={**os.environ, **world.NO_LEAKS})
    return done.stdout.strip()


def secret_of(path, kind="client-key"):
    return noise.key_of_text(kind, pathlib.Path(path).read_text().strip())


class Sealed:
    """A daemon with a key, on a port of loopback."""

    def __init__(self, start_daemon, database, directory, *args, name="sealed"):
        self.dir = pathlib.Path(directory)
        self.key_file = self.dir / f"{name}.server-key"
        self.public_text = keygen(self.key_file, "--server")
        self.public = noise.key_of_text("server-pub", self.public_text)
        self.client_file = self.dir / f"{name}.client-key"
        self.client_text = keygen(self.client_file)
        self.secret = secret_of(self.client_file)
        self.clients = self.dir / f"{name}.clients"
        self.write_clients(f"tester {self.client_text} * **")
        self.daemon = start_daemon(database, name, args=["--listen", "tcp:127.0.0.1:0", "--key", str(self.key_file),
                                                                    "--authorized-clients", str(self.clients), *args])
        self.port = int(re.search(r"tcp:127\.0\.0\.1:(\d+)", self.daemon.log()).group(1))
        self.address = self.address_with(self.public_text)

    def address_with(self, public_text, port=None):
        return f"leased://127.0.0.1:{port or self.port}/{public_text}"

    def ctl(self, *args, key=None, address=None):
        return ctl(address or self.address, "--key", key or self.client_file, *args)

    def socket(self, source="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=world.GIVE_UP, source_address=(source, 0))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def client(self, source="127.0.0.1"):
        return noise.Client(self.socket(source), self.public, self.secret).connect()

    def greeted(self):
        client = self.client()
        client.send(raw.HELLO)
        assert raw.fields(client.frame())[2]  # welcome
        return client

    def write_clients(self, *lines):
        local = f"local uid={os.getuid()} * **"
        self.clients.write_text("".join(line + "\n" for line in (local, *lines)))

    def know(self, *lines):
        """Lets in these, this account, and nobody else."""
        self.write_clients(*lines)
        self.daemon.reload()

    def still_works(self):
        done = self.ctl("run", "probe", "--", "true")
        assert done.returncode == 0, done.stderr

    def said(self, why):
        """The reason of each stranger that was closed so far."""
        return [line for line in self.daemon.log().splitlines() if "event=stranger_closed" in line and why in line]

    def wait_said(self, why):
        until(lambda: self.said(why), f"a stranger closed because {why}")


@pytest.fixture
def sealed(start_daemon, database, directory):
    return Sealed(start_daemon, database, directory, "--handshake-timeout", "2s")


def said_to(s, data):
    """All that comes back on these last bytes; the daemon may have closed before they are all there."""
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    return raw.last_words(s)


# ---- those who have the keys ----

def test_leasectl_over_a_sealed_connection(sealed):
    done = sealed.ctl("run", "--value", "v" * 4096, "nightly", "--", "true")
    assert done.returncode == 0, done.stderr
    client = sealed.greeted()
    for i in range(200):
        client.send(raw.acquire(i + 1, f"many/{i}".encode(), i + 1, more=raw.field(6, b"x" * 4000)))
    for i in range(200):
        assert 3 in raw.fields(client.frame())
    rows = ctl_json(sealed.address, "--key", sealed.client_file, "list", "many/")
    assert len(rows) == 200 and rows[0]["value"] == "x" * 4000
    assert {row["principal"] for row in rows} == {"tester"}


def test_the_principal_is_who_has_the_key(sealed):
    other = sealed.dir / "other"
    sealed.know(f"tester {sealed.client_text} * **", f"other {keygen(other)} * **")
    lease = ctl_json(sealed.address, "--key", sealed.client_file, "acquire", "x")[0]
    claim = ["x", "--holder", lease["holder"], "--token", str(lease["token"])]
    assert sealed.ctl("release", *claim, key=other).returncode == 76
    assert sealed.ctl("release", *claim).returncode == 0


def test_a_database_role_of_the_same_name_is_another_principal(sealed, postgres, database):
    lease = ctl_json(sealed.address, "--key", sealed.client_file, "acquire", "x")[0]
    host, pid, nonce = lease["holder"].split(":")
    nonce = struct.unpack(">q", bytes.fromhex(nonce))[0]
    with postgres.connect() as admin:
        admin.execute("CREATE ROLE tester LOGIN IN ROLE leased_app")
    with psycopg.connect(database, user="tester", autocommit=True) as db:
        for verb in ("renew", "release"):
            with pytest.raises(psycopg.Error, match="it is held by"):
                db.execute(f"SELECT leased.{verb}('x', %s, %s, %s, %s)", (lease["token"], host, int(pid), nonce))
    assert sealed.ctl("release", "x", "--holder", lease["holder"], "--token", str(lease["token"])).returncode == 0


def test_a_client_of_another_make(sealed):
    """Hello in pieces, frames that share records, keys that change in between."""
    client = sealed.client()
    client.send(raw.HELLO[:3])
    client.send(raw.HELLO[3:] + raw.ping(1)[:2])
    assert raw.fields(client.frame())[2]
    client.send(raw.ping(1)[2:] + raw.ping(2) + raw.ping(3), noise.REKEY)
    client.send(raw.ping(4), noise.REKEY)
    client.send(raw.ping(5))
    assert [raw.fields(client.frame())[1] for _ in range(5)] == [1, 2, 3, 4, 5]


def test_large_frames_travel(sealed):
    client = sealed.greeted()
    claims = [raw.claim(f"n{i:05}".encode(), 1, 1) for i in range(900)]
    frame = raw.renew(1, claims)
    assert len(frame) > 30000
    for at in range(0, len(frame), 7001):
        client.send(frame[at:at + 7001])
    assert len(client.frame()) > 900
    client.send(frame)
    assert len(client.frame()) > 900


def test_a_lease_is_kept_over_it(sealed):
    done = sealed.ctl("run", "-t", "600ms", "x", "--", "sleep", "3")
    assert done.returncode == 0, done.stderr


def test_two_keys_of_one_client_are_one_principal(sealed):
    """So that a client changes its key while it holds leases."""
    second = sealed.dir / "second"
    sealed.know(f"tester {sealed.client_text} {keygen(second)} * **")
    lease = ctl_json(sealed.address, "--key", sealed.client_file, "acquire", "x")[0]
    done = sealed.ctl("renew", "x", "--holder", lease["holder"], "--token", str(lease["token"]), key=second)
    assert done.returncode == 0, done.stderr


# ---- those who have not ----

def test_a_key_that_nobody_knows(sealed):
    """It is told nothing, not even that it is unknown; the client says what may be wrong, the log what is."""
    stranger = sealed.dir / "stranger"
    text = keygen(stranger)
    done = sealed.ctl("get", "x", key=stranger)
    assert done.returncode == 77 and f"is our key in its authorized_clients? It is {text}" in done.stderr, done.stderr
    assert "is leased running there" not in sealed.ctl("doctor", key=stranger).stdout
    client = noise.Client(sealed.socket(), sealed.public, secret_of(stranger)).connect()
    client.send(raw.HELLO)
    assert raw.last_words(client.socket) == b""
    assert "this key is not in authorized_clients" in sealed.daemon.log()
    sealed.know(f"tester {sealed.client_text} * **", f"late {text} get **")
    assert sealed.ctl("get", "x", key=stranger).returncode == 75
    denied = sealed.ctl("acquire", "x", key=stranger)
    assert denied.returncode == 77 and "acquire" in denied.stderr, denied.stderr


def test_a_withdrawn_key_ends_at_once(sealed):
    """What is open with it, who waits, and what it runs; others go on."""
    other = sealed.dir / "other"
    both = [f"tester {sealed.client_text} * **", f"other {keygen(other)} * **"]
    sealed.know(*both)
    mine = noise.Client(sealed.socket(), sealed.public, secret_of(other)).connect()
    mine.send(raw.HELLO)
    assert raw.fields(mine.frame())[2]
    assert sealed.ctl("acquire", "-t", "1h", "busy").returncode == 0
    waiter = ctl_start(sealed.address, "--key", other, "run", "--wait", "1h", "busy", "--", "true")
    until(lambda: ctl_json(sealed.daemon, "get", "busy")[0]["waiters"] == 1, "a waiter")
    sealed.know(both[0])
    raw.last_words(mine.socket)
    assert waiter.wait(world.GIVE_UP) == 77
    assert "authorized_clients" in waiter.stderr.read()
    assert ctl_json(sealed.daemon, "get", "busy")[0]["waiters"] == 0
    sealed.still_works()


def test_a_line_of_another_name_is_another_principal(sealed):
    """Whose leases are not those of before: the connection ends, and the next one holds nothing."""
    lease = ctl_json(sealed.address, "--key", sealed.client_file, "acquire", "x")[0]
    mine = sealed.greeted()
    sealed.know(f"renamed {sealed.client_text} * **")
    assert b"has another name" in mine.frame()
    done = sealed.ctl("release", "x", "--holder", lease["holder"], "--token", str(lease["token"]))
    assert done.returncode == 76 and "(tester) holds it" in done.stderr


def test_a_key_without_rules_lets_nobody_in(sealed):
    """A configuration that lost its rules must not open the door."""
    args = [a for a in sealed.daemon.command if a not in ("--authorized-clients", str(sealed.clients))]
    done = subprocess.run(args, capture_output=True, text=True, timeout=world.GIVE_UP)
    assert done.returncode == 78 and "name the file that says who may do what in authorized_clients" in done.stderr, done.stderr



def test_a_wrong_server_key(sealed):
    public = keygen(sealed.dir / "another", "--server")
    done = sealed.ctl("get", "x", address=sealed.address_with(public))
    assert done.returncode == 69 and "is its key the one in the address" in done.stderr, done.stderr
    sealed.wait_said("not a handshake for our key")


def test_a_server_that_has_not_the_key(sealed):
    """Somebody in between who answers, as well as one can without the key."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = sealed.address_with(sealed.public_text, listener.getsockname()[1])

        def answer():
            listener.settimeout(3)
            try:
                while True:
                    s = listener.accept()[0]
                    with s:
                        packet = s.recv(noise.FIRST, socket.MSG_WAITALL)
                        assert len(packet) == noise.FIRST
                        s.sendall(noise.public_of(noise.new_secret()) + os.urandom(16))
                        s.recv(1)
            except TimeoutError:
                pass
        with concurrent.futures.ThreadPoolExecutor() as pool:
            pool.submit(answer)
            done = sealed.ctl("get", "x", address=address)
    assert done.returncode == 70 and "is not the daemon with the key of this address" in done.stderr, done.stderr


def test_plain_clients_are_closed_without_a_word(sealed):
    with sealed.socket() as s:
        s.sendall(raw.HELLO)
        assert raw.last_words(s) == b""
    assert ctl(f"tcp:127.0.0.1:{sealed.port}", "get", "x").returncode == 69
    sealed.wait_said("no handshake came in time")


def test_garbage_is_closed_without_a_word(sealed):
    for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10, bytes(noise.FIRST), os.urandom(noise.FIRST), b"\xff" * 4000,
                 os.urandom(100000)):
        with sealed.socket() as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert raw.last_words(s) == b""
    assert len(sealed.said("not a handshake for our key")) >= 5
    sealed.still_works()


def test_a_replayed_session_is_nobody(sealed):
    """All that a recorder has, sent again: an answer, which says nothing, and the end."""
    client = noise.Client(sealed.socket(), sealed.public, sealed.secret)
    first = client.ask()
    client.socket.sendall(first)
    client.finish(client.read(noise.SECOND))
    record = noise.record(client.out, raw.HELLO)
    client.socket.sendall(record)
    assert raw.fields(client.frame())[2]
    clients = sum(f["finding"].count("1 clients") for f in ctl_json(sealed.daemon, "doctor"))
    for _ in range(20):
        with sealed.socket() as s:
            s.sendall(first + record)
            assert len(raw.last_words(s)) == noise.SECOND
    with sealed.socket() as s:  # half of it
        s.sendall(first)
        assert len(raw.last_words(s)) == noise.SECOND
    assert sealed.said("its first record does not open: a replay")
    sealed.wait_said("no handshake came in time")
    assert clients == sum(f["finding"].count("1 clients") for f in ctl_json(sealed.daemon, "doctor"))
    sealed.still_works()


def test_any_bit_that_flips_ends_the_session(sealed):
    """Every byte that a client sends, in a connection of its own; nothing is executed after it."""
    lengths = [noise.FIRST, 2 + 256 + 16, 2 + 256 + 16]
    stops = [sum(lengths[:i + 1]) for i in range(len(lengths))]

    def attempt(at):
        client = noise.Client(sealed.socket(f"127.0.0.{2 + at % 200}"), sealed.public, sealed.secret)
        with client.socket:
            flipped = client.ask()
            if at < stops[0]:
                return said_to(client.socket, flip(flipped, at)) == b""
            client.socket.sendall(flipped)
            client.finish(client.read(noise.SECOND))
            hello = noise.record(client.out, raw.HELLO)
            if at < stops[1]:
                return said_to(client.socket, flip(hello, at - stops[0])) == b""
            client.socket.sendall(hello)
            client.frame()
            words = said_to(client.socket, flip(noise.record(client.out, raw.acquire(1, b"flipped", 1)), at - stops[1]))
            # a goodbye, or nothing where the length has grown
            return not words or 11 in raw.fields(noise.open_record(client.inn, words[2:])[4:])

    def flip(data, at):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        return bytes(changed)
    step = 7 if world.SANITIZED else 1
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(attempt, range(0, stops[-1], step)))
    assert sealed.ctl("get", "flipped").returncode == 75
    sealed.still_works()


def test_what_a_client_reads_is_checked_as_well(sealed):
    """A flipped bit on the way to leasectl: it never believes it, and goes on over a new connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, concurrent.futures.ThreadPoolExecutor(16) as pool:
        listener.settimeout(0.2)
        address = sealed.address_with(sealed.public_text, listener.getsockname()[1])
        places = [0, 31, 32, 47, 48, 49, 50, 100, 300, 48 + 273, 48 + 275, 400]

        def pump(source, target, at):
            seen = 0
            try:
                while data := source.recv(4096):
                    if at is not None and seen <= at < seen + len(data):
                        data = bytearray(data)
                        data[at - seen] ^= 1
                    seen += len(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        done = [pool.submit(sealed.ctl, "get", "x", address=address)]
        results, i = [], 0
        while done:
            try:
                s = listener.accept()[0]
                d = sealed.socket()
                at = places[i] if i < len(places) else None
                i += 1
                pool.submit(pump, s, d, None)
                pool.submit(pump, d, s, at)
            except TimeoutError:
                pass
            if done[0].done():
                results.append(done.pop().result().returncode)
                if i < len(places):
                    done.append(pool.submit(sealed.ctl, "get", "x", address=address))
    assert set(results) <= {75, 69, 70, 77} and i >= len(places)
    sealed.still_works()


def test_bad_frames_in_good_records(sealed):
    """Lengths of 0 and 4 GiB: a sealed goodbye says so."""
    for data, why in ((b"\0\0\0\0", b"length 0"), (b"\xff\xff\xff\xff", b"over the limit"), (struct.pack(">I", 61441), b"over the limit")):
        client = sealed.greeted()
        client.send(data)
        assert why in client.frame()
        assert raw.last_words(client.socket) == b""
    for length in (0, 19, 0xffff):  # of a record
        client = sealed.greeted()
        client.socket.sendall(struct.pack(">H", length) + b"x" * 100)
        assert b"does not open" in client.frame()
    client = sealed.client()
    client.send(b"\0\0\0\0")
    assert b"length 0" in client.frame()
    client = sealed.client()
    client.socket.sendall(struct.pack(">H", 600) + b"x" * 600)  # longer than a hello may be
    assert raw.last_words(client.socket) == b""
    sealed.still_works()


def test_slow_senders(sealed):
    """One byte at a time is fine as long as all comes in time; else it ends at the deadline, wherever it stands."""
    client = noise.Client(sealed.socket(), sealed.public, sealed.secret)
    for byte in client.ask():
        client.socket.sendall(bytes([byte]))
    client.finish(client.read(noise.SECOND))
    for byte in noise.record(client.out, raw.HELLO):
        client.socket.sendall(bytes([byte]))
    assert raw.fields(client.frame())[2]
    slow = [noise.Client(sealed.socket(), sealed.public, sealed.secret) for _ in range(4)]
    packets = [c.ask() for c in slow]
    begin = time.monotonic()
    slow[1].socket.sendall(packets[1][:1])
    slow[2].socket.sendall(packets[2][:-1])
    slow[3].socket.sendall(packets[3])
    slow[3].finish(slow[3].read(noise.SECOND))
    slow[3].socket.sendall(noise.record(slow[3].out, raw.HELLO)[:-1])
    for client in slow:
        assert raw.last_words(client.socket) == b""
    assert 1.9 < time.monotonic() - begin < 10
    assert len(sealed.said("no handshake came in time")) == 4


def test_a_client_that_never_reads_is_closed(sealed):
    client = sealed.greeted()
    client.socket.setblocking(False)
    before = sealed.daemon.memory_kb()
    pings = noise_pings(client)
    end = time.monotonic() + world.GIVE_UP
    while time.monotonic() < end and "client_does_not_read" not in sealed.daemon.log():
        try:
            pings = pings[client.socket.send(pings):] or noise_pings(client)
        except BlockingIOError:
            time.sleep(0.001)
        except (BrokenPipeError, ConnectionResetError):
            break
    assert "client_does_not_read" in sealed.daemon.log()
    assert world.SANITIZED or sealed.daemon.memory_kb() - before < 40000
    sealed.still_works()


def noise_pings(client):
    return noise.record(client.out, raw.ping(1) * 5000)


def test_strangers_are_bounded_and_real_clients_go_on(start_daemon, database, directory):
    sealed = Sealed(start_daemon, database, directory, "--handshake-timeout", "5s", "--max-handshakes", "400",
                    "--max-handshakes-per-address", "100")
    client = sealed.greeted()
    before = sealed.daemon.memory_kb()
    crowd = [sealed.socket("127.0.0.9") for _ in range(300)]
    until(lambda: sum(closed(s) for s in crowd) >= 200, "those beyond the limit of an address to be closed")
    assert sum(closed(s) for s in crowd) == 200
    sealed.still_works()  # from another address
    client.send(raw.ping(1))
    assert raw.fields(client.frame())[1] == 1
    for i in range(30):
        crowd += [sealed.socket(f"127.0.0.{10 + i}") for _ in range(50)]
    until(lambda: not_accepted(sealed.port) == 0, "the daemon to have seen them all")
    client.send(raw.ping(2))
    assert raw.fields(client.frame())[1] == 2
    open_now = sum(not closed(s) for s in crowd)
    assert open_now <= 400
    assert world.SANITIZED or sealed.daemon.memory_kb() - before < 5000
    until(lambda: all(closed(s) for s in crowd), "the crowd to be closed")
    sealed.still_works()
    for s in crowd:
        s.close()


def not_accepted(port):
    """Connections that still wait in the kernel: no file of the daemon's belongs to them (proc(5))."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(f[1].endswith(f":{port:04X}") and f[3] == "01" and f[9] == "0" for f in lines)


def closed(s):
    """Without reading what may still come."""
    s.setblocking(False)
    try:
        return s.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_unfinished_handshakes_of_one_address_are_bounded(start_daemon, database, directory):
    """A replay costs curve operations: so many, and then no more until some are forgiven."""
    sealed = Sealed(start_daemon, database, directory, "--max-handshakes-per-address", "20")
    client = noise.Client(sealed.socket(), sealed.public, sealed.secret)
    first = client.ask()
    client.socket.sendall(first)
    client.finish(client.read(noise.SECOND))
    answers = 0
    for _ in range(60):
        with sealed.socket("127.0.0.9") as s:
            s.sendall(first)
            try:
                answers += len(s.recv(noise.SECOND)) == noise.SECOND
            except ConnectionResetError:
                pass
    assert 20 <= answers < 50
    time.sleep(1.1)  # so much as a window of the log's limit takes
    for _ in range(8):
        with sealed.socket("127.0.0.9") as s:
            s.sendall(first)
            try:
                s.recv(1)
            except ConnectionResetError:
                pass
    assert sealed.said("too many unfinished handshakes")
    sealed.still_works()  # from another one
    for _ in range(60):  # those that are finished are not counted
        sealed.greeted().socket.close()


# ---- keys ----

def test_rotation_without_downtime(start_daemon, database, directory):
    conf = pathlib.Path(directory) / "leased.conf"
    old, new = pathlib.Path(directory) / "old", pathlib.Path(directory) / "new"
    old_text, new_text = keygen(old, "--server"), keygen(new, "--server")
    clients = pathlib.Path(directory) / "clients"
    clients.write_text(f"a {keygen(pathlib.Path(directory) / 'client')} * **\n")

    def configure(text):
        conf.write_text(f"authorized_clients = {clients}\n" + text)
    configure(f"key = {old}\n")
    daemon = start_daemon(database, "rot", args=["--config", str(conf), "--listen", "tcp:127.0.0.1:0"])
    port = int(re.search(r"tcp:127\.0\.0\.1:(\d+)", daemon.log()).group(1))

    def works(text):
        done = ctl(f"leased://127.0.0.1:{port}/{text}", "--key", f"{directory}/client", "get", "x")
        return done.returncode == 75

    def reload(text, event="reloaded"):
        configure(text)
        daemon.reload(event)

    public = noise.key_of_text("server-pub", old_text)
    client = noise.Client(socket.create_connection(("127.0.0.1", port)), public, secret_of(f"{directory}/client")).connect()
    client.send(raw.HELLO)
    assert raw.fields(client.frame())[2]
    assert works(old_text) and not works(new_text)
    plain = ctl(f"tcp:127.0.0.1:{port}", "get", "x")
    assert plain.returncode == 69 and "use its leased:// address" in plain.stderr, plain.stderr
    reload(f"key = {old}\nkey_next = {new}\n")
    assert works(old_text) and works(new_text)
    assert f"event=key_next public={new_text}" in daemon.log()
    os.chmod(new, 0o644)
    reload(f"key = {new}\n", "reload_failed")
    assert "chmod 600" in daemon.log()
    os.chmod(new, 0o600)
    assert works(old_text) and works(new_text)
    reload("", "reload_failed")
    reload(f"key = {new}\n")
    assert works(new_text) and not works(old_text)
    client.send(raw.ping(1))  # all the while
    assert raw.fields(client.frame())[1] == 1
    for secret in (old, new):
        assert secret.read_text().strip() not in daemon.log()


def test_a_key_that_others_can_read_is_refused(sealed):
    os.chmod(sealed.client_file, 0o640)
    done = sealed.ctl("get", "x")
    assert done.returncode == 78 and "chmod 600" in done.stderr
    os.chmod(sealed.key_file, 0o604)
    second = subprocess.run([*sealed.daemon.command, "--check-config"], capture_output=True, text=True, timeout=world.GIVE_UP)
    assert second.returncode == 78 and "chmod 600" in second.stderr


def test_keygen(directory):
    env = {"HOME": directory, "PATH": os.environ["PATH"], **world.NO_LEAKS}

    def run(*args, **more):
        return subprocess.run([world.LEASECTL, *args], capture_output=True, text=True, env={**env, **more},
                              timeout=world.GIVE_UP)
    done = run("keygen")
    assert done.returncode == 0 and re.fullmatch(r"leased-client-pub:[\w-]{48}\n", done.stdout)
    path = pathlib.Path(directory) / ".config/leased/key"
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert noise.key_text("client-pub", noise.public_of(secret_of(path))) == done.stdout.strip()
    again = run("keygen")
    assert again.returncode == 78 and "never written over" in again.stderr
    assert run("keygen", "--public").stdout == done.stdout
    assert run("--key", str(path), "keygen", "--public").stdout == done.stdout
    assert run("keygen", "--public", LEASED_KEY_FILE=str(path), HOME="/nonexistent").stdout == done.stdout
    server = run("-o", "json", "keygen", "--server", f"{directory}/s")
    assert '"kind":"server"' in server.stdout.replace(" ", "") and "leased-server-pub:" in server.stdout
    assert run("keygen", "--public", f"{directory}/s").returncode == 78  # a server's
    assert run("keygen", "--server").returncode == 64
    assert run("keygen", f"{directory}/a", f"{directory}/b").returncode == 64
    assert run("keygen", f"{directory}/none/a").returncode == 78
    assert not (pathlib.Path(directory) / "none").exists()
    for wrong in ("leased://127.0.0.1:1", "leased://127.0.0.1:1/", f"leased://127.0.0.1:1/{done.stdout.strip()}", "tcp:192.0.2.1:7420"):
        assert run("-s", wrong, "get", "x").returncode == 64, wrong
    server = f"leased://127.0.0.1:1/{noise.key_text('server-pub', bytes(range(32)))}"
    missing = run("-s", server, "--key", f"{directory}/none", "get", "x")
    assert missing.returncode == 78 and f"{directory}/none" in missing.stderr and "leasectl keygen makes one" in missing.stderr


def test_a_key_in_place_of_its_file_is_refused_and_not_repeated(sealed):
    secret = sealed.client_file.read_text().strip()
    done = sealed.ctl("get", "x", key=secret)
    assert done.returncode == 78 and "name the file" in done.stderr and secret[20:] not in done.stderr, done.stderr
    for option in "key", "key-next":
        done = subprocess.run([*sealed.daemon.command, f"--{option}", secret], capture_output=True, text=True, timeout=world.GIVE_UP)
        assert done.returncode == 64 and "a path that begins with /" in done.stderr and secret[20:] not in done.stderr, done.stderr
