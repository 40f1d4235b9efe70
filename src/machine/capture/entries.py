"""Entries: what a Pi session records, as far as a model sees it. Session files are untrusted; the rest is let be.

Types and roles that Pi does not send to a model (labels, usage, `custom` ...) have no shape here, and need none: they
are a `Mark`. Nothing here holds `details` or the text of a model's own reasoning, so that neither can reach a row. What
is read of JSON has no cycles, and Python need not look for any (`gc=False`).
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard, get_args

import msgspec

UNSENT = ("error", "aborted")
"""Stop reasons of an assistant message that Pi never sends again, so that its content may be anything."""


class _Shape(msgspec.Struct, rename="camel", tag_field="type", gc=False):
    pass


class Text(_Shape, tag="text"):
    """Text, in any content."""

    text: str


class Image(_Shape, tag="image"):
    """An image: `data` is base64."""

    data: str
    mime_type: str


class Thinking(_Shape, tag="thinking"):
    """Reasoning was here; what it said is not read."""


class Call(_Shape, tag="toolCall"):
    """A tool call. `arguments` is any JSON value, text where it did not parse; `arguments_error` says why."""

    id: str
    name: str
    arguments: Any = None
    arguments_error: Any = None


Part: TypeAlias = Text | Image | Thinking | Call
Heard: TypeAlias = str | list[Text | Image] | None
Said: TypeAlias = str | list[Part] | None


class _Message(msgspec.Struct, rename="camel", tag_field="role", gc=False):
    pass


class Tool(msgspec.Struct, omit_defaults=True):
    """A tool's schema, as the model is given it."""

    name: str
    description: Any = msgspec.UNSET
    parameters: Any = msgspec.UNSET


class _Named(msgspec.Struct):
    name: str


class System(_Message, tag="system"):
    """A patch of the system prompt and the tool loadout: sections by name (None removes one), tools added, removed."""

    content: Heard = None
    sections: dict[str, str | None] | None = None
    tools_added: list[Tool] | None = None
    tools_removed: list[_Named | str] | None = None


class User(_Message, tag="user"):
    """What a user said, or what Pi says in a user's place."""

    content: Heard = None


class Assistant(_Message, tag="assistant"):
    """A model's answer: text, reasoning, calls; `stop_reason` tells how it ended."""

    content: Said = None
    provider: str | None = None
    model: str | None = None
    stop_reason: str | None = None


class ToolResult(_Message, tag="toolResult"):
    """What a call returned."""

    tool_call_id: str
    content: Heard = None
    tool_name: str | None = None
    is_error: bool | None = None


class Ran(_Message, tag="bashExecution"):
    """A `!command` of the user's; `!!command` is excluded from the context."""

    command: str
    output: str | None = None
    exit_code: int | float | None = None
    cancelled: bool | None = None
    truncated: bool | None = None
    full_output_path: str | None = None
    exclude_from_context: bool | None = None


class Custom(_Message, tag="custom"):
    """A message of an extension's."""

    content: Heard = None


class Hook(_Message, tag="hookMessage"):
    """The same before version 3; newer Pis do not send a message of this role."""

    content: Heard = None


class BranchSummary(_Message, tag="branchSummary"):
    """What happened on a branch that was left."""

    summary: str


class CompactionSummary(_Message, tag="compactionSummary"):
    """What was said before a compaction."""

    summary: str


class Unread(_Message, tag=""):
    """A message that Pi never sends (again): of a role that it does not know, or an attempt that failed."""

    failed: str | None = None


AnyMessage: TypeAlias = (
    System | User | Assistant | ToolResult | Ran | Custom | Hook | BranchSummary | CompactionSummary | Unread
)


