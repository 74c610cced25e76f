"""Elections of libleased: one leads at a time, the next at once when it steps down, and all know who."""
import os
import subprocess
import time

import pytest
import world
from world import until

CANDIDATE = world.BIN / "tests" / "support" / "candidate"


@pytest.fixture
def daemons(pair):
    return pair


class Candidate:
    def __init__(self, directory, daemons, value, ttl_ms=60000):
        self.path = world.pathlib.Path(directory) / f"candidate-{value}"
        self.process = world.start([CANDIDATE, world.servers(daemons), "boss", value, str(ttl_ms)], stdout=open(self.path, "wb"),
                                   env={**os.environ, **world.NO_LEAKS}, stderr=subprocess.DEVNULL)

    def lines(self, *kinds):
        return [line for line in self.path.read_text().splitlines() if line.split()[0] in kinds]

    def until(self, line):
        return until(lambda: [found for found in self.path.read_text().splitlines() if found.startswith(line)], line)[-1]

    def step_down(self):
        begin = time.monotonic()
        self.process.terminate()
        assert self.process.wait(world.GIVE_UP) == 0
        return begin


def test_the_next_leads_when_one_steps_down(daemons, directory):
    crowd = [Candidate(directory, daemons[i % 2], f"at:{i}") for i in range(4)]
    tokens, waiting = [], list(crowd)
    while waiting:
        leader = until(lambda: next((c for c in waiting if c.lines("leading")), None), "a leader")
        token = leader.lines("leading")[0].split()[1]
        for candidate in waiting:  # all know who it is, and where
            candidate.until(f"leader {token} at:{crowd.index(leader)}")
        assert sum(len(c.lines("leading")) for c in waiting) == 1
        waiting.remove(leader)
        tokens.append(int(token))
        begin = leader.step_down()
        assert leader.lines("stepped", "lost") == ["stepped down"]
        if waiting:
            until(lambda: any(c.lines("leading") for c in waiting), "the next leader")
            assert time.monotonic() - begin < 5
    assert tokens == sorted(set(tokens))


def test_a_dead_leader_is_followed_after_its_ttl(daemons, directory):
    first = Candidate(directory, daemons[0], "first", 1500)
    first.until("leading")
    second = Candidate(directory, daemons[1], "second", 1500)
    second.until("leader")
    first.process.kill()
    second.until("leading")
    token = second.lines("leading")[0].split()[1]
    second.until(f"leader {token} second")
    assert [line.split()[0] for line in second.lines("leader", "nobody")] in (["leader", "nobody", "leader"], ["leader", "leader"])
    second.step_down()


def test_a_stolen_lead_is_lost_and_campaigned_for_again(daemons, directory):
    leader = Candidate(directory, daemons, "x")
    leader.until("leading")
    assert world.ctl(daemons[1], "steal", "--reason", "r", "boss").returncode == 0
    until(lambda: len(leader.lines("leading")) == 2, "to lead again")
    assert [line.split()[0] for line in leader.lines("leading", "lost")] == ["leading", "lost", "leading"]
    leader.step_down()


def test_a_lead_outlives_its_daemon(daemons, directory):
    leader = Candidate(directory, daemons, "x", 3000)
    leader.until("leading")
    daemons[0].kill()
    time.sleep(4)
    assert leader.lines("leading", "lost") == [leader.until("leading")]
    leader.step_down()
    assert world.ctl(daemons[1], "get", "boss").returncode == 75
