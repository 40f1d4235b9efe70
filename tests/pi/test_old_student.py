"""`/machine student` and `/machine work` in Pi 0.73.1: it has no virtual models, and a model that is set is its default."""

import pytest

from machine.tinker.served import serve
from pi.harness import Pi
from pi.teacher import TEACHER
from pi.test_old_pi import FOLDER, old_pi
from pi.test_student_model import ONE, OWN, TWO, Now, answers, choose, footer, service, taught

__all__ = ["old_pi", "service", "taught"]
pytestmark = pytest.mark.skipif(FOLDER is None, reason="make nightly installs Pi 0.73.1")


@pytest.fixture
def old(taught, old_pi, monkeypatch):
    monkeypatch.setenv("PI_BIN", str(old_pi))
    return taught


def command(pi, text):
    """What a command says."""
    start = len(pi.records)
    pi.request("prompt", message=text)
    return pi.dialog("notify", start)["message"]


def ask(pi, text):
    start = len(pi.records)
    pi.send("prompt", message=text)
    pi.wait(lambda r: r["type"] == "agent_end", start=start, timeout=30)


def test_the_physical_model_is_set_and_the_users_own_set_again(old):
    with Pi(old) as pi:
        choose(pi, TEACHER)
        pi.request("set_thinking_level", level="high")
        ask(pi, "before")
        assert command(pi, "/machine student").startswith("The student answers from now on: tinker/org/one")
        assert Now(pi).model == ONE.model
        ask(pi, "a question")
        footer(pi, "student: tinker/org/one · machine: last turn untagged")
        serve(old.project, TWO)
        assert command(pi, "/machine student").startswith("The student answers from now on: tinker/org/two")
        ask(pi, "another")
        command(pi, "/machine work")
        assert Now(pi).both == (TEACHER, "high")
        assert answers(pi) == [TEACHER, ONE.model, TWO.model]
        assert "nothing to go back to" in command(pi, "/machine work")


@pytest.mark.parametrize("words", [(), ("--continue",)])
def test_after_a_restart(old, words):
    with Pi(old) as pi:
        pi.request("set_thinking_level", level="low")
        command(pi, "/machine student")
        ask(pi, "a question")
    with Pi(old, *words) as pi:
        assert Now(pi).model == ONE.model
        command(pi, "/machine work")
        assert Now(pi).both == (OWN, "low")
