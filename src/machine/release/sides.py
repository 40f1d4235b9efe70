"""Sides: what base, candidate and control made of each case or task of a suite, side by side, in bounded space.

Of long texts, and of every text once the room is used up, only the beginning is kept; what is cut is counted and said.
A record that is missing, damaged or of another suite is a fault in words, and the others are shown all the same.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from machine.errors import MachineError
from machine.evals.case import Case
from machine.evals.judge import Verdict
from machine.evals.page import differing, said, wanted
from machine.evals.record import Record, read_record, scores
from machine.evals.sample import Sample
from machine.evals.score import PASS
from machine.evals.suite import read_lines, suite_hash
from machine.page import count
from machine.report import printable

ARMS = ("base", "candidate", "control")
Change = Literal["lost", "won", "both fail", "both pass", "answers"]
GROUPS: dict[Change, str] = {
    "lost": "Lost: the candidate does worse than the base",
    "won": "Won: the candidate does better than the base",
    "both fail": "Neither passes",
    "both pass": "Both pass",
    "answers": "Not set side by side, since base or candidate is missing",
}
LONGEST, SHORTEST = 16_000, 2_000
"""Bytes of HTML that one text may take: where there are few of them, and where there are many."""
_LEAST = 300
"""Bytes that are left when the room counts as used up, and what a case takes besides its texts."""
_JUDGED = {True: "it passes", False: "it fails", None: "no verdict, so it has not passed"}


@dataclass(frozen=True)
class Shown:
    """A text, and how many characters of its end there was no room for."""

    text: str = ""
    missing: int = 0


@dataclass
class Room:
    """How many bytes of HTML may still be written, and how many of them a text may take.

    `cut` counts the texts that are not whole, `skipped` the cases that are not there.
    """

    left: int
    longest: int = LONGEST
    cut: int = 0
    skipped: int = 0

    @property
    def used_up(self) -> bool:
        """Whether nothing more can be begun."""
        return self.left < _LEAST

    def take(self, text: str) -> Shown:
        """The text, or as much of its beginning as there is room for."""
        most = min(self.longest, self.left)
        part = text[: max(most, 0)]
        while part and (size := _size(part)) > most:
            part = part[: len(part) * most // size if most >= _LEAST else 0]
        self.left -= _size(part)
        self.cut += len(part) < len(text)
        return Shown(part, len(text) - len(part))

    @contextlib.contextmanager
    def part(self, among: int) -> Iterator["Room"]:
        """An equal part of what is left, for the first of so many; what that one leaves over is for the others."""
        part = Room(self.left // max(1, among))
        self.left -= part.left
        yield part
        self.left += part.left
        self.cut += part.cut
        self.skipped += part.skipped


@dataclass(frozen=True)
class Answer:
    """What one arm made of a case. `words` are the runs of its text, marked where base and candidate differ.

    `note` has its length and the like; `folds` are (title, text) of what belongs to it, `file` holds all.
    """

    arm: str
    passed: bool
    note: str
    text: Shown
    words: Sequence[tuple[str, bool]] = ()
    folds: Sequence[tuple[str, Shown]] = ()
    file: str = ""


@dataclass(frozen=True)
class Asked:
    """A case or a task, and the answers of each arm that was asked."""

    id: str
    question: Shown
    wanted: Shown
    arms: Sequence[tuple[str, Sequence[Answer]]]


@dataclass
class Sides:
    """A suite. `facts` are (arm, words); `groups` hold (change, its cases, how many more there was no room for)."""

    name: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    groups: list[tuple[Change, list[Asked], int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fill(self, by_arm: Mapping[str, Mapping[str, float]], asked: Callable[[str], Asked], room: Room) -> None:
        """Adds every case that there is room for, lost ones first; `by_arm` are scores by arm and case, from 0 to 1."""
        texts = max(map(len, by_arm.values()), default=0) * (len(by_arm) + 1)
        room.longest = max(SHORTEST, min(LONGEST, room.left // max(1, texts)))
        for change, ids in changes(by_arm).items():
            shown: list[Asked] = []
            for id in ids:
                if room.used_up:
                    break
                room.left -= _LEAST
                shown.append(asked(id))
            room.skipped += len(ids) - len(shown)
            self.groups.append((change, shown, len(ids) - len(shown)))


def changes(by_arm: Mapping[str, Mapping[str, float]]) -> dict[Change, list[str]]:
    """The ids by what became of them, in the order of `GROUPS`; without base or candidate all are `answers`."""
    found: defaultdict[Change, list[str]] = defaultdict(list)
    base, candidate = by_arm.get("base", {}), by_arm.get("candidate", {})
    for id in dict.fromkeys(id for each in by_arm.values() for id in each):
        if id not in base or id not in candidate:
            found["answers"].append(id)
        elif base[id] != candidate[id]:
            found["won" if candidate[id] > base[id] else "lost"].append(id)
        else:
            found["both pass" if candidate[id] >= PASS else "both fail"].append(id)
    return {change: found[change] for change in GROUPS if change in found}


def of_cases(name: str, gates: Path, suites: Sequence[Path], room: Room) -> Sides:
    """A suite of cases, from the records `<name>-<arm>.json` of a gate run's folder.

    Args:
        name: of the suite.
        gates: the folder.
        suites: files that may hold the cases; the first one does whose digest is that of the records.
        room: less is left of it afterwards.
    """
    found = Sides(name)
    records = _records(found, name, gates)
    plain = next((record for arm, record in records.items() if arm != "control"), None)
    cases = _cases(suites, plain.suite) if plain else {}
    if plain and not cases:
        found.faults.append("The suite is not here as it was asked: the answers are shown, the questions are not.")
    found.facts = [(arm, _fact(record)) for arm, record in records.items()]
    verdicts = {(arm, v.case, v.number): v for arm, record in records.items() for v in record.verdicts}
    fill_cases(found, {arm: record.samples for arm, record in records.items()}, cases, verdicts, room)
    return found


def fill_cases(
    found: Sides,
    samples: Mapping[str, Sequence[Sample]],
    cases: Mapping[str, Case],
    verdicts: Mapping[tuple[str, str, int], Verdict],
    room: Room,
) -> None:
    """Adds what each arm answered; `cases` are by id, `verdicts` by arm, case and number of the answer."""
    by_arm = {arm: _by_case(each) for arm, each in samples.items()}

    def asked(id: str) -> Asked:
        case = cases.get(id)
        question, wants = (case.question, wanted(case)) if case else ("", "")
        arms = {arm: each[id] for arm, each in by_arm.items() if id in each}
        texts = {arm: [room.take(said(sample)) for sample in each] for arm, each in arms.items()}
        marks = _marked(texts)
        answers = [
            (
                arm,
                [
                    _answer(arm, sample, texts[arm][i], marks.get((arm, i), ()), verdicts, room)
                    for i, sample in enumerate(each)
                ],
            )
            for arm, each in arms.items()
        ]
        return Asked(id, room.take(question), room.take(wants), answers)

    found.fill({arm: scores(tuple(each)) for arm, each in samples.items()}, asked, room)


def _records(found: Sides, name: str, gates: Path) -> dict[str, Record]:
    """The records of one suite's arms; what is wrong with the others is noted."""
    records: dict[str, Record] = {}
    for arm in ARMS:
        path = gates / f"{name}-{arm}.json"
        if not path.exists():
            if arm != "control":
                found.faults.append(f"{path.name} is missing: what the {arm} answered is not known.")
            continue
        try:
            record = read_record(gates, f"{name}-{arm}")
        except MachineError as error:
            found.faults.append(f"{path.name} cannot be shown: {error.message}.")
            continue
        if records and not _alike(arm, record, next(iter(records.values()))):
            found.faults.append(f"{path.name} cannot be shown: it was asked another suite.")
            continue
        records[arm] = record
    return records


