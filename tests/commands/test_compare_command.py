"""`train eval compare` on records made by hand: what it reports, refuses and advises."""

import json

import msgspec
import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.evals.case import Case, Scorer
from machine.evals.proof import Proof
from machine.evals.record import Record, Retention, write_record
from machine.evals.retention import RISE, built_in_cases, built_in_passages, retention_hash
from machine.evals.sample import Parameters, Sample
from machine.evals.suite import suite_hash, suite_text
from machine.report import as_markdown
from machine.store.files import private_folder, write_private
from machine.store.project import Project
from machine.training.run import Run, State
from students import user

RUN = "20260101-000000-aaaa"
CASES = [
    Case(f"c{i}", (user(f"Question {i}?"),), Scorer("exact", "yes"), tags=("regression",) if i < 6 else ("new",))
    for i in range(12)
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    project = Project.at(folder)
    project.make()
    private_folder(project.evals)
    write_private(project.evals / "suite.jsonl", suite_text(CASES))
    trained = Run(project.runs / RUN)
    trained.write_config({})
    trained.write_state(State("done", 1, 1, "2026-01-01T00:00:00+00:00", 1))
    return project


def measured(rise: float = 0.0, style: str = "") -> Retention:
    cases, passages = built_in_cases(), built_in_passages()
    samples = tuple(Sample(c.id, style + c.id, 3, "stop", passed=True, score=1.0) for c in cases)
    return Retention(retention_hash(cases, passages), samples, {name: 2.0 + rise for name in passages})


def record(name: str, passed: set[int], retention: Retention | None = None, **more: object) -> Record:
    path = None if name == "baseline" else "tinker://run/sampler_weights/final"
    samples = tuple(
        Sample(c.id, "yes" if i in passed else "no", 1, "stop", i in passed, float(i in passed))
        for i, c in enumerate(CASES)
    )
    made = Record(
        name, "now", suite_hash(CASES), "m", "r", Parameters(), Proof("m", path, (0.0,)), samples, 1.0,
        run=None if path is None else RUN, retention=retention, version=2,
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


def compared(project, before: Record, after: Record):
    write_record(project.evals, before)
    write_record(project.evals, after)
    return run(["train", "eval", "compare"], ShellHost(quiet=True))


def checkpoint(passed: set[int], retention: Retention | None = None, **more: object) -> Record:
    return record(f"checkpoint-{RUN}", passed, retention, **more)


def test_better_and_kept(project):
    report = compared(project, record("baseline", set(range(6)), measured()), checkpoint(set(range(12)), measured()))
    assert report.title == "Verdict: better; of everything else: kept"
    assert report.next_step == f"machine tinker use {RUN}"
    rows = dict(report.rows)
    assert "6 of 12 passed, rate 50%" in rows["Baseline"]
    assert "+50% (95 % interval" in rows["Difference"]
    assert "0 regressions in the 6 cases that could get worse" in rows["Regressions"]
    assert report.data["wins"] == [f"c{i}" for i in range(6, 12)]
    assert (report.data["cases"], report.data["baseline"], report.data["checkpoint"]) == (12, 6, 12)
    assert report.data["retention"]["verdict"] == "kept"
    json.dumps(report.data)


def test_worse_is_in_the_title_and_nothing_is_switched_on(project):
    report = compared(project, record("baseline", set(range(12)), measured()), checkpoint({11}, measured()))
    assert report.title.startswith("Verdict: worse")
    assert "tinker use" not in report.next_step
    assert report.tables[0].rows[0][0] == "regression"
    assert report.notes[0] == "lost: c0"


def test_regressions_come_before_other_losses(project):
    report = compared(project, record("baseline", set(range(12))), checkpoint(set(range(12)) - {3, 7, 9}))
    assert report.data["losses"] == ["c3", "c7", "c9"]
    assert [row[0] for row in report.tables[1].rows][:3] == ["Question 3?", "Question 7?", "Question 9?"]


def test_what_was_lost_elsewhere_is_in_the_title_though_the_cases_are_better(project):
    report = compared(
        project, record("baseline", set(), measured()), checkpoint(set(range(12)), measured(3 * RISE, "ANSWER: "))
    )
    assert report.title == "Verdict: better; of everything else: lost"
    assert "learning_rate" in report.next_step
    assert any("begin with 'ANSWER:'" in note for note in report.notes)
    assert report.data["retention"]["spread"] is True


def test_records_without_retention_say_how_to_get_it(project):
    report = compared(project, record("baseline", set(range(6)), measured()), checkpoint(set(range(12))))
    assert dict(report.rows)["Retention"] == "not measured"
    assert any(note.endswith("machine train eval checkpoint --yes") for note in report.notes)
    assert not any("eval baseline" in note for note in report.notes)
    assert report.data["retention"] is None


def test_another_retention_suite_is_not_paired(project):
    other = msgspec.structs.replace(measured(), suite="0" * 64)
    report = compared(project, record("baseline", {0}, measured()), checkpoint({0}, other))
    assert (report.exit_code, "different retention suites" in report.title) == (2, True)


def test_the_same_answers_are_flagged_first(project):
    report = compared(project, record("baseline", {0, 1}), checkpoint({0, 1}))
    assert report.rows[0][0] == "Identical"
    assert report.data["identical"] is True
    assert "tinker use" not in report.next_step


def test_too_few_cases_are_asked_for(project):
    few = [sample for i, sample in enumerate(record("baseline", set()).samples) if i < 4]
    write_private(project.evals / "suite.jsonl", suite_text(CASES[:4]))
    short = {"samples": tuple(few), "suite": suite_hash(CASES[:4])}
    report = compared(project, record("baseline", set(), **short), checkpoint(set(), **short))
    assert "too few cases" in report.title
    assert "eval init" in report.next_step
    assert any("it takes 5 wins" in note for note in report.notes)


@pytest.mark.parametrize(
    ("field", "value"), [("parameters", Parameters(seed=7)), ("renderer", "other"), ("suite", "0")]
)
def test_what_was_asked_otherwise_is_refused(project, field, value):
    report = compared(project, record("baseline", {0}), checkpoint({0}, **{field: value}))
    assert (report.exit_code, "different" in report.title) == (2, True)
    assert "eval baseline" in report.next_step


def test_an_answer_cannot_break_the_table(project):
    evil = record("baseline", set()).samples
    evil = (msgspec.structs.replace(evil[0], text="a | b\n\x1b[31m`c`"), *evil[1:])
    report = compared(project, record("baseline", set(), samples=evil), checkpoint(set(range(12))))
    text = as_markdown(report)
    assert "\x1b" not in text
    assert "a | b" not in text
