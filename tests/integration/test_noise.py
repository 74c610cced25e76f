"""Our handshake and records against a second implementation (support/noise.py), on random keys and payloads."""
import random
import subprocess

import pytest

import noise
import world

ROUNDS = 25 if world.SANITIZED else 60


class Peer:
    """The C code behind a pipe: support/noise_peer.c."""

    def __init__(self):
        self.process = world.start([world.BIN / "tests" / "support" / "noise_peer"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)

    def __call__(self, command, *args):
        words = [a if isinstance(a, str) else a.hex() or "-" for a in args]
        self.process.stdin.write(" ".join([command, *words]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().strip()
        if line == "refused":
            raise noise.Refused(command)
        return bytes.fromhex(line)


@pytest.fixture(scope="module")
def peer():
    peer = Peer()
    yield peer
    peer.process.stdin.close()
    assert peer.process.wait(world.GIVE_UP) == 0


@pytest.fixture
def rng(request):
    return random.Random(request.node.name)


def secret(rng):
    return rng.randbytes(32)


def payload(rng):
    return rng.randbytes(rng.choice([0, 0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 1000, rng.randrange(9000)]))


def handshake(peer, rng, ours_begins):
    """Ours against theirs; returns their ciphers (from us, to us)."""
    client, server, one, other, prologue = secret(rng), secret(rng), secret(rng), secret(rng), payload(rng)
    first, second = payload(rng), payload(rng)
    if ours_begins:
        theirs = noise.Handshake(server, None, prologue, other)
        peer("initiator", prologue, client, one, noise.public_of(server))
        assert theirs.read_first(peer("write", first)) == first
        assert theirs.remote == noise.public_of(client)
        assert peer("read", theirs.write_second(second)) == second
        from_us, to_us = theirs.split()
    else:
        theirs = noise.Handshake(client, noise.public_of(server), prologue, one)
        peer("responder", prologue, server, other)
        assert peer("read", theirs.write_first(first)) == first
        assert theirs.read_second(peer("write", second)) == second
        to_us, from_us = theirs.split()
    peer("split")
    return from_us, to_us


@pytest.mark.parametrize("ours_begins", [True, False], ids=["ours begins", "theirs begins"])
def test_handshakes_and_messages(peer, rng, ours_begins):
    for _ in range(ROUNDS):
        from_us, to_us = handshake(peer, rng, ours_begins)
        for _ in range(rng.randrange(1, 12)):
            text = payload(rng)
            if rng.random() < 0.2:
                peer("rekey-out")
                from_us.rekey()
            if rng.random() < 0.2:
                peer("rekey-in")
                to_us.rekey()
            if rng.random() < 0.5:
                assert from_us.decrypt(peer("encrypt", text)) == text
            else:
                assert peer("decrypt", to_us.encrypt(text)) == text


@pytest.mark.parametrize("ours_begins", [True, False], ids=["ours begins", "theirs begins"])
def test_a_changed_packet_is_refused_by_both(peer, rng, ours_begins):
    """And then nothing more is taken."""
    for _ in range(ROUNDS):
        client, server = secret(rng), secret(rng)
        if ours_begins:
            theirs = noise.Handshake(server, None)
            peer("initiator", noise.PROLOGUE, client, secret(rng), noise.public_of(server))
            packet, read = peer("write", b""), theirs.read_first
        else:
            theirs = noise.Handshake(client, noise.public_of(server))
            peer("responder", noise.PROLOGUE, server, secret(rng))
            packet, read = theirs.write_first(), lambda p: peer("read", p)
        bit = rng.randrange(8 * len(packet))
        changed = bytearray(packet)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(noise.Refused):
            read(bytes(changed))


def test_records(peer, rng):
    """Also their padding, and the keys that change each hour."""
    for _ in range(ROUNDS // 3):
        from_us, to_us = handshake(peer, rng, True)
        now = key_since = 0
        for _ in range(20):
            data = rng.randbytes(rng.choice([1, 253, 254, rng.randrange(1, 2000), rng.randrange(1, 63486), 63485]))
            if rng.random() < 0.5:
                assert peer("open", noise.record(to_us, data, rng.choice([0, 0, noise.REKEY]))) == data
                continue
            now += rng.choice([0, 1, 1000, 3599999, 3600000])
            sealed = peer("record", str(now), data)
            assert len(sealed) == 2 + noise.padded(3 + len(data)) + 16
            before = from_us.key
            assert noise.open_record(from_us, sealed[2:]) == data
            assert (from_us.key != before) == (now - key_since >= 3600000)
            key_since = key_since if from_us.key == before else now


def test_texts_and_macs(peer, rng):
    for _ in range(ROUNDS):
        key, message = secret(rng), rng.randbytes(96)
        for kind in ("client-pub", "client-key", "server-pub", "server-key"):
            assert peer("key", kind, key).decode() == noise.key_text(kind, key)
        assert peer("mac", key, message) == noise.mac(key, message)
