"""Completion in bash: names come from other people, and only ever become text on the command line."""
import pathlib
import subprocess

import world
from world import ctl, until

COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "leasectl.bash-completion"
SCRIPT = """source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _leasectl; printf '%s\\n' "${COMPREPLY[@]}" """


def complete(server, *words):
    """What bash offers for the last of words, which are as readline cuts them."""
    env = {"PATH": f"{world.LEASECTL.parent}:/usr/bin:/bin", "LEASED_SERVER": world.servers(server)}
    done = subprocess.run(["bash", "-c", SCRIPT, COMPLETION, *words], env=env, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def offered(server, *words):
    """The same where names are expected: a loaded machine may need more than their 300 ms."""
    return until(lambda: complete(server, *words), f"completions of {words}")


def test_a_name_is_never_run(daemon, directory):
    """compgen -W would expand it, and so run a stranger's command at the press of a key."""
    mark = pathlib.Path(directory) / "ran"
    for name in (f"$(touch${{IFS}}{mark})", f"`touch {mark}`", f"x;touch {mark}", f"'$(touch {mark})"):
        assert ctl(daemon, "acquire", name).returncode == 0
    names = offered(daemon, "leasectl", "get", "")
    assert len(names) == 4 and not mark.exists()
    back = subprocess.run(["bash", "-c", f"printf '%s\\n' {' '.join(names)}"], check=True, capture_output=True, text=True).stdout
    assert f"$(touch${{IFS}}{mark})" in back.splitlines() and not mark.exists()


def test_names_with_spaces_and_colons_stay_whole(daemon):
    for name in ("a b", "c:d", "c:e", 'left "out"', "left\\out", "ausgelassen ö"):
        ctl(daemon, "acquire", name)
    assert offered(daemon, "leasectl", "get", "a") == ["a\\ b"]
    assert offered(daemon, "leasectl", "get", "a\\ ") == ["a\\ b"]
    assert offered(daemon, "leasectl", "get", "c") == ["c:d", "c:e"]
    assert offered(daemon, "leasectl", "get", "c", ":", "e") == ["e"]  # readline replaces what stands behind the colon


def test_the_server_on_the_line_is_asked(daemon):
    ctl(daemon, "acquire", "here")
    for option in (["-s", "unix", ":", daemon.socket], ["--server", "=", "unix", ":", daemon.socket]):
        assert offered("unix:/nowhere", "leasectl", *option, "run", "-t", "5s", "h") == ["here"]


def test_nobody_answers_and_nothing_is_said(directory):
    assert complete(f"unix:{directory}/none.sock", "leasectl", "get", "") == []


def test_commands_and_options():
    assert complete("unix:/nowhere", "leasectl", "re") == ["renew", "release"]
    assert complete("unix:/nowhere", "leasectl", "-o", "") == ["text", "json"]
    assert complete("unix:/nowhere", "leasectl", "run", "--ttl", "=", "5s", "--min") == ["--min-hold"]
    assert complete("unix:/nowhere", "leasectl", "run", "x", "--", "--mi") == []  # COMMAND's own options
