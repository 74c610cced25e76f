"""What is seen of a lease that several hold at once: by watches, in lists, in the history."""
import os
import random
import threading
import time

import psycopg
import pytest
import raw
import world
from follower import check_database, check_story
from world import ctl_json

MANY = 1200  # more than two pages of a watch, and a dozen of a list
SECONDS = float(os.environ.get("LEASED_SOAK") or 5)
SEED = int(os.environ.get("LEASED_SEED") or random.randrange(1 << 16))


@pytest.fixture
def client(pair):
    with raw.Client(pair[0].socket) as client:
        yield client


@pytest.fixture
def db(database, pair):
    with psycopg.connect(database, autocommit=True) as db:
        yield db


def join(db, name, n, ttl="10 min", value=None):
    """Further grants of a lease that is held, by the same process with nonces from 2; their tokens."""
    db.execute("UPDATE leased.leases SET max_holders = 10000, has_extras = true WHERE name = %s AND NOT is_extra", (name,))
    rows = db.execute("INSERT INTO leased.leases AS l (name, token, holder_host, holder_pid, holder_nonce, principal, acquired_at, renewed_at, expires_at,"
                      " ttl_ms, value, max_holders, is_extra) SELECT f.name, leased.epoch_base() + nextval('leased.token_seq'), f.holder_host, f.holder_pid, i,"
                      " f.principal, now(), now(), now() + %(ttl)s::interval, extract(epoch FROM %(ttl)s::interval) * 1000, %(value)s, 10000, true"
                      " FROM leased.leases f, generate_series(2, %(n)s + 1) i WHERE f.name = %(name)s AND NOT f.is_extra"
                      " RETURNING l.token, leased.tell_change('g', l)", dict(name=name, n=n, ttl=ttl, value=value)).fetchall()
    return [token for token, _ in rows]


def hold(db, client, name, n, **more):
    """A lease that n hold; their tokens, the first with nonce 1 and so on."""
    first = client.acquire(name.encode(), 1, 600000)
    return [first, *join(db, name, n - 1, **more)]


def expire(db, name, tokens):
    """They have expired, and nobody has been told."""
    db.execute("UPDATE leased.leases SET expires_at = now() WHERE name = %s AND token = ANY (%s)", (name, tokens))


def bury(db, name, token):
    """What somebody who takes the lease does with the row of one who has expired."""
    db.execute("WITH gone AS (DELETE FROM leased.leases l WHERE name = %s AND token = %s RETURNING leased.change_line('e', l) AS line)"
               " SELECT leased.tell(array_agg(line)) FROM gone", (name, token))


def listing(client, prefix, after=b"", after_token=0, limit=0, exact=0):
    """(name, token, state, max_holders) of each row of a page, and whether there is more."""
    numbers = [(1, prefix), (2, after), (3, limit), (4, after_token), (5, exact)]
    answer = client.ask(raw.frame(raw.field(1, 9) + raw.field(7, b"".join(raw.field(*x) for x in numbers if x[1]))))
    if answer.kind == "failure":
        return answer.status
    page = list(raw.all_fields(answer.body))
    rows = [raw.fields(body) for number, body in page if number == 1]
    return [(row[1].decode(), row[3], row.get(2, 0), row.get(13, 0)) for row in rows], (2, 1) in page


class Crowd:
    """Clients that take leases with others or alone, and release, renew or leave them; limits: {(name, token): max_holders}."""

    def __init__(self, daemons, count, names):
        print(f"LEASED_SEED={SEED}")
        self.limits, self.failed, self.over = {}, [], threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(daemons[i % len(daemons)], i, names, random.Random(SEED + i))) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, daemon, number, names, rng):
        try:
            with raw.Client(daemon.socket) as client:
                while not self.over.is_set():
                    self.turn(client, f"s/{rng.randrange(names)}".encode(), number << 32 | rng.getrandbits(32), rng)
        except Exception as error:  # noqa: BLE001 - told by stop()
            self.failed.append(error)
            raise

    def turn(self, client, name, nonce, rng):
        limit = rng.choice([1, 2, 3, 10000, 10000])
        token = client.acquire(name, nonce, rng.randrange(1000, 1500), rng.choice([0, 200, 1000]), raw.field(12, limit))
        if not token:
            return
        self.limits[name.decode(), token] = limit
        time.sleep(rng.uniform(0, 0.05))
        if rng.random() < 0.3:
            client.ask(raw.renew(3, [raw.claim(name, token, nonce)], rng.randrange(1000, 1200)))
        if rng.random() < 0.9:
            assert client.release(name, token, nonce)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(world.GIVE_UP)
        assert not self.failed, self.failed


