"""leasectl run: the job runs on exactly one, is told what it holds, and never outlives its lease."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import time

import pytest

import world
from world import alive, ctl, ctl_json, ctl_start, until

HELD, LOST = 75, 76


def pid_from(path):
    """The pid that a job writes when it runs."""
    return int(until(lambda: path.exists() and path.read_text().strip(), f"{path.name}"))


@pytest.fixture
def here(directory):
    return pathlib.Path(directory)


JOB = "echo $$ >{0}.tmp; mv {0}.tmp {0}; "  # the pid, whole at once


@pytest.mark.parametrize("script,code", [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_the_commands_own_code_is_returned(daemon, script, code):
    assert ctl(daemon, "run", "x", "--", "sh", "-c", script).returncode == code
    assert ctl(daemon, "get", "x").returncode == HELD  # given back


def test_a_command_that_cannot_run(daemon, here):
    (here / "not-executable").write_text("")
    assert ctl(daemon, "run", "x", "--", "no-such-command").returncode == 127
    assert ctl(daemon, "run", "x", "--", str(here / "not-executable")).returncode == 126
    assert ctl(daemon, "get", "x").returncode == HELD


def test_the_job_is_told_what_it_holds(daemon):
    done = ctl(daemon, "run", "-t", "60s", "a b", "--", "env")
    env = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("LEASED_"))
    assert env["LEASED_NAME"] == "a b" and int(env["LEASED_TOKEN"]) > 0
    assert len(env["LEASED_HOLDER"].rsplit(":", 2)[2]) == 16
    assert 50000 < int(env["LEASED_EXPIRES_IN_MS"]) <= 60000


def test_the_exit_status_is_in_the_history(daemon, database):
    import psycopg
    ctl(daemon, "run", "x", "--", "sh", "-c", "exit 3")
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT ended, exit_status FROM leased.events WHERE name = 'x'").fetchall() == [("released", 3)]


def test_two_contenders_one_runs(daemon, here):
    first = ctl_start(daemon, "run", "x", "--", "sh", "-c", JOB.format(here / "pid") + "read line", stdin=subprocess.PIPE)
    pid_from(here / "pid")
    second = ctl(daemon, "run", "x", "--", "touch", str(here / "second"))
    assert second.returncode == HELD and not (here / "second").exists()
    first.communicate("go\n")
    assert first.returncode == 0


def test_it_is_renewed_while_the_job_runs(daemon):
    assert ctl(daemon, "run", "-t", "600ms", "x", "--", "sleep", "2").returncode == 0


def test_a_lost_lease_ends_the_job_before_another_gets_it(daemon, here, start_daemon, database):
    """The daemon is frozen: no renewal is answered. A job that ignores TERM is killed before the expiry."""
    script = f"trap 'echo term >>{here}/term' TERM; " + JOB.format(here / "pid") + "while :; do sleep 0.05; done"
    run = ctl_start(daemon, "run", "-t", "3s", "--grace", "1s", "x", "--", "sh", "-c", script)
    pid = pid_from(here / "pid")
    daemon.signal(signal.SIGSTOP)
    other = start_daemon(database)
    taken = ctl_json(other, "acquire", "-w", "60s", "x")
    assert not alive(pid), "the job ran while another had the lease"
    assert taken and (here / "term").exists()
    out, err = run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == LOST and "lost" in err
    daemon.signal(signal.SIGCONT)


def test_a_job_that_obeys_is_ended_with_a_word_why(daemon, here):
    """The daemon is gone: TERM comes early enough, and what the job left by setsid ends as well."""
    run = ctl_start(daemon, "run", "-t", "3s", "--grace", "1s", "x", "--", "sh", "-c",
                    f"setsid sh -c '{JOB.format(here / 'away')} sleep 1000' & " + JOB.format(here / "pid") + "wait")
    pids = [pid_from(here / "pid"), pid_from(here / "away")]
    daemon.kill()
    out, err = run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == LOST and not any(map(alive, pids))
    assert err.startswith('leasectl: lease "x" is lost: ') and err.count("\n") == 1, err


def test_a_lease_that_is_renewed_after_its_job_was_ended_is_given_back(daemon, here):
    """The watcher ends the job a grace before the deadline; then the daemon answers again."""
    run = ctl_start(daemon, "run", "-t", "6s", "--grace", "2900ms", "x", "--", "sh", "-c",
                    f"trap 'touch {here}/term; exit 1' TERM; " + JOB.format(here / "pid") + "while :; do sleep 0.05; done")
    pid_from(here / "pid")
    daemon.signal(signal.SIGSTOP)
    until((here / "term").exists, "the end of the job")
    daemon.signal(signal.SIGCONT)
    out, err = run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == LOST and "is lost" in err
    assert ctl(daemon, "get", "x").returncode == HELD  # at once, not after the ttl


def test_a_release_that_finds_nobody_keeps_the_jobs_code(daemon, here):
    """It ends by itself after its ttl, which the line says."""
    run = ctl_start(daemon, "run", "-t", "10m", "x", "--", "sh", "-c", JOB.format(here / "pid") + "read line; exit 5", stdin=subprocess.PIPE)
    pid_from(here / "pid")
    daemon.kill()
    out, err = run.communicate("go\n", timeout=world.GIVE_UP)
    assert run.returncode == 5 and 'release "x"' in err and "expire by itself" in err


def test_a_killed_watcher_takes_the_job_along_and_gives_the_lease_back(daemon, here):
    run = ctl_start(daemon, "run", "-t", "10m", "x", "--", "sh", "-c", JOB.format(here / "pid") + "sleep 1000")
    job = pid_from(here / "pid")
    watcher = int(pathlib.Path(f"/proc/{job}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(watcher, signal.SIGKILL)
    out, err = run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == LOST and "the watcher was killed" in err and not alive(job)
    assert ctl(daemon, "get", "x").returncode == HELD


def test_another_daemon_keeps_the_lease_alive(daemon, here, start_daemon, database):
    other = start_daemon(database)
    run = ctl_start([daemon, other], "run", "-t", "4s", "x", "--", "sh", "-c",
                    JOB.format(here / "pid") + "read line; exit 5", stdin=subprocess.PIPE)
    pid = pid_from(here / "pid")
    token = ctl_json(other, "get", "x")[0]["token"]
    daemon.kill()
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:  # longer than the ttl: somebody renews
        assert alive(pid)
        time.sleep(0.1)
    assert ctl_json(other, "get", "x")[0]["token"] == token
    run.communicate("go\n")
    assert run.returncode == 5
    assert ctl(other, "get", "x").returncode == HELD


def test_a_stopped_leasectl_cannot_keep_its_job(daemon, here):
    """SIGSTOP past the ttl: the job is dead before another takes over; on waking the first knows."""
    run = ctl_start(daemon, "run", "-t", "2s", "x", "--", "sh", "-c", JOB.format(here / "pid") + "sleep 1000")
    pid = pid_from(here / "pid")
    run.send_signal(signal.SIGSTOP)
    assert ctl_json(daemon, "acquire", "-w", "60s", "x")
    assert not alive(pid)
    run.send_signal(signal.SIGCONT)
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == LOST


def test_a_killed_leasectl_takes_its_job_along(daemon, here):
    run = ctl_start(daemon, "run", "x", "--", "sh", "-c", f"setsid sh -c '{JOB.format(here / 'grandchild')} sleep 1000' & "
                    + JOB.format(here / "pid") + "wait")
    pids = [pid_from(here / "pid"), pid_from(here / "grandchild")]
    run.kill()
    until(lambda: not any(map(alive, pids)), "the job to end")
    run.communicate()


def test_descendants_in_the_group_delay_the_release(daemon, here):
    run = ctl_start(daemon, "run", "x", "--", "sh", "-c", f"(while [ ! -e {here}/go ]; do sleep 0.02; done) & "
                    + JOB.format(here / "pid") + "exit 4", stdout=subprocess.DEVNULL)
    pid = pid_from(here / "pid")
    until(lambda: not alive(pid), "the command itself to end")
    assert ctl(daemon, "get", "x").returncode == 0  # still held
    (here / "go").touch()
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == 4


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH,
                                   signal.SIGCONT])
def test_signals_are_passed_on(daemon, here, signo):
    script = f"trap 'exit 40' {signo.name[3:]}; " + JOB.format(here / "pid") + "while :; do sleep 0.02; done"
    run = ctl_start(daemon, "run", "x", "--", "sh", "-c", script)
    pid_from(here / "pid")
    run.send_signal(signo)
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == 40
    assert ctl(daemon, "get", "x").returncode == HELD


def test_what_was_ignored_stays_ignored(daemon, here):
    """nohup leasectl run ...: a hangup ends neither the wait nor the job."""
    nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", world.LEASECTL, "-s", daemon.address, "run", "-w", "10m", "x", "--", "sh", "-c",
             JOB.format(here / "pid") + "read line; kill -HUP $$; exit 6"]
    held = ctl_json(daemon, "acquire", "x")[0]
    run = world.start(nohup, stdin=subprocess.PIPE, text=True)
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    run.send_signal(signal.SIGHUP)
    ctl(daemon, "release", "x", "--holder", held["holder"], "--token", str(held["token"]))
    pid_from(here / "pid")
    run.send_signal(signal.SIGHUP)
    run.communicate("go\n", timeout=world.GIVE_UP)
    assert run.returncode == 6


def test_a_stderr_that_nobody_reads_does_not_end_the_job(daemon, here):
    run = ctl_start(daemon, "run", "-t", "10m", "x", "--", "sh", "-c", JOB.format(here / "pid") + "read line; exit 8", stdin=subprocess.PIPE)
    pid_from(here / "pid")
    run.stderr.close()
    daemon.kill()  # so that there is something to complain about
    run.stdin.write("go\n")
    run.stdin.close()
    assert run.wait(world.GIVE_UP) == 8


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_waiting_leaves_the_queue(daemon, here, signo):
    ctl(daemon, "acquire", "x")
    run = ctl_start(daemon, "run", "-w", "10m", "x", "--", "touch", str(here / "ran"))
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    run.send_signal(signo)
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == 128 + signo and not (here / "ran").exists()
    assert ctl_json(daemon, "get", "x")[0]["waiters"] == 0


def test_a_signal_that_crosses_the_grant_starts_nothing_or_reaches_the_job(daemon, here):
    """The race, many times: either the job never ran, or it was ended by the signal. Nothing stays held."""
    for i in range(20):
        name = f"race/{i}"
        held = ctl_json(daemon, "acquire", name)[0]
        run = ctl_start(daemon, "run", "-w", "10m", name, "--", "sleep", "1000")
        until(lambda: ctl_json(daemon, "get", name)[0]["waiters"] == 1, "the waiter")
        release = ctl_start(daemon, "release", name, "--holder", held["holder"], "--token", str(held["token"]))
        time.sleep(i * 0.002)
        run.send_signal(signal.SIGTERM)
        release.communicate()
        run.communicate(timeout=world.GIVE_UP)
        assert run.returncode == 128 + signal.SIGTERM
        assert ctl(daemon, "get", name).returncode == HELD


def test_a_wait_that_runs_out(daemon):
    ctl(daemon, "acquire", "x")
    done = ctl(daemon, "run", "-w", "300ms", "x", "--", "true")
    assert done.returncode == HELD and "the wait ran out" in done.stderr and "holds it with token" in done.stderr
    assert ctl(daemon, "run", "-w", "300ms", "-E", "3", "x", "--", "true").returncode == 3


def test_no_daemon_is_unavailable(directory):
    done = ctl(f"unix:{directory}/none.sock", "run", "x", "--", "true")
    assert done.returncode == 69 and "no daemon answers" in done.stderr


def on_terminal(args):
    """Runs a command as the foreground job of a terminal; returns pid and master."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(args[0], args)
    return pid, master


