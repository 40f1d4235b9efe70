"""A tagged turn becomes rows of the pool: one, or several where the model saw different contexts in the turn.

A row's messages before a target are what the model saw when it wrote that target. A compaction, a context edit or a
change of the system prompt in the middle of a turn breaks this for the targets before it; they get a row of their own,
a part of the turn.
"""

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from machine.capture.entries import Assistant, Call, Message, System, Text, ToolResult, parts_of
from machine.capture.projection import Instructions, Seen, instructions, project
from machine.capture.session import Branch, Session
from machine.capture.trajectory import Trajectory, build, calls_of
from machine.capture.turn import Turn, last_turn, omitted_from
from machine.errors import Refused
from machine.privacy.redact import Finding, Names, redacted
from machine.privacy.sources import Sources
from machine.report import one_line
from machine.trace import Edit, Row, Source, Tag, digest, well_formed

_NAMED = ("cwd", "file", "session", "models", "host_version")
"""What a row's source says that others wrote; the ids of entries are what a turn is known by."""


@dataclass(frozen=True)
class Recorder:
    """Who recorded the session, and what it knows that the session does not record (Pi before 0.86).

    `system_prompt` None: it is not known. `promptless`: turns are kept all the same, and the rows say so.
    """

    host: str = "pi"
    version: str = ""
    system_prompt: str | None = None
    tools: Sequence[dict[str, Any]] = ()
    promptless: bool = False


@dataclass(frozen=True)
class Captured:
    """A turn as rows, and the images that they name by hash.

    `findings` are the secrets that were taken out of the rows, `names` their placeholders, in memory alone.
    """

    rows: Sequence[Row]
    pictures: dict[str, bytes]
    findings: Sequence[Finding] = ()
    names: Names = field(default_factory=Names, repr=False)


@dataclass(frozen=True)
class _Stretch:
    """Targets of a turn that one context holds: what was in force, the messages, the entries of the targets."""

    instructions: Instructions
    built: Trajectory
    targets: Sequence[str]

    def begins(self, later: "_Stretch") -> bool:
        """Whether the later context only goes on where this one ends."""
        messages = self.built.messages
        return self.instructions.tools == later.instructions.tools and messages == later.built.messages[: len(messages)]


def capture(
    session: Session,
    *,
    tag: Tag,
    leaf: str | None = None,
    note: str | None = None,
    answer: str | None = None,
    recorder: Recorder | None = None,
    sources: Sources | None = None,
    said: Mapping[str, str] | None = None,
) -> Captured:
    """The last turn before `leaf`; `answer` replaces the text of its last assistant message, whose calls stay.

    A turn that is tagged bad may have been stopped by the user. Its secrets are replaced, `sources` among them (None:
    those of this process's environment). What the user has `said` of it beside, by what it is, shows secrets too.

    Raises:
        Refused: the turn cannot be rebuilt exactly, or nothing in it can be learnt; the message names the entry.
        SessionFault: the branch to `leaf` is damaged.
    """
    branch = session.path(leaf)
    turn = last_turn(branch, stopped=tag == "bad")
    return capture_turn(branch, turn, tag=tag, note=note, answer=answer, recorder=recorder, sources=sources, said=said)


def capture_turn(
    branch: Branch,
    turn: Turn,
    *,
    tag: Tag,
    note: str | None = None,
    answer: str | None = None,
    recorder: Recorder | None = None,
    sources: Sources | None = None,
    said: Mapping[str, str] | None = None,
) -> Captured:
    """One turn of a branch.

    Raises:
        Refused, SessionFault: as `capture`. What a refusal says of the turn has no secret in it.
    """
    recorder, names = recorder or Recorder(), Names()
    sources = Sources.of(os.environ) if sources is None else sources
    try:
        stretches = list(_stretches(branch, turn, answer, recorder))
        rows = [_row(branch, turn, each, part, tag, note, answer, recorder) for part, each in enumerate(stretches)]
        told = redacted(well_formed(dict(said or {})), sources, names)[1]
        rows, found = without_secrets(rows, sources, names)
    except Refused as refusal:
        raise type(refusal)(redacted(refusal.message, sources)[0], next_step=refusal.next_step) from None
    except RecursionError as error:
        raise Refused("the turn holds JSON that is nested too deep", next_step="tag another turn") from error
    pictures = {name: held for each in stretches for name, held in each.built.pictures.items()}
    return Captured(rows, pictures, [*told, *found], names)


