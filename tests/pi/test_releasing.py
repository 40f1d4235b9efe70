"""Behavior releases in the real Pi: their page, a rollback in the middle of a run, an activation that is not agreed to.

The releases and the student are models of the scripted server; what is activated is written as `machine release activate`
writes it once the service has answered for the weights.
"""

import re
import shutil
from pathlib import Path

import msgspec

from machine.release import log
from machine.release.standing import Activation, ledger
from machine.store.project import Project
from machine.tinker.served import BASE, Served, serve, served, students_file
from pi.harness import PACKAGE, Pi
from pi.test_student_model import ONE, OWN, Now, answers, choose, footer, say, service, student, taught
from pi.test_trial import CANDIDATE, RELEASE, begin, came, running
from releasepages import whole
from test_skills import fault

__all__ = ["service", "taught"]

SECOND = "BR-002"
FIRST_STUDENT = Served(CANDIDATE, "org/two", RELEASE)
SECOND_STUDENT = Served("tinker/thinkingmachines/Inkling-Small", "thinkingmachines/Inkling-Small", SECOND)
UNTAGGED = " · machine: last turn untagged"


def activate(world, student, forced=""):
    """Makes a release the student, as `machine.release.active.activate` does."""
    project = Project.at(world.project)
    before = served(project.root)
    data = msgspec.to_builtins(Activation(student.why, 1, student.model, student.weights, forced))
    data["before"] = msgspec.to_builtins(before) if before else None
    log.append(project.releases, student.why, 1, "activated", data)
    serve(project.root, student)


def stages(world):
    """Where each release stands, by the log, which is whole."""
    found = ledger(log.read(Project.at(world.project).releases))
    return {id: each.stage for id, each in found.releases.items()}


def page(world, tmp_path):
    """A release that is in trial, with its gates and their records, in the world's project."""
    made = whole(tmp_path / "made")
    releases = Project.at(world.project).releases
    shutil.copytree(made.project.releases, releases)
    file = releases / RELEASE / "outcomes.jsonl"
    file.write_text(file.read_text().replace("2026-01-03", "2126-01-03"))  # after the trial began


def test_the_page_of_a_release(taught, tmp_path):
    page(taught, tmp_path)
    with Pi(taught) as pi:
        said = say(pi, "/release")
        assert say(pi, "/release status") == say(pi, f"/release status {RELEASE}") == said
        assert pi.broken == []
    lines = said.splitlines()
    assert lines[0] == "BR-001 v1 Reliable file repair: trial"
    assert lines[-1] == "Next: /machine student"
    for wanted in ("Stands at", "Gates: 7 of 7 passed", "better on the target", "12 of 20 turns", "Share of bad turns"):
        assert wanted in said
    [html] = re.findall(r"(/\S+\.html)", said)
    assert "Reliable file repair" in Path(html).read_text()


def test_without_a_release_there_is_a_way_to_one(taught):
    with Pi(taught) as pi:
        said = say(pi, "/release")
    assert "this project has no release yet" in said
    assert said.splitlines()[-1] == "Next: /release new BR-001"


def test_a_rollback_from_a_shell_in_the_middle_of_a_run(taught):
    activate(taught, FIRST_STUDENT)
    go = taught.project / "go"
    with Pi(taught) as pi:
        student(pi)
        start = running(pi, "run: until [ -e go ]; do sleep 0.02; done; echo done")
        rolled = taught.shell("release", "rollback", "--reason", "it loops")
        go.touch()
        pi.wait(lambda r: r["type"] == "agent_settled", start=start)
        assert answers(pi) == [CANDIDATE, ONE.model]  # one run, and each request goes where the alias points
        pi.prompt("again")
        footer(pi, f"student: {ONE.model}{UNTAGGED}")
        assert answers(pi)[2:] == [ONE.model]
        assert "rolled back" in say(pi, "/release log")
        assert pi.broken == []
    assert (rolled["exit_code"], rolled["title"]) == (0, "BR-001 is rolled back")
    assert rolled["data"]["model"] == ONE.model
    assert stages(taught) == {RELEASE: "rolled back"}


def test_a_rollback_in_pi_goes_to_the_release_before_and_then_to_the_base(taught):
    activate(taught, FIRST_STUDENT)
    activate(taught, SECOND_STUDENT)
    assert stages(taught) == {RELEASE: "superseded", SECOND: "active"}
    with Pi(taught) as pi:
        student(pi)
        pi.prompt("one")
        listed = say(pi, "/release")
        said = say(pi, "/release rollback")
        footer(pi, f"student: {CANDIDATE} ({RELEASE}){UNTAGGED}")
        pi.prompt("two")
        assert stages(taught) == {RELEASE: "active", SECOND: "rolled back"}
        say(pi, '/release rollback --reason "this one too"')
        pi.prompt("three")
        assert answers(pi) == [SECOND_STUDENT.model, CANDIDATE, ONE.model]
        nothing = say(pi, "/release rollback")
        pi.prompt("four")
        assert answers(pi)[3:] == [ONE.model]
    assert "BR-002 v1" in listed
    assert "BR-001 v1" in listed
    assert said.splitlines()[0] == "BR-002 is rolled back"
    assert said.splitlines()[-1] == "Next: /release rollback, should it disappoint"
    assert "there is none to roll back" in nothing
    assert stages(taught) == {RELEASE: "rolled back", SECOND: "rolled back"}


