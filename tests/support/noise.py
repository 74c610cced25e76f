"""Noise_IK_25519_ChaChaPoly_BLAKE2b and what leased makes of it, a second time: from the Noise text and PROTOCOL.md,
with the primitives of another library (python3-cryptography). Nothing here knows the C code."""
import base64
import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

NAME = b"Noise_IK_25519_ChaChaPoly_BLAKE2b"
PROLOGUE, LABEL = b"leased 1", b"leased 1 mac"
FIRST, SECOND = 112, 48  # bytes of the two packets
REKEY = 1


class Refused(Exception):
    pass


def public_of(secret):
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def new_secret():
    return X25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())


def dh(secret, public):
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as why:  # all zeros
        raise Refused(str(why))


def blake2b(*parts, **kwargs):
    return hashlib.blake2b(b"".join(parts), **kwargs).digest()


class Cipher:
    def __init__(self, key):
        self.key, self.n = key, 0

    def nonce(self):
        return bytes(4) + struct.pack("<Q", self.n)

    def encrypt(self, text, ad=b""):
        sealed = ChaCha20Poly1305(self.key).encrypt(self.nonce(), text, ad)
        self.n += 1
        return sealed

    def decrypt(self, sealed, ad=b""):
        try:
            text = ChaCha20Poly1305(self.key).decrypt(self.nonce(), sealed, ad)
        except InvalidTag:
            raise Refused("tag")
        self.n += 1
        return text

    def rekey(self):
        self.key = ChaCha20Poly1305(self.key).encrypt(bytes(4) + b"\xff" * 8, bytes(32), b"")[:32]


class Handshake:
    """One side; messages are made and read token by token."""

    def __init__(self, secret, remote=None, prologue=PROLOGUE, ephemeral=None):
        self.secret, self.remote, self.ephemeral = secret, remote, ephemeral or new_secret()
        self.remote_ephemeral = self.cipher = None
        self.h = self.ck = NAME + bytes(64 - len(NAME))
        self.mix_hash(prologue)
        self.mix_hash(remote or public_of(secret))  # the responder's static key

    def mix_hash(self, data):
        self.h = blake2b(self.h, data)

    def hkdf(self, data):
        def mac(key, text):
            return hmac.new(key, text, hashlib.blake2b).digest()
        temp = mac(self.ck, data)
        first = mac(temp, b"\1")
        return first, mac(temp, first + b"\2")

    def mix_key(self, data):
        self.ck, key = self.hkdf(data)
        self.cipher = Cipher(key[:32])

    def seal(self, text):
        sealed = self.cipher.encrypt(text, self.h)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed):
        text = self.cipher.decrypt(sealed, self.h)
        self.mix_hash(sealed)
        return text

    def write_first(self, payload=b""):
        e = public_of(self.ephemeral)
        self.mix_hash(e)
        self.mix_key(dh(self.ephemeral, self.remote))
        s = self.seal(public_of(self.secret))
        self.mix_key(dh(self.secret, self.remote))
        return e + s + self.seal(payload)

    def read_first(self, packet):
        self.remote_ephemeral = packet[:32]
        self.mix_hash(self.remote_ephemeral)
        self.mix_key(dh(self.secret, self.remote_ephemeral))
        self.remote = self.open(packet[32:80])
        self.mix_key(dh(self.secret, self.remote))
        return self.open(packet[80:])

    def write_second(self, payload=b""):
        e = public_of(self.ephemeral)
        self.mix_hash(e)
        self.mix_key(dh(self.ephemeral, self.remote_ephemeral))
        self.mix_key(dh(self.ephemeral, self.remote))
        return e + self.seal(payload)

    def read_second(self, packet):
        self.remote_ephemeral = packet[:32]
        self.mix_hash(self.remote_ephemeral)
        self.mix_key(dh(self.ephemeral, self.remote_ephemeral))
        self.mix_key(dh(self.secret, self.remote_ephemeral))
        return self.open(packet[32:])

    def split(self):
        first, second = self.hkdf(b"")
        return Cipher(first[:32]), Cipher(second[:32])


def mac(server, message):
    return blake2b(message, digest_size=16, key=blake2b(LABEL, server, digest_size=32))


def padded(size):
    """Padme, from 256 bytes on."""
    if size <= 256:
        return 256
    bits = size.bit_length() - 1
    low = bits - bits.bit_length()
    return (size + (1 << low) - 1) >> low << low


def record(cipher, data, flags=0):
    text = bytes([flags]) + struct.pack(">H", len(data)) + data
    sealed = cipher.encrypt(text + bytes(padded(len(text)) - len(text)))
    if flags & REKEY:
        cipher.rekey()
    return struct.pack(">H", len(sealed)) + sealed


def open_record(cipher, sealed):
    """The data of a record, given without its length."""
    text = cipher.decrypt(sealed)
    if text[0] & REKEY:
        cipher.rekey()
    return text[3:3 + struct.unpack(">H", text[1:3])[0]]


def key_text(kind, key):
    prefix = f"leased-{kind}:".encode()
    return (prefix + base64.urlsafe_b64encode(key + blake2b(prefix, key, digest_size=16)[:4])).decode()


def key_of_text(kind, text):
    key = base64.urlsafe_b64decode(text.removeprefix(f"leased-{kind}:"))[:32]
    assert key_text(kind, key) == text
    return key


class Client:
    """A connection to a daemon, up to the byte: what a client in another language would do."""

    def __init__(self, connection, server, secret=None):
        self.socket, self.server, self.secret = connection, server, secret or new_secret()
        self.input = b""

    def ask(self):
        self.handshake = Handshake(self.secret, self.server)
        message = self.handshake.write_first()
        return mac(self.server, message) + message

    def connect(self):
        self.socket.sendall(self.ask())
        self.finish(self.read(SECOND))
        return self

    def finish(self, packet):
        self.handshake.read_second(packet)
        self.out, self.inn = self.handshake.split()

    def read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise Refused("closed")
            data += part
        return data

    def send(self, data, flags=0):
        self.socket.sendall(record(self.out, data, flags))

    def receive(self):
        """The data of the next record."""
        return open_record(self.inn, self.read(struct.unpack(">H", self.read(2))[0]))

    def frame(self):
        """The body of the next frame."""
        while len(self.input) < 4 or len(self.input) < 4 + struct.unpack(">I", self.input[:4])[0]:
            self.input += self.receive()
        size = 4 + struct.unpack(">I", self.input[:4])[0]
        body, self.input = self.input[4:size], self.input[size:]
        return body


def random_bytes(rng, most):
    return bytes(rng.randrange(256) for _ in range(rng.randrange(most + 1)))


