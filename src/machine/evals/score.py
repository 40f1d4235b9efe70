"""Score: how well an answer does on its case, from 0 to 1, where that needs neither a model nor the user's own code.

A pattern and a schema can take for ever on what a model wrote: an evaluation runs them in `process`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from machine.evals.case import Call, Case

PASS = 0.5
"""A score from which on an answer, or a case, has passed."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


def passes(case: Case, answer: str, message: Mapping[str, Any] | None = None) -> bool:
    """Whether `answer` (its text) and `message` (with its tool calls) pass; see `score`."""
    return score(case, answer, message or {}) >= PASS


def score(case: Case, answer: str, message: Mapping[str, Any]) -> float:
    """The score of an answer. Space around its text never counts.

    Raises:
        ValueError: the scorer is a python function or a judge.
    """
    answer = answer.strip()
    match case.scorer.kind:
        case "exact":
            return float(answer == case.wanted_text.strip())
        case "contains":
            return float(case.wanted_text in answer)
        case "regex":
            return float(re.search(str(case.scorer.value), answer) is not None)
        case "json_schema":
            return float(_valid(answer, case.scorer.value))
        case "tool_call":
            return float(_called(message, case.wanted_calls))
        case kind:
            raise ValueError(f"{kind} scores elsewhere")


def same_json(one: Any, other: Any) -> bool:
    """Whether two parsed JSON values are the same value: 1 is 1.0, but true is not 1; the order of keys is free."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case dict(), dict():
            return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(same_json, one, other))
        case _:
            return bool(one == other)


def _called(message: Mapping[str, Any], wanted: Sequence[Call]) -> bool:
    """Whether the message calls what is wanted, in that order, and nothing else, malformed calls included."""
    made = message.get("tool_calls") or ()
    if message.get("unparsed_tool_calls") or len(made) != len(wanted):
        return False
    return all(_same_call(call["function"], want) for call, want in zip(made, wanted, strict=True))


def _same_call(made: Mapping[str, Any], want: Call) -> bool:
    try:
        arguments = msgspec.json.decode(made["arguments"])
        return bool(made["name"] == want.name and same_json(arguments, want.arguments))
    except (msgspec.MsgspecError, RecursionError):
        return False


def _valid(answer: str, schema: Any) -> bool:
    """Whether an answer is JSON of a schema. A schema that refers to the network finds nothing there."""
    from jsonschema.validators import validator_for
    from referencing import Registry

    fenced = _FENCE.fullmatch(answer)
    try:
        value = msgspec.json.decode(fenced[1] if fenced else answer)
        return bool(validator_for(schema)(schema, registry=Registry()).is_valid(value))
    except (msgspec.MsgspecError, RecursionError):  # what is nested a thousand deep is no answer
        return False
