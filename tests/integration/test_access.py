"""authorized_clients: who may do what, what is told to whom, and that it holds for what is open already."""
import os
import pathlib
import re
import time

import psycopg
import pytest

import raw
import world
from raw import field, frame
from test_waiting import claim, waiters
from world import ctl, ctl_json, ctl_start, until

ME = f"uid={os.getuid()}"
DENIED = 77


def history(request, name=b"", failed=False, prefix=b"", limit=0, after=b""):
    return frame(field(1, request) + field(11, (field(1, name) if name else b"") + (field(2, 1) if failed else b"")
                                           + (field(3, prefix) if prefix else b"") + (field(5, limit) if limit else b"")
                                           + (field(6, after) if after else b"")))


def listing(request, prefix=b"", limit=0, exact=False):
    return frame(field(1, request) + field(7, field(1, prefix) + (field(3, limit) if limit else b"") + (field(5, 1) if exact else b"")))


def watch(request, prefix=b"", exact=False):
    return frame(field(1, request) + field(13, field(1, prefix) + (field(2, 1) if exact else b"")))


def steal(request, name):
    return frame(field(1, request) + field(12, field(1, name) + field(2, b"why")))


class Guarded:
    """A daemon with authorized_clients, and one beside it on the same database that lets everybody in."""

    def __init__(self, start_daemon, directory, database, *lines, args=()):
        self.path = pathlib.Path(directory) / "authorized_clients"
        self.write(*lines)
        self.daemon = start_daemon(database, "guarded", args=["--authorized-clients", str(self.path), *args])
        self.open = start_daemon(database, "open")

    def write(self, *lines):
        self.write_text("".join(line + "\n" for line in lines))

    def write_text(self, text):
        self.path.write_text(text)
        self.path.chmod(0o600)

    def reload(self, *lines, event="reloaded"):
        self.write(*lines)
        self.reload_text(self.path.read_text(), event)

    def reload_text(self, text, event):
        self.write_text(text)
        self.daemon.reload(event)


@pytest.fixture
def guard(start_daemon, directory, database):
    def start(*lines, args=()):
        return Guarded(start_daemon, directory, database, *lines, args=args)
    return start


def rows(daemon, *args):
    return [lease["name"] for lease in ctl_json(daemon, *args)]


def test_nobody_is_in_an_empty_file(guard):
    g = guard("# nobody yet")
    for command in (["get", "x"], ["acquire", "x"], ["list"], ["whoami"], ["doctor"]):
        done = ctl(g.daemon, *command)
        assert done.returncode != 0 and f"user {os.getuid()} is not in authorized_clients" in done.stdout + done.stderr, command
    assert ctl(g.daemon, "get", "x").returncode == DENIED
    g.reload(f"me {ME} get **")
    assert ctl(g.daemon, "get", "x").returncode == 75


@pytest.mark.parametrize("text,mode,why", [
    (None, 0o600, "No such file"), (f"me {ME} * **", 0o600, "line 1: the line has no end"),
    (f"me {ME} * **\nyou uid=", 0o600, "line 2: the line has no end"), (f"me {ME} * **\n", 0o666, "others may write it"),
    (f"me {ME} all **\n", 0o600, 'line 1: "all" is none of'), (f"me {ME} * **\n", 0o000, "Permission denied")])
def test_a_file_that_cannot_be_used_lets_nobody_start(database, directory, text, mode, why):
    path = pathlib.Path(directory) / "authorized_clients"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    command = [world.LEASED, "--database", database, "--listen", f"unix:{directory}/s", "--authorized-clients", path]
    for more in ([], ["--check-config"]):
        done = world.subprocess.run([*command, *more], capture_output=True, text=True, timeout=world.GIVE_UP)
        assert done.returncode == 78 and why in done.stderr, done.stderr
        assert not os.path.exists(f"{directory}/s")


