"""The alias: what a rollback and a reconciliation serve, with no service at all."""

import msgspec
import pytest
from released import BASE, ID, MODEL, Work, endpoint

from machine.errors import Refused, StoreError
from machine.release import active, log
from machine.release.active import activate, reconcile, roll_back
from machine.release.standing import Activation, ledger
from machine.release.summary import summary
from machine.release.trial import settle
from machine.tinker import provider
from machine.tinker.served import Served, Trial, serve, served, students_file, trial_of, try_out
from machine.tinker.students import Model


@pytest.fixture
def work(tmp_path):
    provider.keep(endpoint(), [Model(MODEL, 8192, True, True)])
    return Work(tmp_path)


def activated(work, release=ID, version=1, forced=""):
    """What `activate` does once the service has shown the weights."""
    after = Served(f"tinker/{release.lower()}-v{version}", f"tinker://{release}/{version}", release)
    about = Activation(release, version, after.model, after.weights, forced, served(work.project.root))
    if release not in ledger(log.look(work.project.releases)[0]).releases:
        log.append(work.project.releases, release, version, "drafted", {})
    log.append(work.project.releases, release, version, "activated", msgspec.to_builtins(about))
    provider.register(endpoint(), after.weights, after.model.removeprefix("tinker/"), base=MODEL)
    serve(work.project.root, after)
    return after


def student(work):
    return served(work.project.root)


def steps(work):
    return [entry.step for entry in log.look(work.project.releases)[0]]


def test_nothing_to_roll_back(work):
    with pytest.raises(Refused, match="no release is active"):
        roll_back(work.project, "")
    serve(work.project.root, BASE)
    with pytest.raises(Refused, match="no release is active"):
        roll_back(work.project, "")
    assert steps(work) == []


def test_back_one_by_one_and_to_what_was_before_the_first(work):
    other = Served("tinker/mine", "some/base", "base")
    serve(work.project.root, other)
    first, second = activated(work), activated(work, "BR-002")
    moved = roll_back(work.project, "it was worse")
    assert (moved.before, moved.after, moved.unlogged) == (second, first, "")
    assert student(work) == first
    assert log.read(work.project.releases)[-1].data == {"reason": "it was worse", "to": msgspec.to_builtins(first)}
    assert roll_back(work.project, "").after == other == student(work)
    with pytest.raises(Refused, match="no release is active"):
        roll_back(work.project, "")


def test_a_release_that_was_active_before_and_after_another(work):
    first, second = activated(work), activated(work, "BR-002")
    again = activated(work, forced="it was better after all")
    assert again == first
    for wanted in (second, first, BASE):
        assert roll_back(work.project, "").after == wanted == student(work)
        now = ledger(log.read(work.project.releases)).now
        assert (now.served if now else BASE) == wanted, "log and student agree"
        assert reconcile(work.project, ledger(log.read(work.project.releases))) == ""


def test_a_version_goes_back_to_the_one_before(work):
    first = activated(work)
    work.step("amended", {"reason": "more"}, 2)
    activated(work, version=2)
    assert roll_back(work.project, "").after == first


def test_without_a_student_before_it_is_the_base_model(work):
    activated(work)
    assert roll_back(work.project, "").after == BASE == student(work)


def test_it_is_the_base_model_by_a_name_that_pi_knows(work):
    provider.register(endpoint(), MODEL, "base")  # as `tinker use MODEL base` does
    provider.keep(endpoint(), [Model("org/another", 8192, True, True)])  # and MODEL is not on the list by itself
    activated(work)
    after = roll_back(work.project, "").after
    assert after == Served("tinker/base", MODEL, "base")
    assert after.model in {entry.ref for entry in [*provider.base_models(), *provider.listed()]}


def test_it_ends_the_trial_of_what_is_rolled_back_alone(work):
    activated(work)
    mine, other = (Trial(id, f"tinker/{id}", f"tinker://{id}", 0.5, "turn", "00") for id in (ID, "BR-005"))
    try_out(work.project.root, other)
    roll_back(work.project, "")
    assert trial_of(work.project.root) == other
    activated(work)
    try_out(work.project.root, mine)
    roll_back(work.project, "")
    assert trial_of(work.project.root) is None


def cut(work):
    path = work.project.releases / log.LOG
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def garbled(work):
    path = work.project.releases / log.LOG
    path.write_bytes(path.read_bytes().replace(b"activated", b"actuvated"))


def hollow(work):
    path = work.project.releases / log.LOG
    path.write_bytes(
        path.read_bytes().replace(b'"release":"BR-000","version":1,"model"', b'"x":"BR-000","version":1,"model"')
    )


def removed(work):
    (work.project.releases / log.LOG).unlink()


def a_folder(work):
    removed(work)
    (work.project.releases / log.LOG).mkdir()


