import json

import msgspec
import pytest

from machine.errors import Refused
from machine.evals.claim import claimed
from machine.evals.proof import Proof
from machine.evals.record import (
    BASELINE,
    VERSION,
    Asking,
    Record,
    Retention,
    differences,
    latest_checkpoint,
    read_record,
    write_record,
)
from machine.evals.sample import Parameters, Sample


def record(*samples, **fields):
    proof = Proof("model", None, (-1.0,))
    given = {"retention": Retention("s", samples[:1], {"prose": 2.5}), "version": VERSION} | fields
    return Record(BASELINE, "2026-01-01", "suite", "model", "chatml", Parameters(), proof, samples, 1.0, **given)


def test_a_record_reads_back(tmp_path):
    made = record(Sample("a", "hi", 1, "stop", True, 1.0, message={"role": "assistant", "content": "hi"}, ids=(7,)))
    write_record(tmp_path, made)
    assert read_record(tmp_path, BASELINE) == made


def test_a_case_passes_by_the_mean_of_its_samples():
    scores = {"a": (1.0, 0.0), "b": (1.0, 0.0, 0.0), "c": (0.4, 0.7)}
    made = record(
        *(Sample(c, "", 1, "stop", score=s, number=i) for c, all in scores.items() for i, s in enumerate(all))
    )
    assert made.scores == pytest.approx({"a": 0.5, "b": 1 / 3, "c": 0.55})
    assert made.passed == {"a": True, "b": False, "c": True}


def test_an_old_record_is_read_with_the_scores_that_it_means(tmp_path):
    old = msgspec.to_builtins(record())
    for name in ("version", "retention", "verdicts", "scorers", "identical"):
        del old[name]
    old["parameters"] = {"max_tokens": 8, "temperature": 0.0, "seed": 0}
    old["samples"] = [{"case": c, "text": "", "tokens": 1, "stopped": "stop", "passed": c == "a"} for c in "ab"]
    (tmp_path / "baseline.json").write_text(json.dumps(old))
    read = read_record(tmp_path, BASELINE)
    assert read.passed == {"a": True, "b": False}
    assert read.parameters == Parameters(max_tokens=8)


@pytest.mark.parametrize(("change", "said"), [({"version": 99}, "newer Machine"), ({"samples": 1}, "damaged")])
def test_a_record_that_cannot_be_read_says_what_to_do(tmp_path, change, said):
    (tmp_path / "baseline.json").write_text(json.dumps(msgspec.to_builtins(record()) | change))
    with pytest.raises(Refused, match=said) as refused:
        read_record(tmp_path, BASELINE)
    assert refused.value.next_step == "machine train eval baseline"


def test_what_differs_is_named_with_both_values():
    one = record()
    changes = {
        "another suite": {"suite": "other"},
        "another renderer": {"renderer": "other"},
        "other scoring functions": {"scorers": {"style.py": "0"}},
        "other sampling parameters (top-p 1 and 0.9)": {"parameters": Parameters(top_p=0.9)},
        "other sampling parameters (temperature 0 and 0.5, seed 0 and 7)": {
            "parameters": Parameters(temperature=0.5, seed=7)
        },
    }
    assert differences(one, one) == []
    for words, fields in changes.items():
        assert differences(one, msgspec.structs.replace(one, **fields)) == [words]
    ahead = Asking(one.suite, one.parameters, one.renderer, one.scorers)
    assert differences(one, ahead) == []
    assert differences(one, msgspec.structs.replace(ahead, suite="other")) == ["another suite"]


def test_a_record_that_may_not_be_read_is_not_said_to_be_missing(tmp_path):
    (tmp_path / "baseline.json").mkdir()
    with pytest.raises(Refused, match=r"baseline.json: Is a directory"):
        read_record(tmp_path, BASELINE)


def test_who_is_at_it_is_no_record(tmp_path):
    with claimed(tmp_path, "checkpoint-a"), pytest.raises(Refused, match="no checkpoint was evaluated yet"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize("run", ["../../elsewhere", "/elsewhere", "..", "", "a/b", "a\0b"])
def test_a_record_that_names_a_folder_elsewhere_is_refused(tmp_path, run):
    write_record(tmp_path, record(run=run))
    with pytest.raises(Refused, match="is damaged"):
        read_record(tmp_path, BASELINE)


def test_a_record_under_another_name_is_refused(tmp_path):
    write_record(tmp_path, record())
    (tmp_path / "baseline.json").rename(tmp_path / "checkpoint-x.json")
    with pytest.raises(Refused, match="it is of 'baseline'"):
        read_record(tmp_path, "checkpoint-x")


def test_a_record_nested_without_end_is_refused(tmp_path):
    (tmp_path / "baseline.json").write_text('{"name": ' + "[" * 100_000)
    with pytest.raises(Refused, match="is damaged"):
        read_record(tmp_path, BASELINE)
