"""A tagged turn becomes a row: the messages that the model saw, in Tinker's chat form, and which of them to learn from.

Observed reasoning is never taken over. A tool result follows its call, in call order, whatever order results came in.
"""

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from machine.capture.javascript import SPACE, stringify
from machine.capture.projection import Seen, parts_of, project, system_state, text_of
from machine.capture.session import Session
from machine.capture.shapes import UNSENT
from machine.capture.turn import last_turn
from machine.errors import Refused
from machine.privacy.redact import redacted
from machine.report import one_line
from machine.trace import Edit, Row, Source, Tag, digest, well_formed

NO_RESULT = "No result provided"
"""What Pi sends for a call that never got a result."""
NO_OUTPUT = "(no tool output)"
"""What Pi sends for a result without text."""


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
    unfit: dict[int, str] = field(default_factory=dict)
    """Assistant messages that may be context but never a target, and why."""

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
    try:
        return _row_of(session, tag, leaf, note, answer, recorder or Recorder())
    except RecursionError as error:
        raise Refused("the turn holds JSON that is nested too deep", next_step="tag another turn") from error


def _row_of(
    session: Session, tag: Tag, leaf: str | None, note: str | None, answer: str | None, recorder: Recorder
) -> Row:
    path = session.path(leaf)
    turn = last_turn(path)
    entries = [entry["id"] for entry in path[turn.start : turn.end + 1]]
    seen = project(path[: turn.end + 1])
    prompt, schemas = _instructions(seen, recorder)
    built = _Trajectory()
    if prompt:
        built.add({"role": "system", "content": prompt}, None)
    if answer is not None:
        seen[-1] = _answered(seen[-1], answer)
    _build(built, seen, set(entries))
    target = _targets(built, entries)
    if answer is not None:
        built.edit("answer_replaced", "--as", target[-1])
    clean, notes = redacted(well_formed({"messages": built.messages, "tools": schemas, "note": note}))
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
            entries=tuple(entries),
            cwd=session.cwd,
            models=tuple(built.models),
        ),
        digest=digest(messages, tools, target),
        note=clean["note"],
        edits=tuple(edits),
    )


def _instructions(seen: Sequence[Seen], recorder: Recorder) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the tool schemas: the session's, or the recorder's where the session records none."""
    messages = [item.message for item in seen]
    if any(message["role"] == "system" for message in messages):
        return system_state(messages)
    return recorder.system_prompt or "", list(recorder.tools)


def _answered(last: Seen, answer: str) -> Seen:
    """The last answer with the user's text in place of its own; its calls stay."""
    kept = [part for part in parts_of(last.message.get("content")) if part["type"] != "text"]
    calls = any(part["type"] == "toolCall" for part in kept)
    stop = last.message.get("stopReason") if calls else "stop"
    content = [{"type": "text", "text": answer}, *kept]
    return Seen(last.entry, {**last.message, "content": content, "stopReason": stop})


def _build(built: _Trajectory, seen: Sequence[Seen], inside: set[str]) -> None:
    used: set[int] = set()
    for at, item in enumerate(seen):
        match item.message["role"]:
            case "user":
                _add_user(built, item)
            case "assistant":
                for call, name in _add_assistant(built, item, inside):
                    result = _result(seen, at, call, used)
                    _add_result(built, result, call, name, item, inside)
            case "toolResult" if at not in used:
                _drop_orphan(built, item, inside)
            case _:
                pass


