"""Record: one evaluation of one model, kept whole in `evals/<name>.json`."""

from pathlib import Path

import msgspec

from machine.errors import Refused
from machine.evals.proof import Proof
from machine.evals.sample import Parameters, Sample
from machine.store.files import private_folder, write_private

BASELINE = "baseline"
CHECKPOINT = "checkpoint-"
"""Names of records: `baseline`, and `checkpoint-<run or path>` for each checkpoint."""


class Record(msgspec.Struct, frozen=True):
    """Every sample of an evaluation, with all that it depends on. `base` is the base's proof beside a checkpoint's."""

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

    @property
    def passed(self) -> dict[str, bool]:
        """Which cases it passed."""
        return {sample.case: sample.passed for sample in self.samples}


def write_record(folder: Path, record: Record) -> Path:
    """Keeps a record, in place of an earlier one of its name."""
    private_folder(folder)
    path = folder / f"{record.name}.json"
    write_private(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    return path


def read_record(folder: Path, name: str) -> Record:
    """The record called `name`.

    Raises:
        Refused: there is none, or it is damaged.
    """
    command = "baseline" if name == BASELINE else "checkpoint"
    path = folder / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except OSError as error:
        raise Refused(f"no evaluation called {name} yet", next_step=f"machine train eval {command}") from error
    except msgspec.MsgspecError as error:
        raise Refused(f"{path} is damaged: {error}", next_step=f"machine train eval {command}") from error


def latest_checkpoint(folder: Path) -> str:
    """The name of the newest record of a checkpoint.

    Raises:
        Refused: there is none.
    """
    found = sorted(folder.glob(f"{CHECKPOINT}*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise Refused("no checkpoint was evaluated yet", next_step="machine train eval checkpoint")
    return found[-1].stem
