"""Script: what the page that `/train sft` writes needs around its recipe: arguments, the run's folder, and how it ends.

The page lies in the project's store (`train/train_sft.py`), so the store is the folder above it. It runs under
`machine train run` or by itself: `python train_sft.py [--steps N] [--resume RUN]`.
"""

import argparse
import importlib.metadata
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.dataset.merge import merged
from machine.dataset.render import Example, fingerprint
from machine.dataset.scan import refuse_secrets
from machine.dataset.select import good_rows, rows_of
from machine.dataset.split import split
from machine.errors import MachineError, Refused
from machine.store.pool import Pool
from machine.tinker.service import Endpoint
from machine.trace import Row
from machine.training.config import POOL, Config
from machine.training.recipe import Plan, plan
from machine.training.run import Run, State, find_run, new_id, now

MEND_SECRET = "tag the turn again (it is redacted then), or leave the row out"
_PACKAGES = ("tinker", "tinker-cookbook", "tml-renderers", "pi-machine")


@dataclass(frozen=True)
class Arguments:
    """The command line of the page. `run` is the id of a new run, chosen by whoever started it."""

    steps: int | None
    resume: str | None
    run: str


def arguments(argv: Sequence[str] | None = None) -> Arguments:
    """Parses the page's command line."""
    parser = argparse.ArgumentParser(description="Train on this project's good turns.")
    parser.add_argument("--steps", type=int, help="train this many steps instead of the recipe's")
    parser.add_argument("--resume", metavar="RUN", help="go on with an interrupted run")
    parser.add_argument("--run", default=new_id(), help=argparse.SUPPRESS)
    known = parser.parse_args(argv)
    return Arguments(known.steps, known.resume, known.run)


def load_rows(config: Config, store: Path) -> list[Row]:
    """The rows that the recipe names: the pool of the store, or a file (relative to the store's `train/`)."""
    if config.data == POOL:
        return good_rows(Pool(store / "traces.jsonl"))
    return rows_of(store / "train" / Path(config.data).expanduser())


def begin(
    store: Path, config: Config, examples: Sequence[Example], where: Endpoint, given: Arguments
) -> tuple[Run, Plan]:
    """The run's folder and its plan: a new run, or the one to resume, which must be of the same data and recipe.

    Raises:
        Refused: an example is longer than `max_length`, a row that is to leave this machine holds a secret, it comes to
            0 steps, or the run cannot be resumed.
    """
    check_lengths(config, examples)
    if not where.local:
        refuse_secrets(split(load_rows(config, store), config.test_size, config.seed).train, MEND_SECRET)
    data = fingerprint(examples)
    if given.resume is not None:
        return _resumed(find_run(store / "runs", given.resume), config, data)
    packs = merged(examples)
    planned = plan(config, len(packs), given.steps)
    run = Run(store / "runs" / given.run)
    run.write_config(
        {
            "recipe": msgspec.to_builtins(config),
            "steps": planned.steps,
            "data": {
                "sha256": data,
                "examples": len(examples),
                "datums": len(packs),
                "tokens": sum(len(pack.tokens) for pack in packs),
                "tokens_apart": sum(len(e.tokens) for e in examples),
                "trained_tokens": sum(e.trained for e in examples),
            },
            "service": where.destination,
            "versions": {name: _version(name) for name in _PACKAGES} | {"python": sys.version.split()[0]},
        }
    )
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
    try:
        main(arguments())
    except MachineError as error:
        print(f"error: {error.message}\nnext: {error.next_step}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted before training began\nnext: machine train run", file=sys.stderr)
        return 1
    return 0


def _resumed(run: Run, config: Config, data: str) -> tuple[Run, Plan]:
    run.claim()
    kept = run.config
    if run.state.status == "done":
        raise Refused(f"run {run.id} is done", next_step="machine train run (a new run)")
    if "datums" not in kept["data"]:
        raise Refused(f"run {run.id} was begun by an older Machine", next_step="machine train run (a new run)")
    if kept["data"]["sha256"] != data or kept["recipe"] != msgspec.to_builtins(config):
        what = "rows" if kept["data"]["sha256"] != data else "recipe in tinker.yaml"
        raise Refused(
            f"the {what} changed since run {run.id} began; going on would not be the same run",
            next_step="machine train run (a new run)",
        )
    return run, plan(config, kept["data"]["datums"], kept["steps"])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
