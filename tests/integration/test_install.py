"""What is installed works for somebody who has never seen this tree: headers, libraries, pkg-config, CMake, completion."""
import pathlib
import shutil
import subprocess

import pytest

import world

TREE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <leased.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
	struct leased_options options = { .servers = argv[argc - 1] };
	struct leased_client *client;
	struct leased_lease *lease;
	struct leased_error err;

	if (leased_client_open(&client, &options, &err) < 0 || leased_acquire(client, "from-c", NULL, &lease, &err) < 0) {
		puts(err.text);
		return 1;
	}
	printf("%d %llu\n", leased_held(lease), (unsigned long long)leased_token(lease));
	if (leased_release(lease, NULL, &err) < 0)
		return 1;
	leased_client_close(client);
	return 0;
}
"""


@pytest.fixture(scope="module")
def prefix():
    if world.SANITIZED:
        pytest.skip("a sanitized library wants a sanitized program")
    with world.temporary_directory() as directory:
        subprocess.run(["cmake", "--install", world.BIN, "--prefix", directory], check=True, capture_output=True)
        path = pathlib.Path(directory)
        (path / "program.c").write_text(PROGRAM)
        yield path


def library(prefix):
    return next(prefix.glob("lib*/**/libleased.so")).parent


def check(prefix, program, daemon):
    done = subprocess.run([program, daemon.address], capture_output=True, text=True, env={"LD_LIBRARY_PATH": str(library(prefix))})
    assert done.returncode == 0 and done.stdout.startswith("1 "), done.stdout
    assert world.ctl_json(daemon, "get", "from-c")[0]["state"] == "free"


def test_pkg_config(prefix, daemon):
    flags = subprocess.run(["pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", "leased"], check=True, capture_output=True, text=True,
                           env={"PKG_CONFIG_PATH": f"{library(prefix)}/pkgconfig", "PATH": "/usr/bin:/bin"}).stdout.split()
    subprocess.run(["cc", prefix / "program.c", "-o", prefix / "program", *flags], check=True)
    check(prefix, prefix / "program", daemon)


def test_the_static_library(prefix, daemon):
    subprocess.run(["cc", prefix / "program.c", "-o", prefix / "static", f"-I{prefix}/include", library(prefix) / "libleased.a", "-lsodium", "-lprotobuf-c",
                    "-pthread"], check=True)
    check(prefix, prefix / "static", daemon)


def test_cmake(prefix, daemon):
    project = prefix / "project"
    project.mkdir()
    shutil.copy(prefix / "program.c", project)
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(p C)\nfind_package(leased REQUIRED)\n"
                                            "add_executable(p program.c)\ntarget_link_libraries(p leased::leased)\n")
    for step in (["cmake", "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={prefix}"], ["cmake", "--build", project / "b"]):
        subprocess.run(step, check=True, capture_output=True)
    check(prefix, project / "b" / "p", daemon)


@pytest.mark.parametrize("file, option", [("libleased.so", "-D"), ("libleased.a", "-g")])
def test_only_the_public_names_are_exported(prefix, file, option):
    symbols = subprocess.run(["nm", option, "--defined-only", library(prefix) / file], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if " T " in line}
    header = (prefix / "include" / "leased.h").read_text()
    assert names and all(name.startswith("leased_") and f"{name}(" in header for name in names)
    assert not any(kind in symbols for kind in (" D ", " B ", " R "))  # no exported variable


def test_the_service_starts_what_was_installed(prefix):
    """The unit names the program's place as it was configured; --prefix above came later."""
    place = subprocess.run(["cmake", "-LA", "-N", world.BIN], check=True, capture_output=True, text=True).stdout.split("CMAKE_INSTALL_PREFIX:PATH=")[1].split()[0]
    assert f"ExecStart={place}/sbin/leased\n" in (prefix / "lib/systemd/system/leased.service").read_text()
    assert (prefix / "sbin/leased").exists() and (prefix / "lib/sysusers.d/leased.conf").read_text().splitlines()[-1].startswith("u leased ")


def test_every_option_is_in_the_completion():
    completion = (TREE / "deploy" / "leasectl.bash-completion").read_text()
    for command in ("run", "acquire", "renew", "release", "get", "list", "elect", "doctor"):
        assert command in completion
        text = subprocess.run([world.LEASECTL, command, "--help"], check=True, capture_output=True, text=True).stdout
        words = {word.strip(",") for word in text.split() if word.startswith("--")}
        offered = subprocess.run(["bash", "-c", f"source '{TREE}/deploy/leasectl.bash-completion'; COMP_WORDS=(leasectl {command} --); COMP_CWORD=2; "
                                  "_leasectl; printf '%s\\n' \"${COMPREPLY[@]}\""], check=True, capture_output=True, text=True).stdout.split()
        assert words <= set(offered), (command, words - set(offered))


def test_names_are_completed_from_the_daemon(daemon):
    world.ctl(daemon, "acquire", "billing/nightly")
    script = f"source '{TREE}/deploy/leasectl.bash-completion'; COMP_WORDS=(leasectl get bil); COMP_CWORD=2; _leasectl; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    env = {"PATH": f"{world.LEASECTL.parent}:/usr/bin:/bin", "LEASED_SERVER": daemon.address}
    assert subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, env=env).stdout == "billing/nightly\n"
    nobody = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, env={**env, "LEASED_SERVER": "unix:/nowhere"})
    assert nobody.stdout.strip() == "" and nobody.stderr == ""


def test_the_commented_configuration_is_the_programs_own(prefix, directory):
    """deploy/leased.conf, with every comment taken off its options, is accepted and changes nothing."""
    text = (TREE / "deploy" / "leased.conf").read_text()
    options = [line[1:] for line in text.splitlines() if line.startswith("#") and " = " in line and not line.startswith("# ")]
    conf = pathlib.Path(directory) / "leased.conf"
    conf.write_text("\n".join(options) + "\n")
    assert subprocess.run([world.LEASED, "--check-config", "--config", conf]).returncode == 0
    table = subprocess.run([world.LEASED, "--help"], check=True, capture_output=True, text=True).stdout
    flags = {line.split()[0][2:].replace("-", "_") for line in table.split("in the file:")[1].splitlines() if line.strip()}
    assert flags == {option.split(" = ")[0] for option in options}
