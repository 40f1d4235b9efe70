"""The row: one tagged turn as the model saw it, in Tinker's chat format (a line of `traces.jsonl`).

This is a contract: the user's data depends on it. `version` is bumped when a reader of the old form could misread the
new one.
"""

import codecs
import hashlib
import json
import re
from typing import Any, Literal

import msgspec

ROW_VERSION = 1

Tag = Literal["good", "bad", "observed"]
TAGS: tuple[Tag, ...] = ("good", "bad", "observed")


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that Machine changed, and why.

    `kind` is a fixed word (`answer_replaced`, `result_synthesised`, `thinking_dropped`, `image_stored`, `redacted`,
    `orphan_dropped`, `not_a_target`, `prompt_missing`, `models_mixed`); `message` the index into `Row.messages` that it
    touched (None: the whole row); `detail` never holds what was cut.
    """

    kind: str
    detail: str
    message: int | None = None


class _Text(msgspec.Struct, tag="text"):
    text: str


class _Thinking(msgspec.Struct, tag="thinking"):
    thinking: str


class _Image(msgspec.Struct, tag="image"):
    pass


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Text | _Thinking | _Image]
    tool_calls: list[_Call] | None = None


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
    messages: tuple[str | None, ...] = ()
    """The entry that each message comes from, aligned with `Row.messages`; None for what no entry holds as it is."""
    part: int = 0
    """Which row of its turn this is, from 0: a turn that a compaction fell into becomes several."""


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


def check(row: Row) -> None:
    """Looks deeper than `decode`, for readers that show rows: every message and target is of the form above.

    Raises:
        msgspec.ValidationError: one is not; the message names it, never what it holds.
    """
    msgspec.convert(row.messages, tuple[_Message, ...])
    if not row.source.entries:
        raise msgspec.ValidationError("source.entries is empty")
    if any(not 0 <= i < len(row.messages) or row.messages[i]["role"] != "assistant" for i in row.target):
        raise msgspec.ValidationError("a target is not an assistant message")


def canonical(value: object) -> bytes:
    """The one JSON spelling that digests are taken over: sorted keys, no spaces, ASCII-escaped."""
    return _spelt(value, "sorted")


def _spelt(value: object, order: Literal["sorted"] | None = None) -> bytes:
    """JSON with every character beyond ASCII escaped, of what `well_formed` leaves."""
    try:
        spelt = msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:
        spelt = msgspec.json.encode(_well_formed(msgspec.to_builtins(value)), order=order)
    return spelt if spelt.isascii() else spelt.decode().encode("ascii", "json-escape")


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error("json-escape", _escape)


def digest(messages: tuple[dict[str, Any], ...], tools: tuple[dict[str, Any], ...], target: tuple[int, ...]) -> str:
    """SHA-256 (hex) over the canonical messages, tools and target: what makes two rows the same row."""
    content = {"messages": list(messages), "tools": list(tools), "target": list(target)}
    return hashlib.sha256(canonical(content)).hexdigest()


def well_formed(value: Any) -> Any:
    """A JSON value without lone surrogates: itself where it has none, else a copy.

    No UTF-8 can hold one, and Pi drops them too before it sends.
    """
    if isinstance(value, str) and value.isascii():
        return value
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _well_formed(value)
    return value


def _well_formed(value: Any) -> Any:
    match value:
        case str():
            return value if value.isascii() else _LONE.sub("", value)
        case list() | tuple():
            return [_well_formed(item) for item in value]
        case dict():
            return {_well_formed(key): _well_formed(item) for key, item in value.items()}
        case _:
            return value


def encode(row: Row) -> bytes:
    """One line of the pool, without its LF: UTF-8, ASCII-escaped, so that no separator but LF can split it."""
    return _spelt(row)


def decode(line: bytes) -> Row:
    """Reads one line of the pool.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: the line is not a row; the message names the field.
    """
    return _DECODER.decode(line)


_LONE = re.compile("[\ud800-\udfff]")
_DECODER = msgspec.json.Decoder(Row)
