"""`student` and `work` for hosts of every kind; `tests/pi/test_student_model.py` runs them in the real Pi."""

import pytest

from hosts import ScriptedHost
from machine.commands import run
from machine.errors import ServiceError
from machine.footer import UNTAGGED, footer
from machine.host import Chosen, Selection
from machine.release import log
from machine.store.project import Project
from machine.tinker import provider
from machine.tinker.served import BASE, Served, Trial, serve, served, students_file, try_out
from machine.tinker.service import Endpoint
from machine.tinker.students import Model
from machine.tinker.work import remembered
from pi.scripted import Server

WORK, ONE, TWO = Chosen("p/work", "high"), Chosen("tinker/org/one", "off"), Chosen("tinker/org/two", "off")
BASES = {name: Served(f"tinker/{name}", name, BASE) for name in ("org/one", "org/two")}


@pytest.fixture
def chat(monkeypatch):
    """A service that answers to every model, and lists two."""
    with Server() as running:
        url = running.url.removesuffix("/v1")
        monkeypatch.setenv("TINKER_API_KEY", "k")
        monkeypatch.setenv("TINKER_BASE_URL", url)
        models = [Model(name, 8192, True, True) for name in BASES]
        provider.keep(Endpoint(url, "k", "$TINKER_API_KEY"), models)
        yield running


def host(cwd, now=WORK, before=None, *, student=False, follows=True, idle=True):
    return ScriptedHost(cwd, selection=Selection(now, before, student, follows, idle))


def test_a_host_that_cannot_follow_is_given_the_physical_model(tmp_path, chat):
    serve(tmp_path, BASES["org/one"])
    old = host(tmp_path, follows=False)
    report = run(["student"], old)
    assert report.exit_code == 0, report.title
    assert old.chosen == [(Chosen("tinker/org/one", "high"), WORK)]
    assert remembered(Project.at(tmp_path)) == WORK


def test_a_host_that_cannot_follow_is_switched_again_when_the_student_has_changed(tmp_path, chat):
    serve(tmp_path, BASES["org/two"])
    old = host(tmp_path, ONE, WORK, student=True, follows=False)
    assert run(["student"], old).title.startswith("The student answers from now on: tinker/org/two")
    assert old.chosen == [(TWO, WORK)]
    same = host(tmp_path, TWO, WORK, student=True, follows=False)
    assert run(["student"], same).title.startswith("The student answers already")
    assert same.chosen == []


def test_no_model_was_chosen_before(tmp_path, chat):
    serve(tmp_path, BASES["org/one"])
    empty = host(tmp_path, None)
    assert run(["student"], empty).exit_code == 0
    assert empty.chosen == [(Chosen("machine/student", None), None)]
    assert remembered(Project.at(tmp_path)) is None


def test_the_session_goes_before_what_the_project_remembers(tmp_path, chat):
    serve(tmp_path, BASES["org/one"])
    run(["student"], host(tmp_path, Chosen("p/other", "low")))
    student = Chosen("machine/student", "low")
    for before, wanted in ((WORK, WORK), (None, Chosen("p/other", "low"))):
        pi = host(tmp_path, student, before, student=True)
        assert run(["work"], pi).exit_code == 0
        assert pi.chosen == [(wanted, None)]


def test_a_work_model_that_is_gone_leaves_the_student(tmp_path):
    class Gone(ScriptedHost):
        def choose(self, wanted, before=None):
            raise ServiceError(f"Pi has no model {wanted.model}", next_step="name a model that /model lists")

    pi = Gone(tmp_path, selection=Selection(Chosen("machine/student", "off"), WORK, True, True, True))
    report = run(["work"], pi)
    assert report.exit_code == 1
    assert (
        report.title
        == "work: your work model p/work cannot be set again: Pi has no model p/work; the student still answers"
    )
    assert report.next_step == "/model"


@pytest.mark.parametrize("word", ["student", "work"])
def test_at_work_means_later(tmp_path, word):
    busy = host(tmp_path, student=True, idle=False)
    report = run([word], busy)
    assert (report.exit_code, busy.chosen, "still working" in report.title) == (2, [], True)


def test_damage_is_said_and_nothing_is_switched(tmp_path, chat):
    students_file().write_text("{")
    pi = host(tmp_path)
    report = run(["student"], pi)
    assert (report.exit_code, pi.chosen) == (1, [])
    assert report.next_step.startswith(f"remove {students_file()}")


