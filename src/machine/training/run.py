"""Run: the folder of one training run, `runs/<id>/`, and what can be read back from it.

    config.json        the recipe, versions, hash of the data; written once
    state.json         status, step, steps, cause of a failure; replaced whole at every change
    metrics.jsonl      one line a step
    heldout.jsonl      one line each time the held-out conversations were measured
    checkpoints.jsonl  one line a saved checkpoint
    seal.json          the run's id, and SHA-256 (hex) of config, metrics, heldout and checkpoints when it was done
    run.lock           held by the process that trains; the system frees it whatever ends that process

A crash loses at most the line being written; what it left of it is cut off before the next one. A run that
nobody holds while its state says running was interrupted.
"""

import contextlib
import datetime
import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from machine.errors import Refused, StoreError
from machine.store.files import append_line, private_folder, write_private

Status = Literal["running", "done", "interrupted", "failed"]

RECORDS = ("config.json", "metrics.jsonl", "heldout.jsonl", "checkpoints.jsonl")
"""What a run writes of itself, and never changes once it is done."""

_SEAL = "seal.json"
_LOCK = "run.lock"
_STAMP = "%Y%m%d-%H%M%S"
_LOCK_SECONDS = 1.0  # longer than a look at who holds it takes
_T = TypeVar("_T")


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a run stands: `step` steps of `steps` are done. `saved` is the step that the last saved state is of."""

    status: Status
    step: int
    steps: int
    started_at: str
    pid: int
    ended_at: str | None = None
    seconds: float = 0.0
    saved: int | None = None
    cause: str | None = None
    next_step: str | None = None


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint of a run. `state` can be trained on (optimiser included), `sampler` can be asked.

    `probe` is the fingerprint of the weights at that step (see `tinker.probe`).
    """

    step: int
    state: str | None = None
    sampler: str | None = None
    probe: tuple[float, ...] | None = None


class HeldOut(msgspec.Struct, frozen=True):
    """Mean loss of the held-out examples, in nats a token, under the weights after `step` steps."""

    step: int
    loss: float
    examples: int


