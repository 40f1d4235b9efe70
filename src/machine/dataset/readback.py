"""Read back: what the student's own parser makes of the tokens that a target trains.

A target is right when an answer of exactly its tokens would come back as the message that was tagged: its reasoning as
reasoning, its calls as calls, ended by a token that ends an answer. What a renderer says of itself is not asked; only
its tokens are.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from machine.dataset.render import Example, render
from machine.dataset.targets import Target, text_of, thinking_of
from machine.errors import MachineError
from machine.renderers import get_renderer, renderers_of
from machine.tinker.students import Student

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, NotImplementedError, AssertionError, IndexError)
"""What renderers raise at tokens that they cannot parse."""


_TRIES = 64
"""Renderers that are tried out on targets in search of a better one, in all."""


class Answer(NamedTuple):
    """An answer as a parser reads it. `calls` are (name, arguments) pairs, arguments decoded where they are JSON."""

    thinking: str
    text: str
    calls: list[tuple[str, Any]]
    ended: bool


def faults(student: Student, target: Target, example: Example, read: Answer) -> Iterator[str]:
    """What is wrong with the target's tokens, which are read back as `read`."""
    wanted, name = _wanted(target.answer), student.renderer_name
    if not read.ended:
        yield f"the answer that {name} trains is not ended by a token that ends an answer"
    if wanted.thinking and read.thinking.split() != wanted.thinking.split():
        if _empty_block(student, example):
            yield f"{name} trains an empty think block in place of its reasoning"
        elif " ".join(wanted.thinking.split()) in " ".join(read.text.split()):
            yield f"{name} puts its reasoning into the text that the user sees"
        else:
            yield f"{name} drops its reasoning"
    if [call[0] for call in read.calls] != [call[0] for call in wanted.calls]:
        yield f"{name} reads {_named(read.calls)} in its tokens, where there is {_named(wanted.calls)}"


def notes(student: Student, target: Target, example: Example, read: Answer) -> Iterator[str]:
    """What is worth knowing of the target's tokens, to be counted over all rows."""
    if not thinking_of(target.answer) and _empty_block(student, example):
        yield "no_thinking"
    if not _same_arguments(_wanted(target.answer).calls, read.calls):
        yield "arguments"


def fitting(student: Student, targets: Sequence[Target]) -> Student:
    """The student with the renderer of its model that writes `targets` best: the first one of the fewest wrong."""

    def wrong(other: Student) -> int:
        return sum(not _written_well(other, target) for target in targets)

    return min([student, *(_with(student, name) for name in _others(student))], key=wrong)


def read_back(student: Student, example: Example) -> Answer:
    """The example's trained tokens, as the student's renderer parses an answer of them."""
    try:
        message, termination = student.renderer.parse_response(example.tokens[example.prompt :])
    except UNREADABLE:
        return Answer("", "", [], False)
    ended = termination.is_clean if hasattr(termination, "is_clean") else bool(termination)
    calls = [_call(call.function.name, call.function.arguments) for call in message.get("tool_calls") or ()]
    return Answer(thinking_of(dict(message)), text_of(dict(message)), calls, ended)


class Advice:
    """Which other renderer of a student's model writes a target as it should be written."""

    def __init__(self, student: Student) -> None:
        self._student = student
        self._others = _others(student)
        self._left = _TRIES

    def instead(self, target: Target, besides: Sequence[Target] = ()) -> str | None:
        """The renderer to use for a target that the student's own does not write well; None where there is none.

        It writes the targets `besides` well too, which the student's own does.
        """
        for name in self._others[: self._left]:
            self._left -= 1
            other = _with(self._student, name)
            if all(_written_well(other, each) for each in (target, *besides)):
                self._others.sort(key=lambda other: other != name)  # what one target needs, the next one may need too
                return name
        return None


def _others(student: Student) -> list[str]:
    return [name for name in renderers_of(student.model) if name != student.renderer_name]


def _with(student: Student, renderer: str) -> Student:
    return replace(student, renderer_name=renderer, renderer=get_renderer(renderer, student.tokenizer))


def _written_well(student: Student, target: Target) -> bool:
    """Whether the student's renderer writes the target with no fault, and trains no empty think block."""
    try:
        example = render(student, target)
    except MachineError:
        return False
    read = read_back(student, example)
    return not [*faults(student, target, example, read)] and "no_thinking" not in notes(student, target, example, read)


def _wanted(answer: dict[str, Any]) -> Answer:
    functions = [call["function"] for call in answer.get("tool_calls") or ()]
    calls = [_call(function.get("name"), function.get("arguments")) for function in functions]
    return Answer(thinking_of(answer), text_of(answer), calls, True)


def _call(name: Any, arguments: Any) -> tuple[str, Any]:
    try:
        return str(name), json.loads(arguments)
    except (TypeError, ValueError):
        return str(name), arguments


def _same_arguments(one: list[tuple[str, Any]], other: list[tuple[str, Any]]) -> bool:
    return len(one) != len(other) or all(a[1] == b[1] for a, b in zip(one, other, strict=True))


def _named(calls: list[tuple[str, Any]]) -> str:
    return f"calls to {', '.join(name for name, _ in calls)}" if calls else "no call"


def _empty_block(student: Student, example: Example) -> bool:
    """Whether the answer opens and closes a think block with nothing in it, or closes one that its prompt opened."""
    head = str(student.tokenizer.decode(example.tokens[example.prompt : example.prompt + 16]))
    return "".join(head.split()).startswith(("<think></think>", "</think>"))
