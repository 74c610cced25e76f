"""Between the daemon and its database: TLS as libpq does it, and passwords that nobody gets to see."""
import os
import pathlib
import subprocess

import pytest

import world
from world import ctl

PASSWORD = "s3cret-w0rd"
USAGE, UNAVAILABLE, CONFIGURATION = 64, 69, 78


def openssl(directory, *args):
    subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)


def make_key(directory, name):
    openssl(directory, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
    os.chmod(f"{directory}/{name}.key", 0o600)


def make_ca(directory, name):
    make_key(directory, name)
    openssl(directory, "req", "-x509", "-key", f"{name}.key", "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.crt")


def make_certificate(directory, name, ca, alternative):
    make_key(directory, name)
    (pathlib.Path(directory) / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
    openssl(directory, "req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.crt")


@pytest.fixture(scope="module")
def server():
    """A cluster that is reached by TLS only: by name and password, or with a certificate."""
    with world.temporary_directory() as directory:
        for ca in "ca", "other":
            make_ca(directory, ca)
        make_certificate(directory, "server", "ca", "DNS:localhost")
        make_certificate(directory, "cert_user", "ca", "DNS:client")
        cluster = world.Postgres(directory, f"listen_addresses='localhost'\nssl=on\nssl_ca_file='{directory}/ca.crt'\n"
                                 f"ssl_cert_file='{directory}/server.crt'\nssl_key_file='{directory}/server.key'", port=world.free_port())
        (cluster.data / "pg_hba.conf").write_text("local all all trust\nhostssl all cert_user all cert\nhostssl all pass_user all scram-sha-256\n")
        cluster.start()
        with cluster.connect() as conn:
            conn.execute(f"CREATE ROLE cert_user LOGIN IN ROLE leased_daemon; CREATE ROLE pass_user LOGIN PASSWORD '{PASSWORD}' IN ROLE leased_daemon")
        subprocess.run([world.LEASED, "schema", "apply", "--database", cluster.conninfo(user="leased")], check=True)
        (pathlib.Path(directory) / "pgpass").write_text(f"*:*:*:*:{PASSWORD}\n")
        os.chmod(f"{directory}/pgpass", 0o600)
        yield cluster
        cluster.stop()


def by_tls(server, user, ca="ca", host="localhost", more=""):
    return f"host={host} port={server.port} user={user} dbname=postgres sslmode=verify-full sslrootcert={server.dir}/{ca}.crt {more}"


def with_certificate(server):
    return by_tls(server, "cert_user", more=f"sslcert={server.dir}/cert_user.crt sslkey={server.dir}/cert_user.key")


def test_a_verified_server_and_a_clients_certificate(server, start_daemon):
    daemon = start_daemon(with_certificate(server))
    daemon.wait_event("notifications_ready")
    assert ctl(daemon, "run", "x", "--", "true").returncode == 0
    with server.connect() as conn:
        seen = conn.execute("SELECT DISTINCT ssl, client_dn FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'cert_user'").fetchall()
    assert seen == [(True, "/CN=cert_user")]
    status = subprocess.run([world.LEASED, "schema", "status", "--database", with_certificate(server)], capture_output=True)
    assert status.returncode == 0, status


@pytest.mark.parametrize("claim, conninfo, why", [
    ("a server of another CA", lambda s: by_tls(s, "pass_user", ca="other"), "certificate verify failed"),
    ("a server of another name", lambda s: by_tls(s, "pass_user", host="127.0.0.1"), "does not match host name"),
    ("no CA to verify with", lambda s: by_tls(s, "pass_user", ca="missing"), "missing.crt"),
    ("no certificate of our own", lambda s: by_tls(s, "cert_user"), "valid client certificate"),
    ("no TLS at all", lambda s: f"host=localhost port={s.port} user=pass_user dbname=postgres sslmode=disable", "no encryption"),
], ids=lambda value: value if isinstance(value, str) and " " in value else "")
def test_it_is_said_what_is_wrong(server, start_daemon, claim, conninfo, why):
    daemon = start_daemon(conninfo(server), wait="database_unavailable")
    assert why in daemon.log() and "event=database_ready" not in daemon.log()
    told = subprocess.run([world.LEASED, "schema", "status", "--database", conninfo(server)], capture_output=True, text=True)
    assert told.returncode == UNAVAILABLE and why in told.stderr


def everything_said(daemon):
    """Also what other users of the host can see."""
    doctor = ctl(daemon, "doctor")
    refusal = ctl(daemon, "acquire", "x")
    line = pathlib.Path(f"/proc/{daemon.process.pid}/cmdline").read_text()
    return daemon.log() + doctor.stdout + doctor.stderr + refusal.stdout + refusal.stderr + line


def conf(directory, text):
    path = pathlib.Path(directory) / "leased.conf"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("way", ["passfile", "PGPASSFILE", "PGSERVICEFILE", "leased.conf", "PGPASSWORD"])
def test_a_password_arrives_and_is_told_nowhere(server, directory, start_daemon, way):
    env, args, conninfo = {}, ["--log-level", "debug"], by_tls(server, "pass_user")
    if way == "passfile":
        conninfo += f" passfile={server.dir}/pgpass"
    elif way == "PGPASSFILE":
        env = {"PGPASSFILE": f"{server.dir}/pgpass"}
    elif way == "PGSERVICEFILE":
        service = pathlib.Path(directory) / "service"
        service.write_text("[leases]\n" + by_tls(server, "pass_user", more=f"password={PASSWORD}").replace(" ", "\n"))
        conninfo, env = "service=leases", {"PGSERVICEFILE": str(service)}
    elif way == "leased.conf":
        args += ["--config", conf(directory, f"database = host=localhost port={server.port} user=pass_user dbname=postgres sslmode=require password={PASSWORD}\n")]
        conninfo = None
    else:
        env = {"PGPASSWORD": PASSWORD}
    daemon = start_daemon(conninfo, args=args, env=env)
    said = everything_said(daemon)
    assert PASSWORD not in said and "event=database_ready" in said
    assert ("event=password_in_environment" in said) == (way == "PGPASSWORD")


def test_a_wrong_password_is_refused_and_not_told(server, directory, start_daemon):
    wrong = pathlib.Path(directory) / "pgpass"
    wrong.write_text(f"*:*:*:*:not-{PASSWORD}\n")
    wrong.chmod(0o600)
    daemon = start_daemon(by_tls(server, "pass_user"), wait="database_unavailable", env={"PGPASSFILE": str(wrong)}, args=["--request-timeout", "500ms"])
    said = everything_said(daemon)
    assert "password authentication failed" in said and PASSWORD not in said


@pytest.mark.parametrize("words", [
    ["--database", f"host=h password={PASSWORD}"], [f"--database=host=h password={PASSWORD}"], ["--database", f"postgresql://u:{PASSWORD}@h/d"],
    ["--notify-database", f"postgresql://h/d?password={PASSWORD}"], [f"postgresql://u:{PASSWORD}@h/d"], [f"host=h password={PASSWORD}"],
    ["--database", f"host=h password={PASSWORD} and more"], ["schema", "apply", "--database", f"host=h password={PASSWORD}"], ["schema", f"host=h password={PASSWORD}"],
], ids=lambda words: " ".join(words).replace(PASSWORD, "..."))
def test_a_password_in_argv_is_refused_and_not_repeated(words):
    done = subprocess.run([world.LEASED, *words], capture_output=True, text=True, timeout=world.GIVE_UP)
    assert done.returncode == USAGE and PASSWORD not in done.stderr + done.stdout
    assert "a password on the command line" in done.stderr or "libpq cannot read" in done.stderr


@pytest.mark.parametrize("line, why", [
    (f"database = host=h password={PASSWORD} and more", "libpq cannot read"),
    (f"database = postgresql://u:{PASSWORD}@[h/d", "libpq cannot read"),
    (f"database host=h password={PASSWORD}", "unknown key"),
])
def test_a_bad_line_with_a_password_is_not_repeated(directory, line, why):
    done = subprocess.run([world.LEASED, "--check-config", "--config", conf(directory, line + "\n")], capture_output=True, text=True)
    assert done.returncode == CONFIGURATION and why in done.stderr and PASSWORD not in done.stderr