def _result(seen: Sequence[Seen], caller: int, call: str, used: set[int]) -> Seen | None:
    """The first unused result of a call before another message makes a call of that id: some providers reuse ids."""
    for at in range(caller + 1, len(seen)):
        message = seen[at].message
        if message["role"] == "toolResult" and message["toolCallId"] == call and at not in used:
            used.add(at)
            return seen[at]
        if message["role"] == "assistant" and call in [c["id"] for c in _calls(message)]:
            break
    return None


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of an assistant message; none of one that Pi never sends again."""
    if message.get("stopReason") in UNSENT:
        return []
    return [part for part in parts_of(message.get("content")) if part["type"] == "toolCall"]


def _add_user(built: _Trajectory, item: Seen) -> None:
    content = item.message.get("content")
    parts = parts_of(content)
    text = _text(built, [part for part in parts if part.get("text") != ""])
    if text or isinstance(content, str):
        built.add({"role": "user", "content": text}, item.entry)


def _add_assistant(built: _Trajectory, item: Seen, inside: set[str]) -> list[tuple[str, str]]:
    """Adds an assistant message and returns its calls, id and tool name, in call order."""
    message = item.message
    if message.get("stopReason") in UNSENT:
        return []
    parts = parts_of(message.get("content"))
    text = well_formed("".join(p["text"] for p in parts if p["type"] == "text" and p["text"].strip(SPACE)))
    calls = _calls(message)
    if not text and not calls:
        return []
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        said["tool_calls"] = [
            {"type": "function", "id": c["id"], "function": {"name": c["name"], "arguments": _arguments(c)}}
            for c in calls
        ]
    index = built.add(said, item.entry, f"{message.get('provider')}/{message.get('model')}")
    if any(part["type"] == "thinking" for part in parts):
        built.edit("thinking_dropped", "observed reasoning is never saved", index)
    if why := _why_unfit(message, calls):
        built.unfit[index] = why
        if item.entry in inside:
            built.edit("not_a_target", why, index)
    return [(call["id"], call["name"]) for call in calls]


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
    text = _text(built, parts_of(result.message.get("content")))
    content = text if text.strip(SPACE) else NO_OUTPUT
    built.add({"role": "tool", "content": content, "tool_call_id": call, "name": name}, result.entry)


def _drop_orphan(built: _Trajectory, item: Seen, inside: set[str]) -> None:
    call = item.message["toolCallId"]
    what = f"tool result {item.entry} answers call {call}, which is not in the context or has its answer"
    if item.entry in inside:
        raise Refused(f"the turn cannot be rebuilt: {what}", next_step="tag another turn")
    built.edit("orphan_dropped", what)


def _text(built: _Trajectory, parts: Sequence[dict[str, Any]]) -> str:
    """Text of the message that comes next; an image becomes a visible placeholder, said in `edits`."""
    texts = []
    for part in parts:
        if part["type"] == "image":
            data = part["data"].encode("utf-8", "replace")
            texts.append(f"[image {part['mimeType']} sha256:{hashlib.sha256(data).hexdigest()[:16]}]")
            built.edit("image_replaced", "a text-only row shows that an image was there", len(built.messages))
        else:
            texts.append(part["text"])
    return "\n".join(texts)


def _arguments(call: dict[str, Any]) -> str:
    """A call's arguments as Pi sends them; text that did not parse stays as it is."""
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, str) else stringify(arguments)


def _why_unfit(message: dict[str, Any], calls: Sequence[dict[str, Any]]) -> str:
    """Why an assistant message may not be learnt from; empty if it may."""
    reason = message.get("stopReason")
    if reason == "length":
        return "cut off by the length limit"
    if reason not in ("stop", "toolUse"):
        return f"stopped with {reason!r}"
    return "a call's arguments did not parse" if any(c.get("argumentsError") for c in calls) else ""


def _targets(built: _Trajectory, entries: Sequence[str]) -> tuple[int, ...]:
    """The turn's assistant messages that can be learnt from; the last of `entries`, its answer, must be one of them."""
    of_turn = [i for i, m in enumerate(built.messages) if m["role"] == "assistant" and built.entries[i] in entries]
    last = next((i for i in of_turn if built.entries[i] == entries[-1]), None)
    why = "it is empty" if last is None else built.unfit.get(last)
    if why:
        raise Refused(
            f"the last answer cannot be learnt from: {why} (entry {entries[-1]})",
            next_step='say what it should have been: /good --as "..."',
        )
    return tuple(i for i in of_turn if i not in built.unfit)


def _new_id() -> str:
    from ulid import ULID

    return f"t_{ULID()}"


def preview(row: Row, width: int = 60) -> tuple[str, str]:
    """The turn's question and answer, each on one line of at most `width` characters."""
    first, last = (row.target[0], row.target[-1]) if row.target else (len(row.messages), None)
    question = next((text_of(m["content"]) for m in row.messages[:first][::-1] if m["role"] == "user"), "")
    answer = "" if last is None else text_of(row.messages[last]["content"])
    return one_line(question, width), one_line(answer, width)
