"""Outcomes: what came of each turn that a trial drew, in the release's `outcomes.jsonl`: figures and ids, no text.

Nobody is asked for anything: a turn's outcome is what the session tells of it (`machine.release.drawn`), and over that
what the user said with `/good` or `/correction`. The file is append-only, a line for each change of a turn's outcome;
the last one counts. What a crash can lose: nothing that `collect` or `note` has returned; bytes of a line that was not
written whole are moved to `outcomes.torn`.
"""

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

import msgspec

from machine.capture.rows import now
from machine.errors import StoreError
from machine.release.drawn import Arm, Came, Drawn, drawn_turns
from machine.store.files import append_line, explained, locked, private_folder
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.capture.session import Session
    from machine.evals.compare import Interval
    from machine.tinker.served import Trial

Said = Literal["good", "corrected"]
What = Literal[Came, Said]

SAID: tuple[Said, ...] = ("good", "corrected")
BAD: tuple[What, ...] = ("corrected", "retried", "aborted", "failed", "switched_back")
"""What the user did not want. `unavailable` is none of it: the candidate was not asked."""
_UNTIMED: tuple[What, ...] = ("aborted", "failed", "unavailable")
_HEX_DIGITS = 13


class Outcome(msgspec.Struct, frozen=True):
    """What came of a turn, which the entry `turn` of `session` began, by now (`at`: UTC, ISO 8601).

    `arm` is as it was drawn; `model` is the one that answered, `provider/id`. Seconds and tokens are as in `Drawn`.
    """

    at: str
    session: str
    turn: str
    release: str
    arm: Arm
    model: str
    what: What
    seconds: float | None = None
    tokens: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What makes it this turn."""
        return self.session, self.turn


@dataclass(frozen=True)
class Side:
    """One arm: its turns by outcome. `judged` are those that the model drawn could be asked in, `bad` those of `BAD`.

    `rate` is the share of bad ones, None where none was judged, with its 95 % Wilson interval. `seconds` and `tokens`
    are medians over the turns that went to their end, None where there is none.
    """

    turns: int
    sessions: int
    counts: dict[What, int]
    judged: int
    bad: int
    rate: float | None
    interval: "Interval"
    seconds: float | None
    tokens: float | None


@dataclass(frozen=True)
class Tally:
    """Both arms, and the candidate's share of bad turns less the work model's, with its 95 % interval.

    The interval is Newcombe's for two independent samples (method 10 of Statistics in Medicine 17 (1998), 873-890). It
    takes turns to be independent, which those of one session are not quite: it is on the narrow side.
    """

    candidate: Side
    work: Side
    difference: float | None
    difference_interval: "Interval"

    @property
    def worse(self) -> float | None:
        """The p-value that the candidate's share of bad turns is above the work model's (see `fisher_greater`).

        None where an arm has no turn that counts.
        """
        candidate, work = self.candidate, self.work
        if not candidate.judged or not work.judged:
            return None
        return fisher_greater(candidate.bad, candidate.judged, work.bad, work.judged)


def arm_of(trial: "Trial", session: str, turn: str) -> Arm:
    """The arm that a trial draws for a turn (the id of the user's entry): what the router did, done again."""
    key = session if trial.unit == "session" else f"{session}/{turn}"
    digest = hashlib.sha256(f"{trial.salt}/{key}".encode()).hexdigest()
    return "candidate" if int(digest[:_HEX_DIGITS], 16) / 16**_HEX_DIGITS < trial.share else "work"


def latest(project: Project, release: str) -> list[Outcome]:
    """What came of each turn as it stands now, in the order in which the turns came to be known.

    Raises:
        StoreError: the file cannot be read, or a line of it is not an outcome.
    """
    return list(_held(_file(project, release)).values())


def collect(project: Project, session: "Session", release: str) -> list[Outcome]:
    """Takes in what a session tells of the turns that the trial of `release` drew in it, and returns what is new.

    It may be done any number of times, by any number of processes; a fork's copy of a turn is not another turn.

    Raises:
        StoreError: the file cannot be read or written, or a line of it is not an outcome.
    """
    drawn = [each for each in drawn_turns(session, release) if each.draw.session == session.id]
    if not drawn:
        return []
    with _writing(project, release) as file:
        held = _held(file)
        fresh = [found for each in drawn if (found := _changed(held, each))]
        _append(file, fresh)
    return fresh


def note(project: Project, session: "Session", release: str, turn: str, what: Said) -> list[Outcome]:
    """Notes what the user says of a turn (the id of the entry that began it), and takes in the session before that.

    Nothing is noted of a turn that the trial did not draw, or in which the candidate could not be asked. Returns what
    is new.

    Raises:
        StoreError: as `collect`.
    """
    fresh = collect(project, session, release)
    drawn = next((each.draw for each in drawn_turns(session, release) if each.draw.turn == turn), None)
    if drawn is None:
        return fresh
    with _writing(project, release) as file:
        before = _held(file).get((drawn.session, turn))
        if before is None or before.what in (what, "unavailable"):
            return fresh
        said = msgspec.structs.replace(before, at=now(), what=what)
        _append(file, [said])
    return [*fresh, said]


def take_back(project: Project, release: str, turn: str) -> list[Outcome]:
    """Forgets that the user corrected a turn: it counts as answered, until its session tells otherwise.

    Returns what is new: nothing, where that turn was not drawn or not corrected. A trial that has ended stays ended.

    Raises:
        StoreError: as `collect`.
    """
    if not _file(project, release).exists():
        return []
    with _writing(project, release) as file:
        said = [each for each in _held(file).values() if each.turn == turn and each.what == "corrected"]
        fresh = [msgspec.structs.replace(each, at=now(), what="answered") for each in said]
        _append(file, fresh)
    return fresh


def tally(project: Project, release: str) -> Tally:
    """The outcomes of a trial, arm by arm.

    Raises:
        StoreError: as `latest`.
    """
    return tallied(latest(project, release))


def tallied(found: Sequence[Outcome]) -> Tally:
    """The same of outcomes that are at hand."""
    candidate, work = (_side([each for each in found if each.arm == arm]) for arm in ("candidate", "work"))
    if candidate.rate is None or work.rate is None:
        return Tally(candidate, work, None, (-1.0, 1.0))
    p, q = candidate.rate, work.rate
    (p_low, p_high), (q_low, q_high) = candidate.interval, work.interval
    low = p - q - ((p - p_low) ** 2 + (q_high - q) ** 2) ** 0.5
    high = p - q + ((p_high - p) ** 2 + (q - q_low) ** 2) ** 0.5
    return Tally(candidate, work, p - q, (max(-1.0, low), min(1.0, high)))


def fisher_greater(one: int, of_one: int, other: int, of_other: int) -> float:
    """Fisher's exact one-sided p-value that the share `one` of `of_one` is above `other` of `of_other`.

    The tail of the hypergeometric distribution, in whole numbers. scipy has it too, but takes longer to import than
    all else that `machine release status` does.
    """
    bad, all_ = one + other, of_one + of_other
    tail = sum(math.comb(bad, k) * math.comb(all_ - bad, of_one - k) for k in range(one, min(bad, of_one) + 1))
    return tail / math.comb(all_, of_one)


def _side(found: Sequence[Outcome]) -> Side:
    from machine.evals.compare import interval

    judged = [each for each in found if each.what != "unavailable"]
    bad = sum(each.what in BAD for each in judged)
    timed = [each for each in found if each.what not in _UNTIMED]
    return Side(
        turns=len(found),
        sessions=len({each.session for each in found}),
        counts=dict(Counter(each.what for each in found)),
        judged=len(judged),
        bad=bad,
        rate=bad / len(judged) if judged else None,
        interval=interval(bad, len(judged)),
        seconds=_median([each.seconds for each in timed]),
        tokens=_median([each.tokens for each in timed]),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _changed(held: dict[tuple[str, str], Outcome], drawn: Drawn) -> Outcome | None:
    """The outcome of a turn by now, None where it is held already. What the user said of the candidate stays."""
    draw = drawn.draw
    before = held.get((draw.session, draw.turn))
    what: What = drawn.what
    if before and before.what in SAID and what != "unavailable":
        what = before.what
    at = before.at if before else ""
    fresh = Outcome(at, draw.session, draw.turn, draw.release, draw.arm, drawn.model, what, drawn.seconds, drawn.tokens)
    return None if fresh == before else msgspec.structs.replace(fresh, at=now())


def _file(project: Project, release: str) -> Path:
    return project.releases / release / "outcomes.jsonl"


@contextlib.contextmanager
def _writing(project: Project, release: str) -> Iterator[Path]:
    """The file, for one writer at a time."""
    project.make()
    file = _file(project, release)
    private_folder(file.parent)
    with locked(file.with_suffix(".lock")):
        yield file


def _append(file: Path, fresh: Sequence[Outcome]) -> None:
    for each in fresh:
        append_line(file, msgspec.json.encode(each), torn=file.with_suffix(".torn"), is_whole=_is_whole)


def _held(file: Path) -> dict[tuple[str, str], Outcome]:
    if not file.exists():
        return {}
    with explained(file):
        *lines, rest = file.read_bytes().split(b"\n")
    held: dict[tuple[str, str], Outcome] = {}
    for number, line in enumerate([*lines, *([rest] if _is_whole(rest) else [])], start=1):
        try:
            found = msgspec.json.decode(line, type=Outcome)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise StoreError(
                f"{file}:{number}: this line is no outcome ({error})",
                next_step=f"move {file} away: what its sessions tell is collected again",
            ) from error
        held[found.key] = found
    return held


def _is_whole(line: bytes) -> bool:
    with contextlib.suppress(msgspec.MsgspecError):
        msgspec.json.decode(line, type=Outcome)
        return True
    return False