def test_tcp_without_a_key_is_nobody(guard):
    port = world.free_port()
    g = guard(f"me {ME} * **", args=["--listen", f"tcp:127.0.0.1:{port}"])
    assert ctl(g.daemon, "acquire", "x").returncode == 0
    done = ctl(f"tcp:127.0.0.1:{port}", "get", "x")
    assert done.returncode == DENIED and "lets in keys" in done.stderr


def test_groups_count(guard):
    g = guard(f"me gid={os.getgid()} get **")
    assert ctl(g.daemon, "get", "x").returncode == 75
    g.reload(f"first {ME} list **", f"me gid={os.getgid()} get **")  # the first line that fits
    assert ctl(g.daemon, "get", "x").returncode == DENIED


def test_each_command_needs_its_rule(guard):
    """Twice each: with every rule but its own it is refused and says which one is missing, with its own it is done."""
    everything = ["acquire", "renew", "release", "get", "list", "watch", "history", "report", "steal"]
    g = guard(f"me {ME} get nothing")
    lease = ctl_json(g.open, "acquire", "-t", "10m", "a/x")[0]
    commands = [("get", ["get", "a/x"]), ("renew", ["renew", "a/x", *claim(lease)]), ("list", ["list", "a/"]),
                ("history", ["history", "a/x"]), ("history", ["history", "--failed", "a/"]),
                ("steal", ["steal", "a/x", "--reason", "r", "--token", str(lease["token"])]),
                ("acquire", ["acquire", "a/y"]), ("acquire", ["run", "a/z", "--", "true"]),
                ("release", ["release", "a/w", *claim(lease)])]
    for verb, command in commands:
        others = ",".join(v for v in everything if v != verb and not (verb == "renew" and v == "acquire"))
        g.reload(f"me {ME} {others} **")
        done = ctl(g.daemon, *command)
        assert done.returncode == DENIED, (command, done)
        assert f'me may not: a rule "{verb} a/' in done.stderr and "missing in authorized_clients" in done.stderr, done.stderr
    for verb, command in commands[:-1]:
        g.reload(f"me {ME} {verb},release a/*")
        assert ctl(g.daemon, *command).returncode == 0, command
    g.reload(f"me {ME} * **")
    assert ctl(g.daemon, "doctor").returncode == 0
    g.reload(f"me {ME} acquire,get **")
    assert 'a rule "report **" is missing' in ctl(g.daemon, "doctor").stdout


def test_each_name_of_several_needs_its_rule(guard):
    g = guard(f"me {ME} *,steal a")
    for names in (["a", "--and", "b"], ["b", "--and", "a"]):
        assert ctl(g.daemon, "acquire", *names).returncode == DENIED
    lease = ctl_json(g.open, "acquire", "a", "--and", "b")[0]
    for verb in ("renew", "release"):
        assert ctl(g.daemon, verb, "a", "--and", "b", *claim(lease)).returncode == DENIED
    assert ctl(g.open, "release", "a", "--and", "b", *claim(lease)).returncode == 0


def test_a_renewal_without_its_rule_spoils_no_other(guard):
    """Clients renew all that they hold by one message."""
    g = guard(f"me {ME} acquire a; acquire b")
    with raw.Client(g.daemon.socket) as client:
        claims = [raw.claim(name, client.acquire(name, i + 1), i + 1) for i, name in enumerate((b"a", b"b"))]
        g.reload(f"me {ME} acquire b")
        answer = client.ask(raw.renew(3, claims))
        results = [raw.fields(result) for number, result in raw.all_fields(answer.body) if number == 1]
        assert [r.get(1, 0) for r in results] == [10, 0] and b'a rule "renew a" is missing' in results[0][3]
        assert results[1][2] > 50000


def test_steal_goes_by_its_rule_and_not_by_the_account(guard):
    """The daemon runs as this very user."""
    g = guard(f"me {ME} * **; steal ops/*")
    for name in ("ops/a", "billing/a"):
        assert ctl(g.open, "acquire", name).returncode == 0
    assert ctl(g.daemon, "steal", "billing/a", "--reason", "r").returncode == DENIED
    assert ctl(g.daemon, "steal", "ops/a", "--reason", "r").returncode == 0


