"""Whole evaluations against the engine: resumed after Ctrl-C and after the service died, scored, flagged."""

import dataclasses
import functools
import os

import msgspec
import pytest

from machine.errors import Refused, ServiceError, TrainingError, UsageError
from machine.evals import evaluation, judge
from machine.evals.case import Case, Scorer
from machine.evals.evaluation import Subject, by_tag, rate, spend
from machine.evals.record import BASELINE, read_record
from machine.evals.retention import built_in_cases, measure
from machine.evals.sample import Parameters
from machine.tinker import service as services
from machine.tinker.service import connect, endpoint
from machine.tinker.students import default_model, load_student, models
from relay import relay
from students import user

evaluate = functools.partial(evaluation.evaluate, others=None)  # what else was kept is tested by itself
HOW = Parameters(max_tokens=4)


@pytest.fixture
def subject(service):
    with connect(service) as here:
        student = load_student(default_model(models(here)))
    return Subject(BASELINE, student, None, "machine train eval baseline --yes")


@pytest.fixture
def sent(monkeypatch):
    """How many prompts have gone to the service, told by the SDK's own client."""
    from tinker import SamplingClient

    count, sample = [], SamplingClient.sample

    def counted(self, *given, **named):
        count.append(1)
        return sample(self, *given, **named)

    monkeypatch.setattr(SamplingClient, "sample", counted)
    return count


def cases(count, scorer=None):
    return [Case(f"c{i}", (user(f"Say {i}."),), scorer or Scorer("contains", "")) for i in range(count)]


def interrupt(at):
    def progress(line):
        if line.startswith(at):
            raise KeyboardInterrupt

    return progress


def test_ctrl_c_loses_no_answer(subject, sent, tmp_path):
    with connect(endpoint()) as here:
        with pytest.raises(TrainingError, match="2 of 5 cases are answered, and kept") as told:
            evaluate(here, subject, cases(5), HOW, tmp_path, interrupt("asked 2/"))
        assert told.value.next_step == subject.command
        assert not (tmp_path / "baseline.json").exists()
        assert len(sent) == 5
        found = evaluate(here, subject, cases(5), HOW, tmp_path)
        assert len(sent) == 5 + 3
        assert (found.kept, found.anew) == (2, False)
        assert "2 of 5 cases were already asked" in found.notes(cases(5))
        whole = evaluate(here, subject, cases(5), HOW, tmp_path / "whole")
    assert [s.case for s in found.record.samples] == [f"c{i}" for i in range(5)]
    assert found.record.answers() == whole.record.answers()
    assert read_record(tmp_path, BASELINE) == found.record
    assert not (tmp_path / "baseline.part.jsonl").exists()


def test_retention_goes_on_where_it_was_left(subject, sent, tmp_path, monkeypatch):
    from tinker import SamplingClient

    monkeypatch.setattr(judge, "MAX_TOKENS", 4)
    scored, logprobs = [], SamplingClient.compute_logprobs
    monkeypatch.setattr(
        SamplingClient, "compute_logprobs", lambda self, prompt: (scored.append(prompt), logprobs(self, prompt))[1]
    )
    asked, texts = built_in_cases()[:5], {"a": "The sun rose over the quiet hills.", "b": "for i in range(3): print(i)"}
    plain = [case for case in asked if not case.tools]
    few = functools.partial(measure, cases=asked, passages=texts)
    with connect(endpoint()) as here:
        for stop, answers in (("retention: asked 2/", 2), ("judged", len(plain))):
            judged = cases(1, Scorer("judge", "Is it a number?"))
            with pytest.raises(TrainingError, match="1 of 1 cases are answered"):
                evaluation.evaluate(here, subject, judged, HOW, tmp_path, interrupt(stop), others=few)
            lines = (tmp_path / "baseline.part.jsonl").read_text().splitlines()
            pieces = [line for line in lines if '"retention":{' in line]
            assert len([line for line in pieces if '"nll":{}' in line]) >= answers
        assert len(pieces) == len(asked) + len(texts)
        before = len(scored)
        sent.clear()
        found = evaluation.evaluate(here, subject, judged, HOW, tmp_path, others=few)
        assert (len(sent), len(scored) - before) == (0, 1)  # the verdict was there too; the probe is taken each time
    kept = [msgspec.json.decode(line)["retention"] for line in pieces]
    texts_of = {each["case"]: each["text"] for piece in kept for each in piece["samples"]}
    assert {each.case: each.text for each in found.record.retention.samples} == texts_of
    assert found.record.retention.nll == {name: nll for piece in kept for name, nll in piece["nll"].items()}
    assert [sample.case for sample in found.record.retention.samples] == [case.id for case in asked]


def test_the_same_evaluation_twice_at_once_is_refused(subject, sent, tmp_path):
    def second(line):
        with pytest.raises(Refused, match=f"baseline is already being evaluated by process {os.getpid()}"):
            evaluate(here, subject, cases(2), HOW, tmp_path)

    with connect(endpoint()) as here:
        assert len(evaluate(here, subject, cases(2), HOW, tmp_path, second).record.samples) == 2
    assert len(sent) == 2


def test_other_parameters_begin_anew(subject, sent, tmp_path):
    with connect(endpoint()) as here:
        with pytest.raises(TrainingError):
            evaluate(here, subject, cases(3), HOW, tmp_path, interrupt("asked 2/"))
        found = evaluate(here, subject, cases(3), Parameters(max_tokens=3), tmp_path)
    assert (found.kept, found.anew, len(sent)) == (0, True, 6)
    assert "were dropped" in " ".join(found.notes(cases(3)))


