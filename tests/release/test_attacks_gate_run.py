"""Gate runs that meet another process, an edit meanwhile, a candidate that has moved on, and files with odd names."""

import hashlib
import os
import shutil
import threading

import msgspec
import pytest
from released import Work, cases

from machine.errors import Refused, StoreError
from machine.evals.suite import suite_text
from machine.release import gate, log
from machine.release.alone import LOCK, alone
from machine.release.asking import Gates
from machine.release.gate import fail_changed, ready, run_gates
from machine.release.gates.result import Result
from machine.release.given import suites
from machine.release.summary import RESULT, GateRun, gate_run
from machine.store import files


@pytest.fixture
def work(tmp_path, monkeypatch):
    made = Work(tmp_path).frozen()
    made.candidate()
    monkeypatch.setattr(gate, "_trained", lambda *_: made.trained())  # its runs keep no rows of their own
    return made


def outside(work, path):
    path.write_bytes(suite_text(cases("outside", 13)))
    return ready(work.project, work.standing, {"holdout": path}, lambda: None)


def asking(monkeypatch, meanwhile):
    """Stands for the service: every gate passes, and something happens while it is asked."""

    class Asking:
        def __init__(self, gates: Gates, *_):
            self.gates = gates

        def prove(self):
            (self.gates.folder / "target-base.json").write_bytes(b"{}")
            meanwhile()

        def measured(self, *_):
            return None

        def result(self, name, _):
            numbers = {"rise": float("nan"), "length": float("inf"), "cases": 12}
            return Result(name, "improvement", True, "", "", numbers=numbers, samples=("target-base.json",))

    monkeypatch.setattr(gate, "Asking", Asking)


def gated(work):
    return [entry for entry in work.standing.entries if entry.step == "gated"]


def test_a_run_that_nothing_disturbs_passes(work, tmp_path, monkeypatch):
    asking(monkeypatch, lambda: None)
    found = run_gates(outside(work, tmp_path / "mine.jsonl"), None)
    assert found.passed
    [entry] = gated(work)
    kept = work.place.gates(work.standing.candidate.run) / RESULT
    assert entry.data["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
    assert entry.data["records"] == {"target-base.json": hashlib.sha256(b"{}").hexdigest()}
    read, fault = gate_run(work.place, work.standing.candidate.run, entry.data["sha256"])
    assert (read, fault) == (found, "")
    assert {name for result in found.results[1:] for name in result.numbers} == {"cases"}


@pytest.mark.parametrize("what", ["suite", "preregistration", "run"])
def test_what_is_edited_while_the_gates_run_fails_them(work, tmp_path, monkeypatch, what):
    def edit():
        path = {
            "suite": next(iter((work.place.folder / "suites").glob("*.jsonl"))),
            "preregistration": work.place.file,
            "run": work.project.runs / work.standing.candidate.run / "metrics.jsonl",
        }[what]
        path.write_bytes(path.read_bytes() + b"\n")

    asking(monkeypatch, edit)
    found = run_gates(outside(work, tmp_path / "mine.jsonl"), None)
    assert not found.passed
    assert found.results[0].gate == "frozen"
    assert found.results[0].words
    assert gated(work)[0].data["passed"] is False


@pytest.mark.parametrize("step", ["rejected", "gated"])
def test_a_release_that_moved_on_meanwhile_gets_no_verdict(work, tmp_path, monkeypatch, step):
    data = (
        {"reason": "enough"}
        if step == "rejected"
        else {"passed": False, "sha256": "0" * 64, "gates": {}, "asked": True}
    )
    asking(monkeypatch, lambda: work.step(step, data))
    gates = outside(work, tmp_path / "mine.jsonl")
    with pytest.raises(Refused, match="has moved on meanwhile: v1 is at rejected now"):
        run_gates(gates, None)
    assert len(gated(work)) == (step == "gated")
    assert not (work.place.gates(gates.standing.candidate.run) / RESULT).exists()


def test_one_process_at_a_time(work, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.2)
    standing, gates = work.standing, outside(work, tmp_path / "mine.jsonl")
    held, over = threading.Event(), threading.Event()

    def other():
        with files.locked(work.place.folder / LOCK):
            held.set()
            over.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert held.wait(10)
        for doing in (lambda: run_gates(gates, None), lambda: fail_changed(work.project, standing, ["x"])):
            with pytest.raises(StoreError, match="held by another process"):
                doing()
    finally:
        over.set()
        thread.join()
    assert gated(work) == []
    with alone(work.project, standing) as now:
        assert now.gating is not None


def test_a_holdout_is_taken_once_by_whoever_comes_first(work, tmp_path):
    """Both read where it stands before either has given a file."""
    standing, trained = work.standing, work.trained()
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_bytes(suite_text(cases("outside", 13)))
    other.write_bytes(suite_text(cases("elsewhere", 13)))

    def take(path):
        return suites(work.project, work.place, standing, work.place.read(), {"holdout": path}, trained)

    first = take(one)
    with pytest.raises(Refused, match="another holdout was given"):
        take(other)
    assert take(one) == first
    assert [entry.step for entry in work.standing.entries].count("gating") == 1


@pytest.mark.parametrize("name", [b"a\nb.jsonl", b"\xff\xfe.jsonl", b"x, \x1b[31m.jsonl", "\u202eé.jsonl".encode()])
def test_a_file_of_any_name_can_be_told_of(work, tmp_path, monkeypatch, name):
    asking(monkeypatch, lambda: None)
    path = tmp_path / os.fsdecode(name)
    run_gates(outside(work, path), None)
    told = work.standing.gating["given"]["holdout"]
    assert told.isprintable()
    kept = msgspec.json.decode((work.place.gates(work.standing.candidate.run) / RESULT).read_bytes(), type=GateRun)
    assert kept.given == {"holdout": told}
    assert log.look(work.project.releases)[1] == []


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_a_holdout_that_is_not_as_it_was_taken_stops_the_gates(work, tmp_path, change):
    outside(work, tmp_path / "mine.jsonl")
    kept = work.place.gates(work.standing.candidate.run) / "holdout.jsonl"
    if change == "gone":
        kept.unlink()
    else:
        kept.write_bytes(suite_text(cases("outside", 12)))
    with pytest.raises(Refused, match="is not the suite that the gates began with"):
        ready(work.project, work.standing, {}, lambda: None)
    assert gated(work) == []


def test_a_run_that_was_removed_fails_and_nothing_is_asked(work):
    shutil.rmtree(work.project.runs / work.standing.candidate.run)
    changed = ready(work.project, work.standing, {}, lambda: None)
    assert isinstance(changed, list)
    assert not fail_changed(work.project, work.standing, changed).passed
    assert work.standing.stage == "rejected"


DISGUISES = (
    lambda text: f"  {text.upper()}\n",
    lambda text: text.replace(" ", "\u00a0"),
    lambda text: "\u200b".join(text),
)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_one_case_in_disguise_counts_once_and_what_the_store_asks_is_no_holdout(work, tmp_path, disguise):
    """A few questions asked many times would be many wins, and none of them new."""
    path = tmp_path / "mine.jsonl"
    held = cases("outside", 12)
    for message, known in (
        ("ask the same, which counts once", held[3]),
        ("is in the store already", cases("target")[3]),
    ):
        messages = ({"role": "user", "content": disguise(known.question)},)
        path.write_bytes(suite_text([*held, msgspec.structs.replace(known, id="again", messages=messages)]))
        with pytest.raises(Refused, match=message):
            ready(work.project, work.standing, {"holdout": path}, lambda: None)
    assert work.standing.gating is None
