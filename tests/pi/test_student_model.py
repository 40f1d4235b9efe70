"""`/machine student` and `/machine work` in the real Pi: who is asked, and what is set again, whatever happened between.

The service is the scripted server, by Tinker's addresses; two base models of it are in Pi's list.
"""

import json
import time
from pathlib import Path

import pytest

from machine.tinker import provider
from machine.tinker.served import BASE, Served, serve, students_file
from machine.tinker.service import Endpoint
from machine.tinker.students import Model
from pi.harness import Pi, World
from pi.teacher import TEACHER, Teacher, install, write

OWN, OTHER, STUDENT = "scripted/scripted-1", "other/scripted-1", "machine/student"
INKLING = "thinkingmachines/Inkling-Small"
ONE, TWO = Served("tinker/org/one", "org/one", BASE), Served("tinker/org/two", "org/two", "BR-001")


@pytest.fixture(scope="module")
def service():
    with Teacher() as running:
        yield running


@pytest.fixture
def taught(tmp_path, service, monkeypatch):
    """A world whose project has the student `org/one`, and whose models think."""
    world = World(tmp_path, service.pi_models())
    monkeypatch.setenv("MACHINE_DATA_DIR", str(world.machine))
    root = service.url.removesuffix("/v1")
    world.extra |= {"TINKER_API_KEY": "a key", "TINKER_BASE_URL": root}
    where = Endpoint(root, "a key", "$TINKER_API_KEY")
    provider.keep(where, [Model(name, 8192, True, True) for name in ("org/one", "org/two", INKLING)])
    serve(world.project, ONE)
    service.requests.clear()
    return world


class Now:
    """What Pi is set to, and its session."""

    def __init__(self, pi):
        state = pi.request("get_state")["data"]
        self.file = Path(state["sessionFile"])
        self.model = f"{state['model']['provider']}/{state['model']['id']}"
        self.level = state["thinkingLevel"]

    @property
    def both(self):
        return self.model, self.level


def say(pi, text):
    """What a command says."""
    start = len(pi.records)
    pi.prompt(text)
    return pi.dialog("notify", start)["message"]


def footer(pi, wanted, timeout=10):
    """Waits until the footer is `wanted`: it comes after the run."""
    deadline = time.monotonic() + timeout
    while pi.status() != wanted:
        assert time.monotonic() < deadline, pi.status()
        time.sleep(0.02)


def choose(pi, name):
    """Chooses a model by hand, as /model does."""
    owner, _, model = name.partition("/")
    assert pi.request("set_model", provider=owner, modelId=model)["success"]


