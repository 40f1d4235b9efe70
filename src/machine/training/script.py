"""Script: what the page that `/train sft` writes needs around its recipe: arguments, the run's folder, and how it ends.

The page lies in the project's store (`train/train_sft.py`), so the store is the folder above it. It runs under
`machine train run` or by itself: `python train_sft.py [--steps N] [--rank N] ... [--resume RUN]`. By itself it sends to
another machine only what `machine train run` was agreed to for.
"""

import argparse
import importlib.metadata
import io
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from machine.dataset.merge import Pack, merged
from machine.dataset.render import Example, fingerprint
from machine.dataset.select import good_rows, rows_digest, rows_of
from machine.dataset.split import Split
from machine.errors import MachineError, Refused, UsageError
from machine.store.project import Project
from machine.tinker import prices
from machine.tinker.service import Endpoint, Pending, Service
from machine.trace import Row
from machine.training.config import POOL, Config, chosen, figures, option, overridden, parse_config, read_config
from machine.training.forecast import forecast
from machine.training.leaving import refuse_unapproved
from machine.training.loop import open_model
from machine.training.recipe import Plan, plan
from machine.training.run import Run, State, find_run, new_id, now

if TYPE_CHECKING:
    from tinker import TrainingClient

_PACKAGES = ("tinker", "tinker-cookbook", "tml-renderers", "pi-machine")


@dataclass(frozen=True)
class Arguments:
    """The command line of the page: figures that differ from the recipe's, as text by their names in it; a run to go on
    with; the id of a new run, chosen by whoever started it.
    """

    figures: Mapping[str, str]
    resume: str | None
    run: str


@dataclass(frozen=True)
class Data:
    """What a run trains on and what it holds out: the rows, and their examples rendered."""

    rows: Split
    examples: Sequence[Example]
    held_out: Sequence[Example] = ()

    @cached_property
    def datums(self) -> list[Pack]:
        """What the examples are trained as."""
        return merged(self.examples)

    @cached_property
    def held_out_datums(self) -> list[Pack]:
        """What the held-out examples are measured as."""
        return merged(self.held_out)


def arguments(argv: Sequence[str] | None = None) -> Arguments:
    """Parses the page's command line."""
    parser = argparse.ArgumentParser(description="Train on this project's good turns.", allow_abbrev=False)
    for name, about in figures().items():
        parser.add_argument(option(name), dest=name, metavar="VALUE", help=about.replace("%", "%%"))
    parser.add_argument("--resume", metavar="RUN", help="Go on with an interrupted run.")
    parser.add_argument("--run", default=new_id(_runs_of_page()), help=argparse.SUPPRESS)
    known = vars(parser.parse_args(argv))
    given = {name: known[name] for name in figures() if known[name] is not None}
    return Arguments(given, known["resume"], known["run"])


def _runs_of_page() -> Path:
    """The runs of the store that the page lies in."""
    return Path(sys.argv[0]).absolute().parent.parent / "runs"


def recipe(path: Path, given: Arguments) -> Config:
    """The recipe of this run: the file's, with the figures of the command line. A resumed run keeps its own.

    Raises:
        Refused: the file is not a recipe, or there is no such run.
        UsageError: a figure is wrong, or is given for a run that has its own.
    """
    if given.resume is None:
        return overridden(read_config(path), chosen(given.figures))
    if given.figures:
        raise UsageError(
            f"a resumed run keeps its recipe: {option(next(iter(given.figures)))} and --resume exclude each other",
            next_step="machine train run --resume",
        )
    return kept_recipe(find_run(_store(path.parent.parent).runs, given.resume))


def kept_recipe(run: Run) -> Config:
    """The recipe that a run was begun with.

    Raises:
        Refused: an older Machine wrote it.
    """
    try:
        return parse_config(run.config["recipe"])
    except (KeyError, msgspec.ValidationError) as error:
        raise _older(run) from error


def load_rows(config: Config, store: Path) -> list[Row]:
    """The rows that the recipe names: the pool of the store, or a file (relative to the store's `train/`)."""
    project = _store(store)
    if config.data == POOL:
        return good_rows(project.pool)
    return rows_of(project.train / Path(config.data).expanduser())


def trained_rows(run: Run, store: Path) -> list[Row]:
    """The rows that a run trained on; of its sessions, those tagged since too.

    Raises:
        Refused: an older Machine wrote the run.
    """
    try:
        sessions = set(run.config["split"]["train"])
    except KeyError as error:
        raise _older(run) from error
    return [row for row in load_rows(kept_recipe(run), store) if row.source.session in sessions]