def _alike(arm: str, record: Record, other: Record) -> bool:
    """Whether both were asked the same; the control's cases have an instruction besides, so it is told by their ids."""
    if arm == "control":
        return record.scores.keys() == other.scores.keys()
    return record.suite == other.suite


def _cases(files: Sequence[Path], suite: str) -> dict[str, Case]:
    for file in files:
        try:
            cases = [msgspec.convert(value, Case) for _, value in read_lines(file)]
        except (MachineError, msgspec.ValidationError):
            continue
        if suite_hash(cases) == suite:
            return {case.id: case for case in cases}
    return {}


def _fact(record: Record) -> str:
    """Who answered how many, in words."""
    passed, how = record.passed, record.parameters
    several = f", {how.samples} answers a case" if how.samples > 1 else ""
    who = record.proof.path or record.proof.base_model
    return (
        f"{sum(passed.values())} of {len(passed)} pass; {who}, temperature {how.temperature:g}, at most "
        f"{count(how.max_tokens)} tokens, seed {how.seed}{several}, {record.seconds:.1f} s"
    )


def _by_case(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        found[sample.case].append(sample)
    return dict(found)


def _marked(shown: Mapping[str, Sequence[Shown]]) -> dict[tuple[str, int], list[tuple[str, bool]]]:
    """The words of base and candidate that the other has not, by arm and number of the answer."""
    found = {}
    for number, (one, other) in enumerate(zip(shown.get("base", ()), shown.get("candidate", ()), strict=False)):
        found["base", number], found["candidate", number] = differing(one.text, other.text)
    return found


def _answer(
    arm: str,
    sample: Sample,
    text: Shown,
    words: Sequence[tuple[str, bool]],
    verdicts: Mapping[tuple[str, str, int], Verdict],
    room: Room,
) -> Answer:
    notes = [f"score {sample.score:.2f}"] if 0 < sample.score < 1 else []
    notes += [f"{count(sample.tokens)} tokens"] + (["cut off at the limit"] if sample.stopped == "length" else [])
    verdict = verdicts.get((arm, sample.case, sample.number))
    folds = [(f"{verdict.model} judged: {_JUDGED[verdict.passed]}", room.take(verdict.text))] if verdict else []
    return Answer(arm, sample.passed, ", ".join(notes), text, words, folds)


def _size(text: str) -> int:
    """Bytes of the text as HTML."""
    from markupsafe import escape

    return len(str(escape(printable(text))).encode())