def wait_code(pid):
    status = until(lambda: [s for p, s in [os.waitpid(pid, os.WNOHANG)] if p], f"{pid} to end")[0]
    return os.waitstatus_to_exitcode(status)


def test_the_terminals_interrupt_reaches_the_job(daemon, here):
    script = "trap 'exit 41' INT; " + JOB.format(here / "pid") + "while :; do sleep 0.02; done"
    pid, master = on_terminal([str(world.LEASECTL), "-s", daemon.address, "run", "x", "--", "sh", "-c", script])
    pid_from(here / "pid")
    os.write(master, b"\x03")
    assert wait_code(pid) == 41
    os.close(master)


def test_the_terminals_interrupt_ends_the_script_too(daemon, here):
    """As if the job had not taken the terminal: the shell gets it, and leasectl dies of it."""
    (here / "job").write_text(JOB.format(here / "pid") + "exec sleep 1000")
    pid, master = on_terminal(["/bin/sh", "-c", f"{world.LEASECTL} -s {daemon.address} run x -- sh {here}/job; touch {here}/after"])
    pid_from(here / "pid")
    os.write(master, b"\x03")
    assert wait_code(pid) == -signal.SIGINT and not (here / "after").exists()
    assert ctl(daemon, "get", "x").returncode == HELD
    os.close(master)


