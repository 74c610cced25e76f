"""The native protocol by hand, message by message (proto/PROTOCOL.md): for what leasectl would not do."""
import socket
import struct

HELLO = bytes.fromhex("00000006" "1204" "0801" "1001")  # version 1 to 1


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


def fields(body):
    """The fields of one message, the last of each number: integers and bytes."""
    found, at = {}, 0

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
            found[key >> 3] = number()
        elif key & 7 == 1:
            found[key >> 3] = struct.unpack_from("<Q", body, at)[0]
            at += 8
        else:
            size = number()
            found[key >> 3] = body[at:at + size]
            at += size
    return found


class Client:
    """One connection that asks one thing at a time."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.socket.sendall(HELLO)
        self.answer()

    def answer(self):
        size = struct.unpack(">I", self.socket.recv(4, socket.MSG_WAITALL))[0]
        return fields(self.socket.recv(size, socket.MSG_WAITALL))

    def acquire(self, name, nonce, ttl_ms=90000, wait_ms=0, more=b""):
        """The token, or None."""
        body = field(1, name) + field(2, holder(nonce)) + field(3, ttl_ms) + (field(4, wait_ms) if wait_ms else b"") + more
        self.socket.sendall(frame(field(1, 1) + field(3, body)))
        granted = self.answer().get(3)
        return fields(granted)[1] if granted is not None else None

    def release(self, name, token, nonce):
        self.socket.sendall(frame(field(1, 2) + field(5, field(1, claim(name, token, nonce)))))
        return 5 in self.answer()