def answers(pi):
    """Which model answered each request, and its error, where it did not."""
    ended = [r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"]
    return [f"{m['provider']}/{m['model']}" if m["stopReason"] != "error" else m["errorMessage"] for m in ended]


def student(pi):
    said = say(pi, "/machine student")
    assert said.startswith("The student answers from now on"), said
    assert Now(pi).model == STUDENT


def test_there_and_back(taught, service):
    settings = (taught.agent / "settings.json").read_text()
    with Pi(taught) as pi:
        pi.request("set_thinking_level", level="high")
        pi.prompt("before")
        footer(pi, "machine: last turn untagged")
        said = say(pi, "/machine student")
        footer(pi, "student: tinker/org/one · machine: last turn untagged")
        assert Now(pi).both == (STUDENT, "high")
        pi.prompt("a question")
        back = say(pi, "/machine work")
        now = Now(pi)
        footer(pi, "machine: last turn untagged")
        pi.prompt("after")
        assert answers(pi) == [OWN, ONE.model, OWN]
        assert pi.broken == []
    assert said.splitlines()[0] == "The student answers from now on: tinker/org/one"
    assert "It said" not in said  # it was in Pi's list, and answers
    assert f"{OWN}, thinking high" in said
    assert said.splitlines()[-1] == "Next: /machine work"
    assert back.splitlines()[0] == f"{OWN} answers again"
    assert now.both == (OWN, "high")
    assert [body["model"] for body in service.requests] == ["scripted-1", "org/one", "org/one", "scripted-1"]
    assert (taught.agent / "settings.json").read_text() == settings


def test_a_tagged_turn_names_the_physical_model(taught):
    with Pi(taught) as pi:
        student(pi)
        pi.prompt("run: echo one")
        assert say(pi, "/good").startswith("Saved as good")
    [row] = taught.rows()
    assert [model for model in row["source"]["models"] if model] == [ONE.model, ONE.model]


def test_a_release_answers_the_next_request_and_a_rollback_the_one_after(taught, service):
    with Pi(taught) as pi:
        student(pi)
        pi.prompt("one")
        serve(taught.project, TWO)
        pi.prompt("two")
        footer(pi, "student: tinker/org/two (BR-001) · machine: last turn untagged")
        serve(taught.project, ONE)
        pi.prompt("three")
        assert answers(pi) == [ONE.model, TWO.model, ONE.model]
        assert say(pi, "/machine student").startswith("The student answers already: tinker/org/one")


def test_a_release_that_another_process_registers_is_found(taught, service, monkeypatch):
    root = taught.extra["TINKER_BASE_URL"]
    with Pi(taught) as pi:
        student(pi)
        where = Endpoint(root, "a key", "$TINKER_API_KEY")
        monkeypatch.setenv("TINKER_API_KEY", "a key")
        monkeypatch.setenv("TINKER_BASE_URL", root)
        weights = "tinker://run/sampler_weights/last"
        provider.register(where, weights, "br-002", 4096, base="org/one")
        serve(taught.project, Served("tinker/br-002", weights, "BR-002"))
        service.requests.clear()
        pi.prompt("a question")
        assert answers(pi) == ["tinker/br-002"]
    assert [body["model"] for body in service.requests] == [weights]


def test_a_git_work_tree_is_one_project_and_one_inside_it_another(taught):
    (taught.project / ".git").mkdir()
    inner = taught.project / "vendor" / "503"  # as an error of a server is called, which Pi would ask again after
    (inner / ".git").mkdir(parents=True)
    below = taught.project / "src"
    below.mkdir()
    for cwd, there in ((below, True), (inner, False)):
        world = World(taught.base, taught.models, taught.extra)
        with Pi(_at(world, cwd)) as pi:
            choose(pi, STUDENT)
            pi.prompt("a question")
            [answer] = answers(pi)
        assert answer == ONE.model if there else "this project has no student yet" in answer


def _at(world, cwd):
    class Elsewhere(World):
        project = cwd

    return Elsewhere(world.base, world.models, world.extra)


def _nothing(world):
    students_file().unlink()


def _damaged(world):
    students_file().write_text("{")


def _newer(world):
    students_file().write_text('{"version": 3, "projects": {}}')


def _unknown(world):
    serve(world.project, Served("tinker/gone", "gone", BASE))


def _keyless(world):
    serve(world.project, Served("keyless/scripted-1", "x", BASE))


SPOILT = {
    _nothing: "has no student yet",
    _damaged: "students.json cannot be read",
    _newer: "is of version 3",
    _unknown: "Pi has no model tinker/gone",
    _keyless: "Pi has no key for keyless/scripted-1",
}


def test_nothing_to_serve_is_one_clear_line_and_no_other_model(taught, service):
    with Pi(taught) as pi:
        choose(pi, STUDENT)
        for spoil in SPOILT:
            students_file().unlink(missing_ok=True)
            serve(taught.project, ONE)
            spoil(taught)
            pi.prompt("a question")
        said = answers(pi)
        footer(pi, "student: keyless/scripted-1")
    for answer, why in zip(said, SPOILT.values(), strict=True):  # one each: Pi does not try again
        assert answer.startswith("machine/student cannot answer: ")
        assert why in answer
        assert answer.endswith(". Next: /machine student")
        assert "\n" not in answer
    assert service.requests == []


def test_without_a_service_nothing_is_switched(taught):
    del taught.extra["TINKER_API_KEY"], taught.extra["TINKER_BASE_URL"]
    with Pi(taught) as pi:
        said = say(pi, "/machine student")
        assert Now(pi).model == OWN
    assert "no Tinker service" in said
    assert "/machine engine start" in said.splitlines()[-1]


def test_twice_there_and_twice_back(taught):
    with Pi(taught) as pi:
        pi.request("set_thinking_level", level="low")
        pi.prompt("before")
        student(pi)
        pi.request("set_thinking_level", level="high")
        again = say(pi, "/machine student")
        assert Now(pi).both == (STUDENT, "high")
        back = say(pi, "/machine work")
        assert Now(pi).both == (OWN, "low")
        nothing = say(pi, "/machine work")
        assert Now(pi).both == (OWN, "low")
    assert again.startswith("The student answers already: tinker/org/one")
    assert f"{OWN}, thinking low" in again
    assert back.startswith(f"{OWN} answers again")
    assert nothing.startswith(f"There is nothing to go back to: you work with {OWN}")


def test_a_model_chosen_by_hand_between(taught):
    with Pi(taught) as pi:
        student(pi)
        choose(pi, OTHER)
        pi.request("set_thinking_level", level="minimal")
        assert say(pi, "/machine work").startswith(f"There is nothing to go back to: you work with {OTHER}")
        assert Now(pi).both == (OTHER, "minimal")
        choose(pi, STUDENT)  # by hand too: what it replaces is in Pi's own entries
        footer(pi, "student: tinker/org/one")
        pi.request("set_thinking_level", level="high")
        assert say(pi, "/machine work").startswith(f"{OTHER} answers again")
        assert Now(pi).both == (OTHER, "minimal")
        student(pi)
        say(pi, "/machine work")
        assert Now(pi).both == (OTHER, "minimal")


def test_after_new_and_back_in_the_old_session(taught):
    with Pi(taught) as pi:
        choose(pi, TEACHER)
        pi.request("set_thinking_level", level="high")
        student(pi)
        pi.prompt("a question")
        old = Now(pi).file
        pi.request("new_session")
        assert Now(pi).model == OWN  # Pi's default: what an extension sets is the session's
        assert "nothing to go back to" in say(pi, "/machine work")
        pi.request("switch_session", sessionPath=str(old))
        assert Now(pi).model == STUDENT
        say(pi, "/machine work")
        assert Now(pi).both == (TEACHER, "high")


def test_after_a_restart_that_resumes_the_session(taught):
    with Pi(taught) as pi:
        choose(pi, TEACHER)
        pi.request("set_thinking_level", level="minimal")
        student(pi)
        pi.prompt("a question")
    with Pi(taught, "--continue") as pi:
        assert Now(pi).model == STUDENT
        pi.dialog("setStatus")
        say(pi, "/machine work")
        assert Now(pi).both == (TEACHER, "minimal")


def test_a_fork_of_the_session(taught):
    with Pi(taught) as pi:
        choose(pi, OTHER)
        pi.request("set_thinking_level", level="high")
        pi.prompt("before")
        student(pi)
        pi.prompt("a question")
        [_, last] = pi.request("get_fork_messages")["data"]["messages"]
        assert pi.request("fork", entryId=last["entryId"])["success"]
        assert Now(pi).model == STUDENT
        say(pi, "/machine work")
        assert Now(pi).both == (OTHER, "high")


def test_a_session_that_begins_with_the_student(taught):
    with Pi(taught, "--model", STUDENT) as pi:
        lost = say(pi, "/machine work")
        assert Now(pi).model == STUDENT
        choose(pi, TEACHER)
        pi.request("set_thinking_level", level="low")
        student(pi)
        pi.request("new_session")
        assert Now(pi).model == STUDENT
        remembers = say(pi, "/machine work")
        assert Now(pi).both == (TEACHER, "low")
    assert "no model was chosen before the student" in lost
    assert lost.splitlines()[-1] == "Next: /model"
    assert remembers.startswith(f"{TEACHER} answers again")
    with Pi(taught, "--model", STUDENT) as pi:  # started anew: what the project's last `/machine student` replaced
        say(pi, "/machine work")
        assert Now(pi).both == (TEACHER, "low")


def test_two_pis_that_begin_with_the_student_do_not_mix_up(taught):
    with Pi(taught, "--model", STUDENT) as one, Pi(taught, "--model", STUDENT) as two:
        for pi, name in ((one, TEACHER), (two, OTHER)):
            choose(pi, name)
            student(pi)
            pi.request("new_session")
        for pi, name in ((one, TEACHER), (two, OTHER)):
            assert Now(pi).model == STUDENT
            say(pi, "/machine work")
            assert Now(pi).model == name


def test_the_student_thinks_at_the_level_that_is_chosen(taught, service):
    serve(taught.project, Served(f"tinker/{INKLING}", INKLING, BASE))
    with Pi(taught) as pi:
        pi.request("set_thinking_level", level="high")
        student(pi)
        pi.prompt("one")
        pi.request("set_thinking_level", level="low")
        pi.prompt("two")
    assert [body.get("reasoning_effort") for body in service.requests] == [None, "high", "low"]


def test_two_pis_do_not_mix_up(taught):
    with Pi(taught) as one, Pi(taught) as two:
        choose(one, TEACHER)
        one.request("set_thinking_level", level="high")
        choose(two, OTHER)
        two.request("set_thinking_level", level="low")
        student(one)
        student(two)
        say(one, "/machine work")
        say(two, "/machine work")
        assert (Now(one).both, Now(two).both) == ((TEACHER, "high"), (OTHER, "low"))


@pytest.mark.parametrize("gone", ["removed", "keyless"])
def test_a_work_model_that_cannot_be_set(taught, gone):
    with Pi(taught) as pi:
        choose(pi, OTHER)
        student(pi)
        pi.prompt("a question")
    models = json.loads((taught.agent / "models.json").read_text())
    if gone == "removed":
        del models["providers"]["other"]
    else:
        models["providers"]["other"]["apiKey"] = "$NOBODY_HAS_SET_THIS"
    (taught.agent / "models.json").write_text(json.dumps(models))
    with Pi(taught, "--continue") as pi:
        said = say(pi, "/machine work")
        assert Now(pi).model == STUDENT
    why = "Pi has no model" if gone == "removed" else "Pi has no key for"
    assert f"your work model {OTHER} cannot be set again: {why} {OTHER}" in said
    assert said.splitlines()[-1] == "Next: /model"


def test_while_the_agent_works_nothing_is_switched(taught):
    with Pi(taught) as pi:
        start = len(pi.records)
        pi.send("prompt", message="slow please")
        pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r), start=start)
        said = [say(pi, "/machine student"), say(pi, "/machine work")]
        pi.request("abort")
        assert Now(pi).model == OWN
    assert all("the agent is still working" in text for text in said)


