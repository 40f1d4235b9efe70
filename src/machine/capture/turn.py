"""Turns of a branch: from the user's message that began one to its last answer.

The rule: a turn starts at a user message that came when no run was under way, and ends at the last assistant message
before the next such message (or before the branch's end). A user message right after a tool result steered a run, so it
belongs to the turn. `!commands`, custom messages, compactions, labels, model changes and the like neither start nor end
a turn. What was omitted by a context edit (a retry that failed first) counts for nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from machine.capture.entries import Assistant, Edit, Message, ToolResult, Unread, User
from machine.capture.session import Branch
from machine.errors import Refused

_FAILED = {"aborted": "was aborted", "error": "failed", "deferred": "was deferred"}
_BLOCK = 32
"""Entries read at a time, if they are not large."""
_LARGE = 1 << 22
"""Bytes of entries that are read at a time."""


@dataclass(frozen=True)
class Turn:
    """Indices into the branch: the user message that began the turn, and its last assistant message.

    `stopped`: the user stopped it, or it failed, after that message; what the message calls for may have no result.
    """

    start: int
    end: int
    stopped: bool = False

    def entries(self, branch: Branch) -> tuple[str, ...]:
        """The ids of the turn's entries, which are what makes it this turn and no other."""
        return tuple(head.id for head in branch.heads[self.start : self.end + 1])


@dataclass(frozen=True)
class _Spoken:
    """What was said at a place of the branch. `failed` is an attempt's stop reason; it may have been omitted since."""

    at: int
    entry: str
    role: type[User] | type[Assistant] | type[ToolResult]
    failed: str | None
    omitted: bool


def last_turn(branch: Branch, *, stopped: bool = False) -> Turn:
    """Finds the last turn. Reads no more of the branch than the turn and what edits it.

    With `stopped` a turn that the user stopped, or that failed, counts up to what the model had said whole until then.

    Raises:
        Refused: there is none, it has no answer yet, or its last attempt failed.
    """
    backwards = _spoken(branch, reversed(branch.of_type("message")))
    tried: _Spoken | None = None
    last: _Spoken | None = None
    cut = False
    for last in backwards:
        if stopped and not last.omitted and (last.failed or (cut and last.role is ToolResult)):
            cut = True
        elif not last.omitted:
            break
        tried = tried or (last if last.role is Assistant else None)
    if last is None or last.omitted:
        raise Refused("there is no turn to tag in this session", next_step="ask something first, then tag the answer")
    if last.role is not Assistant:
        attempt = tried or last
        why = _FAILED.get(attempt.failed or "", "ended before it")
        raise Refused(
            f"the last turn has no answer: it {why} (entry {attempt.entry})",
            next_step="send the question again, then tag",
        )
    if last.failed:
        raise Refused(f"the last turn {_FAILED[last.failed]} (entry {last.entry})", next_step="send it again, then tag")
    return Turn(_start(last, backwards), last.at, stopped=cut)


def turns(branch: Branch) -> tuple[list[Turn], list[str]]:
    """Every turn that has an answer, in order, and the entries that began the others: failed, aborted, not answered."""
    answered: list[Turn] = []
    silent: list[str] = []
    for start, last in _runs(branch):
        if last.role is Assistant and not last.failed:
            answered.append(Turn(start.at, last.at))
        else:
            silent.append(start.entry)
    return answered, silent


def _runs(branch: Branch) -> Iterator[tuple[_Spoken, _Spoken]]:
    """The first and the last that was said in each turn."""
    start: _Spoken | None = None
    last: _Spoken | None = None
    for spoken in _spoken(branch, branch.of_type("message")):
        if spoken.omitted:
            continue
        if spoken.role is User and (last is None or last.role is not ToolResult):
            if start and last:
                yield start, last
            start = spoken
        last = spoken
    if start and last:
        yield start, last


def _start(last: _Spoken, backwards: Iterator[_Spoken]) -> int:
    """Where the turn of the answer `last` began, given what was said before it, newest first."""
    asked: _Spoken | None = None
    for spoken in backwards:
        if spoken.omitted:
            continue
        if asked and spoken.role is not ToolResult:
            break
        asked = spoken if spoken.role is User else None
    if asked is None:
        raise Refused(
            f"no user message begins the turn that ends at entry {last.entry}",
            next_step="ask something, then tag the answer",
        )
    return asked.at


def omitted_from(branch: Branch) -> set[str]:
    """The entries that context edits of the branch omit."""
    edits = branch.read(branch.of_type("context_edit"))
    return {edit.target_id for edit in edits if isinstance(edit, Edit) and edit.replacement is None}


def _spoken(branch: Branch, places: Iterable[int]) -> Iterator[_Spoken]:
    omitted = omitted_from(branch)
    for block in _blocks(branch, places):
        for at, entry in zip(block, branch.read(block), strict=True):
            message = entry.message if isinstance(entry, Message) else None
            match message:
                case User() | ToolResult():
                    yield _Spoken(at, entry.id, type(message), None, entry.id in omitted)
                case Assistant():
                    failed = message.stop_reason if message.stop_reason in _FAILED else None
                    yield _Spoken(at, entry.id, Assistant, failed, entry.id in omitted)
                case Unread() if message.failed:
                    yield _Spoken(at, entry.id, Assistant, message.failed, entry.id in omitted)
                case _:
                    pass


def _blocks(branch: Branch, places: Iterable[int]) -> Iterator[list[int]]:
    block: list[int] = []
    size = 0
    for at in places:
        block.append(at)
        size += branch.heads[at].length
        if len(block) == _BLOCK or size > _LARGE:
            yield block
            block, size = [], 0
    yield block