def check_limits(events, limits):
    """No grant was ever told beside more than it allows, nor beside more than those allow that lasted."""
    held, most = {}, 0
    for e in events:
        name, token = e.get("name"), e.get("token")
        if e["event"] == "granted":
            held.setdefault(name, set()).add(token)
            assert len(held[name]) <= min(limits[name, t] for t in held[name]), (e, held[name])
            most = max(most, len(held[name]))
        elif e["event"] in ("released", "expired", "stolen"):
            held[name].remove(token)
    return most


def test_every_change_once_under_load(pair, database, follow):
    """And what a watch tells never breaks a limit, though thousands of grants come, go and expire."""
    first, late = follow(pair[0], "s/"), []
    crowd = Crowd(pair, 12, 3)
    for _ in world.rounds(SECONDS, lambda: len(crowd.limits) > 5 * SECONDS):
        time.sleep(SECONDS / 6)
        late.append(follow(random.choice(pair), "s/", wait=False))
    crowd.stop()
    for follower in (first, *late):
        follower.until(lambda events: events[-1]["event"] != "snapshot" and not check_story(events, MANY)[0], "the last to expire")
        follower.stop()
        seen, truth = check_database(follower.events(), database, "s/", MANY)
    assert sum(map(len, check_story(first.events(), MANY)[1].values())) == sum(map(len, truth.values())) == len(crowd.limits) > 5 * SECONDS
    assert check_limits(first.events(), crowd.limits) > 2


def test_each_grant_of_a_name_is_told_for_itself(pair, database, db, client, follow):
    follower = follow(pair[1], "x")
    tokens = hold(db, client, "x", 4, value="v")
    late = follow(pair[0], "x")
    assert late.held(4) == {"x": tokens}
    assert client.release(b"x", tokens[1], 2)
    renewed = client.ask(raw.frame(raw.field(1, 3) + raw.field(4, raw.field(1, raw.field(1, raw.claim(b"x", tokens[2], 3)) + raw.field(3, b"new") + raw.field(4, 1)))))
    assert renewed.statuses == [0]
    stolen = client.ask(raw.frame(raw.field(1, 4) + raw.field(12, raw.field(1, b"x") + raw.field(2, b"it hangs") + raw.field(3, tokens[3]))))
    assert stolen.kind == "stolen" and raw.fields(raw.fields(stolen.body)[1])[3] == tokens[3]
    assert client.release(b"x", tokens[0], 1)
    more = join(db, "x", 1, ttl="1 s")
    want = [("released", tokens[1]), ("value", tokens[2]), ("stolen", tokens[3]), ("released", tokens[0]), ("granted", *more), ("expired", *more)]
    for each in (follower, late):
        events = each.until(lambda events: events[-1]["event"] == "expired", "the expiry")
        assert [(e["event"], e["token"]) for e in events[-6:]] == want
        assert events[-5]["value"] == "new" and each.held(4) == {"x": [tokens[2]]}
    assert [e["event"] for e in follower.events()[:6]] == ["snapshot", "ready", *["granted"] * 4]