class Run:
    """The run in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def id(self) -> str:
        """The run's name: when it began, and four letters."""
        return self.folder.name

    @property
    def config(self) -> dict[str, Any]:
        """`config.json`: {recipe, steps, data, split, estimate, service, versions}."""
        return self._decoded("config.json", self._read("config.json"), dict[str, Any])

    @property
    def state(self) -> State:
        """Where the run stands, the death of its process included."""
        state = self._decoded("state.json", self._read("state.json"), State)
        if state.status == "running" and not self._claimed():
            return msgspec.structs.replace(state, status="interrupted", cause="its process ended without a word")
        return state

    def claim(self) -> None:
        """Makes the run this process's own for as long as this object lives.

        Raises:
            Refused: another process is training it.
        """
        from filelock import FileLock, Timeout

        self._lock = FileLock(self.folder / _LOCK, timeout=_LOCK_SECONDS, mode=0o600)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise self._busy(self.state) from error

    def refuse_running(self) -> None:
        """Refuses a run that a process is training, before anything is made ready to go on with it.

        Raises:
            Refused: a process is (the message names it).
        """
        state = self.state
        if state.status == "running":
            raise self._busy(state)

    def _busy(self, state: State) -> Refused:
        since = f"process {state.pid}, since {state.started_at}" if state.status == "running" else "another process"
        return Refused(
            f"run {self.id} is being trained by {since}, and is at step {state.step} of {state.steps}",
            next_step="wait until it is done (machine train runs), or end it with Ctrl-C and resume it",
        )

    def _claimed(self) -> bool:
        from filelock import FileLock, Timeout

        if not (self.folder / _LOCK).exists():
            return False
        try:
            with FileLock(self.folder / _LOCK, timeout=0, mode=0o600):
                return False
        except Timeout:
            return True

    def write_config(self, config: dict[str, Any]) -> None:
        """Makes the folder and keeps what the run is made of."""
        private_folder(self.folder)
        write_private(self.folder / "config.json", json.dumps(config, indent=2, allow_nan=False).encode() + b"\n")

    def write_state(self, state: State) -> None:
        """Replaces the state."""
        write_private(self.folder / "state.json", msgspec.json.encode(state) + b"\n")

    def add_metrics(self, metrics: dict[str, Any]) -> None:
        """Appends a line of metrics."""
        append_line(self.folder / "metrics.jsonl", json.dumps(metrics, allow_nan=False).encode(), cut_torn=True)

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Appends a checkpoint."""
        append_line(self.folder / "checkpoints.jsonl", msgspec.json.encode(checkpoint), cut_torn=True)

    def metrics(self) -> list[dict[str, Any]]:
        """A line for each step, in order; of a step done twice (resumed from before it), the later one."""
        steps = {line["step"]: line for line in self._lines("metrics.jsonl", dict[str, Any])}
        return [steps[step] for step in sorted(steps)]

    def add_held_out(self, measured: HeldOut) -> None:
        """Appends a measurement of the held-out side."""
        append_line(self.folder / "heldout.jsonl", msgspec.json.encode(measured), cut_torn=True)

    def held_out(self) -> list[HeldOut]:
        """What the held-out side was measured at, in order of steps; of a step measured twice, the later one."""
        found = {each.step: each for each in self._lines("heldout.jsonl", HeldOut)}
        return [found[step] for step in sorted(found)]

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint, oldest first."""
        return list(self._lines("checkpoints.jsonl", Checkpoint))

    def digests(self) -> dict[str, str]:
        """SHA-256 (hex) of each record that is there, by its name."""
        there = [name for name in RECORDS if (self.folder / name).exists()]
        return {name: hashlib.sha256(self._read(name)).hexdigest() for name in there}

    def seal(self) -> None:
        """Keeps the run's id and the digests of its records, which are whole."""
        write_private(self.folder / _SEAL, msgspec.json.encode({"id": self.id, **self.digests()}) + b"\n")

    def unsealed(self) -> list[str]:
        """The records that are not as they were when the run was done; `seal.json` where there is none of this run.

        Raises:
            StoreError: a record cannot be read.
        """
        if not (self.folder / _SEAL).exists():
            return [_SEAL]
        sealed, found = self._decoded(_SEAL, self._read(_SEAL), dict[str, str]), self.digests()
        other = [] if sealed.get("id") == self.id else [_SEAL]
        return other + [name for name in RECORDS if sealed.get(name) != found.get(name)]

    def resumable(self) -> Checkpoint | None:
        """The last checkpoint that training can go on from."""
        return next((c for c in reversed(self.checkpoints()) if c.state), None)

    def sampler(self) -> Checkpoint | None:
        """The last checkpoint that can be asked."""
        return next((c for c in reversed(self.checkpoints()) if c.sampler), None)

    def _lines(self, name: str, kind: type[_T]) -> Iterator[_T]:
        if (self.folder / name).exists():
            for line in self._read(name).split(b"\n")[:-1]:
                yield self._decoded(name, line, kind)

    def _decoded(self, name: str, data: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise StoreError(
                f"{self.folder / name} is damaged: {error}", next_step=f"move {self.folder} away"
            ) from error

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise StoreError(
                f"{self.folder / name}: {error.strerror or error}", next_step="machine train runs"
            ) from error


def new_id(folder: Path | None = None) -> str:
    """A name for a run that begins now; names sort by time.

    Beside the runs of `folder` it sorts last, even where the clock has been set back since the newest of them began.
    """
    moment = datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)
    for run in runs(folder) if folder else ():
        with contextlib.suppress(ValueError):  # a folder of another name
            newest = datetime.datetime.strptime(run.id.rpartition("-")[0], _STAMP)
            moment = max(moment, newest + datetime.timedelta(seconds=1))
    return f"{moment:{_STAMP}}-{secrets.token_hex(2)}"


def runs(folder: Path) -> list[Run]:
    """The runs of a project, newest first."""
    if not folder.is_dir():
        return []
    found = [Run(path) for path in folder.iterdir() if (path / "state.json").is_file()]
    return sorted(found, key=lambda run: run.id, reverse=True)


def find_run(folder: Path, ref: str = "latest") -> Run:
    """The run whose id begins or ends with `ref`; `latest` is the newest.

    Raises:
        Refused: there is none, or several.
    """
    every = runs(folder)
    found = every[:1] if ref == "latest" else [r for r in every if r.id.startswith(ref) or r.id.endswith(ref)]
    if len(found) == 1:
        return found[0]
    if not every:
        raise Refused("this project has no training run yet", next_step="machine train run")
    raise Refused(f"{ref!r} names {len(found)} runs of this project", next_step="machine train runs")


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