def test_a_teachers_loan_is_not_what_is_gone_back_to(taught, service):
    install(taught)
    with Pi(taught) as pi:
        pi.request("set_thinking_level", level="high")
        student(pi)
        pi.prompt("a question")
        entries = [json.loads(line) for line in Now(pi).file.read_text().splitlines()]
        [asked] = [e["id"] for e in entries if e.get("message", {}).get("role") == "user"]
        start = len(pi.records)
        pi.prompt(write(taught, "retry", entry=asked, hint="look again", model=TEACHER))
        assert '"answered"' in pi.dialog("notify", start)["message"]
        assert Now(pi).model == STUDENT
        say(pi, "/machine work")
        assert Now(pi).both == (OWN, "high")


def test_headless_and_in_the_shell(taught):
    done = taught.headless("/machine student", "a question", "/machine work")
    assert done.returncode == 0, done.stderr
    assert "The student answers from now on: tinker/org/one" in done.stderr
    assert f"{OWN} answers again" in done.stderr
    ready = taught.shell("student")
    assert (ready["exit_code"], ready["data"]["model"]) == (0, ONE.model)
    assert "follows with its next request" in ready["notes"][0]
    assert ready["next_step"] == "pi --model machine/student"
    refused = taught.shell("work")
    assert (refused["exit_code"], "a shell has no Pi" in refused["title"]) == (2, True)