def test_the_footer_says_who_answers(tmp_path):
    assert footer(tmp_path, "s1", None, student=True) == "student: none yet"
    serve(tmp_path, BASES["org/one"])
    assert footer(tmp_path, "s1", None, student=True) == "student: tinker/org/one"
    assert footer(tmp_path, "s1", None) == ""
    serve(tmp_path, Served("tinker/br", "tinker://x", "BR-001"))
    assert footer(tmp_path, "s1", "a1", student=True) == f"student: tinker/br (BR-001) · machine: {UNTAGGED}"
    Project.at(tmp_path).set(footer=False)
    assert footer(tmp_path, "s1", None, student=True) == ""


def test_a_release_is_never_replaced_by_the_base_model(tmp_path, service):
    release = Served("tinker/br-001", "tinker://nowhere/sampler_weights/x", "BR-001")
    serve(tmp_path, release)
    pi = host(tmp_path)
    report = run(["student"], pi)
    assert (report.exit_code, pi.chosen) == (1, [])
    assert release.weights in report.title
    assert served(tmp_path) == release


def test_the_first_time_the_default_base_model_is_greeted_and_becomes_a_model_in_pi(tmp_path, service, engine):
    shell = ScriptedHost(tmp_path)
    report = run(["student"], shell)
    assert report.exit_code == 0, report.title
    assert served(tmp_path) == Served(f"tinker/{engine.model}", engine.model, BASE)
    assert report.data["sample"].strip()
    assert f"tinker/{engine.model}" in [entry.ref for entry in provider.base_models()]
    assert run(["student"], shell).data["sample"] is None
    provider.providers_file().unlink()  # it answers, but Pi does not know it
    assert run(["student"], shell).data["sample"].strip()
    assert f"tinker/{engine.model}" in [entry.ref for entry in provider.base_models()]


TRIAL = Trial("BR-001", "tinker/br-001", "tinker://run/sampler_weights/x", 0.25, "turn", "00")


def test_a_trial_needs_no_student_beside_it(tmp_path, chat):
    try_out(tmp_path, TRIAL)
    log.append(Project.at(tmp_path).releases, "BR-001", 1, "trial", {"turns": 20})
    pi = host(tmp_path)
    report = run(["student"], pi)
    assert report.title == "The student answers from now on: BR-001, in trial, 25% of the turns"
    assert ("In trial", "tinker/br-001 answers 25% of the turns, 0 of 20 so far") in report.rows
    assert ("The others", "p/work, thinking high") in report.rows
    assert report.notes == []
    assert pi.chosen == [(Chosen("machine/student", "high"), WORK)]
    assert [body["model"] for body in chat.requests] == [TRIAL.weights]
    assert served(tmp_path) is None
    again = host(tmp_path, Chosen("machine/student", "high"), WORK, student=True)
    assert run(["student"], again).title.startswith("The student answers already: BR-001")
    assert again.chosen == []


def test_a_session_that_began_with_the_student_is_told_the_work_model_that_is_remembered(tmp_path, chat):
    try_out(tmp_path, TRIAL)
    run(["student"], host(tmp_path))
    pi = host(tmp_path, Chosen("machine/student", "low"), None, student=True)
    assert run(["student"], pi).exit_code == 0
    assert pi.chosen == [(Chosen("machine/student", "low"), WORK)]


def test_where_no_work_model_is_known_the_student_answers_the_others(tmp_path, chat):
    serve(tmp_path, BASES["org/one"])
    try_out(tmp_path, TRIAL)
    report = run(["student"], host(tmp_path, Chosen("machine/student", "low"), None, student=True))
    assert ("The others", "tinker/org/one: what you worked with is not known") in report.rows


def test_a_trial_where_it_cannot_be_drawn(tmp_path, chat):
    serve(tmp_path, BASES["org/one"])
    try_out(tmp_path, TRIAL)
    said = "BR-001 is in trial, which goes on in Pi 1.6 or later, with /machine student"
    for where in (host(tmp_path, follows=False), ScriptedHost(tmp_path)):
        report = run(["student"], where)
        assert said in report.notes
        assert report.data["model"] == "tinker/org/one"


def test_what_was_forced_is_said_with_its_reason(tmp_path, chat):
    serve(tmp_path, Served("tinker/org/one", "org/one", "BR-001"))
    activation = {
        "release": "BR-001",
        "version": 1,
        "model": "tinker/org/one",
        "weights": "org/one",
        "forced": "a fair",
    }
    log.append(Project.at(tmp_path).releases, "BR-001", 1, "activated", activation)
    said = "WARNING: BR-001 was activated against the rules; the reason given was: a fair"
    assert said in run(["student"], host(tmp_path)).notes
    assert said in run(["student"], ScriptedHost(tmp_path)).notes
    serve(tmp_path, BASES["org/one"])
    try_out(tmp_path, TRIAL)
    assert said in run(["student"], host(tmp_path)).notes