def test_a_service_that_dies_loses_no_answer(subject, sent, tmp_path, monkeypatch):
    monkeypatch.setattr(services, "PATIENCE", 1.0)
    where = endpoint()
    asked = [*cases(2), Case("long", (user("Write a long story about a ship and its crew."),), Scorer("contains", ""))]
    asked[:2] = [
        msgspec.structs.replace(c, messages=(user(f"What is {i} plus {i}?"),)) for i, c in enumerate(asked[:2])
    ]
    how = Parameters(max_tokens=160)
    with (
        relay(where.url) as between,
        connect(dataclasses.replace(where, base_url=between.url)) as there,
        pytest.raises(ServiceError, match=r"does not answer; [12] of 3 cases are answered, and kept") as told,
    ):
        evaluate(there, subject, asked, how, tmp_path, lambda line: line.startswith("asked") and between.cut())
    assert told.value.next_step.endswith(f"then {subject.command}")
    before = len(sent)
    with connect(where) as here:
        found = evaluate(here, subject, asked, how, tmp_path)
    assert found.kept in (1, 2)
    assert len(sent) - before == 3 - found.kept
    assert len(found.record.samples) == 3


def test_a_function_is_mended_and_nothing_is_asked_again(subject, sent, tmp_path):
    style = tmp_path / "style.py"
    style.write_text("def half(text, case, message):\n    return text.half\n")
    asked = cases(2, Scorer("python", "style.py:half"))
    with connect(endpoint()) as here:
        with pytest.raises(Refused, match=r"case c0: style.py:half raised AttributeError at line 2"):
            evaluate(here, subject, asked, HOW, tmp_path)
        style.write_text("def half(text, case, message):\n    return 0.5\n")
        found = evaluate(here, subject, asked, HOW, tmp_path)
    assert len(sent) == 2
    assert found.record.scores == {"c0": 0.5, "c1": 0.5}
    assert len(found.record.scorers["style.py"]) == 64


def test_verdicts_are_kept_counted_and_not_asked_twice(subject, sent, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MAX_TOKENS", 4)
    asked = cases(3, Scorer("judge", "Is it a number?"))
    with connect(endpoint()) as here:
        with pytest.raises(TrainingError):
            evaluate(here, subject, asked, HOW, tmp_path, interrupt("judged: asked 2/"))
        assert len(sent) == 6
        found = evaluate(here, subject, asked, HOW, tmp_path)
    assert len(sent) == 7
    assert found.unclear == ("c0#0", "c1#0", "c2#0")
    assert not any(found.record.passed.values())
    assert len(found.record.verdicts) == 3
    assert all(v.prompt and v.text for v in found.record.verdicts)
    notes = " ".join(found.notes(asked))
    assert "no verdict on 3 answers (c0#0" in notes
    assert "poor judge" in notes


def test_a_judge_that_is_not_there_is_found_before_anything_is_asked(subject, sent, tmp_path):
    with connect(endpoint()) as here, pytest.raises((ServiceError, Refused, UsageError)):
        evaluate(here, subject, cases(1, Scorer("judge", "Kind?", "absent/model")), HOW, tmp_path)
    assert sent == []


def test_a_catastrophic_pattern_is_named_and_does_not_pass(subject, tmp_path, monkeypatch):
    monkeypatch.setattr("machine.evals.process.PATTERN_SECONDS", 0.3)
    slow = Case("slow", (user("Say a."),), Scorer("regex", r"(?=(.|\s)*?)((.|\s)+)+\Z(?<!.)$x"))
    with connect(endpoint()) as here:
        found = evaluate(here, subject, [slow, *cases(1)], Parameters(max_tokens=24), tmp_path)
    assert found.slow == ("slow#0",)
    assert found.record.passed == {"slow": False, "c0": True}
    assert "not through in time" in " ".join(found.notes(cases(2)))


def test_weights_and_tags():
    one, two = cases(2)
    asked = [msgspec.structs.replace(one, weight=3.0, tags=("a", "b")), msgspec.structs.replace(two, tags=("b",))]
    assert rate({"c0": True, "c1": False}, asked) == 0.75
    assert by_tag({"c0": True, "c1": False}, asked) == {"a": (1, 1), "b": (1, 2)}


def test_what_it_may_spend_is_said():
    asked = [*cases(2), *cases(3, Scorer("judge", "Kind?", "big"))]
    words = spend(asked, Parameters(max_tokens=10, samples=4))
    assert "20 answers to 5 cases, at most 200 tokens" in words
    assert f"12 verdicts of big, at most {12 * judge.MAX_TOKENS:,} tokens" in words


def test_identical_answers_are_flagged(subject, tmp_path):
    with connect(endpoint()) as here:
        base = evaluate(here, subject, cases(2), HOW, tmp_path).record
    trained = msgspec.structs.replace(
        base, name="checkpoint-x", proof=msgspec.structs.replace(base.proof, path="tinker://x")
    )
    assert evaluation._identical(trained, base)
    assert not evaluation._identical(base, base)
    assert not evaluation._identical(trained, None)
    assert not evaluation._identical(msgspec.structs.replace(trained, suite="other"), base)
    last = msgspec.structs.replace(trained.samples[-1], ids=(1,))
    assert not evaluation._identical(msgspec.structs.replace(trained, samples=(*trained.samples[:-1], last)), base)
    assert evaluation._stale(trained, base) == ""
    assert evaluation._stale(msgspec.structs.replace(trained, suite="other"), base) == "another suite"
    assert "functions" in evaluation._stale(msgspec.structs.replace(trained, scorers={"style.py": "0"}), base)
    flagged = evaluation.Evaluation(msgspec.structs.replace(trained, identical=True))
    assert flagged.notes(cases(2))[0].startswith("WARNING")