def test_lists_leave_out_what_may_not_be_seen(guard):
    g = guard(f"me {ME} list a/**; list,acquire m/*/x; list z")
    with raw.Client(g.open.socket) as client:
        names = [f"b/{i:04}" for i in range(250)] + ["a/1", "a/2", "a", "m/1/x", "m/1/y", "m/2/x", "z", "zz"]
        for i, name in enumerate(names):
            assert client.acquire(name.encode(), i + 1)
    seen = ["a/1", "a/2", "m/1/x", "m/2/x", "z"]
    assert rows(g.daemon, "list") == seen
    assert rows(g.daemon, "list", "m/") == ["m/1/x", "m/2/x"]
    assert ctl(g.daemon, "list", "b/").returncode == DENIED
    with raw.Client(g.daemon.socket) as client:
        text = client.ask(listing(1)).body
        assert b"b/" not in text and b"m/1/y" not in text and b"zz" not in text
        one = client.ask(listing(2, limit=1))
        assert b"a/1" in one.body and b"a/2" not in one.body and raw.fields(one.body)[2] == 1
        # One that could be seen is one of many: what is between is skipped, or asked for and left out.
        assert b"m/1/x" in client.ask(listing(3, b"m", limit=1)).body
        # Of one name, as of any other: neither whether it is there.
        assert client.ask(listing(4, b"b/0001", exact=True)).status == 10
        assert client.ask(listing(5, b"b/none", exact=True)).status == 10
    g.reload(f"me {ME} list *z*")
    assert rows(g.daemon, "list") == ["z", "zz"]  # behind three pages of nothing


def test_the_history_leaves_out_what_may_not_be_seen(guard):
    g = guard(f"me {ME} history a/**; get b/**")
    with raw.Client(g.open.socket) as client:
        names = ["a/1"] + [f"b/{i:03}" for i in range(150)] + ["a/2"]
        for i, name in enumerate(names):
            token = client.acquire(name.encode(), i + 1)
            assert client.ask(frame(field(1, 9) + field(5, field(1, raw.claim(name.encode(), token, i + 1)) + field(2, 3)))).kind == "released"
    assert rows(g.daemon, "history", "--failed") == ["a/2", "a/1"]
    assert ctl(g.daemon, "history", "b/001").returncode == DENIED
    assert ctl(g.daemon, "history", "--failed", "b/").returncode == DENIED
    with raw.Client(g.daemon.socket) as client:
        after, told = b"", []
        while True:  # cursors are bytes of the daemon's own, which would name the row where a page ends
            answer = client.ask(history(1, failed=True, limit=1, after=after))
            assert answer.kind == "history" and b"b/" not in answer.body
            told += [raw.fields(grant)[1] for number, grant in raw.all_fields(answer.body) if number == 1]
            after = raw.fields(answer.body).get(2, b"")
            if not after:
                break
        assert told == [b"a/2", b"a/1"]


def changes(client, n):
    """(event, name) of the next n Changes."""
    events = []
    for _ in range(n):
        answer = client.answer()
        assert answer.kind == "change", answer
        change = raw.fields(answer.body)
        events.append((change.get(1, 0), change.get(2, b"").decode()))
    return events


SNAPSHOT, HELD, READY, GRANTED = 0, 1, 2, 3


@pytest.mark.parametrize("prefix", [b"", b"a", b"a/", b"a/x"])
def test_a_watch_tells_only_what_may_be_seen(guard, prefix):
    g = guard(f"me {ME} watch a/x; get **; list **")
    g.daemon.wait_event("notifications_ready")
    for name in ("a/w", "a/x", "a/xy", "b"):
        ctl(g.open, "acquire", "-t", "10m", name)
    with raw.Client(g.daemon.socket) as client:
        client.send(watch(1, prefix))
        assert changes(client, 3) == [(SNAPSHOT, ""), (HELD, "a/x"), (READY, "")]
        with raw.Client(g.open.socket) as other:
            for i, name in enumerate((b"a", b"a/1", b"a/x/1", b"a/xx", b"c")):
                assert other.acquire(name, i + 1)
            assert ctl(g.open, "steal", "a/w", "--reason", "secret").returncode == 0
            assert ctl(g.open, "steal", "a/x", "--reason", "r").returncode == 0
            assert changes(client, 1) == [(7, "a/x")]
            assert other.acquire(b"a/x", 9)
        assert changes(client, 1) == [(GRANTED, "a/x")]
        assert client.ask(watch(2, b"b")).status == 10
        assert client.ask(watch(3, b"a/xy", exact=True)).status == 10


