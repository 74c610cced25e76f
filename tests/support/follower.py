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

    def held(self):
        """{name: token} as the lines tell it."""
        return check_story(self.events())[0]

    def stop(self):
        self.process.send_signal(world.signal.SIGINT)
        assert self.process.wait(world.GIVE_UP) == 0, self.process.communicate()[1]
        return self.events()


def check_story(events):
    """What is held at the end, and all that was told since the last snapshot, {name: [(token, end or None)]}."""
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
            assert name not in held, f"{e} though {held[name]} has not ended"
            assert token > newest.get(name, 0) or (kind == "held" and token == newest[name]), e
            held[name] = newest[name] = token
            story.setdefault(name, []).append([token, None])
        else:
            assert not listing and held.get(name) == token, f"{e} but {held.get(name)} is held"
            if kind in ENDS:
                del held[name]
                story[name][-1][1] = kind
    return held, story


def check_database(events, database, prefix=""):
    """Every grant since the last snapshot was told, and how it ended. Nothing is held any more. How many."""
    held, story = check_story(events)
    assert not held, held
    assert set(e["event"] for e in events if e.get("name") and not e["name"].startswith(prefix)) == set()
    with psycopg.connect(database) as db:
        rows = db.execute("SELECT name, token, ended FROM leased.events UNION ALL SELECT name, token, 'expired' FROM leased.leases"
                          " WHERE released_at IS NULL ORDER BY name, token").fetchall()
    truth = {}
    for name, token, ended in rows:
        if name.startswith(prefix):
            truth.setdefault(name, []).append([token, ended])
    for name, told in story.items():
        # What was over before the snapshot is not told; from the first that is, all are.
        assert told == truth[name][len(truth[name]) - len(told):], name
    return sum(map(len, story.values())), {name: [t for t, _ in grants] for name, grants in truth.items()}