def edited(work):
    path = work.project.releases / log.LOG
    path.write_bytes(path.read_bytes().replace(b'"at":"2', b'"at":"1', 1))


@pytest.mark.parametrize("damage", [cut, garbled, hollow, removed, a_folder, edited])
def test_a_broken_log_is_in_nobodys_way(work, damage):
    activated(work)
    activated(work, "BR-002")
    damage(work)
    moved = roll_back(work.project, "something is wrong")
    assert moved.after == BASE == student(work), "what was before cannot be trusted"
    assert "log.jsonl" in moved.unlogged


def test_a_log_that_cannot_be_written_is_in_nobodys_way(work, monkeypatch):
    first, _ = activated(work), activated(work, "BR-002")

    def full(*args, **more):
        raise StoreError("the disk is full")

    monkeypatch.setattr(active.log, "append", full)
    moved = roll_back(work.project, "")
    assert (moved.after, moved.unlogged) == (first, "the disk is full")
    assert student(work) == first


def test_after_the_log_was_begun_anew(work):
    activated(work)
    cut(work)
    log.restart(work.project.releases, "it was cut")
    assert roll_back(work.project, "").after == BASE == student(work)
    found = ledger(log.read(work.project.releases))
    assert (found.releases, steps(work)) == ({}, ["restarted", "rolled back"])


def test_reconcile_mends_a_crash_between_log_and_student(work):
    serve(work.project.root, BASE)
    now = activated(work)
    found = ledger(log.read(work.project.releases))
    assert reconcile(work.project, found) == ""
    for wrong in (BASE, Served(now.model, "tinker://edited/1", now.why), Served("tinker/x", now.weights, now.why)):
        serve(work.project.root, wrong)
        assert f"by the log of releases it is {now.model} ({ID})" in reconcile(work.project, found)
        assert student(work) == now
    students_file().unlink()
    assert "the student was none" in reconcile(work.project, found)
    assert student(work) == now


def test_reconcile_takes_back_what_the_log_does_not_know(work):
    serve(work.project.root, Served("tinker/br-009-v1", "tinker://x/1", "BR-009"))
    assert "the student was tinker/br-009-v1 (BR-009)" in reconcile(work.project, ledger([]))
    assert student(work) == BASE
    assert reconcile(work.project, ledger([])) == ""


def test_reconcile_finishes_a_rollback(work):
    first, second = activated(work), activated(work, "BR-002")
    roll_back(work.project, "")
    serve(work.project.root, second)  # as if the crash had come before it was served
    reconcile(work.project, ledger(log.read(work.project.releases)))
    assert student(work) == first


def attempted(work, forced=""):
    with pytest.raises(Refused) as found:
        activate(work.project, summary(work.project, ID), None, endpoint(), forced)  # refused before it is asked
    assert student(work) is None or student(work).why == ID
    return found.value


def test_what_may_not_be_activated_is_refused_before_the_service_is_asked(work):
    work.drafted()
    assert "BR-000 v1 has no candidate" in attempted(work, "the boss said so").message
    work.edit("<the style, as you would ask for it in a system prompt>", "Be brief.").edit(
        "decides: []", "decides: [ada]"
    )
    from machine.release.freeze import freeze

    freeze(work.project, work.standing)
    assert "has no candidate" in attempted(work).message
    work.candidate()
    error = attempted(work)
    assert "has a candidate that has not passed its gates yet, so it cannot be activated" in error.message
    assert "--force" in error.next_step
    work.step("eligible", {"why": "long enough"})
    assert f"ada decide on BR-000, and you are {log.user()}" in attempted(work).message
    work.edit("[ada]", f"[{log.user()}]")
    assert "is not what was frozen: preregistration.yaml was edited" in attempted(work).message
    activated(work)
    assert "BR-000 v1 is active already" in attempted(work, "once more, to be sure").message
    cut(work)
    assert "the log of releases is broken" in attempted(work).message


def test_a_trial_ends_whatever_is_wrong_with_the_log_or_the_outcomes(work):
    work.frozen()
    work.step("trial", {})
    trial = Trial(ID, "tinker/x", "tinker://x/1", 0.5, "turn", "00")
    try_out(work.project.root, trial)
    assert settle(work.project, ID) is None, "it goes on"
    assert trial_of(work.project.root) == trial
    outcomes = work.project.releases / ID / "outcomes.jsonl"
    outcomes.write_text("no outcome\n")
    with pytest.raises(StoreError, match=r"outcomes\.jsonl"):
        settle(work.project, ID)
    assert trial_of(work.project.root) is None
    outcomes.unlink()
    try_out(work.project.root, trial)
    cut(work)
    with pytest.raises(Refused, match="the log of releases is broken"):
        settle(work.project, ID)
    assert trial_of(work.project.root) is None
