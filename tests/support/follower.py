"""A `leasectl watch` whose lines are checked: each change fits what was told before, and the database."""
import json
import os
import subprocess

import psycopg

import world

ENDS = ("released", "expired", "stolen")


class Follower:
    """Watches prefix from when `ready` was told; its lines gather in a file."""

    def __init__(self, directory, daemons, prefix="", wait=True):
        self.prefix = prefix
        self.path = world.pathlib.Path(directory) / f"follower-{os.urandom(4).hex()}"
        self.process = world.start([world.LEASECTL, "-s", world.servers(daemons), "-o", "json", "watch", prefix],
                                   stdout=open(self.path, "wb"), stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **world.NO_LEAKS})
        if wait:
            self.until(lambda events: any(e["event"] == "ready" for e in events), "the snapshot")

    def events(self):
        text = self.path.read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def until(self, condition, what):
        """The events, once the condition holds for them."""
        def look():
            assert self.process.poll() is None, self.process.communicate()[1]
            events = self.events()
            return (events,) if condition(events) else None
        return world.until(look, what)[0]

    def count(self, event):
        return sum(e["event"] == event for e in self.events())

    def held(self, holders=1):
        """{name: token} as the lines tell it; of several holders {name: [token]}."""
        return check_story(self.events(), holders)[0]

    def stop(self):
        self.process.send_signal(world.signal.SIGINT)
        assert self.process.wait(world.GIVE_UP) == 0, self.process.communicate()[1]
        return self.events()


def check_story(events, holders=1):
    """What is held at the end (see held), and all that was told since the last snapshot, {name: {token: end or None}}."""
    held, story, listing, newest = {}, {}, None, {}
    for e in events:
        kind, name, token = e["event"], e.get("name"), e.get("token")
        if kind == "snapshot":
            held, story, listing = {}, {}, True
        elif kind == "ready":
            assert listing, "ready without a snapshot"
            listing = False
        elif kind in ("held", "granted"):
            assert listing == (kind == "held"), e
            assert len(held.get(name, ())) < holders, f"{e} though {held[name]} has not ended"
            assert token not in held.get(name, ()), e
            assert token > newest.get(name, 0) or (kind == "held" and (holders > 1 or token == newest[name])), e
            held.setdefault(name, []).append(token)
            newest[name] = max(token, newest.get(name, 0))
            story.setdefault(name, {})[token] = None
        else:
            assert not listing and token in held.get(name, ()), f"{e} but {held.get(name)} is held"
            if kind in ENDS:
                held[name].remove(token)
                story[name][token] = kind
    return {name: tokens if holders > 1 else tokens[0] for name, tokens in held.items() if tokens}, story


def check_database(events, database, prefix="", holders=1):
    """Every grant since the last snapshot was told, and how it ended. Nothing is held any more. How many."""
    held, story = check_story(events, holders)
    assert not held, held
    assert set(e["event"] for e in events if e.get("name") and not e["name"].startswith(prefix)) == set()
    with psycopg.connect(database) as db:
        rows = db.execute("SELECT name, token, ended FROM leased.events UNION ALL SELECT name, token, 'expired' FROM leased.leases"
                          " WHERE released_at IS NULL ORDER BY name, token").fetchall()
    truth, granted = {}, {}
    for name, token, ended in rows:
        if name.startswith(prefix):
            truth.setdefault(name, {})[token] = ended
    for e in events:
        if e["event"] == "snapshot":
            granted = {}
        elif e["event"] == "granted":
            granted.setdefault(e["name"], e["token"])
    for name, told in story.items():
        assert all(truth[name].get(token) == end for token, end in told.items()), name
        # What was over before the snapshot is not told; from the first that is, all are. Where several hold it
        # a later grant than those in the snapshot may have been over: there only what was told as granted counts.
        first = min(told) if holders == 1 else granted.get(name, float("inf"))
        missed = [token for token in truth[name] if token >= first and token not in told]
        assert not missed, (name, first, missed, list(told)[:5], [e for e in events if e.get("name") == name][-9:])
    return sum(map(len, story.values())), {name: list(grants) for name, grants in truth.items()}
