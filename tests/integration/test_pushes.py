"""What the daemon tells unasked (Lost, the changes of a watch) is told only to who may see the name. Each silence is proved
by what comes after it: the next thing told is about a name that may be seen."""
import noise
import raw
import test_access
from test_access import ME, changes, guard, watch  # noqa: F401
from test_sealed import Sealed, keygen, secret_of

SNAPSHOT, READY, GRANTED, VALUE, RELEASED, EXPIRED, STOLEN = 0, 2, 3, 4, 5, 6, 7


def steal(client, *names):
    for name in names:
        assert client.ask(test_access.steal(1, name)).kind == "stolen"


def lost(client, n):
    """The names that are lost by the next n pushes."""
    answers = [client.answer() for _ in range(n)]
    assert all(a.kind == "lost" and a.request == 0 for a in answers), answers
    return [raw.fields(a.body)[1] for a in answers]


def test_every_kind_of_change_is_told_of_visible_names_only(guard):
    """Whatever happens, happens to a hidden name first; one who may see all is told of both."""
    g = guard(f"me {ME} watch seen/**; *,steal none")
    for daemon in (g.daemon, g.open):
        daemon.wait_event("notifications_ready")
    with raw.Client(g.daemon.socket) as some, raw.Client(g.open.socket) as witness, raw.Client(g.open.socket) as holder:
        for client in some, witness:
            client.send(watch(1))
            assert changes(client, 2) == [(SNAPSHOT, ""), (READY, "")]
        told = []

        def happens(event, act):
            for name in (b"hidden/x", b"seen/x"):
                act(name)
                told.append((event, name.decode()))
        tokens = {}

        def acquire(name, ttl_ms=600000):
            tokens[name] = holder.acquire(name, 1, ttl_ms)
            assert tokens[name]

        def publish(name):
            value = raw.field(1, raw.claim(name, tokens[name], 1)) + raw.field(3, b"v") + raw.field(4, 1)
            assert holder.ask(raw.frame(raw.field(1, 2) + raw.field(4, raw.field(1, value)))).statuses == [0]
        happens(GRANTED, acquire)
        happens(VALUE, publish)
        happens(RELEASED, lambda name: holder.release(name, tokens[name], 1))
        happens(GRANTED, acquire)
        happens(STOLEN, lambda name: steal(holder, name))
        happens(GRANTED, lambda name: acquire(name, 300))
        happens(EXPIRED, lambda name: None)
        assert sorted(changes(witness, len(told))) == sorted(told)  # one may expire before the other is there
        assert changes(some, len(told) // 2) == [change for change in told if change[1] == "seen/x"]
        acquire(b"seen/last")
        assert changes(some, 1) == [(GRANTED, "seen/last")]


def test_lost_is_told_of_visible_names_only_and_goes_by_the_rules_of_the_moment(guard):
    """The same account at both daemons, so the same principal; any verb on the name will do."""
    g = guard(f"me {ME} renew seen/*; get also")
    for daemon in (g.daemon, g.open):
        daemon.wait_event("notifications_ready")
    with raw.Client(g.daemon.socket, b"lost") as some, raw.Client(g.open.socket, b"lost") as everybody, \
            raw.Client(g.daemon.socket) as deaf, raw.Client(g.open.socket) as holder:
        for i, name in enumerate((b"hidden", b"seen/x", b"seen/y", b"also", b"also/not")):
            assert holder.acquire(name, i + 1)
        steal(holder, b"hidden", b"seen/x", b"also/not", b"also")
        assert lost(everybody, 4) == [b"hidden", b"seen/x", b"also/not", b"also"]
        assert lost(some, 2) == [b"seen/x", b"also"]
        g.reload(f"me {ME} get hidden")
        for i, name in enumerate((b"hidden", b"also")):
            assert holder.acquire(name, 100 + i)
        steal(holder, b"seen/y", b"also", b"hidden")
        assert lost(some, 1) == [b"hidden"]
        assert deaf.ask(raw.ping(1)).kind == "pong"  # it did not say that it takes them


def test_lost_is_told_to_its_principal_alone(start_daemon, database, directory):
    """However much another one may see."""
    sealed = Sealed(start_daemon, database, directory)
    sealed.daemon.wait_event("notifications_ready")
    other_file = sealed.dir / "other"
    sealed.know(f"tester {sealed.client_text} * **", f"other {keygen(other_file)} *,steal **")

    def connect(secret):
        client = noise.Client(sealed.socket(), sealed.public, secret).connect()
        client.send(raw.hello(b"lost"))
        assert raw.fields(client.frame())[2]
        return client
    mine, other = connect(sealed.secret), connect(secret_of(other_file))
    for client, name in (mine, b"x"), (other, b"y"):
        client.send(raw.acquire(1, name, 1))
        assert raw.fields(client.frame())[1] == 1
    assert sealed.ctl("steal", "x", "--reason", "r", key=other_file).returncode == 0
    assert sealed.ctl("steal", "y", "--reason", "r", key=other_file).returncode == 0
    for client, name in (other, b"y"), (mine, b"x"):  # the thief first: when it has heard of y, so would the other one
        assert raw.fields(raw.fields(client.frame())[14])[1] == name
        client.send(raw.ping(2))
        assert 8 in raw.fields(client.frame())