@pytest.mark.parametrize("end", ["run", "wait", "acquire"])
def test_the_terminals_interrupt_ends_a_loop(daemon, here, end):
    """One ^C for all of it, whether the job runs or is waited for; and the shell sees 128+N."""
    if end != "run":
        ctl(daemon, "acquire", "-t", "10m", "x")
    (here / "job").write_text(JOB.format(here / "pid") + "exec sleep 1000")
    pid, master = on_terminal(["/bin/bash", "--norc", "-i"])
    command = "acquire -w 10m x" if end == "acquire" else f"run -w 10m x -- sh {here}/job"
    os.write(master, f"for i in 1 2 3; do echo $i >>{here}/turns; {world.LEASECTL} -s {daemon.address} {command}; done\n".encode())
    if end != "run":
        until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 1, "the waiter")
    else:
        pid_from(here / "pid")
    os.write(master, b"\x03")
    until(lambda: ctl_json(daemon, "get", "x")[0]["waiters"] == 0 and (end != "run" or ctl(daemon, "get", "x").returncode == HELD), "the end")
    os.write(master, f"\necho $? >{here}/code.tmp; mv {here}/code.tmp {here}/code; exit\n".encode())
    until((here / "code").exists, "the shell to go on")
    wait_code(pid)
    assert (here / "code").read_text() == "130\n" and (here / "turns").read_text() == "1\n"
    os.close(master)


