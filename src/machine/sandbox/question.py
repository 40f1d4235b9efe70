"""Question: what a box may ask of its model, checked on this side of the wall.

A door that names its model lets through questions to that one alone, for one answer at a time, of bounded length. What
goes out is written anew from what was read here: an entry that is there twice, or spelt in two ways, cannot mean one
thing to this check and another to the service.
"""

import json
from typing import Any

from machine.sandbox.job import Door

_LENGTHS = ("max_tokens", "max_completion_tokens")
_SEVERAL = ("n", "best_of")
_OTHERS = ("models", "fallbacks", "route")
"""Entries by which services let another model answer."""


class Unfit(ValueError):
    """A question that may not go out; the text says why."""


def fit(body: bytes, door: Door) -> bytes:
    """The body to send for a question's body: itself, where the door names no model.

    Raises:
        Unfit: it is no JSON object, asks another model, or asks for more than the door allows.
    """
    if not door.model:
        return body
    asked = _read(body)
    if asked.get("model") != door.model:
        raise Unfit(f"only the model {door.model} is open in this box")
    spelt = {*_LENGTHS, *_SEVERAL, *_OTHERS, "model"}
    if other := next((name for name in asked if name.casefold() in spelt and name not in spelt), None):
        raise Unfit(f"the entry {other!r} is not spelt as it should be")
    if other := next((name for name in _OTHERS if name in asked), None):
        raise Unfit(f"the entry {other!r} would ask other models")
    if any(asked.get(name) not in (None, 1) for name in _SEVERAL):
        raise Unfit("one answer at a time")
    if door.tokens:
        _bound(asked, door.tokens)
    return json.dumps(asked, allow_nan=False).encode()


def _bound(asked: dict[str, Any], most: int) -> None:
    """Refuses more tokens than `most`; says so many where none are given."""
    given = {name: asked[name] for name in _LENGTHS if asked.get(name) is not None}
    if any(type(tokens) is not int or not 0 < tokens <= most for tokens in given.values()):
        raise Unfit(f"an answer has at most {most} tokens")
    if not given:
        asked["max_tokens"] = most


def _read(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body, parse_constant=_constant)
        json.dumps(asked, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise Unfit("the question is no JSON") from error
    if not isinstance(asked, dict):
        raise Unfit("the question is no JSON object")
    return asked


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
