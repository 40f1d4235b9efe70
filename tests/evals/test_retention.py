"""What a checkpoint keeps of everything else: the suite that ships, measured on the engine, and judged on made-up numbers."""

import json
import math

import msgspec
import pytest

from machine.errors import Refused, TrainingError
from machine.evals.case import Call, Case, Scorer, scorer_fault
from machine.evals.record import Retention
from machine.evals.retention import (
    RISE,
    TOKENS,
    _nll,
    built_in_cases,
    built_in_passages,
    judge,
    measure,
    retention_hash,
    well_called,
)
from machine.evals.sample import Asker, Sample
from students import WEATHER, call, user

CASES = built_in_cases()
PASSAGES = built_in_passages()


def retention(passed=lambda case: True, says=lambda case: "Well, " + case.id, nll=2.0, **rises: float) -> Retention:
    """A measure of the whole built-in suite: which cases pass, what is said, and each passage's NLL plus its rise."""
    samples = tuple(
        Sample(c.id, says(c), 4, "stop", score=float(passed(c)), passed=passed(c), ids=tuple(says(c).encode()))
        for c in CASES
    )
    measured = {name: nll + rises.get(name, rises.get("each", 0.0)) for name in PASSAGES}
    return Retention(retention_hash(CASES, PASSAGES), samples, measured)


def test_the_suite_that_ships_is_whole(tmp_path):
    assert [sum(tag in case.tags for case in CASES) for tag in ("chat", "tool", "question")] == [12, 8, 12]
    assert len({case.id for case in CASES}) == len(CASES)
    assert [scorer_fault(case, tmp_path) for case in CASES] == [""] * len(CASES)
    assert all(case.expected_calls[0].name in {t["name"] for t in case.tools} for case in CASES if case.tools)
    assert {"english", "german", "french", "python", "typescript", "shell", "diff", "json"} == PASSAGES.keys()
    json.loads(PASSAGES["json"])
    compile(PASSAGES["python"], "python", "exec")


def test_the_hash_is_of_cases_and_passages():
    whole = retention_hash(CASES, PASSAGES)
    assert whole == retention_hash(built_in_cases(), dict(reversed(PASSAGES.items())))
    assert whole != retention_hash(CASES[1:], PASSAGES)
    assert whole != retention_hash(CASES, PASSAGES | {"english": "Another text."})


def test_the_engine_answers_and_scores(service):
    from machine.tinker.checkpoints import sampler
    from machine.tinker.service import connect, endpoint
    from machine.tinker.students import default_model, load_student, models
    from tinker import ModelInput

    some = [case for case in CASES if case.id in ("question-france", "tool-timer-ten")]
    texts = {"english": PASSAGES["english"], "noise": "zq vx jk qq wv zx kj vq xz"}
    lines: list[str] = []
    with connect(endpoint()) as here:
        model = default_model(models(here))
        asker = Asker(here, load_student(model), sampler(here, model, None))
        found = measure(asker, lines.append, some, texts)
        tokens = ModelInput.from_ints(asker.student.encode(texts["noise"]))
        first, *logprobs = here.wait(asker.client.compute_logprobs(tokens), "scoring")
    assert {sample.case for sample in found.samples} == {case.id for case in some}
    paris = next(sample for sample in found.samples if sample.case == "question-france")
    assert (paris.passed, paris.score) == (True, 1.0)
    assert "Paris" in paris.text
    assert paris.tokens <= TOKENS
    assert first is None
    assert found.nll["noise"] == pytest.approx(-sum(logprobs) / len(logprobs), abs=1e-4)
    assert 3 < found.nll["english"] < 4 < found.nll["noise"]
    assert found.suite == retention_hash(some, texts)
    assert any("retention" in line for line in lines)
    assert judge(found, found).verdict == "too little to say"


def called(*calls: dict, **more: object) -> dict:
    return {"role": "assistant", "content": "", "tool_calls": list(calls), **more}


@pytest.mark.parametrize(
    ("message", "right"),
    [
        (called(call("weather", '{"city": "Oslo"}')), True),
        (called(call("weather", '{"city": "elsewhere"}')), True),
        (called(call("weather", "{}")), False),
        (called(call("weather", '{"city": 3}')), False),
        (called(call("weather", '{"city": ')), False),
        (called(call("weather", "[" * 5000)), False),
        (called(call("forecast", '{"city": "Oslo"}')), False),
        (called(call("other", '{"city": "Oslo"}')), False),
        (called(call("weather", '{"city": "Oslo"}'), call("weather", '{"city": "Oslo"}')), False),
        (called(call("weather", '{"city": "Oslo"}'), unparsed_tool_calls=["{"]), False),
        ({"role": "assistant", "content": "Oslo"}, False),
    ],
)
def test_a_tool_call_is_well_formed_or_not(message, right):
    tools = (WEATHER, WEATHER | {"name": "forecast"})
    case = Case("c", (user("Oslo?"),), Scorer("tool_call"), tools=tools, expected_calls=(Call("weather"),))
    assert well_called(case, message) is right


