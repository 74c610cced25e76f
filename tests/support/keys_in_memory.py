"""Looks into a sealed daemon's memory, as only root can: where its key is, and those of its connections.

    keys_in_memory.py PID DIR     DIR/log is the daemon's, DIR/server and DIR/client are the keys of both sides
"""
import pathlib
import re
import socket
import sys
import time

import noise
import raw

GIVE_UP = 60
CAP_SYS_PTRACE = 19


def may_look():
    effective = re.search(r"CapEff:\s*(\w+)", pathlib.Path("/proc/self/status").read_text()).group(1)
    return int(effective, 16) >> CAP_SYS_PTRACE & 1


def places(pid, secret):
    """Where the daemon has these bytes, or most of them: the kind of memory of each place."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(at, 16) for at in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line:
                continue
            memory.seek(begin)
            data = memory.read(end - begin)
            found += [line.split()[-1]] * data.count(secret[1:-1])  # the ends of a scalar are changed to use it
    return found


def main():
    if not may_look():
        print("keys in memory: not looked for, without CAP_SYS_PTRACE")  # a container's root
        return
    pid, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    log = (directory / "log").read_text()
    port = int(re.search(r"tcp:127\.0\.0\.1:(\d+)", log).group(1))
    text = (directory / "server").read_text().strip()
    server = noise.key_of_text("server-key", text)
    client = noise.key_of_text("client-key", (directory / "client").read_text().strip())

    def connect():
        s = socket.create_connection(("127.0.0.1", port), timeout=GIVE_UP)
        return noise.Client(s, noise.public_of(server), client).connect()

    def check_server_key(when):
        assert len(places(pid, server)) == 1, f"{when}: the daemon's key is in {places(pid, server)}"
        assert not places(pid, text.split(":")[1].encode()), f"{when}: the text of the daemon's key is in memory"

    check_server_key("at the start")
    half = connect()
    keys = [half.out.key, half.inn.key]
    for key in keys:
        assert places(pid, key) == ["[heap]"], f"a key of half a handshake is in {places(pid, key)}"
    check_server_key("during a handshake")
    known = connect()
    known.send(raw.HELLO)
    assert raw.fields(known.frame())[2]
    keys += [known.out.key, known.inn.key]
    known.send(raw.ping(1), noise.REKEY)
    known.frame()
    assert not places(pid, keys[2]), "a key that was changed is still there"
    keys.append(known.out.key)
    for key in keys[3:]:
        assert places(pid, key) == ["[heap]"], f"a key of a connection is in {places(pid, key)}"
    shared = [noise.dh(client, noise.public_of(server)), noise.dh(known.handshake.ephemeral, known.handshake.remote_ephemeral)]
    for secret in shared:
        assert not places(pid, secret), "what the two sides have agreed on is still there"
    half.socket.close()
    known.socket.close()
    end = time.monotonic() + GIVE_UP
    while any(places(pid, key) for key in keys):
        assert time.monotonic() < end, "keys of connections that have closed are still there"
        time.sleep(0.1)
    check_server_key("at the end")


main()
