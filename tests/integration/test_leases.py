"""One lease through a daemon: names, times, claims, and what each mistake gets."""
import pytest

import world
from world import ctl, ctl_json

HELD, LOST, USAGE, DATA = 75, 76, 64, 65


def acquire(daemon, name, *args):
    found = ctl_json(daemon, "acquire", *args, name)
    assert found, f"{name} was not granted"
    return found[0]


def claim(lease):
    return "--holder", lease["holder"], "--token", str(lease["token"])


def test_a_lease_is_held_by_one_and_given_back(daemon):
    lease = acquire(daemon, "nightly")
    refused = ctl(daemon, "acquire", "nightly")
    assert refused.returncode == HELD
    assert lease["holder"] in refused.stderr and f"token {lease['token']}" in refused.stderr
    assert ctl(daemon, "get", "nightly").returncode == 0
    assert ctl(daemon, "release", "nightly", *claim(lease)).returncode == 0
    assert ctl(daemon, "get", "nightly").returncode == HELD
    assert acquire(daemon, "nightly")["token"] > lease["token"]


BAD_NAMES = {"empty": b"", "256 bytes": b"x" * 256, "newline": b"a\nb", "escape": b"a\x1b[2Jb", "del": b"a\x7f",
             "c1": "a\u0085b".encode(), "not utf-8": b"a\xff", "overlong": b"\xc0\xaf", "surrogate": b"\xed\xa0\x80"}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_a_bad_name_is_refused_without_a_round_trip(directory, name):
    nobody = f"unix:{directory}/nobody.sock"  # no daemon: nothing could be asked
    for command in (["acquire", name], ["get", name], ["run", name, "--", "true"]):
        done = ctl(nobody, *command, text=False)
        assert done.returncode == DATA
        assert done.stderr.startswith(b"leasectl: ") and done.stderr.count(b"\n") == 1


GOOD_NAMES = ["a'; DROP TABLE leased.leases; --", "émoji 🔒", "  spaces  ", "100%", "back\\slash", "\\x41", "$1", '"quoted"', "x" * 255,
              "dot.", "dot", "Case", "case", "\u00e9", "e\u0301", "a/b", "a//b", "{a,b}", "NULL", "\u202egnp.exe"]


def test_any_other_name_works_and_is_distinct(daemon):
    leases = {name: acquire(daemon, name) for name in GOOD_NAMES}
    assert len({lease["token"] for lease in leases.values()}) == len(GOOD_NAMES)
    listed = ctl_json(daemon, "list")
    assert sorted(GOOD_NAMES, key=str.encode) == [row["name"] for row in listed]
    text = ctl(daemon, "list", "--no-headers").stdout
    assert len(text.splitlines()) == len(GOOD_NAMES)
    assert "\u202e" not in text and "\\xe2\\x80\\xae" in text  # shown, but harmless
    for name, lease in leases.items():
        assert ctl(daemon, "release", name, *claim(lease)).returncode == 0


@pytest.mark.parametrize("ttl,code", [("0", USAGE), ("-1", USAGE), ("1e308", USAGE), ("", USAGE), ("5x", USAGE), ("99999999999999h", USAGE),
                                      ("1ms", DATA), ("48h", DATA)])
def test_a_bad_ttl_is_refused(daemon, ttl, code):
    done = ctl(daemon, "acquire", f"--ttl={ttl}", "x")
    assert done.returncode == code and done.stderr.startswith("leasectl: ")
    assert ctl(daemon, "get", "x").returncode == HELD


def test_wrong_claims_are_refused(daemon):
    lease = acquire(daemon, "x")
    host, pid, nonce = lease["holder"].rsplit(":", 2)
    wrong = {"token": (lease["holder"], lease["token"] + 1), "nonce": (f"{host}:{pid}:{int(nonce, 16) ^ 1:016x}", lease["token"]),
             "pid": (f"{host}:{int(pid) + 1}:{nonce}", lease["token"]), "host": (f"other:{pid}:{nonce}", lease["token"])}
    for what, (holder, token) in wrong.items():
        for verb in ("renew", "release"):
            done = ctl(daemon, verb, "x", "--holder", holder, "--token", str(token))
            assert done.returncode == LOST, what
    assert ctl(daemon, "renew", "x", *claim(lease)).returncode == 0
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    again = ctl(daemon, "release", "x", *claim(lease))
    assert again.returncode == LOST and "it was released" in again.stderr
    assert ctl(daemon, "renew", "x", *claim(lease)).returncode == LOST
    assert ctl(daemon, "release", "never-seen", *claim(lease)).returncode == LOST