def without_secrets(rows: Sequence[Row], sources: Sources, names: Names) -> tuple[list[Row], list[Finding]]:
    """The rows of a turn with their secrets replaced, the same in all of them, and what was found where.

    The edits of a row say what was replaced; a row without secrets is itself returned.
    """
    clean, found = redacted([_told(row) for row in rows], sources, names)
    if not found:
        return list(rows), []
    mine = [[_within(finding, i) for finding in found if finding.place.startswith(f"[{i}].")] for i in range(len(rows))]
    changed = [_changed(*each) if each[2] else each[0] for each in zip(rows, clean, mine, strict=True)]
    return changed, [finding for each in mine for finding in each]


def _told(row: Row) -> dict[str, Any]:
    """All of a row that somebody wrote, or that holds a name of theirs."""
    return {
        "messages": list(row.messages),
        "tools": list(row.tools),
        "note": row.note,
        "source": {name: getattr(row.source, name) for name in _NAMED},
        "edits": [edit.detail for edit in row.edits],
    }


def _within(finding: Finding, row: int) -> Finding:
    return replace(finding, place=finding.place.removeprefix(f"[{row}]."))


def _changed(row: Row, clean: dict[str, Any], found: Sequence[Finding]) -> Row:
    messages, tools = tuple(clean["messages"]), tuple(clean["tools"])
    edits = [
        msgspec.structs.replace(edit, detail=detail) for edit, detail in zip(row.edits, clean["edits"], strict=True)
    ]
    named = {**clean["source"], "models": tuple(clean["source"]["models"])}
    return msgspec.structs.replace(
        row,
        messages=messages,
        tools=tools,
        note=clean["note"],
        source=msgspec.structs.replace(row.source, **named),
        digest=digest(messages, tools, row.target),
        edits=(*edits, *(Edit("redacted", str(finding)) for finding in found)),
    )


def _stretches(branch: Branch, turn: Turn, answer: str | None, recorder: Recorder) -> Iterator[_Stretch]:
    """The contexts that hold every target of the turn, each as the model saw it, in as few as there can be."""
    waiting: _Stretch | None = None
    inside = set(turn.entries(branch))
    for end, targets in _epochs(branch, turn):
        last = end == turn.end
        seen = project(branch[: end + 1])
        if last and answer is not None:
            seen[-1] = _answered(seen[-1], answer)
        known = _instructions(seen, recorder)
        stretch = _Stretch(known, build(known.prompt, seen, inside), targets)
        if waiting is not None:
            if waiting.begins(stretch):
                stretch = _Stretch(known, stretch.built, [*waiting.targets, *targets])
            elif _fit(waiting):
                yield waiting
        waiting = stretch
    assert waiting is not None
    _check_last(waiting, branch[turn.end].id)
    yield waiting


def _epochs(branch: Branch, turn: Turn) -> Iterator[tuple[int, list[str]]]:
    """The turn's assistant messages, cut where the context may have changed otherwise than by growing.

    Yields where the last of each group is, and the entries of the group.

    Raises:
        Refused: a call of the turn has no result.
    """
    entries = branch[: turn.end + 1]
    omitted = omitted_from(entries)
    end, targets, unanswered = turn.start, list[str](), list[tuple[str, str]]()
    for at in range(turn.start, turn.end + 1):
        entry = entries[at]
        said = entry.message if isinstance(entry, Message) else None
        cuts = entries.heads[at].type in ("compaction", "context_edit") or isinstance(said, System)
        if cuts and targets:
            yield end, targets
            targets = []
        if isinstance(said, ToolResult):
            first = next((call for call in unanswered if call[0] == said.tool_call_id), None)
            unanswered = [call for call in unanswered if call is not first]
        if isinstance(said, Assistant) and entry.id not in omitted:
            waited = calls_of(said) if at < turn.end or not turn.stopped else []
            unanswered += [(call.id, f"({call.name}) of entry {entry.id}") for call in waited]
            end = at
            targets.append(entry.id)
    for id, what in unanswered:
        raise Refused(f"call {id} {what} has no result", next_step="let the turn finish, then tag it")
    yield end, targets


