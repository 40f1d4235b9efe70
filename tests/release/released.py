"""A project with rows, a recipe, suites and runs, all as real files, for the tests of the release core."""

import copy
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from machine.dataset.select import rows_digest
from machine.dataset.targets import Target, expand
from machine.evals.case import Case, Scorer
from machine.evals.suite import suite_text
from machine.release import log
from machine.release.candidate import candidate_of
from machine.release.draft import new
from machine.release.freeze import freeze
from machine.release.log import Step
from machine.release.seal import Place, training_side
from machine.release.standing import Ledger, Standing, ledger
from machine.store.files import private_folder, write_private
from machine.store.project import Project
from machine.tinker.served import Served
from machine.tinker.service import Endpoint
from machine.trace import encode
from machine.training.run import Checkpoint, Run, State, new_id, now
from students import questions

ID = "BR-000"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
RENDERER = "machine/chatml"
BASE = Served(f"tinker/{MODEL}", MODEL, "base")


def cases(topic: str, count: int = 12) -> list[Case]:
    """So many cases that no row asks."""
    return [
        Case(
            f"{topic}-{i}", ({"role": "user", "content": f"Tell {topic} number {i}, please."},), Scorer("contains", "a")
        )
        for i in range(count)
    ]


def endpoint() -> Endpoint:
    return Endpoint("http://127.0.0.1:1", "key", "$KEY")


class Work:
    """A project and its only release, each step of which is made by the code that the commands call."""

    def __init__(self, folder: Path, rows: int = 24) -> None:
        self.project = Project(folder / "work", folder / "store")
        self.rows(rows)
        private_folder(self.project.evals)
        write_private(self.project.evals / "suite.jsonl", suite_text(cases("target", 14)))

    def copy(self, folder: Path) -> "Work":
        """The same project in another folder, as it stands."""
        shutil.copytree(self.project.folder, folder / "store")
        other = copy.copy(self)
        other.project = Project(folder / "work", folder / "store")
        return other

    def rows(self, count: int) -> None:
        """Writes the recipe and its rows."""
        private_folder(self.project.train)
        lines = b"".join(encode(row) + b"\n" for row in questions(count))
        write_private(self.project.train / "rows.jsonl", lines)
        recipe = f"model: {MODEL}\nrenderer: {RENDERER}\ndata: rows.jsonl\nrank: 16\nlearning_rate: 4.26e-4\n"
        write_private(self.project.train / "tinker.yaml", recipe.encode())

    @property
    def place(self) -> Place:
        return Place(self.project.releases, ID, self.standing.version)

    @property
    def ledger(self) -> Ledger:
        return ledger(log.read(self.project.releases))

    @property
    def standing(self) -> Standing:
        return self.ledger.of(ID)

    def drafted(self) -> "Work":
        new(self.project, ID, None)
        return self

    def frozen(self) -> "Work":
        self.drafted().edit("<the style, as you would ask for it in a system prompt>", "Answer in one short line.")
        freeze(self.project, self.standing)
        return self

    def edit(self, old: str, new: str) -> "Work":
        """Edits the preregistration by hand."""
        text = self.place.file.read_text("utf-8")
        assert old in text
        self.place.file.write_text(text.replace(old, new, 1), "utf-8")
        return self

    def candidate(self) -> Run:
        run = self.run()
        named = candidate_of(run, self.place.read(), self.standing.frozen)
        self.step("candidate", {"candidate": msgspec.to_builtins(named)})
        return run

    def step(self, step: Step, data: dict[str, Any] | None = None, version: int = 0) -> None:
        log.append(self.project.releases, ID, version or self.standing.version, step, data or {})

    def trained(self) -> list[Target]:
        return expand(training_side(self.project))

    def run(self, id: str = "", *, steps: int = 6, status: str = "done", started: str = "", **changes: Any) -> Run:
        """A run as the trainer leaves it. `changes` go into its recipe, its data or its estimate, by their names."""
        run = Run(self.project.runs / (id or new_id()))
        side = training_side(self.project)
        config: dict[str, dict[str, Any]] = {
            "recipe": {"model": MODEL, "renderer": RENDERER, "rank": 16, "learning_rate": 4.26e-4},
            "data": {"rows": len(side), "rows_sha256": rows_digest(side)},
            "estimate": {"usd": 0.0},
        }
        tokens = changes.pop("tokens", 50)
        for name, value in changes.items():
            next(part for part in config.values() if name in part)[name] = value
        run.write_config({**config, "steps": steps})
        for step in range(1, steps + 1):
            rate = config["recipe"]["learning_rate"] * (steps + 1 - step) / steps
            run.add_metrics({"step": step, "loss": 1.0 / step, "tokens": tokens, "learning_rate": rate})
        weights = f"tinker://{run.id}/sampler_weights/final"
        run.add_checkpoint(Checkpoint(steps, state=weights, sampler=weights, probe=(1.0, 2.0)))
        run.seal()
        run.write_state(State(status, steps, steps, started or now(), os.getpid()))  # type: ignore[arg-type]
        return run
