"""The row: one tagged turn as the model saw it, in Tinker's chat format (a line of `traces.jsonl`).

This is a contract: the user's data depends on it. `version` is bumped when a reader of the old form could misread the
new one.
"""

import hashlib
import json
from typing import Any, Literal

import msgspec

ROW_VERSION = 1

Tag = Literal["good", "bad", "observed"]
TAGS: tuple[Tag, ...] = ("good", "bad", "observed")


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that Machine changed, and why.

    `kind` is a fixed word (`answer_replaced`, `result_synthesised`, `thinking_dropped`, `image_replaced`, `redacted`);
    `message` the index into `Row.messages` that it touched (None: the whole row); `detail` never holds what was cut.
    """

    kind: str
    detail: str
    message: int | None = None


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a row comes from: enough to find the turn again and to split rows by conversation."""

    host: str
    host_version: str
    session: str
    leaf: str
    entries: tuple[str, ...]
    cwd: str
    file: str | None = None
    models: tuple[str | None, ...] = ()
    """`provider/model` of each assistant message, aligned with `Row.messages`; None for other roles."""


class Row(msgspec.Struct, frozen=True):
    """A trajectory and what to learn from it.

    `messages` are Tinker chat messages {role, content, tool_calls?, tool_call_id?, name?}; content is text or a list of
    parts; `tool_calls` are {type: "function", id, function: {name, arguments: JSON text}}. The first message is the
    system prompt, where the model had one. `tools` are the schemas that the model was given: {name, description,
    parameters}. `target` indexes the assistant messages to learn from; every other message is context.
    """

    id: str
    tag: Tag
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    target: tuple[int, ...]
    created_at: str
    source: Source
    digest: str
    note: str | None = None
    edits: tuple[Edit, ...] = ()
    correction: str | None = None
    version: int = ROW_VERSION


def canonical(value: object) -> bytes:
    """The one JSON spelling that digests are taken over: sorted keys, no spaces, ASCII-escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def digest(messages: tuple[dict[str, Any], ...], tools: tuple[dict[str, Any], ...], target: tuple[int, ...]) -> str:
    """SHA-256 (hex) over the canonical messages, tools and target: what makes two rows the same row."""
    content = {"messages": list(messages), "tools": list(tools), "target": list(target)}
    return hashlib.sha256(canonical(content)).hexdigest()


def encode(row: Row) -> bytes:
    """One line of the pool, without its LF: UTF-8, ASCII-escaped, so that no separator but LF can split it."""
    return json.dumps(msgspec.to_builtins(row), ensure_ascii=True, separators=(",", ":")).encode("ascii")


def decode(line: bytes) -> Row:
    """Reads one line of the pool.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: the line is not a row; the message names the field.
    """
    return _DECODER.decode(line)


_DECODER = msgspec.json.Decoder(Row)
