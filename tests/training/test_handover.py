"""What is rendered once and given to the page: the same examples, and never those of another text, model or renderer."""

import dataclasses

import msgspec
import pytest

from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.tinker.students import load_student
from machine.training import handover
from machine.training.handover import packed, receive, rendered
from students import assistant, questions, row, system, user, weather_row


@pytest.fixture
def student():
    return load_student("HuggingFaceTB/SmolLM2-135M-Instruct")


@pytest.fixture
def given(monkeypatch):
    """Nothing was received yet; what is rendered anew is counted."""
    monkeypatch.setattr(handover, "_given", {})
    anew = []
    monkeypatch.setattr(
        handover, "render", lambda student, target: (anew.append(target.id), render(student, target))[1]
    )
    return anew


def long_row(turns=6):
    said = [message for i in range(turns) for message in (user(f"And {i}?"), assistant(f"{i}, of course."))]
    return row(system("You are brief."), *said, number=200)


def test_what_was_rendered_is_not_rendered_again(student, given):
    targets = expand([*questions(3), weather_row(), long_row()])
    examples = [render(student, target) for target in targets]
    data = packed(student, targets, examples)
    receive(data)
    assert rendered(student, targets) == examples
    assert given == []
    apart = msgspec.msgpack.encode([[e.id, e.session, e.tokens, e.weights, e.prompt] for e in examples])
    assert len(data) < len(apart) / 2


def test_nothing_received_is_rendered(student, given):
    targets = expand(questions(2))
    assert rendered(student, targets) == [render(student, target) for target in targets]
    assert given == [target.id for target in targets]


def test_another_text_model_or_renderer_is_rendered_anew(student, given):
    [target] = expand(questions(1))
    receive(packed(student, [target], [render(student, target)]))
    changed = dataclasses.replace(target, messages=(*target.messages[:-1], assistant("ANSWER: one.")))
    assert rendered(student, [changed]) == [render(student, changed)]
    for other in (
        dataclasses.replace(student, model="other"),
        dataclasses.replace(student, renderer_name="other"),
    ):
        rendered(other, [target])
    assert given == [target.id] * 3


def test_half_of_it_is_not_taken(student, given):
    targets = expand(questions(2))
    data = packed(student, targets, [render(student, target) for target in targets])
    with pytest.raises(msgspec.DecodeError):
        receive(data[:-1])
    assert handover._given == {}