def opened(service: Service, config: Config, store: Path, given: Arguments) -> "Pending[TrainingClient]":
    """Asks the service for the run's model, which it makes or loads while the rows are rendered here."""
    if given.resume is None:
        return open_model(service, config, given.run)
    run = find_run(_store(store).runs, given.resume)
    run.refuse_running()
    return open_model(service, config, run.id, run.resumable())


def begin(store: Path, config: Config, data: Data, where: Endpoint, given: Arguments) -> tuple[Run, Plan]:
    """The run's folder and its plan: a new run, or the one to resume, which must be of the same data.

    Raises:
        Refused: an example is longer than `max_length`, what is to leave this machine holds a secret or was not agreed
            to, it comes to 0 steps, or the run cannot be resumed.
    """
    project = _store(store)
    check_lengths(config, [*data.examples, *data.held_out])
    if not where.stays:
        refuse_unapproved(project, config, data, where)
    if given.resume is not None:
        return _resumed(find_run(project.runs, given.resume), config, data)
    planned = plan(config, len(data.datums))
    run = Run(project.runs / given.run)
    run.write_config(_about(config, data, planned, where, project.runs))
    run.claim()
    run.write_state(State("running", 0, planned.steps, now(), os.getpid()))
    return run, planned


def check_lengths(config: Config, examples: Sequence[Example]) -> None:
    """Refuses what the length limit would cut, and what would train nothing."""
    for example in examples:
        if len(example.tokens) > config.max_length:
            raise Refused(
                f"{example.id} has {len(example.tokens)} tokens, more than max_length {config.max_length}",
                next_step="raise max_length in tinker.yaml, or leave the row out",
            )
        if not example.trained:
            raise Refused(f"{example.id} has no token to train", next_step="machine train validate")


def say(line: str) -> None:
    """One line of progress. When nobody reads any more, the run is told to save its state and stop."""
    try:
        print(line, flush=True)
    except OSError:  # a closed pipe, or a terminal that is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        signal.raise_signal(signal.SIGINT)


def finish(main: Callable[[Arguments], None]) -> int:
    """Runs the page; a fault is two lines on stderr, what happened and what to do next. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without block characters still shows how it goes
    try:
        main(arguments())
    except MachineError as error:
        print(f"error: {error.message}\nnext: {error.next_step}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted before training began\nnext: machine train run", file=sys.stderr)
        return 1
    return 0


def _about(config: Config, data: Data, planned: Plan, where: Endpoint, runs: Path) -> dict[str, Any]:
    """What a run is made of, for its `config.json`."""
    expected = forecast(config, planned, data.datums, data.held_out_datums, where, runs)
    price = None if where.local else prices.of(config.model)
    return {
        "recipe": msgspec.to_builtins(config),
        "steps": planned.steps,
        "data": {
            "sha256": fingerprint(data.examples),
            "rows": len(data.rows.train),
            "rows_sha256": rows_digest(data.rows.train),
            "examples": len(data.examples),
            "datums": len(data.datums),
            "tokens": sum(len(pack.tokens) for pack in data.datums),
            "tokens_apart": sum(len(e.tokens) for e in data.examples),
            "trained_tokens": sum(e.trained for e in data.examples),
        },
        "split": _split(config, data),
        "estimate": {
            "tokens": expected.tokens,
            "held_out_tokens": expected.held_out,
            "usd": expected.dollars,
            "price": msgspec.to_builtins(price),
            "source": prices.SOURCE,
        },
        "service": where.destination,
        "versions": {name: _version(name) for name in _PACKAGES} | {"python": sys.version.split()[0]},
    }


def _split(config: Config, data: Data) -> dict[str, Any]:
    """Which conversations (`source.session`) are trained on, and which are held out."""
    return {
        "test_size": config.test_size,
        "seed": config.seed,
        "train": sorted({row.source.session for row in data.rows.train}),
        "held_out": sorted({row.source.session for row in data.rows.held_out}),
        "held_out_examples": len(data.held_out),
        "held_out_sha256": fingerprint(data.held_out),
    }


def _resumed(run: Run, config: Config, data: Data) -> tuple[Run, Plan]:
    run.claim()
    kept = run.config
    if run.state.status == "done":
        raise Refused(f"run {run.id} is done", next_step="machine train run (a new run)")
    if "split" not in kept:
        raise _older(run)
    if kept["data"]["sha256"] != fingerprint(data.examples) or kept["split"] != _split(config, data):
        raise Refused(
            f"the rows changed since run {run.id} began; going on would not be the same run",
            next_step="machine train run (a new run)",
        )
    return run, plan(config, len(data.datums))


def _older(run: Run) -> Refused:
    return Refused(f"run {run.id} was begun by an older Machine", next_step="machine train run (a new run)")


def _store(folder: Path) -> Project:
    """The store in `folder`; which project it is of does not matter here."""
    return Project(folder, folder)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
