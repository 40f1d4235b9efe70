"""Asking, of the engine: every answer whole, each as soon as it is there."""

import concurrent.futures
import math

import pytest

from machine.evals.case import Case, Scorer
from machine.evals.sample import (
    Asker,
    Parameters,
    Sample,
    _mean,
    as_completed,
    ask,
    plain_message,
    read_answer,
    seed_of,
)
from machine.renderers import to_conversation
from machine.tinker.checkpoints import sampler
from machine.tinker.service import connect, endpoint
from machine.tinker.students import default_model, load_student, models
from students import WEATHER, user


@pytest.fixture
def asker(service):
    with connect(endpoint()) as here:
        model = default_model(models(here))
        yield Asker(here, load_student(model), sampler(here, model, None))


def cases(count):
    return [Case(f"c{i}", (user(f"Say {i}."),), Scorer("contains", "")) for i in range(count)]


def test_an_answer_is_recorded_whole(asker):
    came = []
    found = ask(asker, cases(3), Parameters(max_tokens=4, seed=5), came=came.append)
    assert [(s.case, s.number) for s in found] == [("c0", 0), ("c1", 0), ("c2", 0)]
    assert sorted((one for (one,) in came), key=lambda s: s.case) == found
    for sample, case in zip(found, cases(3), strict=True):
        assert sample.tokens == len(sample.ids) <= 4
        assert sample.message["role"] == "assistant"
        assert sample.prompt_tokens == asker.prompt(case).length
        assert sample.seed == seed_of(5, case.id)
        assert sample.logprob < 0
        assert sample.text.strip() == asker.student.tokenizer.decode(sample.ids, skip_special_tokens=True).strip()


def test_several_samples_of_a_case_are_drawn_apart_and_repeat_with_their_seed(asker):
    how = Parameters(max_tokens=6, temperature=1.5, samples=3, seed=1)
    found = ask(asker, cases(2), how)
    assert [(s.case, s.number) for s in found] == [(f"c{i}", n) for i in range(2) for n in range(3)]
    assert len({s.ids for s in found[:3]}) > 1
    assert [s.ids for s in ask(asker, cases(2), how)] == [s.ids for s in found]
    other = ask(asker, cases(2), Parameters(max_tokens=6, temperature=1.5, samples=3, seed=2))
    assert [s.ids for s in other] != [s.ids for s in found]


def test_each_case_is_drawn_with_a_seed_of_its_own(asker):
    same = [Case(id, (user("Name a colour."),), Scorer("contains", "")) for id in ("a", "b")]
    one, other = ask(asker, same, Parameters(max_tokens=8, temperature=1.5, seed=1))
    assert one.ids != other.ids
    assert len({seed_of(seed, id) for seed in range(50) for id in "abcd"}) == 200
    assert all(0 <= seed_of(seed, "\ud800") < 2**31 for seed in range(50))


def test_a_mean_that_is_no_number_is_not_kept():
    assert _mean([-1.0, -2.0]) == -1.5
    assert [_mean(each) for each in ([], None, [math.nan, -1.0], [-math.inf])] == [None] * 4


def test_an_answer_that_cannot_be_read_is_its_text():
    student = load_student("HuggingFaceTB/SmolLM2-135M-Instruct")
    end = student.renderer.get_stop_sequences()
    ids = [*student.encode("One."), *end, *student.encode("Two."), *end]
    assert read_answer(student, ids) == {"role": "assistant", "content": "One.<|im_end|>Two.<|im_end|>"}
    assert read_answer(student, [*student.encode("One."), *end])["content"] == "One."


def test_top_p_cuts(asker):
    narrow = ask(asker, cases(2), Parameters(max_tokens=6, temperature=1.5, top_p=1e-6))
    assert [s.ids for s in narrow] == [s.ids for s in ask(asker, cases(2), Parameters(max_tokens=6))]


def test_calls_are_kept_as_json(asker):
    renderer = asker.student.renderer
    text = 'Look: <tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
    parsed, _ = renderer.parse_response(asker.student.tokenizer.encode(text, add_special_tokens=False))
    (made,) = plain_message(parsed)["tool_calls"]
    assert made["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert to_conversation(renderer, [user("?"), plain_message(parsed)], [WEATHER])


def test_results_come_as_they_are_done(asker):
    first, second = concurrent.futures.Future(), concurrent.futures.Future()
    second.set_result("b")
    found = as_completed(asker.service, {first: 0, second: 1}, "waiting")
    assert next(found) == (1, "b")
    first.set_result("a")
    assert next(found) == (0, "a")
    assert list(found) == []


def test_what_is_not_waited_for_is_cancelled(asker):
    never, done = concurrent.futures.Future(), concurrent.futures.Future()
    done.set_result("b")
    found = as_completed(asker.service, {never: 0, done: 1}, "waiting")
    next(found)
    found.close()
    assert never.cancelled()


def test_a_sample_of_an_older_machine_is_one():
    assert Sample("a", "b", 1, "stop").score == 0.0