def _instructions(seen: Sequence[Seen], recorder: Recorder) -> Instructions:
    """The system prompt and the tool schemas: the session's, or the recorder's where the session records none."""
    recorded = instructions(item.message for item in seen)
    if recorded is not None:
        return recorded
    if recorder.system_prompt is None and not recorder.promptless:
        raise Refused(
            "the session does not record what the system prompt was (Pi before 0.86 does not)",
            next_step="tag the turn inside Pi, or keep it without its prompt: --no-prompt",
        )
    return Instructions(recorder.system_prompt or "", list(recorder.tools))


def _answered(last: Seen, answer: str) -> Seen:
    """The last answer with the user's text in place of its own; its calls stay."""
    said = last.message
    assert isinstance(said, Assistant)
    kept = [part for part in parts_of(said.content) if not isinstance(part, Text)]
    calls = any(isinstance(part, Call) for part in kept)
    content = [Text(answer), *kept]
    return Seen(last.entry, msgspec.structs.replace(said, content=content, stop_reason="toolUse" if calls else "stop"))


def _fit(stretch: _Stretch) -> tuple[int, ...]:
    """Indices of the messages that can be learnt from."""
    built, wanted = stretch.built, set(stretch.targets)
    return tuple(
        i
        for i, message in enumerate(built.messages)
        if message["role"] == "assistant" and built.entries[i] in wanted and i not in built.unfit
    )


def _check_last(stretch: _Stretch, last: str) -> None:
    """Refuses a turn whose answer cannot be learnt from."""
    built = stretch.built
    at = next((i for i, entry in enumerate(built.entries) if entry == last), None)
    why = "it is empty" if at is None else built.unfit.get(at)
    if why:
        raise Refused(
            f"the last answer cannot be learnt from: {why} (entry {last})",
            next_step='say what it should have been: /good --as "..."',
        )


def _row(
    branch: Branch,
    turn: Turn,
    stretch: _Stretch,
    part: int,
    tag: Tag,
    note: str | None,
    answer: str | None,
    recorder: Recorder,
) -> Row:
    built, target = stretch.built, _fit(stretch)
    edits = list(built.edits)
    if answer is not None and branch[turn.end].id in stretch.targets:
        edits.append(Edit("answer_replaced", "--as", target[-1]))
    if recorder.promptless and recorder.system_prompt is None and built.messages[0]["role"] != "system":
        edits.append(Edit("prompt_missing", "the session does not record the system prompt"))
    models = dict.fromkeys(filter(None, (built.models[i] for i in target)))
    if len(models) > 1:
        edits.append(Edit("models_mixed", f"answers of {', '.join(models)}"))
    plain = well_formed({"messages": built.messages, "tools": stretch.instructions.tools, "note": note})
    messages, tools = tuple(plain["messages"]), tuple(plain["tools"])
    session = branch.session
    return Row(
        id=new_id(),
        tag=tag,
        messages=messages,
        tools=tools,
        target=target,
        created_at=now(),
        source=Source(
            host=recorder.host,
            host_version=recorder.version,
            session=session.id,
            file=str(session.file) if session.file else None,
            leaf=branch.heads[-1].id,
            entries=turn.entries(branch),
            cwd=session.cwd,
            models=tuple(built.models),
            messages=tuple(built.entries),
            part=part,
        ),
        digest=digest(messages, tools, target),
        note=plain["note"],
        edits=tuple(edits),
    )


def new_id() -> str:
    """An id for a row: ids sort by the time that they were made."""
    from ulid import ULID

    return f"t_{ULID()}"


def now() -> str:
    """The time as rows have it: UTC, ISO 8601, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def preview(row: Row, width: int = 60) -> tuple[str, str]:
    """The turn's question and answer, each on one line of at most `width` characters."""
    answer = "" if not row.target else text_of(row.messages[row.target[-1]])
    return one_line(question_of(row), width), one_line(answer, width)


def question_of(row: Row) -> str:
    """What began the turn; where a compaction took it away, what the model read last before it answered."""
    began = next((i for i, entry in enumerate(row.source.messages) if entry == row.source.entries[0]), None)
    if began is None:
        first = row.target[0] if row.target else len(row.messages)
        began = next((i for i in reversed(range(first)) if row.messages[i]["role"] == "user"), None)
    return "" if began is None else text_of(row.messages[began])


def text_of(message: dict[str, Any]) -> str:
    """What a message says, without its calls and its thinking: text as it is, images by their place alone."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", f"[{part['type']}]") for part in content if part["type"] != "thinking")