def test_expired_is_lost_even_if_nobody_took_it(daemon):
    lease = acquire(daemon, "x", "-t", "300ms")
    world.until(lambda: ctl(daemon, "get", "x").returncode == HELD, "the expiry")
    renewed = ctl(daemon, "renew", "x", *claim(lease))
    assert renewed.returncode == LOST and "expired" in renewed.stderr
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == LOST
    assert acquire(daemon, "x")["token"] > lease["token"]


def test_a_renewal_can_change_the_ttl(daemon):
    lease = acquire(daemon, "x", "-t", "30s")
    renewed = ctl_json(daemon, "renew", "x", *claim(lease), "-t", "1h")[0]
    assert 3590000 < renewed["expires_in_ms"] <= 3600000
    assert ctl_json(daemon, "get", "x")[0]["ttl_ms"] == 3600000


def test_minimum_hold_outlasts_the_release(daemon):
    lease = acquire(daemon, "x", "--min-hold", "1s")
    assert ctl(daemon, "release", "x", *claim(lease)).returncode == 0
    seen = ctl_json(daemon, "get", "x")[0]
    assert seen["state"] == "min-hold" and "holder" not in seen
    refused = ctl(daemon, "acquire", "x")
    assert refused.returncode == HELD and "minimum hold" in refused.stderr
    waited = acquire(daemon, "x", "-w", "30s")
    assert waited["token"] > lease["token"]


def test_the_value_is_published(daemon):
    acquire(daemon, "x", "--value", "http://10.0.0.1:80/?a=b c")
    assert ctl_json(daemon, "get", "x")[0]["value"] == "http://10.0.0.1:80/?a=b c"
    assert ctl(daemon, "acquire", "y", "--value", "v" * 4097).returncode == DATA


def test_a_long_list_comes_in_pages(daemon, database):
    import psycopg
    with psycopg.connect(database) as conn:
        for i in range(350):
            conn.execute("SELECT leased.try_acquire(%s, 'h', 1, %s, value => repeat('v', 2000))", (f"many/{i:04}", i))
    assert len(ctl_json(daemon, "list", "many/")) == 350
    assert len(ctl_json(daemon, "list", "many/00")) == 100
    assert ctl_json(daemon, "list", "none/") == []


def test_the_conflict_exit_code(daemon):
    acquire(daemon, "x")
    assert ctl(daemon, "acquire", "-E", "9", "x").returncode == 9
    assert ctl(daemon, "run", "-E", "0", "x", "--", "false").returncode == 0


def test_sql_and_daemon_see_the_same_leases(daemon, database):
    import psycopg
    with psycopg.connect(database, autocommit=True) as conn:
        lease = acquire(daemon, "x")
        assert conn.execute("SELECT count(*) FROM leased.try_acquire('x', 'h', 1, 1)").fetchone()[0] == 0
        assert conn.execute("SELECT holder, token FROM leased.get('x')").fetchone() == (lease["holder"], lease["token"])
        token = conn.execute("SELECT token FROM leased.try_acquire('y', 'h', 1, 1)").fetchone()[0]
        refused = ctl(daemon, "acquire", "y")
        assert refused.returncode == HELD and f"token {token}" in refused.stderr
        # Another principal with the right holder and token has no power over it.
        assert ctl(daemon, "release", "y", "--holder", "h:1:0000000000000001", "--token", str(token)).returncode == LOST


def test_doctor_finds_nothing_wrong_but_that_the_role_owns_its_database(daemon):
    wrong = [(f["check"], f["grade"]) for f in ctl_json(daemon, "doctor") if f["grade"] != "ok"]
    assert wrong == [("rights", "warn")]
    assert ctl(daemon, "doctor").returncode == 0


def test_usage_errors(daemon):
    for args in ([], ["bogus"], ["acquire"], ["acquire", "a", "b"], ["acquire", "--nope", "a"], ["run", "a"], ["run", "a", "true"],
                 ["release", "a"], ["release", "a", "--holder", "x", "--token", "1"], ["acquire", "-E", "256", "a"], ["get", "-x"],
                 ["run", "--grace", "60s", "a", "--", "true"], ["acquire", "-w", "-1", "a"]):
        done = ctl(daemon, *args)
        assert done.returncode == USAGE, args
        assert done.stderr.startswith("leasectl: ") and done.stderr.count("\n") == 1, done.stderr
    for args in (["--help"], ["--version"], ["run", "--help"], ["list", "--help"], ["doctor", "--help"]):
        done = ctl(daemon, *args)
        assert done.returncode == 0 and done.stdout and not done.stderr