def test_the_job_can_read_the_terminal(daemon, here):
    script = JOB.format(here / "pid") + f"read line; echo \"$line\" >{here}/line"
    pid, master = on_terminal([str(world.LEASECTL), "-s", daemon.address, "run", "x", "--", "sh", "-c", script])
    pid_from(here / "pid")
    os.write(master, b"hello\n")
    assert wait_code(pid) == 0
    assert (here / "line").read_text() == "hello\n"
    os.close(master)


def test_stop_and_continue_on_a_terminal(daemon, here):
    """In an interactive shell: ^Z stops job and leasectl, fg goes on with both.

    The job is bash's, which forks: with dash's vfork a child stopped before its exec holds its parent, and ^Z stops nobody.
    """
    pid, master = on_terminal(["/bin/bash", "--norc", "-i"])
    script = JOB.format(here / "pid") + f"while [ ! -e {here}/go ]; do sleep 0.02; done; touch {here}/done"
    (here / "job").write_text(script)
    os.write(master, f"{world.LEASECTL} -s {daemon.address} run x -- bash {here}/job; echo code-$?\n".encode())
    job = pid_from(here / "pid")
    os.write(master, b"\x1a")
    until(lambda: pathlib.Path(f"/proc/{job}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "the job to stop")
    os.write(master, b"\nfg\n")
    until(lambda: pathlib.Path(f"/proc/{job}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T", "the job to go on")
    (here / "go").touch()
    until(lambda: (here / "done").exists(), "the job to end")
    os.write(master, b"exit\n")
    wait_code(pid)
    os.close(master)


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_job_in_the_background_that_reads_stops_for_fg(daemon, here):
    """As any program: the shell sees it stopped, and fg gives it the terminal."""
    (here / "job").write_text(JOB.format(here / "pid") + f'read line; echo "$line" >{here}/line')
    pid, master = on_terminal(["/bin/bash", "--norc", "-i"])
    os.write(master, f"{world.LEASECTL} -s {daemon.address} run x -- bash {here}/job & echo $! >{here}/ctl\n".encode())
    run, job = pid_from(here / "ctl"), pid_from(here / "pid")
    until(lambda: state(job) == "T" and state(run) == "T", "both to stop")

    def shell_knows():  # one that does not yet would send no SIGCONT
        os.write(master, f"jobs >{here}/jobs\n".encode())
        return (here / "jobs").exists() and "Stopped" in (here / "jobs").read_text()
    until(shell_knows, "the shell to see it")
    os.write(master, b"fg\n")
    until(lambda: state(job) != "T" and state(run) != "T", "both to go on")
    os.write(master, b"hello\n")
    until((here / "line").exists, "the line")
    os.write(master, b"exit\n")
    wait_code(pid)
    assert (here / "line").read_text() == "hello\n"
    os.close(master)


def test_a_pager_behind_a_pipe_keeps_the_terminal(daemon, here):
    """leasectl run ... | less: less reads the terminal; ^Z and fg are for both; ^C reaches the job."""
    (here / "job").write_text(f"trap 'echo interrupted >{here}/end' INT; " + JOB.format(here / "pid") + "while [ ! -e %s/end ]; do sleep 0.02; done" % here)
    (here / "pager").write_text(f'echo $$ >{here}/pager.pid; read key </dev/tty; echo "$key" >{here}/key; trap "" INT; cat >/dev/null')
    pid, master = on_terminal(["/bin/bash", "--norc", "-i"])
    os.write(master, f"{world.LEASECTL} -s {daemon.address} run x -- bash {here}/job | bash {here}/pager\n".encode())
    job, pager = pid_from(here / "pid"), pid_from(here / "pager.pid")
    os.write(master, b"\x1a")
    until(lambda: state(job) == "T" and state(pager) == "T", "both to stop")
    os.write(master, b"\nfg\n")
    until(lambda: state(job) != "T", "the job to go on")
    os.write(master, b"q\n")
    until((here / "key").exists, "the key")
    os.write(master, b"\x03")
    until((here / "end").exists, "the interrupt")
    os.write(master, b"exit\n")
    wait_code(pid)
    assert (here / "key").read_text() == "q\n"
    os.close(master)


def test_stopped_and_continued_without_a_terminal(daemon, here):
    """kill -TSTP and -CONT by somebody who controls jobs, as we do here: job and leasectl stop, and go on."""
    (here / "job").write_text(JOB.format(here / "pid") + f"while [ ! -e {here}/go ]; do sleep 0.02; done; exit 4")
    # A process group of its own, with its parent in another one of the session: so the kernel lets it stop.
    run = ctl_start(daemon, "run", "x", "--", "bash", str(here / "job"), process_group=0)
    job = pid_from(here / "pid")
    run.send_signal(signal.SIGTSTP)
    until(lambda: state(job) == "T" and state(run.pid) == "T", "both to stop")
    run.send_signal(signal.SIGCONT)
    until(lambda: state(job) != "T" and state(run.pid) != "T", "both to go on")
    (here / "go").touch()
    run.communicate(timeout=world.GIVE_UP)
    assert run.returncode == 4


def test_where_no_shell_can_continue_it_nothing_stops(daemon, here):
    """^Z in a terminal without job control goes by; otherwise nobody could ever wake it."""
    script = f"trap 'touch {here}/continued' CONT; " + JOB.format(here / "pid") + f"while [ ! -e {here}/continued ]; do sleep 0.02; done; exit 9"
    pid, master = on_terminal([str(world.LEASECTL), "-s", daemon.address, "run", "x", "--", "bash", "-c", script])
    pid_from(here / "pid")
    os.write(master, b"\x1a")
    assert wait_code(pid) == 9
    os.close(master)


def test_elect_leads_steps_down_and_campaigns_again(daemon, here):
    """Two candidates; the leader is stopped past its ttl: the other leads; the first campaigns again."""
    first = ctl_start(daemon, "elect", "-t", "1s", "boss")
    assert first.stdout.readline().startswith("leading")
    second = ctl_start(daemon, "elect", "-t", "1s", "boss")
    until(lambda: ctl_json(daemon, "get", "boss")[0]["waiters"] == 1, "the second candidate")
    first.send_signal(signal.SIGSTOP)
    assert second.stdout.readline().startswith("leading")
    first.send_signal(signal.SIGCONT)
    assert first.stdout.readline().startswith("lost")
    until(lambda: ctl_json(daemon, "get", "boss")[0]["waiters"] == 1, "the first to campaign again")
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=world.GIVE_UP)
    assert second.returncode == 128 + signal.SIGTERM
    assert first.stdout.readline().startswith("leading")
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=world.GIVE_UP)


def test_elect_runs_a_command_while_leading(daemon, here):
    leader = ctl_start(daemon, "elect", "-t", "5s", "boss", "--", "sh", "-c", JOB.format(here / "pid") + "sleep 1000")
    pid = pid_from(here / "pid")
    leader.send_signal(signal.SIGTERM)
    leader.communicate(timeout=world.GIVE_UP)
    assert leader.returncode == 143 and not alive(pid)
    assert ctl(daemon, "get", "boss").returncode == HELD


def test_elect_asks_for_no_longer_wait_than_a_daemon_grants(database, start_daemon):
    daemon = start_daemon(database, args=["--wait-max", "5m"])
    assert ctl(daemon, "elect", "boss", "--", "true").returncode == 0


def test_elect_ends_with_its_commands_code(daemon):
    assert ctl(daemon, "elect", "boss", "--", "sh", "-c", "exit 5").returncode == 5
    assert ctl(daemon, "get", "boss").returncode == HELD


def test_elect_runs_the_command_again_when_the_lead_came_back(daemon, here):
    script = f"echo $LEASED_TOKEN >>{here}/tokens; exec sleep 1000"
    leader = ctl_start(daemon, "elect", "-t", "2s", "boss", "--", "sh", "-c", script)

    def tokens():
        return (here / "tokens").read_text().split() if (here / "tokens").exists() else []
    until(lambda: len(tokens()) == 1, "the first lead")
    daemon.kill()
    until(lambda: "is lost" in leader.stderr.readline(), "the loss")
    daemon.start()
    until(lambda: len(tokens()) == 2, "the second lead")
    leader.send_signal(signal.SIGTERM)
    leader.communicate(timeout=world.GIVE_UP)
    assert leader.returncode == 143 and int(tokens()[0]) < int(tokens()[1])


def test_elect_told_to_end_does_not_campaign_again(daemon, here):
    """SIGTERM is passed on to a job that takes its time, and meanwhile the lead is lost."""
    script = "trap '' TERM; " + JOB.format(here / "pid") + "while :; do sleep 0.05; done"
    leader = ctl_start(daemon, "elect", "-t", "2s", "boss", "--", "sh", "-c", script)
    pid = pid_from(here / "pid")
    leader.send_signal(signal.SIGTERM)
    daemon.kill()
    leader.communicate(timeout=world.GIVE_UP)
    assert leader.returncode == LOST and not alive(pid)


def test_elect_waits_for_a_daemon_and_says_so_once(database, directory, start_daemon):
    leader = ctl_start(f"unix:{directory}/d0.sock", "-o", "json", "elect", "boss")
    assert "trying again" in leader.stderr.readline()
    daemon = start_daemon(database)
    line = json.loads(leader.stdout.readline())
    assert set(line) == {"event", "name", "token", "holder"} and (line["event"], line["name"]) == ("leading", "boss")
    leader.send_signal(signal.SIGTERM)
    out, err = leader.communicate(timeout=world.GIVE_UP)
    assert leader.returncode == 143 and json.loads(out)["event"] == "released"
    assert ctl(daemon, "get", "boss").returncode == HELD  # at once, not after the ttl
