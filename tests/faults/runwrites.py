"""A full disk at each write of a training run: its config, state, metrics, checkpoints, seal. A script: see `main`.

One run for each write: from that one on, which is half done, nothing more can be written to the run's folder. Then there
is space again, and the run is resumed.
"""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

from machine.dataset.merge import merged
from machine.dataset.render import fingerprint, render
from machine.dataset.targets import expand
from machine.errors import MachineError
from machine.tinker.service import Service, connect, endpoint
from machine.tinker.students import default_model, load_student, models
from machine.training.config import Config
from machine.training.loop import Loop, open_model
from machine.training.recipe import plan
from machine.training.run import Run, State, new_id, now
from students import questions

STEPS = 3
WRITE = os.write


class Disk:
    """The disk of a folder: full from its `fatal`th write on."""

    def __init__(self, folder: Path, fatal: int) -> None:
        self.folder, self.fatal, self.writes = folder, fatal, 0

    def write(self, descriptor: int, data: Any) -> int:
        """As `os.write`."""
        if self.folder not in Path(f"/proc/self/fd/{descriptor}").resolve().parents:
            return WRITE(descriptor, data)
        self.writes += 1
        if self.writes == self.fatal and len(data) > 1:
            return WRITE(descriptor, bytes(data)[: len(data) // 2])
        if self.writes < self.fatal:
            return WRITE(descriptor, data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Field:
    """What every run has in common."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service, self.folder = service, folder
        model = default_model(models(service))
        self.config = Config(model=model, renderer="machine/chatml", batch_size=2, steps=STEPS, save_every=2, rank=4)
        self.student = load_student(model)
        self.examples = [render(self.student, target) for target in expand(questions(4))]
        self.faults: list[str] = []

    def train(self, run: Run) -> None:
        """Trains a run to its end, or on from where it stood."""
        if not (run.folder / "state.json").exists():
            run.write_config({"data": fingerprint(self.examples)})
            run.write_state(State("running", 0, STEPS, now(), os.getpid()))
        packs = merged(self.examples)
        opening = open_model(self.service, self.config, run.id, run.resumable())
        planned = plan(self.config, len(packs))
        Loop(self.service, self.student, opening, packs, [], planned, run, self.config.save_every, lambda line: None)()

    def shoot(self, fatal: int) -> bool:
        """A run whose disk is full from that write on; False if it has no such write."""
        run = Run(self.folder / new_id())
        disk = Disk(run.folder.resolve(), fatal)
        os.write = disk.write
        try:
            self.train(run)
            return False
        except MachineError as error:
            if "No space left" not in error.message or not error.next_step.startswith("free space"):
                self.faults.append(f"write {fatal}: {error.message} ({error.next_step})")
        finally:
            os.write = WRITE
        kept = run.metrics(), run.resumable()
        self.train(run)
        steps, state = [line["step"] for line in run.metrics()], run.state
        if steps != [*range(1, STEPS + 1)] or state.status != "done" or run.unsealed():
            self.faults.append(f"write {fatal}, resumed: {steps}, {state.status}, {run.unsealed()}")
        saved = kept[1].step if kept[1] else 0
        if run.metrics()[:saved] != kept[0][:saved]:
            self.faults.append(f"write {fatal}: the steps before the saved state are not as they were")
        return True


def main() -> None:
    """`runwrites.py FOLDER`: prints as JSON how many writes a run has, and what was not as it should be."""
    with connect(endpoint()) as service:
        field, fatal = Field(service, Path(sys.argv[1])), 1
        while field.shoot(fatal):
            fatal += 1
    print(json.dumps({"writes": fatal - 1, "faults": field.faults}))


if __name__ == "__main__":
    main()