class _Entry(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    id: str


class Message(_Entry):
    """An entry that is a message."""

    message: AnyMessage


class CustomMessage(_Entry):
    """A message that an extension put into the context."""

    content: Heard = None


class Return(_Entry):
    """The summary of a branch that the user came back from."""

    summary: str | None = None


class Compaction(_Entry):
    """A summary in place of what came before the first kept entry, or before an embedded `retained_tail`."""

    summary: str
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | None = None
    """Version 1 named the entry by its place in the file; the header is 0."""
    system_message: System | None = None
    retained_tail: list[AnyMessage] | None = None


class _Replacement(msgspec.Struct):
    content: Said = None


class Edit(_Entry):
    """Replaces what an earlier entry says to the model; None omits it."""

    target_id: str
    replacement: _Replacement | None = None


class Mark(_Entry):
    """An entry that says nothing to a model."""


Entry: TypeAlias = Message | CustomMessage | Return | Compaction | Edit | Mark


class _Loose(_Entry):
    message: dict[str, Any]


class _Spoken(msgspec.Struct, rename="camel"):
    role: str
    stop_reason: str | None = None


_SHAPES: dict[str, Any] = {
    "message": Message,
    "custom_message": CustomMessage,
    "branch_summary": Return,
    "compaction": Compaction,
    "context_edit": Edit,
}
_DECODERS = {name: msgspec.json.Decoder(shape) for name, shape in _SHAPES.items()}
_ROLES = {shape.__struct_config__.tag: shape for shape in get_args(AnyMessage)}


def read_entry(kind: str, record: bytes | dict[str, Any]) -> Entry:
    """One entry of the type `kind`, from its line or from its value.

    Raises:
        msgspec.ValidationError: a part that a model would see is missing or of another type; names the field, never its
            value.
        ValueError: a type or a key is not text.
    """
    if kind not in _SHAPES:
        return Mark(id=value_of(record)["id"])
    try:
        if isinstance(record, bytes):
            entry: Entry = _DECODERS[kind].decode(record)
        else:
            entry = msgspec.convert(record, _SHAPES[kind])
    except (msgspec.MsgspecError, RecursionError):
        entry = _second_look(kind, value_of(record))
    if isinstance(entry, Message) and _is_unsent(entry.message):
        return Message(id=entry.id, message=Unread(entry.message.stop_reason))
    return entry


def parse(line: bytes) -> Any:
    """A line's JSON value, as JavaScript would read it: lone surrogates may be in its text.

    Raises:
        ValueError, RecursionError: it is not JSON.
    """
    return json.loads(line, parse_constant=_not_json)


def _second_look(kind: str, value: dict[str, Any]) -> Entry:
    """Reads what the fast reader refuses: lone surrogates, numbers out of range, messages that are never sent."""
    if kind == "message":
        loose = msgspec.convert(value, _Loose)
        return Message(id=loose.id, message=_message(loose.message))
    tail = value.get("retainedTail")
    if kind != "compaction" or not isinstance(tail, list) or not all(isinstance(message, dict) for message in tail):
        entry: Entry = msgspec.convert(value, _SHAPES[kind])
        return entry
    compaction = msgspec.convert({**value, "retainedTail": None}, Compaction)
    return msgspec.structs.replace(compaction, retained_tail=[_message(message) for message in tail])


def _message(value: dict[str, Any]) -> AnyMessage:
    spoken = msgspec.convert(value, _Spoken)
    if spoken.role not in _ROLES:
        return Unread()
    if spoken.role == "assistant" and spoken.stop_reason in UNSENT:
        return Unread(spoken.stop_reason)
    found: AnyMessage = msgspec.convert(value, _ROLES[spoken.role])
    return found


def _is_unsent(message: AnyMessage) -> TypeGuard[Assistant]:
    return isinstance(message, Assistant) and message.stop_reason in UNSENT


def value_of(record: bytes | dict[str, Any]) -> dict[str, Any]:
    """An entry as a JSON object, from its line or from its value."""
    value: dict[str, Any] = parse(record) if isinstance(record, bytes) else record
    return value


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def parts_of(content: str | Sequence[Part] | None) -> Sequence[Part]:
    """A content as parts: text is one part, and nothing (old session files) is none."""
    return [Text(content)] if isinstance(content, str) else content or []


def text_of(content: str | Sequence[Part] | None) -> str:
    """The text of a content, its text parts joined by line feeds."""
    return "\n".join(part.text for part in parts_of(content) if isinstance(part, Text))
