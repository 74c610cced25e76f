"""A chaos run: faults of a recorded seed, one after another, while programs contend for a few leases; then the checks.

    chaos.py SECONDS [SEED [KIND...]]      of all kinds, or of those; 1: something that must be true was not
"""
import collections
import pathlib
import random
import sys
import time

for place in (pathlib.Path(__file__).resolve().parent.parent / part for part in ("support", "integration")):
    sys.path.insert(0, str(place))

import world  # noqa: E402
from check import longest_pause, violations  # noqa: E402
from faults import possible  # noqa: E402
from place import NAMES, Site  # noqa: E402


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def drawn(rng, kinds):
    """Each kind before any comes again."""
    while True:
        order = sorted(kinds)
        rng.shuffle(order)
        yield from order


def run(site, rng, seconds, only):
    """The faults, and when each began and had healed."""
    kinds, without = possible(site)
    kinds = {kind: fault for kind, fault in kinds.items() if kind in only or not only}
    assert len(kinds) >= len(only), f"only these can be had: {', '.join(kinds)}"
    times, order, end = collections.defaultdict(list), drawn(rng, kinds), time.monotonic() + seconds
    while time.monotonic() < end:
        kind, begin = next(order), now_ns()
        print(f"{seconds - (end - time.monotonic()):6.1f} s: {kind}", file=sys.stderr)
        kinds[kind](site, rng)
        site.heal()
        before = len(site.beliefs())
        world.until(lambda: len(site.beliefs()) > before, f"a grant after: {kind}")
        times[kind].append((begin, now_ns()))
    return times, without


def report(site, times, without, found):
    beliefs, (begin, end) = site.beliefs(), (min(t for v in times.values() for t, _ in v), max(t for v in times.values() for _, t in v))
    print(f"{'FAULT':32} {'SURVIVED':>8} {'LONGEST PAUSE':>14}")
    for kind, spans in sorted(times.items()):
        print(f"{kind:32} {len(spans):8} {max(longest_pause(beliefs, *span) for span in spans):12.1f} s")
    for kind, why in sorted(without.items()):
        print(f"{kind:32} {'-':>8} {why}")
    print(f"{sum(map(len, times.values()))} faults, {len(beliefs)} grants of {NAMES} names in {(end - begin) / 1e9:.0f} s, "
          f"longest pause {longest_pause(beliefs, begin, end):.1f} s, {len(found)} violations")
    for violation in found[:20]:
        print(f"VIOLATION {violation}")


def main():
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 16)
    print(f"seed {seed}", flush=True)
    with world.temporary_directory() as directory:
        site = Site(directory, seed, lock_s=60 if seconds >= 600 else 3)
        try:
            times, without = run(site, random.Random(seed), seconds, sys.argv[3:])
            site.end_crowds()
            found = violations(site)
            site.stop()
        except BaseException:
            for log in pathlib.Path(directory).glob("d*.log"):
                print(f"--- {log.name}\n{''.join(log.read_text().splitlines(keepends=True)[-40:])}", file=sys.stderr)
            raise
        finally:
            world.end_started()
        report(site, times, without, found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