def test_a_watch_obeys_rules_that_change(guard):
    g = guard(f"me {ME} watch a/*; watch b/*")
    g.daemon.wait_event("notifications_ready")
    for name in ("a/1", "b/1"):
        ctl(g.open, "acquire", "-t", "10m", name)
    with raw.Client(g.daemon.socket) as client:
        client.send(watch(1))
        assert changes(client, 4) == [(SNAPSHOT, ""), (HELD, "a/1"), (HELD, "b/1"), (READY, "")]
        g.reload(f"me {ME} watch b/*")
        assert changes(client, 3) == [(SNAPSHOT, ""), (HELD, "b/1"), (READY, "")]
        ctl(g.open, "acquire", "-t", "10m", "a/2")
        ctl(g.open, "acquire", "-t", "10m", "b/2")
        assert changes(client, 1) == [(GRANTED, "b/2")]
        g.reload(f"me {ME} watch b/*", "# the same: nothing begins anew")
        ctl(g.open, "acquire", "-t", "10m", "b/3")
        assert changes(client, 1) == [(GRANTED, "b/3")]
        g.reload(f"me {ME} get **")
        answer = client.answer()
        assert answer.kind == "failure" and answer.status == 10 and answer.request == 1


def test_who_may_not_get_is_not_told_who_holds(guard):
    """A refused acquire, renew or steal is no other way to read."""
    g = guard(f"me {ME} acquire,release,steal **")
    lease = ctl_json(g.open, "acquire", "-t", "10m", "--value", "secret-value", "x")[0]
    host = lease["holder"].split(":")[0]
    with raw.Client(g.daemon.socket) as client:
        answers = [client.ask(raw.acquire(1, b"x", 5)), client.ask(raw.acquire(2, b"x", 6, wait_ms=1)),
                   client.ask(raw.renew(3, [raw.claim(b"x", lease["token"], 7)])),
                   client.ask(raw.release(4, raw.claim(b"x", lease["token"], 7))), client.ask(steal(5, b"x"))]
    assert [a.kind for a in answers] == ["failure", "failure", "renewed", "failure", "stolen"]
    for answer in answers:
        for secret in (host, "secret-value", "@"):
            assert secret.encode() not in answer.body, answer
    assert ctl(g.open, "acquire", "--slot", "1", "y").returncode == 0
    held = ctl_json(g.open, "get", "y")[0]
    assert ctl(g.open, "release", "y", *claim(held)).returncode == 0
    done = ctl(g.daemon, "acquire", "--slot", "1", "y")
    assert done.returncode == 75 and host not in done.stderr


def test_withdrawn_means_at_once(guard):
    g = guard(f"me {ME} * **")
    with raw.Client(g.daemon.socket) as client:
        token = client.acquire(b"kept", 1)
        assert token and client.acquire(b"given-back", 2, more=field(10, 1))
        begin = time.monotonic()
        g.reload("# nobody")
        answer = client.answer()
        assert answer.kind == "goodbye" and raw.fields(answer.body)[1] == 10 and time.monotonic() - begin < 1
    assert ctl(g.daemon, "get", "kept").returncode == DENIED
    until(lambda: ctl(g.open, "get", "given-back").returncode == 75, "the lease to be given back")
    assert ctl_json(g.open, "get", "kept")[0]["token"] == token


