"""Shapes: what an entry must hold for the projection to read it. Session files are untrusted; the rest is let be.

Types and roles that Pi does not send to a model have no shape here, and need none.
"""

from typing import Any, Literal

import msgspec

UNSENT = ("error", "aborted")
"""Stop reasons of an assistant message that Pi never sends again, so that its content may be anything."""


class _Shape(msgspec.Struct, rename="camel"):
    pass


class _Text(_Shape, tag="text"):
    text: str


class _Image(_Shape, tag="image"):
    data: str
    mime_type: str


class _Thinking(_Shape, tag="thinking"):
    pass


class _Call(_Shape, tag="toolCall"):
    id: str
    name: str


class _Named(_Shape):
    name: str


class _Heard(_Shape):
    content: str | list[_Text | _Image] | None = None


class _Said(_Shape):
    content: str | list[_Text | _Image | _Thinking | _Call] | None = None


class _System(_Heard):
    sections: dict[str, str | None] | None = None
    tools_added: list[_Named] | None = None
    tools_removed: list[_Named | str] | None = None


class _Result(_Heard, kw_only=True):
    tool_call_id: str


class _Ran(_Shape):
    command: str
    output: str | None = None


class _Summary(_Shape):
    summary: str


class _Message(_Shape):
    message: dict[str, Any]


class _Instructions(_System, kw_only=True):
    role: Literal["system"]


class _Compaction(_Summary):
    first_kept_entry_id: str | None = None
    system_message: _Instructions | None = None


class _Branch(_Shape):
    summary: str | None = None


class _Edit(_Shape):
    target_id: str
    replacement: _Said | None = None


class _Spoken(_Shape):
    role: str
    stop_reason: str | None = None


_ENTRIES = {
    "message": _Message,
    "custom_message": _Heard,
    "branch_summary": _Branch,
    "compaction": _Compaction,
    "context_edit": _Edit,
}
_MESSAGES = {
    "system": _System,
    "user": _Heard,
    "assistant": _Said,
    "toolResult": _Result,
    "custom": _Heard,
    "bashExecution": _Ran,
    "branchSummary": _Summary,
    "compactionSummary": _Summary,
}


def check(entry: dict[str, Any]) -> None:
    """Checks one entry.

    Raises:
        msgspec.ValidationError: a part that the projection needs is missing or of another type; names the field, never
            its value.
        UnicodeEncodeError: a type or a key is not text.
    """
    msgspec.convert(entry, _ENTRIES.get(entry["type"], _Shape))
    if entry["type"] == "message":
        message = entry["message"]
        spoken = msgspec.convert(message, _Spoken)
        unsent = spoken.role == "assistant" and spoken.stop_reason in UNSENT
        msgspec.convert(message, _Shape if unsent else _MESSAGES.get(spoken.role, _Shape))
