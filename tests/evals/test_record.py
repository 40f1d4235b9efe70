import json

import msgspec
import pytest

from machine.errors import Refused
from machine.evals.proof import Proof
from machine.evals.record import BASELINE, VERSION, Record, Retention, read_record, write_record
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
