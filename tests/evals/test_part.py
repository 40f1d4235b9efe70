import stat

import msgspec
import pytest

from machine.errors import StoreError
from machine.evals.case import Case, Scorer
from machine.evals.judge import Verdict
from machine.evals.part import Header, Part, question_hash
from machine.evals.record import Retention
from machine.evals.sample import Parameters, Sample
from students import user

HEADER = Header("q", "model", None, "chatml", Parameters(), (-1.0, -2.0))
ANSWER = Sample("a", "hi", 2, "stop", ids=(1, 2))
VERDICT = Verdict("a", 0, "m", "?", "VERDICT: PASS", True)


def test_what_came_is_there_again(tmp_path):
    part = Part(tmp_path / "evals", "baseline", HEADER)
    part.add_samples([ANSWER])
    part.add_verdict(VERDICT)
    again = Part(tmp_path / "evals", "baseline", HEADER)
    assert (again.samples, again.verdicts, again.anew) == ({"a": (ANSWER,)}, {("a", 0): VERDICT}, False)
    assert stat.S_IMODE(part.path.stat().st_mode) == 0o600
    again.finish()
    assert not part.path.exists()


def test_pieces_of_retention_come_together_and_those_of_another_suite_are_left(tmp_path):
    part = Part(tmp_path, "baseline", HEADER)
    part.add_retention(Retention("old", (ANSWER,), {"code": 2.5}))
    part.add_retention(Retention("new", (ANSWER,), {}))
    part.add_retention(Retention("new", (), {"code": 1.5}))
    part.add_retention(Retention("new", (), {"prose": 3.5}))
    whole = Retention("new", (ANSWER,), {"code": 1.5, "prose": 3.5})
    assert part.retention == whole
    assert Part(tmp_path, "baseline", HEADER).retention == whole


def test_a_torn_line_is_cut(tmp_path):
    part = Part(tmp_path, "baseline", HEADER)
    part.add_samples([ANSWER])
    with part.path.open("ab") as file:
        file.write(b'{"samples":[{"case":"b"')
    again = Part(tmp_path, "baseline", HEADER)
    assert list(again.samples) == ["a"]
    again.add_samples([msgspec.structs.replace(ANSWER, case="b")])
    assert list(Part(tmp_path, "baseline", HEADER).samples) == ["a", "b"]


@pytest.mark.parametrize(
    "changed",
    [
        {"questions": "p"},
        {"model": "other"},
        {"path": "tinker://x/sampler_weights/y"},
        {"renderer": "other"},
        {"parameters": Parameters(seed=1)},
        {"probe": (-1.0, -2.1)},
        {"probe": (-1.0,)},
    ],
)
def test_answers_to_something_else_are_dropped_and_it_is_said(tmp_path, changed):
    Part(tmp_path, "baseline", HEADER).add_samples([ANSWER])
    other = msgspec.structs.replace(HEADER, **changed)
    part = Part(tmp_path, "baseline", other)
    assert (part.samples, part.anew) == ({}, True)
    assert not Part(tmp_path, "baseline", other).anew


def test_a_service_may_round(tmp_path):
    Part(tmp_path, "baseline", HEADER).add_samples([ANSWER])
    again = Part(tmp_path, "baseline", msgspec.structs.replace(HEADER, probe=(-1.001, -2.0)))
    assert list(again.samples) == ["a"]


def test_a_damaged_line_is_named(tmp_path):
    part = Part(tmp_path, "baseline", HEADER)
    with part.path.open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(StoreError, match="line 2"):
        Part(tmp_path, "baseline", HEADER)


def test_an_answer_outlives_a_scorer_that_is_mended():
    one = Case("a", (user("b"),), Scorer("exact"), "c")
    assert question_hash([one]) == question_hash([msgspec.structs.replace(one, scorer=Scorer("regex", "c"))])
    assert question_hash([one]) != question_hash([msgspec.structs.replace(one, messages=(user("d"),))])