def test_who_takes_the_lease_tells_what_has_expired(pair, db, client, follow):
    """Though the watch thinks that it lasts for minutes more; and one who was told already is not told again."""
    follower = follow(pair[1], "x")
    tokens = hold(db, client, "x", 3)
    brief = join(db, "x", 1, ttl="200 ms")
    follower.until(lambda events: events[-1]["event"] == "expired", "the brief one")
    expire(db, "x", tokens[1:2])
    with db.transaction():
        bury(db, "x", *brief)
        bury(db, "x", tokens[1])
        more = join(db, "x", 1)
    events = follower.until(lambda events: events[-1]["event"] == "granted" and events[-1]["token"] == more[0], "the next")
    assert [(e["event"], e["token"]) for e in events[-3:]] == [("expired", *brief), ("expired", tokens[1]), ("granted", *more)]
    assert follower.held(4) == {"x": [tokens[0], tokens[2], *more]}


def test_a_first_holder_that_is_replaced(pair, db, client, follow):
    """The row of the first is taken over while others hold on: its name does not begin anew."""
    follower = follow(pair[1], "x")
    tokens = hold(db, client, "x", 3)
    expire(db, "x", tokens[:1])
    again = client.acquire(b"x", 9, 600000, more=raw.field(12, 10000))
    assert again > tokens[2]
    follower.until(lambda events: events[-1].get("token") == again, "the next")
    assert follower.held(3) == {"x": [tokens[1], tokens[2], again]}
    assert [(e["event"], e["token"]) for e in follower.events()[-2:]] == [("expired", tokens[0]), ("granted", again)]


def test_a_snapshot_of_more_than_a_page_of_one_name(pair, db, client, follow):
    for name in (b"a", b"n!", b"z"):
        client.acquire(name, 1, 600000)
    tokens = hold(db, client, "n", MANY)
    follower = follow(pair[1])
    assert follower.held(MANY)["n"] == tokens
    held = [(e["name"], e["token"]) for e in follower.events() if e["event"] == "held"]
    assert held == sorted(held) and len(held) == MANY + 3
    assert client.release(b"n", tokens[700], 701)
    follower.until(lambda events: events[-1]["event"] == "released", "the release")
    assert len(follower.held(MANY)["n"]) == MANY - 1
    # Rows that nobody holds fill pages of their own.
    expire(db, "n", tokens[:600])
    last = follow(pair[0], "n")
    assert last.held(MANY)["n"] == [token for token in tokens[600:] if token != tokens[700]]


def test_changes_that_cross_a_snapshot_of_many_pages(pair, db, client, follow):
    """Grants come and go while it is listed: what is told fits, and in the end it is what is held."""
    tokens = hold(db, client, "n", MANY)
    followers = []
    for i in range(1, 300):
        if i % 30 == 1:
            followers.append(follow(pair[i % 2], wait=False))
        assert client.release(b"n", tokens[i], i + 1)
        if i % 10 == 0:
            tokens += join(db, "n", 1)
    left = {"n": sorted([tokens[0], *tokens[300:]])}
    for follower in followers:
        follower.until(lambda events: any(e["event"] == "ready" for e in events) and check_story(events, MANY)[0] == left, "the end")


def test_lists_show_each_grant_once(pair, db, client):
    client.acquire(b"a", 1, 600000)
    tokens = hold(db, client, "n", MANY)
    client.acquire(b"n!", 1, 600000)
    rows = ctl_json(pair[1], "list")
    assert [(row["name"], row["token"]) for row in rows if row["name"] == "n"] == [("n", token) for token in tokens]
    assert [row["name"] for row in rows] == ["a", *["n"] * MANY, "n!"]
    page, more = listing(client, b"n", exact=1)
    assert page == [("n", token, 1, 10000) for token in tokens[:100]] and more
    assert listing(client, b"n", b"n", tokens[-1], exact=1) == ([], False)
    assert listing(client, b"n", b"n", tokens[-2], exact=1) == ([("n", tokens[-1], 1, 10000)], False)
    page, more = listing(client, b"n", b"n", tokens[-1])
    assert [row[0::3] for row in page] == [("n!", 1)] and not more
    assert listing(client, b"", b"n", limit=1)[0][0][0] == "n!"  # who knows of no tokens goes on behind the name
    assert listing(client, b"", b"a", limit=1) == ([("n", tokens[0], 1, 10000)], True)
    for bad in (dict(prefix=b"", exact=1), dict(prefix=b"n", after=b"n", after_token=1 << 63)):
        assert listing(client, **bad) == 2


