"""Record: one evaluation of one model, kept whole in `evals/<name>.json`."""

import re
from collections import defaultdict
from pathlib import Path

import msgspec

from machine.errors import Refused
from machine.evals.judge import Verdict
from machine.evals.proof import Proof
from machine.evals.sample import Parameters, Sample
from machine.evals.score import PASS
from machine.store.files import private_folder, write_private

BASELINE = "baseline"
CHECKPOINT = "checkpoint-"
"""Names of records: `baseline`, and `checkpoint-<run or path>` for each checkpoint."""
_RUN = re.compile(r"[\w-][\w.-]*", re.ASCII)
"""A run's name, which is its folder's."""
VERSION = 2
"""Version 1 had no scores: a case passed or did not."""


class Retention(msgspec.Struct, frozen=True):
    """What a model kept of everything else: its answers to the built-in suite, and the NLL of texts it never saw.

    `suite` is the hash of the built-in suite, `nll` the mean over the tokens of each text, in nats.
    """

    suite: str
    samples: tuple[Sample, ...]
    nll: dict[str, float]

    def after(self, before: "Retention | None") -> "Retention":
        """This and what was measured before of the same suite; this alone where that was another suite."""
        if before is None or before.suite != self.suite:
            return self
        return Retention(self.suite, before.samples + self.samples, before.nll | self.nll)


class Record(msgspec.Struct, frozen=True):
    """Every sample of an evaluation, with all that it depends on.

    `samples` are in the order of the suite, those of one case by their number. `base` is the base's proof beside a
    checkpoint's. `scorers` has the SHA-256 (hex) of each file whose functions scored, by its path as the suite spells
    it. `identical` is true where a checkpoint gave the baseline's answer to every case. `seconds` are those of the
    command that ended it.
    """

    name: str
    created_at: str
    suite: str
    model: str
    renderer: str
    parameters: Parameters
    proof: Proof
    samples: tuple[Sample, ...]
    seconds: float
    base: Proof | None = None
    run: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    scorers: dict[str, str] = {}
    identical: bool = False
    retention: Retention | None = None
    version: int = 1

    @property
    def scores(self) -> dict[str, float]:
        """The score of each case, from 0 to 1: the mean of its samples'."""
        return scores(self.samples)

    @property
    def passed(self) -> dict[str, bool]:
        """Which cases it passed: those whose score is at least `PASS`."""
        return {case: score >= PASS for case, score in self.scores.items()}

    def answers(self) -> list[tuple[str, int, tuple[int, ...] | str]]:
        """What was answered: case, number, and the sampled tokens (their text in a record of version 1)."""
        return [(s.case, s.number, s.ids or s.text) for s in self.samples]


def scores(samples: tuple[Sample, ...] | list[Sample]) -> dict[str, float]:
    """The mean score of each case's samples, in the order of the cases."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        found[sample.case].append(sample.score)
    return {case: sum(each) / len(each) for case, each in found.items()}


class Asking(msgspec.Struct, frozen=True):
    """What an evaluation is asked with, before it is a `Record`: its fields of these names."""

    suite: str
    parameters: Parameters
    renderer: str
    scorers: dict[str, str]


def differences(one: Record | Asking, other: Record | Asking) -> list[str]:
    """What two evaluations are not asked alike, in words; where there is any, they cannot be compared."""
    differ = {
        "another suite": one.suite != other.suite,
        f"other sampling parameters ({_apart(one.parameters, other.parameters)})": one.parameters != other.parameters,
        "another renderer": one.renderer != other.renderer,
        "other scoring functions": one.scorers != other.scorers,
    }
    return [what for what, differs in differ.items() if differs]


def _apart(one: Parameters, other: Parameters) -> str:
    """The parameters that differ, each with both values."""
    values = [(name.replace("_", "-"), getattr(one, name), getattr(other, name)) for name in one.__struct_fields__]
    return ", ".join(f"{name} {mine:g} and {theirs:g}" for name, mine, theirs in values if mine != theirs)


def write_record(folder: Path, record: Record) -> Path:
    """Keeps a record, in place of an earlier one of its name."""
    private_folder(folder)
    path = folder / f"{record.name}.json"
    write_private(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    return path


def read_record(folder: Path, name: str) -> Record:
    """The record called `name`.

    Raises:
        Refused: there is none, it is damaged, or of a newer Machine.
    """
    command = "baseline" if name == BASELINE else "checkpoint"
    path = folder / f"{name}.json"
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError as error:
        raise Refused(f"no evaluation called {name} yet", next_step=f"machine train eval {command}") from error
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step=f"make {path} readable for you") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Refused(f"{path} is damaged: {error}", next_step=f"machine train eval {command}") from error
    if record.name != name or (record.run is not None and not _RUN.fullmatch(record.run)):
        odd = record.run if record.name == name else record.name
        raise Refused(f"{path} is damaged: it is of {odd!r:.80}", next_step=f"machine train eval {command}")
    if record.version > VERSION:
        raise Refused(f"{path} was written by a newer Machine", next_step=f"machine train eval {command}")
    return record if record.version == VERSION else _scored(record)


def latest_checkpoint(folder: Path) -> str:
    """The name of the newest record of a checkpoint.

    Raises:
        Refused: there is none.
    """
    found = sorted(folder.glob(f"{CHECKPOINT}*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise Refused("no checkpoint was evaluated yet", next_step="machine train eval checkpoint")
    return found[-1].stem


def _scored(record: Record) -> Record:
    """A record of version 1 with the scores that its passes mean."""
    samples = tuple(msgspec.structs.replace(s, score=float(s.passed)) for s in record.samples)
    return msgspec.structs.replace(record, samples=samples, version=VERSION)
