"""Verify names everything that is not as the log says, in every version."""

import hashlib
import shutil

import msgspec
import pytest
from released import BASE, ID, Work, cases

from machine.evals.suite import suite_text
from machine.release import log
from machine.release.draft import amend
from machine.release.gates.result import Result
from machine.release.given import suites
from machine.release.standing import Activation
from machine.release.summary import RESULT, GateRun, gate_run, summary
from machine.release.verify import faults
from machine.store.files import private_folder, write_private
from machine.tinker.served import Served, serve


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An active release, every step of which left its files."""
    work = Work(tmp_path_factory.mktemp("made")).frozen()
    work.candidate()
    mine = tmp_path_factory.mktemp("mine") / "mine.jsonl"
    mine.write_bytes(suite_text(cases("outside")))
    suites(work.project, work.place, work.standing, work.place.read(), {"holdout": mine}, work.trained())
    judged(work)
    work.step("trial")
    work.step("eligible", {"why": "long enough"})
    candidate = work.standing.candidate
    student = Served("tinker/br-000-v1", candidate.weights, ID)
    work.step("activated", msgspec.to_builtins(Activation(ID, 1, student.model, student.weights, "", BASE)))
    work.student = student
    return work


@pytest.fixture
def work(made, tmp_path):
    work = made.copy(tmp_path)
    serve(work.project.root, work.student)
    return work


def judged(work, passed=True):
    candidate = work.standing.candidate
    result = Result("learnt", "improvement", passed, "a figure", "a threshold")
    run = GateRun(ID, work.standing.version, candidate.run, candidate.weights, "2026-01-01", 1.0, (result,))
    data = msgspec.json.encode(run)
    write_private(private_folder(work.place.gates(candidate.run)) / RESULT, data)
    answers = work.place.gates(candidate.run) / "target-base.json"
    write_private(answers, b"{}")
    work.step(
        "gated",
        {
            "passed": passed,
            "sha256": hashlib.sha256(data).hexdigest(),
            "gates": {"learnt": passed},
            "records": {answers.name: hashlib.sha256(b"{}").hexdigest()},
        },
    )


def found(work):
    return faults(work.project, log.look(work.project.releases)[0])


def test_nothing_is_wrong(work):
    assert found(work) == []
    assert summary(work.project, ID).changed == ()


def run_of(work):
    return work.project.runs / work.standing.candidate.run


def gates_of(work):
    return work.place.gates(work.standing.candidate.run)


def append(path, text=" "):
    path.write_text(path.read_text() + text)


TAMPERED = {
    "preregistration.yaml was edited after it was frozen": lambda w: append(w.place.file),
    "preregistration.yaml is gone": lambda w: w.place.file.unlink(),
    "suites/target.jsonl was edited after it was frozen": lambda w: append(w.place.folder / "suites" / "target.jsonl"),
    "suites/regression.jsonl is gone": lambda w: (w.place.folder / "suites" / "regression.jsonl").unlink(),
    "runs/{run}/config.json was edited": lambda w: append(run_of(w) / "config.json"),
    "runs/{run}/metrics.jsonl was edited": lambda w: append(run_of(w) / "metrics.jsonl"),
    "runs/{run}/checkpoints.jsonl was edited": lambda w: (run_of(w) / "checkpoints.jsonl").unlink(),
    "runs/{run}/heldout.jsonl was edited": lambda w: (run_of(w) / "heldout.jsonl").write_text("{}\n"),
    "gates/{run}/holdout.jsonl was edited after it was given": lambda w: append(gates_of(w) / "holdout.jsonl"),
    "gates/{run}/result.json was edited after the gates were run": lambda w: append(gates_of(w) / RESULT),
    "gates/{run}/target-base.json was edited after the gates were run": lambda w: append(
        gates_of(w) / "target-base.json"
    ),
    "gates/{run}/result.json is damaged (": lambda w: (gates_of(w) / RESULT).write_text("[" * 100_000),
    "gates/{run}/result.json cannot be read (": lambda w: (gates_of(w) / RESULT).unlink(),
}


@pytest.mark.parametrize("words", TAMPERED)
def test_each_tampering_is_named_whatever_came_later(work, words):
    run = work.standing.candidate.run
    TAMPERED[words](work)
    [fault] = found(work)
    assert fault.startswith(f"{ID} v1: {words.format(run=run)}")
    if not work.place.file.exists():
        return
    amend(work.project, work.standing, "something else")
    assert found(work) == [fault], "v1 is looked at when v2 is what stands"


def test_a_run_that_is_gone(work):
    shutil.rmtree(run_of(work))
    assert len(found(work)) == 3


def test_an_earlier_candidate_of_the_same_version(tmp_path):
    work = Work(tmp_path).frozen()
    first = work.candidate()
    judged(work, passed=False)
    work.candidate()
    judged(work)
    assert found(work) == []
    append(work.place.gates(first.id) / RESULT)
    append(first.folder / "config.json")
    assert found(work) == [
        f"{ID} v1: runs/{first.id}/config.json was edited",
        f"{ID} v1: gates/{first.id}/result.json was edited after the gates were run",
    ]


def test_another_student_than_the_log_says(work):
    serve(work.project.root, Served(work.student.model, "tinker://other/1", ID))
    [fault] = found(work)
    assert fault.startswith(f"the log says that {ID} is active ({work.student.weights}), and the student is ")
    assert "tinker://other/1" in fault
    work.step("rolled back", {"reason": ""})
    assert found(work) == [f"the log knows of no active release, and the student is {work.student.model} ({ID})"]
    serve(work.project.root, BASE)
    assert found(work) == []


@pytest.mark.parametrize("step", ["frozen", "candidate", "gating", "gated", "activated"])
def test_an_entry_without_its_form_is_named_and_not_stumbled_over(work, step):
    work.step(step, {"candidate": 5, "given": 5, "seal": 5})
    said = found(work)
    assert any(
        each.startswith(f"entry {len(log.read(work.project.releases))} of the log ({step}) cannot be read")
        for each in said
    )
    assert any("cannot be read" in each for each in summary(work.project, ID).changed)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{}"])
def test_a_damaged_verdict_is_said_in_words(work, data):
    (gates_of(work) / RESULT).write_bytes(data)
    kept, fault = gate_run(work.place, work.standing.candidate.run, "00")
    assert kept is None
    assert "is damaged" in fault
