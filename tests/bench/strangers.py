"""What 1,000 clients that renew feel of strangers: each renewal's time, alone, then beside 5,000 new connections a second.

The clients are sealed, and each renews its lease each second, ttl 3 s, so that a late renewal (less than a third of
the ttl left) shows soon. The strangers come from one address, then from 250: silent ones, garbage, the first half
of a handshake, and the same from strangers who leave some milliseconds later.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world  # noqa: E402
from sealed import sealed  # noqa: E402

PLACE = pathlib.Path(sys.argv[1])
SECONDS = float(os.environ.get("LEASED_BENCH_SECONDS") or 20)
RATE = 5000
CLIENTS = 1000


def cpu_seconds(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def values(text):
    return {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", text)}


def measure(address, kind, hosts):
    """Renewals while strangers of a kind come; None: nobody does."""
    load = subprocess.Popen([PLACE / "load", address, "hold", str(CLIENTS), str(SECONDS), "1", "1000"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "LEASED_KEY_FILE": PLACE / "client"})
    assert "all leases are held" in load.stderr.readline()
    flood = kind and subprocess.run([PLACE / "flood", address, kind, str(RATE), str(SECONDS), str(hosts)], check=True,
                                    capture_output=True, text=True).stdout
    out, err = load.communicate(timeout=world.GIVE_UP)
    assert load.returncode == 0, err
    return values(out), values(flood or "")


def main():
    with sealed(PLACE) as (daemon, address):
        print(f"{'strangers':<10} {'from':>5} {'a second':>9} {'renewals/s':>11} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'late':>5} {'lost':>5} {'daemon':>7}")
        for kind, hosts in ((None, 0), ("silent", 1), ("silent", 250), ("garbage", 1), ("garbage", 250), ("half", 1), ("half", 250), ("hasty", 1), ("hasty", 250), (None, 0)):
            cpu = cpu_seconds(daemon)
            held, flood = measure(address, kind, hosts)
            cores = (cpu_seconds(daemon) - cpu) / SECONDS
            print(f"{kind or 'none':<10} {hosts:>5} {flood.get('per_second', 0):>9.0f} {held['per_second']:>11.0f} {held['p50_ms']:>7.2f} {held['p99_ms']:>7.2f} "
                  f"{held['max_ms']:>7.1f} {held['late']:>5.0f} {held['lost']:>5.0f} {cores:>7.2f}", flush=True)


main()
