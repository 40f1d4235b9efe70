"""Drawn: the turns of a session that a trial drew, as the session itself tells it, and how each of them went.

The router of `machine/student` (`extension/trial.ts`) keeps the draw of a turn in the session, as Pi's
`pi.virtual-model-state` of the branch. The rest is told by what Pi writes anyway: how the answers ended, whether the
user went back and asked again, and which model was chosen next. Of what was said nothing is read here, only who spoke
and when. Session files are untrusted: an entry that has not its shape counts for nothing.
"""

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from machine.capture.entries import value_of
from machine.capture.session import Head, Record, Session

Arm = Literal["candidate", "work"]
Came = Literal["answered", "retried", "aborted", "failed", "switched_back", "unavailable"]

STUDENT = "machine/student"
_STATE, _LOAN = "pi.virtual-model-state", "machine.loan"
_SPOKEN = ("user", "assistant", "toolResult")
_TYPES = ("message", "model_change", "custom", "context_edit")


class Draw(msgspec.Struct, frozen=True):
    """What the router keeps of a turn: the session that drew (a fork has it too), and whether the candidate could be
    asked."""

    release: str
    arm: Arm
    session: str
    turn: str
    unavailable: bool = False


@dataclass(frozen=True)
class Drawn:
    """A turn that was drawn, and how it went so far.

    `model` is the one that answered last, as `provider/id`. `seconds` run from the user's message to the end of the
    last answer, tools and questions to the user included. `tokens` are all that was written; None: nobody counted them.
    """

    draw: Draw
    what: Came
    model: str
    seconds: float | None
    tokens: int | None


class _Usage(msgspec.Struct):
    output: float = 0


class _Message(msgspec.Struct, rename="camel"):
    role: str
    provider: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: _Usage | None = None


class _Entry(msgspec.Struct, rename="camel"):
    timestamp: str = ""
    message: _Message | None = None
    provider: str = ""
    model_id: str = ""
    custom_type: str = ""
    data: Any = None
    target_id: str = ""
    replacement: Any = None

    @property
    def role(self) -> str:
        """Who spoke; empty where nobody did."""
        return self.message.role if self.message and self.message.role in _SPOKEN else ""


class _State(msgspec.Struct, rename="camel"):
    provider: str
    model_id: str
    state: Draw


@dataclass
class _Turn:
    """A turn as it is put together: what was said right before it, and its entries, the user's message first."""

    after: str | None
    entries: list[_Entry]


_DECODER = msgspec.json.Decoder(_Entry)
_seen: dict[tuple[str, str], dict[str, tuple[Head, _Entry | None]]] = {}
"""What was read of one session's file, the last one: a line that is where it was is not read again."""


def drawn_turns(session: Session, release: str) -> list[Drawn]:
    """The turns that the trial of `release` drew and that are over, on whichever branch, oldest first.

    Raises:
        OSError: the file is gone.
    """
    entries = _entries(session)
    draws = {draw.turn: draw for draw in map(_draw, entries.values()) if draw and draw.release == release}
    turns = _turns(session, entries, draws) if draws else {}
    asked_again = _asked_again(turns)
    last = next(reversed(turns), None)
    went = [
        _went(draws[id], turn.entries, again=id in asked_again, newest=id == last)
        for id, turn in turns.items()
        if id in draws
    ]
    return [each for each in went if each is not None]


def _entries(session: Session) -> dict[str, _Entry]:
    """What is read of each entry, by its id, in the session's order."""
    key = (session.name, session.id)
    known = _seen.get(key, {})
    heads = [head for head in session.heads.values() if head.type in _TYPES]
    fresh = [head for head in heads if known.get(head.id, (None, None))[0] != head]
    read = {head.id: _read(head.type, record) for head, record in session.load(fresh)}
    found = {head.id: (head, read[head.id] if head.id in read else known[head.id][1]) for head in heads}
    if session.file:  # else it is in memory, all of it
        _seen.clear()
        _seen[key] = found
    return {id: entry for id, (_, entry) in found.items() if entry}


