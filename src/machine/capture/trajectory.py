"""A tagged turn becomes a row: the messages that the model saw, in Tinker's chat form, and which of them to learn from.

Observed reasoning is never taken over. A tool result follows its call, in call order, whatever order results came in.
"""

import datetime
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from machine.capture.projection import Seen, project, system_state, text_of
from machine.capture.session import Session
from machine.capture.turn import last_turn
from machine.errors import Refused
from machine.privacy.redact import redacted
from machine.trace import Edit, Row, Source, Tag, digest

NO_RESULT = "No result provided"
"""What Pi sends for a call that never got a result."""


@dataclass(frozen=True)
class Recorder:
    """Who recorded the session, and what it knows that the session does not record (hosts older than Pi 1.6)."""

    host: str = "pi"
    version: str = ""
    system_prompt: str | None = None
    tools: Sequence[dict[str, Any]] = ()


@dataclass
class _Trajectory:
    """The row's messages as they grow, each with the entry, model and edits that belong to it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    entries: list[str | None] = field(default_factory=list)
    models: list[str | None] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    unfit: set[int] = field(default_factory=set)
    """Assistant messages that may be context but never a target."""

    def add(self, message: dict[str, Any], entry: str | None, model: str | None = None) -> int:
        self.messages.append(message)
        self.entries.append(entry)
        self.models.append(model)
        return len(self.messages) - 1

    def edit(self, kind: str, detail: str, message: int | None = None) -> None:
        self.edits.append(Edit(kind, detail, message))


def row_of(
    session: Session,
    *,
    tag: Tag,
    leaf: str | None = None,
    note: str | None = None,
    answer: str | None = None,
    recorder: Recorder | None = None,
) -> Row:
    """The row of the last turn before `leaf`.

    `answer` replaces the text of the last assistant message; its calls stay.

    Raises:
        Refused: the turn cannot be rebuilt exactly, or nothing in it can be learnt; the message names the entry.
        SessionFault: the path to `leaf` is damaged.
    """
    recorder = recorder or Recorder()
    path = session.path(leaf)
    turn = last_turn(path)
    turn_entries = [entry["id"] for entry in path[turn.start : turn.end + 1]]
    seen = project(path[: turn.end + 1])
    built = _build(seen, inside=set(turn_entries), recorder=recorder)
    if answer is not None:
        _replace_answer(built, answer)
    target = _targets(built, set(turn_entries))
    clean, notes = redacted({"messages": built.messages, "tools": _tools(seen, recorder), "note": note})
    edits = [*built.edits, *(Edit("redacted", f"{found.rule} at {found.place}") for found in notes)]
    messages, tools = tuple(clean["messages"]), tuple(clean["tools"])
    return Row(
        id=_new_id(),
        tag=tag,
        messages=messages,
        tools=tools,
        target=target,
        created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        source=Source(
            host=recorder.host,
            host_version=recorder.version,
            session=session.id,
            file=str(session.file) if session.file else None,
            leaf=path[-1]["id"],
            entries=tuple(turn_entries),
            cwd=session.cwd,
            models=tuple(built.models),
        ),
        digest=digest(messages, tools, target),
        note=clean["note"],
        edits=tuple(edits),
    )


def _build(seen: Sequence[Seen], inside: set[str], recorder: Recorder) -> _Trajectory:
    built = _Trajectory()
    prompt = system_state(item.message for item in seen)[0] or recorder.system_prompt
    if prompt:
        built.add({"role": "system", "content": prompt}, None)
    waiting: dict[str, str] = {}
    results = {i.message["toolCallId"]: i for i in seen if i.message["role"] == "toolResult"}
    used: set[str] = set()
    for item in seen:
        message = item.message
        match message["role"]:
            case "user":
                built.add({"role": "user", "content": _content(built, message["content"])}, item.entry)
            case "assistant":
                waiting = _add_assistant(built, item, inside)
                for call, name in waiting.items():
                    _add_result(built, results.get(call), call, name, item, inside)
                    used.add(call)
            case "toolResult" if message["toolCallId"] not in used:
                _drop_orphan(built, item, inside)
            case _:
                pass
    return built


def _add_assistant(built: _Trajectory, item: Seen, inside: set[str]) -> dict[str, str]:
    """Adds an assistant message and returns its calls, id to tool name, in call order."""
    message = item.message
    if message.get("stopReason") in ("error", "aborted"):
        return {}
    parts = message.get("content") or []
    parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
    text = "".join(part["text"] for part in parts if part["type"] == "text" and part["text"].strip())
    calls = [part for part in parts if part["type"] == "toolCall"]
    if not text and not calls:
        return {}
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        said["tool_calls"] = [
            {"type": "function", "id": c["id"], "function": {"name": c["name"], "arguments": _arguments(c)}}
            for c in calls
        ]
    index = built.add(said, item.entry, f"{message.get('provider')}/{message.get('model')}")
    if any(part["type"] == "thinking" for part in parts):
        built.edit("thinking_dropped", "observed reasoning is never saved", index)
    if message.get("stopReason") not in ("stop", "toolUse") or any(c.get("argumentsError") for c in calls):
        built.unfit.add(index)
        if item.entry in inside:
            built.edit("not_a_target", _why_unfit(message), index)
    return {call["id"]: call["name"] for call in calls}


def _add_result(built: _Trajectory, result: Seen | None, call: str, name: str, caller: Seen, inside: set[str]) -> None:
    if result is None:
        if caller.entry in inside:
            raise Refused(
                f"call {call} ({name}) of entry {caller.entry} has no result",
                next_step="let the turn finish, then tag it",
            )
        index = built.add({"role": "tool", "content": NO_RESULT, "tool_call_id": call, "name": name}, None)
        built.edit("result_synthesised", f"call {call} never got a result; Pi sends this text", index)
        return
    content = _content(built, result.message["content"])
    built.add({"role": "tool", "content": content, "tool_call_id": call, "name": name}, result.entry)


def _drop_orphan(built: _Trajectory, item: Seen, inside: set[str]) -> None:
    call = item.message["toolCallId"]
    if item.entry in inside:
        raise Refused(f"tool result {item.entry} of the turn answers call {call}, which is not in the context")
    built.edit("orphan_dropped", f"tool result {item.entry} answers call {call}, which is not in the context")


def _content(built: _Trajectory, content: str | Sequence[dict[str, Any]]) -> str:
    """Text of a message; an image becomes a visible placeholder, said in `edits`."""
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.get("type") == "image":
            data = str(part.get("data", "")).encode()
            texts.append(f"[image {part.get('mimeType', '')} sha256:{hashlib.sha256(data).hexdigest()[:16]}]")
            built.edit("image_replaced", "a text-only row shows that an image was there", len(built.messages))
        elif part.get("type") == "text":
            texts.append(part["text"])
    return "\n".join(texts)


def _arguments(call: dict[str, Any]) -> str:
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _why_unfit(message: dict[str, Any]) -> str:
    if message.get("stopReason") == "length":
        return "cut off by the length limit"
    if message.get("stopReason") not in ("stop", "toolUse"):
        return f"stopped with {message.get('stopReason')!r}"
    return "a call's arguments did not parse"


def _replace_answer(built: _Trajectory, answer: str) -> None:
    index = max(i for i, message in enumerate(built.messages) if message["role"] == "assistant")
    built.messages[index] = {**built.messages[index], "content": answer}
    built.edit("answer_replaced", "--as", index)
    if not built.messages[index].get("tool_calls"):
        built.unfit.discard(index)


def _targets(built: _Trajectory, inside: set[str]) -> tuple[int, ...]:
    of_turn = [i for i, m in enumerate(built.messages) if m["role"] == "assistant" and built.entries[i] in inside]
    target = tuple(i for i in of_turn if i not in built.unfit)
    if not of_turn or of_turn[-1] not in target:
        entry = built.entries[of_turn[-1]] if of_turn else None
        why = next(
            (e.detail for e in built.edits if of_turn and e.message == of_turn[-1] and e.kind == "not_a_target"), ""
        )
        raise Refused(
            f"the last answer cannot be learnt from{f': {why} (entry {entry})' if entry else ': it is empty'}",
            next_step='say what it should have been: /good --as "..."',
        )
    return target


def _tools(seen: Sequence[Seen], recorder: Recorder) -> list[dict[str, Any]]:
    messages = [item.message for item in seen]
    recorded = any(m["role"] == "system" for m in messages)
    return system_state(messages)[1] if recorded else list(recorder.tools)


def _new_id() -> str:
    from ulid import ULID

    return f"t_{ULID()}"


def preview(row: Row, width: int = 60) -> tuple[str, str]:
    """The turn's question and answer, each on one line of at most `width` characters."""
    question = next((text_of(m["content"]) for m in row.messages[: row.target[0]][::-1] if m["role"] == "user"), "")
    answer = text_of(row.messages[row.target[-1]]["content"])
    return _one_line(question, width), _one_line(answer, width)


def _one_line(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
