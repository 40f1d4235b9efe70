"""Moment: what was visible when a turn was decided, and what came after, out of the turn's rows."""

from collections.abc import Iterator, Sequence
from typing import Any

from machine.capture.rows import question_of, text_of
from machine.correction.gates import Moment
from machine.correction.ledger import Opened
from machine.privacy.sources import Sources
from machine.trace import Row

MOST = 4_000_000
"""Characters of context that are looked at, newest first: more than any model sees."""


def moment_of(rows: Sequence[Row], opened: Opened, observed: Sequence[str], sources: Sources | None = None) -> Moment:
    """The moment of the decision that a reasoning comes before, given the rows of the rejected turn in order.

    It is the turn's first decision; where the user said what the answer should have been (`--as`), only that answer is
    learnt, and what the turn did before it was visible. `observed` is the model's hidden reasoning, `sources` what is
    secret in the project.
    """
    alone = opened.answer is not None
    first, *others = rows[-1:] if alone else rows
    at = first.target[-1] if alone else first.target[0]
    later = [*_texts(first.messages[at:])]
    for row in others:
        later += _texts(row.messages)
    return Moment(
        context=_newest([*_tools(first), *_texts(first.messages[:at])]),
        question=question_of(first),
        later=later,
        correction=opened.words,
        answer=opened.answer or "",
        observed=observed,
        sources=sources,
    )


def calls_of(message: dict[str, Any]) -> list[tuple[str, str]]:
    """A message's calls: the name of each, and its arguments as JSON text."""
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]


def _newest(texts: Sequence[str]) -> list[str]:
    kept, left = list[str](), MOST
    for text in reversed(texts):
        kept.append(text[-left:])
        left -= len(text)
        if left <= 0:
            break
    return kept[::-1]


def _texts(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        yield text_of(message)
        yield from (f"{name} {arguments}" for name, arguments in calls_of(message))


def _tools(row: Row) -> Iterator[str]:
    for tool in row.tools:
        yield f"{tool['name']}: {tool.get('description') or ''}"
