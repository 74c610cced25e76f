import os
import pathlib
import sys

import psycopg
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

from follower import Follower  # noqa: E402
from kept import Kept  # noqa: E402
import world  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """Processes of a test end with it, also when it fails half-way."""
    before = len(world.started)
    yield
    world.end_started(since=before)


@pytest.fixture(scope="session")
def postgres():
    """One private cluster for all tests of a file."""
    with world.temporary_directory() as directory:
        cluster = world.Postgres(directory).start()
        yield cluster
        cluster.stop()


@pytest.fixture
def own_postgres():
    """A cluster that a test may stop, crash and freeze."""
    with world.temporary_directory() as directory:
        cluster = world.Postgres(directory).start()
        yield cluster
        cluster.stop()


@pytest.fixture(scope="session")
def kept(postgres):
    with world.temporary_directory() as directory:
        kept = Kept(directory, postgres)
        yield kept
        kept.drop()


@pytest.fixture
def lend(kept, request):
    """Daemons that others have used before, as good as new."""
    yield kept.lend
    if getattr(request.node, "failed", False):
        kept.drop(show=True)


@pytest.fixture
def database(postgres, request):
    """A fresh database for each test; its conninfo. Where daemons are lent, it is theirs."""
    if "lend" in request.fixturenames:
        return request.getfixturevalue("kept").database
    return postgres.conninfo(postgres.create_database())


@pytest.fixture
def db(database):
    """The schema without a daemon."""
    with psycopg.connect(database, autocommit=True) as conn:
        yield conn


@pytest.fixture
def directory():
    with world.temporary_directory() as path:
        yield path


@pytest.fixture
def start_daemon(directory, request):
    """Starts daemons that end with the test; a failing test prints what they said."""
    daemons = []

    def start(conninfo, name=None, **kwargs):
        daemon = world.Daemon(directory, conninfo, name or f"d{len(daemons)}", **kwargs)
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        daemon.end(show=getattr(request.node, "failed", False))


@pytest.fixture
def daemon(lend):
    return lend(1)[0]


@pytest.fixture
def start_listening(database, start_daemon):
    """Starts several daemons on the test's database, and waits until notifications arrive at each."""
    def start(count, **kwargs):
        daemons = [start_daemon(database, **kwargs) for _ in range(count)]
        for daemon in daemons:
            daemon.wait_event("notifications_ready")
        return daemons
    return start


@pytest.fixture
def pair(lend):
    return lend(2)


@pytest.fixture
def follow(directory):
    """Starts followers, which end with the test."""
    followers = []

    def start(*args, **kwargs):
        followers.append(Follower(directory, *args, **kwargs))
        return followers[-1]
    yield start
    for follower in followers:
        if follower.process.poll() is None:
            follower.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.failed = True


def pytest_configure(config):
    assert os.environ.get("LEASED_BIN_DIR"), "LEASED_BIN_DIR names the build directory"
    assert os.geteuid() != 0, "PostgreSQL refuses to run as root: tests/run changes to another user"
