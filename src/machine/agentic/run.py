"""Run: every task of a list tried by one model, one at a time; what is kept is not tried again."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from machine.agentic import pi
from machine.agentic.attempt import Attempt, tried, verdict_of
from machine.agentic.kept import Header, Kept
from machine.agentic.pi import Installed, Model
from machine.agentic.task import Repository, Task, build
from machine.errors import TrainingError
from machine.sandbox.job import Box, Limits
from machine.store.files import locked, private_folder
from machine.training.run import now

LIMITS = Limits()
"""What an attempt may use: see `machine.sandbox`."""

__all__ = ["LIMITS", "Attempt", "Model", "attempt_all"]


def attempt_all(
    tasks: Sequence[Task],
    model: Model,
    box: Box,
    folder: Path,
    progress: Callable[[str], None] = lambda line: None,
    *,
    limits: Limits = LIMITS,
    again: bool = False,
) -> list[Attempt]:
    """Has the model try every task; returns the attempts in the order of the tasks.

    Each is kept in `folder` as soon as it is judged (see `machine.agentic.kept`), so that a run that stops, by Ctrl-C
    too, goes on where it was left; one at a time may write there.

    Args:
        tasks: what is tried.
        model: who is asked.
        box: where Pi and the checks run.
        folder: private, of these tasks and this model alone.
        progress: told how far it is.
        limits: of one attempt.
        again: set what is there aside, and begin anew.

    Raises:
        ServiceError: the service failed; the attempts that were made are kept.
        TrainingError: Pi cannot ask, or a check does not pass on its own solution in this box.
        Refused: a task that was tried is no longer what it was.
        StoreError: the folder cannot be read or written, or another process is at work there.
    """
    installed = pi.installed()
    header = _header(model, limits, installed)
    with locked(private_folder(folder) / ".lock"):
        kept = Kept(folder, header, again=again)
        if kept.aside:
            progress(kept.aside)
        kept.ensure_same(tasks)
        left = [task for task in dict.fromkeys(tasks) if task.id not in kept.attempts]
        if left:
            ensure_judges(build(left[0]), box)
        for number, task in enumerate(left, len(tasks) - len(left) + 1):
            progress(f"trying {number}/{len(tasks)}: {task.id}")
            attempt, events = tried(installed, model, build(task), box, limits)
            kept.add(msgspec.structs.replace(attempt, created_at=now()), events)
            progress(f"tried {number}/{len(tasks)}: {task.id} {'passed' if attempt.passed else attempt.why}")
        return [kept.attempts[task.id] for task in tasks]


def ensure_judges(repository: Repository, box: Box) -> None:
    """Raises where a box cannot tell a solved task: every attempt would fail in it, whatever the model did.

    Raises:
        TrainingError: the repository's solution does not pass.
    """
    verdict = verdict_of(repository, {**repository.files, **repository.solution}, (), box)
    if not verdict.passed:
        raise TrainingError(
            f"task {repository.task.id}: its own solution does not pass in {box.name}: {verdict.why}: "
            f"{verdict.check_output.strip()[-500:]}",
            next_step="machine doctor",
        )


def _header(model: Model, limits: Limits, installed: Installed) -> Header:
    return Header(
        model=model.name,
        instruction=model.instruction,
        context=model.context,
        max_tokens=model.max_tokens,
        temperature=model.temperature,
        limits={name: float(value) for name, value in dataclasses.asdict(limits).items()},
        pi=installed.version,
    )
