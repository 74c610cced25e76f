"""The native protocol by hand, message by message (proto/PROTOCOL.md): for what leasectl would not do."""
import collections
import select
import socket
import struct
import time

HELLO = bytes.fromhex("00000006" "1204" "0801" "1001")  # version 1 to 1
KINDS = {2: "welcome", 3: "granted", 4: "renewed", 5: "released", 6: "lease", 7: "listing", 8: "pong", 9: "health", 10: "failure", 11: "goodbye", 12: "history",
         13: "stolen", 14: "lost", 15: "change", 16: "identity"}
EUNAVAILABLE, EHELD, ETIMEDOUT, ELOST, ENOTHELD, EBUSY, ECANCELLED = 3, 5, 6, 8, 9, 15, 16
GIVE_UP = 60  # seconds; far above what a loaded machine needs


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def holder(nonce, host=b"raw-host", pid=77):
    return field(1, host) + field(2, pid) + fixed64(3, nonce)


def claim(name, token, nonce):
    return field(1, name) + field(2, token) + field(3, holder(nonce))


def frame(body):
    return struct.pack(">I", len(body)) + body


def hello(*features):
    return frame(field(2, field(1, 1) + field(2, 1) + b"".join(field(3, feature) for feature in features)))


def acquire(request, name, nonce, ttl_ms=60000, wait_ms=0, more=b""):
    wait = field(4, wait_ms) if wait_ms else b""
    return frame(field(1, request) + field(3, field(1, name) + field(2, holder(nonce)) + field(3, ttl_ms) + wait + more))


def renew(request, claims, ttl_ms=0):
    ttl = field(2, ttl_ms) if ttl_ms else b""
    return frame(field(1, request) + field(4, b"".join(field(1, field(1, c) + ttl) for c in claims)))


def release(request, claimed, retry=False):
    return frame(field(1, request) + field(5, field(1, claimed) + (field(3, 1) if retry else b"")))


def get(request, name):
    return frame(field(1, request) + field(6, field(1, name)))


def cancel(request, which):
    return frame(field(1, request) + field(8, field(1, which)))


def ping(request):
    return frame(field(1, request) + field(9, b""))


def fields(body):
    """The fields of one message, the last of each number: integers and bytes."""
    return dict(all_fields(body))


def all_fields(body):
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value
    while at < len(body):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack_from("<Q", body, at)[0]
            at += 8
        else:
            size = number()
            yield key >> 3, body[at:at + size]
            at += size


def last_words(s):
    """All that comes until the other side closes."""
    data = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


class Answer(collections.namedtuple("Answer", "request kind body")):
    """What came for a request; its kind as KINDS has it, its body as it was sent."""

    @property
    def status(self):
        return fields(self.body)[1]

    @property
    def why(self):
        return fields(self.body)[2].decode()

    @property
    def token(self):
        return fields(self.body)[1]

    @property
    def statuses(self):
        """Of a Renewed, 0 being success."""
        return [fields(result).get(1, 0) for _, result in all_fields(self.body)]


class Client:
    """One connection of the user behind the tests."""

    def __init__(self, path, *features):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.input = b""
        self.send(hello(*features))
        assert self.answer().kind == "welcome"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, *frames):
        self.socket.sendall(b"".join(frames))

    def answer(self, within=GIVE_UP):
        """The next one, in the order in which they come. None: there was none."""
        end = time.monotonic() + within
        while len(self.input) < 4 or len(self.input) < 4 + struct.unpack(">I", self.input[:4])[0]:
            if not select.select([self.socket], [], [], max(0, end - time.monotonic()))[0]:
                return None
            part = self.socket.recv(65536)
            assert part, "the daemon has closed the connection"
            self.input += part
        size = struct.unpack(">I", self.input[:4])[0]
        message, self.input = self.input[4:4 + size], self.input[4 + size:]
        found = fields(message)
        kind = next(number for number in found if number in KINDS)
        return Answer(found.get(1, 0), KINDS[kind], found[kind])

    def ask(self, *frames):
        self.send(*frames)
        return self.answer()

    def acquire(self, name, nonce, ttl_ms=60000, wait_ms=0, more=b""):
        """The token, or None."""
        answer = self.ask(acquire(1, name, nonce, ttl_ms, wait_ms, more))
        return answer.token if answer.kind == "granted" else None

    def release(self, name, token, nonce):
        return self.ask(release(2, claim(name, token, nonce))).kind == "released"