def test_a_wait_ends_with_its_rule(guard):
    g = guard(f"me {ME} acquire,get a; acquire,get b")
    for name in ("a", "b"):
        assert ctl(g.open, "acquire", "-t", "10m", name).returncode == 0
    line = [ctl_start(g.daemon, "acquire", "-w", "10m", name) for name in ("a", "b")]
    until(lambda: waiters(g.open, "a") == waiters(g.open, "b") == 1, "both waiters")
    g.reload(f"me {ME} acquire,get b")
    error = line[0].communicate(timeout=world.GIVE_UP)[1]
    assert line[0].returncode == DENIED and 'a rule "acquire a" is missing' in error, error
    until(lambda: waiters(g.open, "a") == 0, "the waiter to leave the line")
    assert ctl(g.open, "steal", "b", "--reason", "r").returncode == 0
    assert line[1].wait(world.GIVE_UP) == 0


def test_a_broken_file_keeps_the_old_one(guard):
    g = guard(f"me {ME} get **")
    for text, why in ((f"me {ME} get **\nyou uid=0 ge", "line 2: the line has no end"), ("me get **\n", "line 1: who is it?")):
        g.reload_text(text, event="reload_failed")
        assert why in g.daemon.log()
        assert ctl(g.daemon, "get", "x").returncode == 75
    g.path.unlink()
    g.daemon.reload("reload_failed")
    assert "No such file" in g.daemon.log()
    assert ctl(g.daemon, "get", "x").returncode == 75


