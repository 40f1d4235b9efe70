"""Part: the answers of an evaluation that is not done yet, `evals/<name>.part.jsonl`, in the order in which they came.

The first line says what is asked of which weights; each further line is an answer, a verdict, or a piece of what
retention measures. A crash loses at most the line that is being written: what it leaves of it is cut off. The file goes
when the record is written.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from machine.errors import StoreError
from machine.evals.case import Case
from machine.evals.judge import Verdict
from machine.evals.record import Retention
from machine.evals.sample import Parameters, Sample
from machine.store.files import append_line, explained, private_folder, whole_lines, write_private
from machine.tinker.probe import distance
from machine.trace import canonical

SAME_WEIGHTS = 0.02
"""Nats: two probes of the same weights are nearer than this on a service whose batches round differently."""


class Header(msgspec.Struct, frozen=True):
    """What is asked of whom. `questions` is `question_hash` of the cases."""

    questions: str
    model: str
    path: str | None
    renderer: str
    parameters: Parameters
    probe: tuple[float, ...]

    def same(self, other: "Header") -> bool:
        """Whether answers to the one are answers to the other."""
        alike = msgspec.structs.replace(self, probe=other.probe) == other
        return alike and distance(self.probe, other.probe) < SAME_WEIGHTS


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    samples: tuple[Sample, ...] = ()
    verdict: Verdict | None = None
    retention: Retention | None = None


class Part:
    """The part of an evaluation called `name` that is there already.

    `samples` are by case and `verdicts` by case and number; `retention` is what was measured so far of the newest
    retention suite, None where nothing was. `anew` says that a part was there which was of something else, and was
    dropped.
    """

    def __init__(self, folder: Path, name: str, header: Header) -> None:
        self.path = folder / f"{name}.part.jsonl"
        self.samples: dict[str, tuple[Sample, ...]] = {}
        self.verdicts: dict[tuple[str, int], Verdict] = {}
        self.retention: Retention | None = None
        private_folder(folder)
        found = whole_lines(self.path)
        self.anew = bool(found) and not _of(found[0], header)
        if not found or self.anew:
            write_private(self.path, msgspec.json.encode(header) + b"\n")
            return
        for number, line in enumerate(found[1:], 2):
            self._take(self._line(number, line))

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Keeps the answers to a case, durably."""
        self._add(_Line(samples=tuple(samples)))

    def add_verdict(self, verdict: Verdict) -> None:
        """Keeps a verdict, durably."""
        self._add(_Line(verdict=verdict))

    def add_retention(self, piece: Retention) -> None:
        """Keeps a piece of what retention measures, durably: answers to one case, or one text's NLL."""
        self._add(_Line(retention=piece))

    def finish(self) -> None:
        """Lets go of the part: the record holds it all."""
        with explained(self.path):
            self.path.unlink(missing_ok=True)

    def _add(self, line: _Line) -> None:
        append_line(self.path, msgspec.json.encode(line), cut_torn=True)
        self._take(line)

    def _take(self, line: _Line) -> None:
        if line.samples:
            self.samples[line.samples[0].case] = line.samples
        if line.verdict:
            self.verdicts[line.verdict.case, line.verdict.number] = line.verdict
        if line.retention:
            self.retention = line.retention.after(self.retention)

    def _line(self, number: int, line: bytes) -> _Line:
        try:
            return msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{self.path} line {number} is damaged: {error}", next_step=f"remove {self.path}"
            ) from error


def question_hash(cases: Iterable[Case]) -> str:
    """SHA-256 (hex) of what is asked, whatever is expected: an answer outlives a scorer that is mended."""
    hashed = hashlib.sha256()
    for case in cases:
        hashed.update(canonical([case.id, list(case.messages), list(case.tools)]) + b"\n")
    return hashed.hexdigest()


def _of(line: bytes, header: Header) -> bool:
    try:
        return msgspec.json.decode(line, type=Header).same(header)
    except msgspec.MsgspecError:
        return False
