"""A sealed daemon with a cluster of its own, and one client that it knows."""
import contextlib
import subprocess

import world


def keygen(path, *options):
    return subprocess.run([world.LEASECTL, "keygen", *options, path], check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def sealed(place, *args):
    """The daemon and its address; the client's key is in place/client."""
    server = keygen(place / "server", "--server")
    (place / "clients").write_text(f"bench {keygen(place / 'client')} * **\n")
    port = world.free_port()
    (place / "work").mkdir()
    cluster = world.Postgres(place / "work", "fsync=on\n").start()
    daemon = world.Daemon(place / "work", cluster.conninfo(), args=[
        "--listen", f"tcp:127.0.0.1:{port}", "--key", str(place / "server"), "--authorized-clients", str(place / "clients"), *args])
    try:
        yield daemon, f"leased://127.0.0.1:{port}/{server}"
    finally:
        daemon.stop()
        cluster.stop()
