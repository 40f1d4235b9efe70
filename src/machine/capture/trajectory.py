"""A context becomes chat messages: what the model saw, in Tinker's chat form, with what each message comes from.

Observed reasoning is never taken over. A tool result follows its call, in call order, whatever order results came in.
"""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from machine.capture.entries import Assistant, Call, Image, Text, Thinking, ToolResult, User, parts_of
from machine.capture.javascript import SPACE, stringify
from machine.capture.projection import Seen
from machine.errors import Refused
from machine.trace import Edit, well_formed

NO_RESULT = "No result provided"
"""What Pi sends for a call that never got a result."""
NO_OUTPUT = "(no tool output)"
"""What Pi sends for a result without text."""


@dataclass
class Trajectory:
    """The messages of a context as they grow, each with the entry, model and edits that belong to it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    entries: list[str | None] = field(default_factory=list)
    models: list[str | None] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)
    """Images by the SHA-256 (hex) of their bytes; messages name them so."""
    unfit: dict[int, str] = field(default_factory=dict)
    """Assistant messages that may be context but never a target, and why."""

    def add(self, message: dict[str, Any], entry: str | None, model: str | None = None) -> int:
        """Appends a message and returns its index."""
        self.messages.append(message)
        self.entries.append(entry)
        self.models.append(model)
        return len(self.messages) - 1

    def edit(self, kind: str, detail: str, message: int | None = None) -> None:
        """Notes what was changed, and why."""
        self.edits.append(Edit(kind, detail, message))


def build(prompt: str, seen: Sequence[Seen], inside: set[str]) -> Trajectory:
    """The messages of the context `seen` up to its last answer; `inside` are the entries of the turn to learn from.

    Raises:
        Refused: a result of the turn has no call in the context; the message names the entry.
    """
    built = Trajectory()
    if prompt:
        built.add({"role": "system", "content": prompt}, None)
    used: set[int] = set()
    for at, item in enumerate(seen):
        match item.message:
            case User() as user:
                _add_user(built, item, user)
            case Assistant() as said:
                calls = _add_assistant(built, item, said, inside)
                for call in calls if at < len(seen) - 1 else ():  # what the last answer calls for is yet to come
                    _add_result(built, _result(seen, at, call.id, used), call)
            case ToolResult() as orphan if at not in used:
                _drop_orphan(built, item, orphan, inside)
            case _:
                pass
    return built


def _result(seen: Sequence[Seen], caller: int, call: str, used: set[int]) -> Seen | None:
    """The first unused result of a call before anybody says anything else: from there on Pi takes it for lost."""
    for at in range(caller + 1, len(seen)):
        message = seen[at].message
        if isinstance(message, ToolResult) and message.tool_call_id == call and at not in used:
            used.add(at)
            return seen[at]
        if isinstance(message, User | Assistant):
            break
    return None


def calls_of(message: Assistant) -> list[Call]:
    """The calls that an answer makes, in order."""
    return [part for part in parts_of(message.content) if isinstance(part, Call)]


def _add_user(built: Trajectory, item: Seen, user: User) -> None:
    parts = [part for part in parts_of(user.content) if not (isinstance(part, Text) and not part.text)]
    if parts or isinstance(user.content, str):
        built.add({"role": "user", "content": _content(built, parts)}, item.entry)


def _add_assistant(built: Trajectory, item: Seen, said: Assistant, inside: set[str]) -> list[Call]:
    """Adds an assistant message and returns its calls, in order."""
    parts = parts_of(said.content)
    text = well_formed("".join([part.text for part in parts if isinstance(part, Text) and part.text.strip(SPACE)]))
    calls = [part for part in parts if isinstance(part, Call)]
    if not text and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": _arguments(call)}}
            for call in calls
        ]
    index = built.add(message, item.entry, f"{said.provider}/{said.model}")
    if any([isinstance(part, Thinking) for part in parts]):
        built.edit("thinking_dropped", "observed reasoning is never saved", index)
    if why := _why_unfit(said, calls):
        built.unfit[index] = why
        if item.entry in inside:
            built.edit("not_a_target", why, index)
    return calls


def _add_result(built: Trajectory, result: Seen | None, call: Call) -> None:
    frame = {"role": "tool", "tool_call_id": call.id, "name": call.name}
    if result is None:
        index = built.add({**frame, "content": NO_RESULT}, None)
        built.edit("result_synthesised", f"call {call.id} never got a result; Pi sends this text", index)
        return
    assert isinstance(result.message, ToolResult)
    content = _content(built, parts_of(result.message.content))
    nothing = isinstance(content, str) and not content.strip(SPACE)
    built.add({**frame, "content": NO_OUTPUT if nothing else content}, result.entry)


def _drop_orphan(built: Trajectory, item: Seen, orphan: ToolResult, inside: set[str]) -> None:
    what = f"tool result {item.entry} answers call {orphan.tool_call_id}, which is not in the context or has its answer"
    if item.entry in inside:
        raise Refused(f"the turn cannot be rebuilt: {what}", next_step="tag another turn")
    built.edit("orphan_dropped", what)


def _content(built: Trajectory, parts: Sequence[Any]) -> str | list[dict[str, Any]]:
    """The content of the message that comes next: text, or parts where there is an image among them."""
    if not any(isinstance(part, Image) for part in parts):
        return "\n".join(part.text for part in parts)
    return [_image(built, part) if isinstance(part, Image) else {"type": "text", "text": part.text} for part in parts]


def _image(built: Trajectory, image: Image) -> dict[str, Any]:
    try:
        data = base64.b64decode(image.data)
    except (binascii.Error, ValueError):  # not base64: no image, but what the session holds
        data = image.data.encode("utf-8", "replace")
    digest = hashlib.sha256(data).hexdigest()
    built.pictures[digest] = data
    built.edit("image_stored", f"{image.mime_type}, {len(data)} bytes, kept once by its hash", len(built.messages))
    return {"type": "image", "image": f"sha256:{digest}", "mime_type": image.mime_type}


def _arguments(call: Call) -> str:
    """A call's arguments as Pi sends them; text that did not parse stays as it is."""
    return call.arguments if isinstance(call.arguments, str) else stringify(call.arguments)


def _why_unfit(message: Assistant, calls: Sequence[Call]) -> str:
    """Why an assistant message may not be learnt from; empty if it may."""
    if message.stop_reason == "length":
        return "cut off by the length limit"
    if message.stop_reason not in ("stop", "toolUse"):
        return f"stopped with {message.stop_reason!r}"
    return "a call's arguments did not parse" if any(call.arguments_error for call in calls) else ""
