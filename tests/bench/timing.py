"""Whether the daemon's time tells if a client's key is in authorized_clients: timing.c, which says what is compared."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sealed import sealed  # noqa: E402

PLACE = pathlib.Path(sys.argv[1])
SAMPLES = os.environ.get("LEASED_BENCH_SAMPLES") or "100000"

for n_keys in 10, 1000:
    print(f"{n_keys} keys", flush=True)
    subprocess.run([PLACE / "timing", "lookup", SAMPLES, str(n_keys)], check=True)
with sealed(PLACE, "--max-handshakes-per-address", "100000", "--max-handshakes-per-second", "1000000") as (_, address):
    subprocess.run([PLACE / "timing", address, SAMPLES, PLACE / "client"], check=True)
