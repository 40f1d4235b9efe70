"""Targets: a row expanded to what is learnt from it, one example for each assistant message of the tagged turn.

An example is the whole conversation up to and including its target, with only the target trained. This is the
definition of the loss; whatever trains fewer tokens must give the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from machine.trace import Row


@dataclass(frozen=True)
class Target:
    """One message to learn. `messages` end with it; `session` is the conversation that it comes from."""

    id: str
    row: str
    session: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]

    @property
    def context(self) -> tuple[dict[str, Any], ...]:
        """What the model sees when it is to write the target."""
        return self.messages[:-1]

    @property
    def answer(self) -> dict[str, Any]:
        """The message to learn."""
        return self.messages[-1]


def expand(rows: Iterable[Row]) -> list[Target]:
    """Every target of every row, in order; ids are `row#message`."""
    return [
        Target(f"{row.id}#{i}", row.id, row.source.session, row.messages[: i + 1], row.tools)
        for row in rows
        for i in row.target
    ]


def text_of(message: dict[str, Any]) -> str:
    """The visible text of a message: its text parts joined, without thinking."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if part.get("type") == "text")
