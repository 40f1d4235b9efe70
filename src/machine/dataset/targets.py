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
        Target(f"{row.id}#{i}", row.id, row.source.session, messages[: i + 1], row.tools)
        for row in rows
        for messages in [tuple(map(without_images, row.messages))]
        for i in row.target
    ]


def text_of(message: dict[str, Any]) -> str:
    """The visible text of a message: its text parts joined, without thinking."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if part.get("type") == "text")


def thinking_of(message: dict[str, Any]) -> str:
    """The reasoning of a message: its thinking parts joined."""
    return "".join(part.get("thinking", "") for part in _parts(message) if _kind(part) == "thinking")


def has_images(messages: Iterable[dict[str, Any]]) -> bool:
    """Whether a message holds an image."""
    return any(_kind(part) == "image" for m in messages for part in _parts(m))


def without_images(message: dict[str, Any]) -> dict[str, Any]:
    """The message as Pi sends it to a model that takes text alone: words stand for images, one for several in a row."""
    content = message.get("content")
    if not isinstance(content, list | tuple) or {_kind(part) for part in content} not in ({"image"}, {"image", "text"}):
        return message
    stands = _TOOL_IMAGE if message["role"] == "tool" else _USER_IMAGE
    texts: list[str] = []
    for part in content:
        if part["type"] == "text":
            texts.append(part["text"])
        elif texts[-1:] != [stands]:
            texts.append(stands)
    return {**message, "content": "\n".join(texts)}


def _parts(message: dict[str, Any]) -> Iterable[Any]:
    content = message.get("content")
    return content if isinstance(content, list | tuple) else ()


def _kind(part: Any) -> str | None:
    return part.get("type") if isinstance(part, dict) else None


_USER_IMAGE = "(image omitted: model does not support images)"
_TOOL_IMAGE = "(tool image omitted: model does not support images)"
