"""Moment: what was visible when a turn was decided, and what came after, out of the turn's rows."""

from collections.abc import Iterator, Sequence
from typing import Any

from machine.correction.gates import Moment
from machine.correction.ledger import Opened
from machine.trace import Row


def moment_of(rows: Sequence[Row], opened: Opened, observed: Sequence[str]) -> Moment:
    """The moment of the decision that a reasoning comes before, given the rows of the rejected turn in order.

    It is the turn's first decision; where the user said what the answer should have been (`--as`), only that answer is
    learnt, and what the turn did before it was visible. `observed` is the model's hidden reasoning.
    """
    alone = opened.answer is not None
    first, last = rows[-1 if alone else 0], rows[-1]
    at = last.target[-1] if alone else first.target[0]
    later = [*_texts(first.messages[at:])]
    if last is not first:
        later += _texts(last.messages)
    return Moment(
        context=[*_texts(first.messages[:at]), *_tools(first)],
        question=question_of(first),
        later=later,
        correction=opened.words,
        answer=opened.answer or "",
        observed=observed,
    )


def question_of(row: Row) -> str:
    """The user's message that began the turn; where it is gone, the last that was read before the first target."""
    first = row.target[0]
    began = next((i for i, entry in enumerate(row.source.messages[:first]) if entry == row.source.entries[0]), None)
    if began is None:
        began = next((i for i in reversed(range(first)) if row.messages[i]["role"] == "user"), None)
    return "" if began is None else text_of(row.messages[began])


def text_of(message: dict[str, Any]) -> str:
    """What a message says, without its calls: text as it is, images by their place alone."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", f"[{part['type']}]") for part in content)


def calls_of(message: dict[str, Any]) -> list[tuple[str, str]]:
    """A message's calls: the name of each, and its arguments as JSON text."""
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]


def _texts(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        yield text_of(message)
        yield from (f"{name} {arguments}" for name, arguments in calls_of(message))


def _tools(row: Row) -> Iterator[str]:
    for tool in row.tools:
        yield f"{tool['name']}: {tool.get('description') or ''}"
