"""Bugs that a chaos run must find: each breaks one thing that is always true.

    plants.py SOURCE BUILD SECONDS      in a copy of the source, which it changes
"""
import os
import pathlib
import subprocess
import sys

SEED = "1"
TARGETS = ("leased", "leasectl", "contender")
PLANTS = {
    "a lease is taken over before its expiry": ("schema/acquire.sql", "l.expires_at <= now()", "l.expires_at <= now() + interval '1 s'"),
    "a later token is lower": ("schema/acquire.sql", "greatest((SELECT base FROM epoch) + nextval('leased.token_seq'), l.token + 1)", "l.token - 1000000"),
    "a release needs no token": ("schema/release.sql", "x.token = r.token AND x.holder_nonce = r.nonce AND x.holder_pid = r.pid\n"
                                 "               AND x.holder_host = r.host AND x.principal = r.principal\n               AND x.released_at", "x.released_at"),
    "what expired is not in the history": ("schema/acquire.sql", "FROM free WHERE released_at IS NULL AND $12::bool", "FROM free WHERE NOT $12::bool"),
    "the deadline counts from the answer": ("client/renewer.c", "return sent_ns + (left", "(void)sent_ns;\n\treturn boottime_ns() + (left",
                                            "network slow", "network stalled"),
    "the deadline is not looked at": ("client/lease.c", "atomic_load(&lease->deadline_ns) > boottime_ns();", "atomic_load(&lease->deadline_ns) != 0;",
                                      "client frozen"),
    "the deadline is by the time of day": ("client/client.c", "clock_gettime(CLOCK_BOOTTIME", "clock_gettime(CLOCK_REALTIME",
                                           "clock of a client stepped"),
}  # where, what, what instead, and the kinds of faults that bring it out, if not all


def is_caught(source, build, seconds, change):
    path, old, new, *kinds = change
    text = (source / path).read_text()
    assert old in text, f"{path}: the text to change is not there any more: {old}"
    (source / path).write_text(text.replace(old, new))
    try:
        subprocess.run(["cmake", "--build", build, "--target", *TARGETS], check=True, stdout=subprocess.DEVNULL)
        run = [source / "tests/chaos/with_disks", "/usr/bin/python3", source / "tests/chaos/chaos.py", seconds, SEED, *kinds]
        done = subprocess.run(run, env={**os.environ, "LEASED_BIN_DIR": str(build)}, capture_output=True, text=True)
    finally:
        (source / path).write_text(text)
    found = [line for line in done.stdout.splitlines() if line.startswith("VIOLATION")]
    print("   ", found[0] if found else f"nothing found: {done.stdout[-300:]}{done.stderr[-600:]}", flush=True)
    return done.returncode == 1 and bool(found)


def main():
    source, build, seconds = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    missed = []
    for name, change in PLANTS.items():
        print(name, flush=True)
        if not is_caught(source, build, seconds, change):
            missed.append(name)
    print(f"{len(PLANTS) - len(missed)} of {len(PLANTS)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
