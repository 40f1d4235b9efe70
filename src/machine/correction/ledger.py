"""The ledger of corrections: `corrections.jsonl`, append-only, one event a line.

A correction is what its events say, in order; nothing but `mend` and `erase` changes what was written. What a crash can
lose: nothing that `append` has returned for. An event is written under the project's lock and synced; bytes after the
last LF (a crash in the middle of a write) are moved to `corrections.torn` before the next event, unless they are a
whole line that only lacks its LF. Secrets are redacted before anything is written. Lines that are not events are
counted and named, and spoil no other.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import msgspec

from machine.capture.rows import now
from machine.errors import Refused
from machine.privacy.redact import Names, redacted
from machine.privacy.sources import Sources
from machine.report import one_line
from machine.store.erase import erase_lines, finish, gone, is_erased
from machine.store.files import append_line, is_private, locked, read_private
from machine.store.project import Project
from machine.store.wipe import rewrite
from machine.trace import canonical, well_formed

LEDGER_VERSION = 1

State = Literal["open", "approved", "retried", "linked", "dropped"]
PENDING: tuple[State, ...] = ("open", "approved", "retried")


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """What every event says: the correction that it is of, and when it was (UTC, ISO 8601)."""

    correction: str
    at: str = ""
    version: int = LEDGER_VERSION


class Opened(_Event, frozen=True, tag="opened"):
    """The user rejected a turn: its rows in the pool (tag bad), and what was said of it.

    `answer` is what the answer should have been (`--as`); `question` what began the turn, on one line.
    """

    rows: tuple[str, ...]
    session: str
    entries: tuple[str, ...]
    question: str = ""
    words: str = ""
    answer: str | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """What the turn did, what was wanted, and the message (index into the row's) where it went wrong."""

    did: str
    wanted: str
    message: int


class Evidence(msgspec.Struct, frozen=True):
    """Where a proposal comes from.

    `prompt` is the SHA-256 (hex) of all that the model was sent; tokens and cost (US dollars) are of all `attempts`.
    """

    contract: str
    model: str
    prompt: str
    attempts: int
    input_tokens: int
    output_tokens: int
    cost: float


class Caught(msgspec.Struct, frozen=True):
    """A hygiene gate that a reasoning fails: the rule, and why."""

    rule: str
    reason: str


class Proposed(_Event, frozen=True, tag="proposed"):
    """A contributor's reasoning (`proposal` is its number in the correction, from 1) and what the gates say of it."""

    proposal: int
    reasoning: str
    diagnosis: Diagnosis
    evidence: Evidence
    caught: tuple[Caught, ...] = ()


class NotProposed(_Event, frozen=True, tag="not_proposed"):
    """A contributor was asked and gave nothing that could be used; `evidence` where it answered at all."""

    model: str
    why: str
    evidence: Evidence | None = None


class Declined(_Event, frozen=True, tag="declined"):
    """The user wants none of the proposals so far."""


class Approved(_Event, frozen=True, tag="approved"):
    """The user approved a reasoning: a proposal as it was, one that the user edited, or the user's own.

    `overridden` names the gates that it fails and that the user set aside; `caught` says why it failed them.
    """

    reasoning: str
    origin: Literal["proposed", "edited", "written"]
    proposal: int | None = None
    caught: tuple[Caught, ...] = ()
    overridden: tuple[str, ...] = ()


class Retry(_Event, frozen=True, tag="retried"):
    """The turn was done again with the approved reasoning as a hint: how it ended, by whom, and where it stands."""

    outcome: str
    model: str
    leaf: str | None = None
    detail: str = ""


class Linked(_Event, frozen=True, tag="linked"):
    """A good turn answers the correction: its rows in the pool and its entries. `how` says what made it the one."""

    rows: tuple[str, ...]
    entries: tuple[str, ...]
    how: str


class Unlinked(_Event, frozen=True, tag="unlinked"):
    """The good turn that answered the correction was tagged otherwise since: the correction is pending again."""


class Dropped(_Event, frozen=True, tag="dropped"):
    """The user wants no more of it. What it led to before stays."""

    why: str = ""


_Kind = TypeVar("_Kind", bound=_Event)
Event: TypeAlias = Opened | Proposed | NotProposed | Declined | Approved | Retry | Linked | Unlinked | Dropped


@dataclass
class Correction:
    """One correction as its events tell it, oldest first."""

    opened: Opened
    events: list[Event] = field(default_factory=list)

    @property
    def id(self) -> str:
        """`c_` and a ULID."""
        return self.opened.correction

    @property
    def state(self) -> State:
        """How far it has come; what ends it counts for more than what came after."""
        if self.of(Dropped):
            return "dropped"
        if self.link is not None:
            return "linked"
        if self.approved is None:
            return "open"
        return "retried" if any(r.outcome == "answered" for r in self.of(Retry)) else "approved"

    @property
    def pending(self) -> bool:
        """Whether a good turn is still to come."""
        return self.state in PENDING

    @property
    def approved(self) -> Approved | None:
        """The latest approval: the reasoning that counts."""
        return next(reversed(self.of(Approved)), None)

    @property
    def link(self) -> Linked | None:
        """The good turn that answers it, if one does now."""
        last = next((event for event in reversed(self.events) if isinstance(event, Linked | Unlinked)), None)
        return last if isinstance(last, Linked) else None

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Its events of one kind, oldest first."""
        return [event for event in self.events if isinstance(event, kind)]


@dataclass(frozen=True)
class Read:
    """What the ledger holds: the corrections, oldest first, and the lines (1-based) that are no events of theirs."""

    corrections: Sequence[Correction]
    damaged: Sequence[tuple[int, str]]


class Ledger:
    """The corrections of one project. Cheap to make; the file is opened by the method that needs it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.path = project.corrections

    def append(self, event: _Kind, names: Names | None = None) -> _Kind:
        """Adds an event, durably, and returns it as it was written: dated, and with its secrets redacted.

        `names` are the placeholders of the turn that it is about, where they are known.

        Raises:
            StoreError: it could not be written; the ledger is as it was.
        """
        written = _clean(msgspec.structs.replace(event, at=now()), self.project.sources(), names)
        self.project.make()
        with self._locked():
            append_line(self.path, canonical(written), torn=self.path.with_suffix(".torn"), is_whole=_is_event)
        return written

    def drop(self, correction: Correction, why: str) -> None:
        """Ends a correction.

        Raises:
            StoreError: it could not be written; the ledger is as it was.
        """
        correction.events.append(self.append(Dropped(correction=correction.id, why=why)))

    def mend(self) -> int:
        """Takes out the secrets that later rules or sources find in what was written, and wipes the old bytes.

        Returns:
            How many lines changed.

        Raises:
            StoreError: the ledger cannot be read or written; it is as it was.
        """
        if not self.path.exists():
            return 0
        sources = self.project.sources()
        with self._locked():
            lines = self._lines()
            clean = [_clean_line(line, sources) for line in lines]
            changed = sum(old != new for old, new in zip(lines, clean, strict=True))
            if changed:
                rewrite(self.path, b"\n".join(clean))
        return changed

    def erase(self, ids: Sequence[str]) -> int:
        """Erases every event of corrections, by their whole ids; returns how many lines that were.

        Raises:
            StoreError: as `machine.store.erase.erase_lines` says.
        """
        if not self.path.exists():
            return 0
        with self._locked():
            return erase_lines(self.path, lambda line: _is_of(line, ids))

    def read(self) -> Read:
        """Every correction.

        Raises:
            StoreError: the file is there and cannot be read.
        """
        corrections: dict[str, Correction] = {}
        damaged: list[tuple[int, str]] = []
        lines = self._lines()
        for number, line in enumerate(lines, 1):
            if not line.strip() or is_erased(line):
                continue
            try:
                event = _DECODER.decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                torn = number == len(lines)
                damaged.append((number, "a crash left it half-written" if torn else one_line(str(error), 200)))
                continue
            if event.version > LEDGER_VERSION:
                damaged.append((number, f"of version {event.version}, from a newer Machine"))
            elif isinstance(event, Opened) and event.correction not in corrections:
                corrections[event.correction] = Correction(event, [event])
            elif not isinstance(event, Opened) and event.correction in corrections:
                corrections[event.correction].events.append(event)
            else:
                damaged.append((number, f"says {event.__struct_config__.tag} of {event.correction} out of order"))
        return Read(list(corrections.values()), damaged)

    def pending(self) -> list[Correction]:
        """Those that no good turn has answered yet, oldest first."""
        return [each for each in self.read().corrections if each.pending]

    def find(self, prefix: str) -> Correction:
        """The correction whose id begins with `prefix`.

        Raises:
            Refused: none or several do.
        """
        found = [each for each in self.read().corrections if prefix and each.id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if found:
            raise Refused(f"{prefix!r} begins the ids of several corrections", next_step="type more of the id")
        raise Refused(f"no correction {prefix!r} in this project", next_step="machine corrections")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the project's lock; an erasing that a crash cut short is finished first."""
        with locked(self.project.pool.lock):
            finish(self.path)
            yield

    def _lines(self) -> list[bytes]:
        """The file's lines; what comes after its last LF, mostly nothing, is the last of them.

        Those that are being erased, or were when a crash came, are blank.
        """
        if not is_private(self.path):
            return [b""]
        lines = read_private(self.path).split(b"\n")
        offsets = [0, *itertools.accumulate(len(line) + 1 for line in lines[:-1])]
        going = gone(self.path, offsets)  # asked once they are read: what was being overwritten meanwhile is among them
        return [b"" if offset in going else line for offset, line in zip(offsets, lines, strict=True)]


def new_id() -> str:
    """An id for a correction: ids sort by the time that they were made."""
    from ulid import ULID

    return f"c_{ULID()}"


def _is_event(line: bytes) -> bool:
    """Whether it is a whole event: an editor may leave the last one without its LF."""
    try:
        _DECODER.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _is_of(line: bytes, ids: Sequence[str]) -> bool:
    """Whether a line is an event of one of the corrections, or a piece that names one; not where words name it."""
    try:
        event: Event = _DECODER.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return any(id.encode() in line for id in ids)
    return event.correction in ids


def _clean(event: _Kind, sources: Sources, names: Names | None) -> _Kind:
    """The event without its secrets. The ledger's own words stay, whatever the user's environment calls a secret."""
    plain = well_formed(msgspec.to_builtins(event))
    nested = [value for value in plain.values() if isinstance(value, dict)]
    owners = [plain, *nested, *plain.get("caught", ())]
    places = [(owner, key) for owner in owners for key in sorted(_PROSE & owner.keys()) if owner[key] is not None]
    clean, _ = redacted([owner[key] for owner, key in places], sources, names)
    for (owner, key), text in zip(places, clean, strict=True):
        owner[key] = text
    return msgspec.convert(plain, type(event))


def _clean_line(line: bytes, sources: Sources) -> bytes:
    """A line without its secrets: an event as it is written, anything else as text."""
    if not line.strip() or is_erased(line):
        return line
    try:
        event: Event = _DECODER.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        text, found = redacted(line.decode("utf-8", "surrogateescape"), sources)
        return text.encode("utf-8", "surrogateescape") if found else line
    clean = _clean(event, sources, None)
    return line if clean == event else canonical(clean)


_PROSE = {"question", "words", "answer", "did", "wanted", "reasoning", "reason", "why", "detail", "model"}
"""The fields of events that hold what somebody wrote, or named."""
_DECODER = msgspec.json.Decoder(Event)