def test_time_is_up(guard):
    g = guard(f"me {ME} until=2020-01-01 * **")
    done = ctl(g.daemon, "get", "x")
    assert done.returncode == DENIED and "the time of me is over" in done.stderr
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    g.reload(f"me {ME} until={soon} * **")
    with raw.Client(g.daemon.socket) as client:
        assert client.acquire(b"x", 1)
        assert client.answer().kind == "goodbye"
        assert soon <= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_the_example_can_be_used(guard):
    """deploy/authorized_clients, with the comment taken off its lines; a key is not in it."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "deploy" / "authorized_clients").read_text()
    lines = [line[1:] for line in text.splitlines() if re.match(r"#[a-z]", line) and "leased-client-pub" not in line]
    assert len(lines) == 3
    assert ctl(guard(*lines).daemon, "get", "x").returncode == DENIED


def test_limits(guard):
    g = guard(f"me {ME} leases=2 waiters=1 connections=3 *,steal **")
    with raw.Client(g.daemon.socket) as client:
        first = client.acquire(b"a", 1)
        assert first and client.acquire(b"b", 2, ttl_ms=4000)
        refused = client.ask(raw.acquire(3, b"c", 3))
        assert refused.status == raw.EBUSY and "you hold 2 leases" in refused.why
        assert client.acquire(b"a", 1) == first  # asked again after a lost answer
        assert client.release(b"a", first, 1)
        assert client.ask(raw.acquire(4, b"d", 4, more=field(11, b"e"))).status == raw.EBUSY
        assert client.acquire(b"d", 4)
        until(lambda: client.acquire(b"f", 5), "b to expire")
        assert ctl(g.daemon, "steal", "d", "--reason", "r").returncode == 0
        assert ctl(g.open, "acquire", "held").returncode == 0
        client.send(raw.acquire(6, b"held", 6, wait_ms=60000))
        until(lambda: waiters(g.open, "held") == 1, "the waiter")
        refused = client.ask(raw.acquire(7, b"held", 7, wait_ms=60000))
        assert refused.status == raw.EBUSY and "1 acquires of yours wait" in refused.why
        assert client.ask(raw.cancel(8, 6)).status == raw.ECANCELLED
        client.send(raw.acquire(9, b"held", 9, wait_ms=60000))
        until(lambda: waiters(g.open, "held") == 1, "the waiter")
        more = [raw.Client(g.daemon.socket) for _ in range(2)]
        done = ctl(g.daemon, "get", "a")
        assert done.returncode == 69 and "3 connections of yours" in done.stderr
        for other in more:
            other.close()
    until(lambda: ctl(g.daemon, "get", "a").returncode == 75, "connections to close")
    until(lambda: waiters(g.open, "held") == 0, "the waiter to go with its connection")


def test_a_lease_counts_whatever_its_holder_says(guard):
    """A nonce used again by another process, and a claim with a wrong token, are no way beyond the limit."""
    g = guard(f"me {ME} leases=2 *,steal **")
    with raw.Client(g.daemon.socket) as client:
        for i in range(5):
            shared = field(1, b"x") + field(2, raw.holder(1, pid=i + 1)) + field(3, 60000) + field(12, 10000)
            client.ask(frame(field(1, i + 1) + field(3, shared)))
        assert len(rows(g.open, "list")) == 2
        token = str(ctl_json(g.open, "list")[0]["token"])
        assert ctl(g.daemon, "steal", "x", "--reason", "r", "--token", token).returncode == 0
        assert client.acquire(b"a", 5)
        assert client.ask(raw.renew(1, [raw.claim(b"a", 999, 5)])).statuses == [raw.ENOTHELD]
        assert client.ask(raw.acquire(2, b"b", 6)).status == raw.EBUSY


def test_a_connection_that_went_while_it_acquired_counts(guard):
    """Else who comes again and again would hold without bound."""
    g = guard(f"me {ME} leases=3 * **")
    for i in range(6):
        with raw.Client(g.daemon.socket) as client:
            client.send(raw.acquire(1, f"n{i}".encode(), i + 1))
            client.answer(within=0.02)
    time.sleep(0.2)
    assert len(ctl_json(g.open, "list")) == 3


def test_requests_a_second(guard):
    g = guard(f"me {ME} rate=5 * **")
    with raw.Client(g.daemon.socket) as client:
        answers = [client.ask(raw.get(i + 1, b"x")) for i in range(20)]
        refused = [a for a in answers if a.kind == "failure"]
        assert 10 <= len(refused) <= 15 and "more than 5 requests a second" in refused[0].why
        assert client.ask(raw.ping(99)).kind == "pong"
        time.sleep(0.5)
        assert client.ask(raw.get(100, b"x")).kind == "lease"


def test_whoami(guard):
    g = guard(f"me {ME} until=2999-12-31 leases=7 rate=100 acquire,get billing/**; watch,list a\\ b")
    ctl(g.daemon, "acquire", "billing/x")
    me = ctl_json(g.daemon, "whoami")[0]
    assert me.pop("principal").split("@")[0]
    assert me.pop("until").startswith("2999-12-31T00:00:00")
    assert me == {"client": "me", "authorized_clients": True, "leases_max": 7, "leases": 1, "waiters_max": None,
                  "rate_max": 100, "connections_max": None,
                  "rules": [{"verbs": ["acquire", "renew", "get"], "pattern": "billing/**"},
                            {"verbs": ["list", "watch"], "pattern": "a\\ b"}]}
    text = ctl(g.daemon, "whoami").stdout
    assert "may acquire,renew,get billing/**\n" in text and "leases: at most 7, 1 now\n" in text and "client: me\n" in text
    free = ctl_json(g.open, "whoami")[0]
    assert free["authorized_clients"] is False and free["client"] == "owner" and "steal" in free["rules"][0]["verbs"]
    assert "(the daemon has no authorized_clients)" in ctl(g.open, "whoami").stdout


def test_without_a_file_others_may_all_but_steal(database, start_daemon):
    port = world.free_port()
    start_daemon(database, args=["--listen", f"tcp:127.0.0.1:{port}"])
    me = ctl_json(f"tcp:127.0.0.1:{port}", "whoami")[0]
    assert me["client"] == "everybody" and me["rules"] == [
        {"verbs": ["acquire", "renew", "release", "get", "list", "watch", "history", "report"], "pattern": "**"}]


def test_only_the_owner(guard, database):
    """The token and holder of a listing are no power: who asks is not who acquired, though all else is right."""
    g = guard(f"me {ME} *,steal **")
    with psycopg.connect(database, autocommit=True) as db:
        token = db.execute("SELECT token FROM leased.try_acquire('x', 'web-1', 77, 5, ttl => '10min')").fetchone()[0]
        seen = ctl_json(g.daemon, "get", "x")[0]
        assert seen["token"] == token and seen["holder"] == "web-1:77:0000000000000005"
        for verb in ("renew", "release"):
            done = ctl(g.daemon, verb, "x", *claim(seen))
            assert done.returncode == 76, done
        with raw.Client(g.daemon.socket) as client:
            stolen_claim = field(1, b"x") + field(2, token) + field(3, raw.holder(5, b"web-1"))
            assert client.ask(raw.release(1, stolen_claim, retry=True)).status == raw.ENOTHELD
            again = frame(field(1, 2) + field(3, field(1, b"x") + field(2, raw.holder(5, b"web-1")) + field(3, 60000)))
            assert client.ask(again).status == raw.EHELD  # nor is it given a second time
        assert db.execute("SELECT leased.renew('x', %s, 'web-1', 77, 5)", (token,)).fetchone()


AUDIT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


def audit(daemon):
    """The audit lines, parsed back: values as they were."""
    lines = []
    for line in daemon.log().split("\n"):
        found = dict(AUDIT.findall(line))
        if found.get("event") == "audit":
            lines.append({key: parse(value) for key, value in found.items()})
    return lines


def parse(value):
    if not value.startswith('"'):
        return value.encode()
    out, i, text = b"", 0, value[1:-1]
    while i < len(text):
        if text[i] == "\\" and text[i + 1] == "x":
            out, i = out + bytes([int(text[i + 2:i + 4], 16)]), i + 4
        elif text[i] == "\\":
            out, i = out + text[i + 1].encode(), i + 2
        else:
            out, i = out + text[i].encode(), i + 1
    return out


def test_audit_is_one_line_that_parses_back(guard):
    g = guard(f"me {ME} *,steal ok/**", args=["--audit", "all"])
    names = [b"a b", b'x" outcome=allowed lease="y', b"new\nline level=error event=audit", b"esc\x1b[2J", b"back\\slash\\x41",
             "sep\u2028\u2029\u202e".encode(), b"\xff\xfe", b"r\rr", b"n" * 255]
    with raw.Client(g.daemon.socket) as client:
        for i, name in enumerate(names):
            assert client.ask(raw.get(i + 1, name)).status == 10
        assert client.acquire(b"ok/1", 1, more=field(11, b"ok/2"))
    lines = audit(g.daemon)
    assert [line["lease"] for line in lines if line["verb"] == b"get"] == names
    assert all(line["level"] == b"audit" and line["client"] == b"me" for line in lines)
    denied = next(line for line in lines if line["outcome"] == b"denied")
    assert b"is missing in authorized_clients" in denied["why"]
    assert [line["lease"] for line in lines if line["verb"] == b"acquire"] == [b"ok/1", b"ok/2"]
    assert any(line["verb"] == b"connect" and line["outcome"] == b"allowed" for line in lines)


def test_audit_of_what_is_denied_has_a_bound(guard):
    g = guard(f"me {ME} get ok", args=["--audit", "denied"])
    with raw.Client(g.daemon.socket) as client:
        client.ask(raw.get(1, b"ok"))
        for i in range(200):
            client.send(raw.get(i + 2, b"no"))
        for i in range(200):
            assert client.answer().status == 10
        time.sleep(1.1)
        client.ask(raw.get(999, b"no"))
    lines = audit(g.daemon)
    assert all(line["outcome"] == b"denied" for line in lines) and 2 <= len(lines) <= 40
    assert sum(int(line["left_out"]) for line in lines) + len(lines) == 201
    g.reload("# nobody")
    for _ in range(3):
        ctl(g.daemon, "get", "x")
    strangers = [line for line in audit(g.daemon) if b"is not in authorized_clients" in line["why"]]
    assert strangers and all(line["verb"] == b"connect" and line["client"] == b"" for line in strangers)


def test_audit_off(guard):
    g = guard(f"me {ME} get ok", args=["--audit", "off"])
    assert ctl(g.daemon, "get", "no").returncode == DENIED
    assert not audit(g.daemon)