def test_a_forced_activation_is_asked_about_and_no_means_no(taught, tmp_path):
    page(taught, tmp_path)
    before = log.read(Project.at(taught.project).releases)
    with Pi(taught, answers={"confirm": [{"confirmed": False}]}) as pi:
        short = say(pi, "/release activate BR-001 --force hurry")
        start = len(pi.records)
        refused = say(pi, '/release activate BR-001 --force "the fair is tomorrow"')
        [asked] = pi.said("confirm", start)
        student(pi)
        pi.prompt("one")
    assert "--force needs a reason" in short
    assert "BR-001 is trial" in asked["message"]
    assert "nothing was changed" in refused
    assert log.read(Project.at(taught.project).releases) == before
    assert served(taught.project) == ONE


def test_an_activation_that_is_not_earned_is_refused(taught, tmp_path):
    page(taught, tmp_path)
    with Pi(taught) as pi:
        said = say(pi, "/release activate BR-001")
        assert pi.said("confirm") == []
    assert "BR-001 v1 is in trial, so it cannot be activated" in said
    assert served(taught.project) == ONE


def test_a_forced_release_is_loud_wherever_it_answers(taught):
    activate(taught, FIRST_STUDENT, forced="the fair is tomorrow")
    with Pi(taught) as pi:
        said = say(pi, "/machine student")
        pi.prompt("one")
        footer(pi, f"student: {CANDIDATE} ({RELEASE}, FORCED){UNTAGGED}")
    assert f"WARNING: {RELEASE} was activated against the rules; the reason given was: the fair is tomorrow" in said


def test_a_trial_alone_makes_the_student_usable(taught, service):
    students_file().unlink()
    begin(taught, share=0.5, turns=20)
    with Pi(taught) as pi:
        pi.prompt("before")
        footer(pi, f"trial {RELEASE} 0/20, paused{UNTAGGED}")
        service.requests.clear()
        said = say(pi, "/machine student")
        assert [body["model"] for body in service.requests] == ["org/two"]  # no base model is looked for
        footer(pi, f"student: trial {RELEASE} 0/20{UNTAGGED}")
        for number in range(20):
            pi.prompt(f"run: echo {number}")
            if set(answers(pi)[1:]) == {CANDIDATE, OWN}:
                break
        assert set(answers(pi)[1:]) == {CANDIDATE, OWN}
        drawn = answers(pi)[1:].count(CANDIDATE) // 2
        footer(pi, f"student: trial {RELEASE} {drawn}/20{UNTAGGED}")
        again = say(pi, "/machine student")
    assert served(taught.project) is None
    assert said.splitlines()[0] == f"The student answers from now on: {RELEASE}, in trial, 50% of the turns"
    assert f"{CANDIDATE} answers 50% of the turns, 0 of 20 so far" in said
    assert f"{OWN}, thinking medium" in said
    assert "WARNING" not in said
    assert again.splitlines()[0] == f"The student answers already: {RELEASE}, in trial, 50% of the turns"
    assert f"{drawn} of 20 so far" in again


def test_a_turn_that_began_with_the_work_model_stays_there_where_there_is_no_student(taught):
    students_file().unlink()
    begin(taught)
    with Pi(taught) as pi:
        start = running(pi, "run: sleep 0.7")
        choose(pi, "machine/student")  # by hand, in the middle of it
        pi.wait(lambda r: r["type"] == "agent_settled", start=start)
        pi.prompt("next")
        assert answers(pi) == [OWN, OWN, CANDIDATE]
    came(taught, 1)


def test_a_pi_that_was_started_with_the_student_is_told_what_was_worked_with(taught):
    students_file().unlink()
    begin(taught, share=1e-9)
    with Pi(taught) as pi:
        student(pi)
    with Pi(taught, "--model", "machine/student") as pi:
        pi.prompt("one")
        said = say(pi, "/machine student")
        pi.prompt("two")
        lost, found = answers(pi)
    assert "has no student yet" in lost
    assert OWN in said
    assert found == OWN


def test_a_candidate_that_is_down_is_said(taught):
    serve(taught.project, Served("tinker/org/one", "org/one", BASE))
    begin(taught)
    taught.extra["TINKER_BASE_URL"] = "http://127.0.0.1:9"
    with Pi(taught) as pi:
        said = say(pi, "/machine student")
        assert Now(pi).model == "machine/student"
        choose(pi, OWN)
    assert f"WARNING: {CANDIDATE} does not answer now" in said


def test_the_words_that_the_editor_completes_are_understood():
    text = (PACKAGE / "extension" / "commands.ts").read_text()
    found = re.findall(r"^\t(\w+): \{\n.*?words: \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert "release" in dict(found)
    for name, listed in found:
        for word in re.findall(r'"([^"]*)"', listed):
            words = word.split() if name == "machine" else [name, *word.split()]
            assert fault(words, named=True) == "", (name, word)


def test_the_trial_ends_and_the_footer_with_it(taught):
    begin(taught, bad=1)
    with Pi(taught) as pi:
        student(pi)
        pi.prompt("one")
        came(taught, 1)
        footer(pi, f"student: trial {RELEASE} 1/100{UNTAGGED}")
        start = len(pi.records)
        taught.shell("good", "--as", "better", "--session", str(Now(pi).file))
        pi.prompt("two")
        pi.wait(lambda r: r.get("method") == "setStatus" and "trial" not in (r.get("statusText") or ""), start=start)