def test_lists_leave_out_what_is_over(pair, db, client):
    """But a name of which nothing is left is told once, as free."""
    tokens = hold(db, client, "n", 5)
    expire(db, "n", [tokens[0], tokens[3]])  # the first too
    assert listing(client, b"n") == ([("n", token, 1, 10000) for token in (tokens[1], tokens[2], tokens[4])], False)
    db.execute("UPDATE leased.leases SET min_hold_ms = 600000 WHERE name = 'n' AND token = %s", (tokens[2],))
    assert client.release(b"n", tokens[2], 3) and client.release(b"n", tokens[4], 5)
    assert [row[1:3] for row in listing(client, b"n")[0]] == [(tokens[1], 1), (tokens[2], 2)]
    expire(db, "n", tokens)
    assert listing(client, b"n") == ([("n", tokens[0], 0, 0)], False)


def test_histories_in_steps_within_a_name(pair, db, client):
    """More rows of one name than a step looks at, past and present in turn."""
    tokens = hold(db, client, "n", 4500)
    past = [row[0] for row in db.execute(
        "INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal, acquired_at, ended_at, exit_status)"
        " SELECT 'n', token - 1, 'released', 'h', 1, 1, 'p', now() - interval '3 h', now() - interval '2 h', 0 FROM leased.leases"
        " WHERE name = 'n' AND token %% 2 = 0 AND token > %s + 1 RETURNING token", (tokens[0],)).fetchall()]
    db.execute("DELETE FROM leased.leases WHERE name = 'n' AND token % 2 = 1 AND is_extra")
    held = [row[0] for row in db.execute("SELECT token FROM leased.leases WHERE name = 'n' ORDER BY token").fetchall()]
    assert len(held) >= 2250 and len(past) >= 2249
    rows = ctl_json(pair[0], "history", "n")
    assert [row["token"] for row in rows] == sorted([*held, *past], reverse=True)
    assert [row["token"] for row in rows if row["ended"] == "held"] == held[::-1]
    assert [row["token"] for row in ctl_json(pair[0], "history", "--since", "1h", "n")] == held[::-1]
    newest = db.execute("SELECT token, ended FROM leased.history('n', 5)").fetchall()
    assert newest == [(row["token"], row["ended"]) for row in rows[:5]]
    assert len(db.execute("SELECT leased.history('n', 100000)").fetchall()) == len(rows)
    assert [row[0] for row in db.execute("SELECT token FROM leased.get('n')").fetchall()] == held

    # Old holders that go on holding, behind more than a step of others that have come and gone.
    old = hold(db, client, "old", 3)
    db.execute("INSERT INTO leased.events (name, token, ended, holder_host, holder_pid, holder_nonce, principal, acquired_at, ended_at)"
               " SELECT 'old', %s + i, 'released', 'h', 1, 1, 'p', now() - interval '3 h', now() - interval '2 h' FROM generate_series(1, 5000) i", (old[-1],))
    assert [row["token"] for row in ctl_json(pair[0], "history", "--since", "1h", "old")] == old[::-1]
    assert [row["token"] for row in ctl_json(pair[0], "history", "old")] == [*range(old[-1] + 5000, old[-1], -1), *old[::-1]]

    db.execute("UPDATE leased.leases SET expires_at = now() - interval '1 min' WHERE name = 'n' AND token <> %s", (held[-1],))
    lapsed = ctl_json(pair[1], "history", "--failed", "n")
    assert sorted(row["token"] for row in lapsed) == held[:-1]
    db.execute("UPDATE leased.leases SET released_at = acquired_at WHERE name = 'n' AND token <> ALL (%s)", ([held[0], held[-3], held[-1]],))
    assert [row["token"] for row in ctl_json(pair[1], "history", "--failed", "n")] in ([held[0], held[-3]], [held[-3], held[0]])