def _read(kind: str, record: Record) -> _Entry | None:
    with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
        try:
            entry = _DECODER.decode(record) if isinstance(record, bytes) else msgspec.convert(record, _Entry)
        except msgspec.MsgspecError:  # a lone surrogate may be all that is wrong with it
            entry = msgspec.convert(value_of(record), _Entry)
        if kind != "custom" or entry.custom_type != _STATE:
            entry.data = None
        return entry
    return None


def _draw(entry: _Entry) -> Draw | None:
    if entry.custom_type != _STATE:
        return None
    try:
        state = msgspec.convert(entry.data, _State)
    except msgspec.MsgspecError:
        return None  # of another router
    return state.state if f"{state.provider}/{state.model_id}" == STUDENT else None


def _turns(session: Session, entries: dict[str, _Entry], draws: dict[str, Draw]) -> dict[str, _Turn]:
    """Every turn of every branch, by the user's message that began it, by the rule of `machine.capture.turn`."""
    omitted = {entry.target_id for entry in entries.values() if entry.target_id and entry.replacement is None}
    turns: dict[str, _Turn] = {}
    place: dict[str | None, tuple[str | None, str | None]] = {}  # of an entry: its turn, and what was said last
    for id, head in session.heads.items():
        turn, said = place.get(head.parent, (None, None))
        entry = entries.get(id)
        if entry and entry.role and id not in omitted:
            steers = said is not None and entries[said].role == "toolResult"
            if id in draws or (entry.role == "user" and not steers):
                turn, turns[id] = id, _Turn(said, [])
            said = id
        if entry and turn and id not in omitted:
            turns[turn].entries.append(entry)
        place[id] = turn, said
    return turns


def _asked_again(turns: dict[str, _Turn]) -> set[str]:
    """The turns from whose place the user went on with another message later: the same again, or an edited one."""
    latest = {turn.after: id for id, turn in turns.items()}
    return {id for id, turn in turns.items() if latest[turn.after] != id}


def _went(draw: Draw, entries: Sequence[_Entry], *, again: bool, newest: bool) -> Drawn | None:
    """How a turn went; None while nothing was answered, or the run goes on."""
    said = [entry for entry in entries if entry.role]
    answers = [entry.message for entry in said if entry.message and entry.role == "assistant"]
    if not answers or (newest and _goes_on(said[-1])):
        return None
    last = answers[-1]
    what: Came = "answered"
    if draw.unavailable:
        what = "unavailable"
    elif last.stop_reason == "error":
        what = "failed"
    elif last.stop_reason == "aborted":
        what = "aborted"
    elif again:
        what = "retried"
    elif _left(entries):
        what = "switched_back"
    ends = [entry.timestamp for entry in said if entry.role == "assistant"]
    written = [answer.usage.output for answer in answers if answer.usage]
    return Drawn(
        draw=draw,
        what=what,
        model=f"{last.provider}/{last.model}",
        seconds=_seconds(said[0].timestamp, ends[-1]),
        tokens=int(sum(written)) if written else None,
    )


def _goes_on(entry: _Entry) -> bool:
    return entry.role == "toolResult" or (entry.message is not None and entry.message.stop_reason == "toolUse")


def _left(entries: Sequence[_Entry]) -> bool:
    """Whether the user chose another model than the student before anything else was asked."""
    chosen = [f"{entry.provider}/{entry.model_id}" for entry in _choices(entries)]
    return bool(chosen) and chosen[-1] != STUDENT


def _choices(entries: Sequence[_Entry]) -> Iterator[_Entry]:
    """The changes of model, but for loans, which nobody chose: Machine notes each right before it."""
    lent = False
    for entry in entries:
        if entry.model_id and not lent:
            yield entry
        lent = entry.custom_type == _LOAN


def _seconds(since: str, until: str) -> float | None:
    try:
        begun, ended = datetime.datetime.fromisoformat(since), datetime.datetime.fromisoformat(until)
        return round(max(0.0, (ended - begun).total_seconds()), 3)
    except (ValueError, TypeError):
        return None
