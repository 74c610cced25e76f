"""First come, first served, over all daemons and under load. Triggers write down who drew which place and who was granted
what, as the database saw it: of those that stood in line nobody may be granted a lease before somebody with an
earlier place who got it later.

Exceptions, as README has them: whoever asks while nobody stands in line draws no place; and of several leases at once
the line of one of them counts at a time.
"""
import pathlib
import time

import psycopg
import world
from test_contention import SECONDS, SEED, Crowd

WRITE_DOWN = """
CREATE TABLE drawn (name text COLLATE "C", place bigint, nonce bigint);
CREATE TABLE granted (name text COLLATE "C", token bigint, nonce bigint, max_holders integer);
CREATE FUNCTION note_place() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO public.drawn VALUES (NEW.name, NEW.place, NEW.holder_nonce); RETURN NULL; END';
CREATE FUNCTION note_grant() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO public.granted VALUES (NEW.name, NEW.token, NEW.holder_nonce, NEW.max_holders); RETURN NULL; END';
CREATE TRIGGER note AFTER INSERT ON leased.waiters FOR EACH ROW EXECUTE FUNCTION note_place();
CREATE TRIGGER note AFTER INSERT OR UPDATE OF token ON leased.leases FOR EACH ROW
    WHEN (NEW.released_at IS NULL) EXECUTE FUNCTION note_grant();
"""


def passed(places):
    """Of places in the order of the grants, those that were granted after a later one."""
    latest, late = 0, []
    for place in places:
        if place < latest:
            late.append(place)
        latest = max(latest, place)
    return late


def in_order_of_grants(database):
    """For each name the places of those that were granted it out of the line."""
    with psycopg.connect(database) as conn:
        rows = conn.execute("SELECT g.name, min(d.place) FROM granted g JOIN drawn d USING (name, nonce)"
                            " GROUP BY g.name, g.token, g.nonce ORDER BY g.name, g.token").fetchall()
    lines = {}
    for name, place in rows:
        lines.setdefault(name, []).append(place)
    return lines


def test_grants_follow_arrival_over_three_daemons(database, start_daemon, directory):
    daemons = [start_daemon(database) for _ in range(3)]
    for daemon in daemons:
        daemon.wait_event("database_ready")
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(WRITE_DOWN)
    crowds = [Crowd(pathlib.Path(directory), daemon.address, 4, 4, 3, 2000, SEED + i) for i, daemon in enumerate(daemons)]
    for _ in world.rounds(SECONDS, lambda: sum(map(len, in_order_of_grants(database).values())) > SECONDS):
        time.sleep(0.5)
    for crowd in crowds:
        crowd.stop()
    lines = in_order_of_grants(database)
    assert sum(map(len, lines.values())) > SECONDS
    assert not {name: late for name, places in lines.items() if (late := passed(places))}, f"LEASED_SEED={SEED}"


def test_the_checker_can_fail():
    assert passed([1, 3, 2, 4]) == [2] and passed([1, 2, 9]) == []