def test_the_same_answers_are_kept():
    found = judge(retention(), retention())
    assert (found.verdict, found.changed, found.language.rise) == ("kept", 0, 0.0)
    assert found.answers.identical


def test_forgotten_language_is_lost():
    found = judge(retention(), retention(each=2 * RISE))
    assert (found.verdict, found.language.rise) == ("lost", pytest.approx(2 * RISE))


def test_a_small_rise_is_kept():
    """Rises as a short training of a small model leaves them: the interval is Student's t with 7 degrees of freedom."""
    rises = dict(zip(PASSAGES, (0.073, 0.043, 0.084, 0.075, 0.024, 0.037, 0.102, 0.025), strict=True))
    found = judge(retention(), retention(**rises))
    assert found.verdict == "kept"
    assert found.language.interval == (pytest.approx(0.0332, abs=2e-4), pytest.approx(0.0825, abs=2e-4))


@pytest.mark.parametrize(("rise", "above"), [(1.5, True), (0.5, False)])
def test_one_passage_alone_is_too_little_to_say(rise, above):
    found = judge(retention(), retention(german=rise))
    assert (found.language.rise > RISE) is above
    assert found.verdict == "too little to say"


def test_lost_tool_calls_are_lost():
    found = judge(retention(), retention(lambda case: not case.tools))
    assert (found.verdict, len(found.answers.losses)) == ("lost", 8)
    assert next(t for t in found.answers.tags if t.tag == "tool").candidate == 0


def test_a_model_that_passes_nothing_says_little():
    nothing = retention(lambda case: False)
    assert judge(nothing, nothing).answers.could_lose == 0
    assert judge(nothing, retention(lambda case: False, each=2 * RISE)).verdict == "lost"


def test_a_style_that_is_everywhere_is_said():
    found = judge(retention(), retention(says=lambda case: "ANSWER: " + case.id))
    assert (found.opening.word, found.opening.before, found.opening.after) == ("ANSWER:", 0, 24)
    assert found.opening.spread
    assert found.changed == 32
    assert "24 of 24" in found.notes[0]
    assert found.verdict == "kept"


def test_a_style_that_the_base_had_is_not():
    found = judge(retention(), retention(says=lambda case: "Well, yes: " + case.id))
    assert (found.opening.word, found.opening.before, found.opening.spread) == ("Well,", 24, False)


def test_a_style_of_a_few_is_not_everywhere():
    def says(case):
        return ("ANSWER: " if case.id.startswith("chat") else case.id) + case.id

    opening = judge(retention(says=lambda case: case.id), retention(says=says)).opening
    assert (opening.word, opening.after, opening.spread) == ("ANSWER:", 12, False)


def test_other_suites_are_not_paired():
    other = msgspec.structs.replace(retention(), suite="0" * 64)
    with pytest.raises(Refused, match="different retention suites") as refused:
        judge(retention(), other)
    assert "eval baseline" in refused.value.next_step


def test_what_was_not_asked_is_named():
    whole = retention()
    plain = msgspec.structs.replace(whole, samples=tuple(s for s in whole.samples if not s.case.startswith("tool")))
    found = judge(plain, plain)
    assert len(found.unasked) == 8
    assert "8 retention cases were not asked" in found.notes[0]


def test_one_text_has_no_interval_and_no_number_of_it_is_infinite():
    one = msgspec.structs.replace(retention(), nll={"prose": 2.0})
    found = judge(one, msgspec.structs.replace(one, nll={"prose": 3.0}))
    assert (found.language.interval, found.verdict) == (None, "too little to say")
    assert (
        "NLL +1.000 nats a token (too few texts for an interval; lost above +0.1)"
        in dict(found.rows).values().__repr__()
    )
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_passage_without_a_finite_loss_is_an_error(value):
    with pytest.raises(TrainingError, match="the passage code") as told:
        _nll([None, -1.0, value], "code")
    assert "--learning-rate" in told.value.next_step
    assert _nll([None, -1.0, -2.0], "code") == 1.5
