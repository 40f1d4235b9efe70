"""Weights: what a REF of `tinker use` and `tinker checkpoints` means, and whether what it means answers."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from machine.errors import MachineError, Refused, UsageError
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.tinker.checkpoints import Held
    from machine.tinker.service import Service
    from machine.tinker.students import Model
    from machine.training.run import Run


@dataclass(frozen=True)
class Weights:
    """What was meant: a sampler path (None: the base model itself), its base, and the alias that suggests itself."""

    path: str | None
    base: str
    alias: str | None = None

    @property
    def model(self) -> str:
        """What the service knows it as."""
        return self.path or self.base


def resolve(service: "Service", project: Project, ref: str, available: "Mapping[str, Model]") -> Weights:
    """What `ref` means: a base model, a `tinker://` path, an alias, a run of this project, a run of the service.

    Raises:
        Refused: nothing is called so, several things are, or what is called so cannot be asked.
        UsageError: it is a `tinker://` path of something else.
        ServiceError: the service does not hold the path.
    """
    if ref in available:
        return _askable(Weights(None, ref), available)
    path, alias = _path(service, project, ref, available)
    from machine.tinker.checkpoints import base_of

    return _askable(Weights(path, base_of(service, path), alias), available)


def of_run(project: Project, ref: str, found: "Sequence[Held]") -> "list[Held]":
    """The checkpoints of a run: of this project by its id or `latest`, of the service by its id; a prefix will do.

    Raises:
        Refused: no run, or several, are called so.
    """
    if run := _own_run(project, ref):
        paths = {path for saved in run.checkpoints() for path in (saved.state, saved.sampler) if path}
        runs = {_run_of(path) for path in paths}
    else:
        runs = {_run_of(held.path) for held in found if _run_of(held.path).startswith(ref)}
        if len(runs) > 1:
            raise Refused(f"{ref!r} names {len(runs)} runs of the service", next_step="machine tinker checkpoints")
    left = [held for held in found if _run_of(held.path) in runs]
    if not left:
        raise Refused(f"the service holds no checkpoint of a run {ref!r}", next_step="machine tinker checkpoints")
    return left


def short_sample(service: "Service", weights: Weights) -> str:
    """What the model says to a greeting, in a few tokens; empty where it begins by thinking.

    Raises:
        MachineError: no renderer or tokenizer is known for the base model, or the model does not answer.
    """
    from machine.commands.greeting import greeting
    from machine.tinker.checkpoints import sampler

    try:
        return greeting(service, weights.base, sampler(service, weights.base, weights.path))
    except MachineError as error:
        raise type(error)(f"{weights.model} is not registered: {error.message}", next_step=error.next_step) from error


def _askable(weights: Weights, available: "Mapping[str, Model]") -> Weights:
    model = available.get(weights.base)
    if model is None:
        raise Refused(
            f"{weights.path} was trained from {weights.base}, which the service does not list",
            next_step="machine tinker models",
        )
    if not model.sampleable:
        raise Refused(
            f"{weights.base} can be trained, but not asked, at this service", next_step="machine tinker models"
        )
    return weights


def _path(service: "Service", project: Project, ref: str, available: "Mapping[str, Model]") -> tuple[str, str | None]:
    from machine.tinker.checkpoints import SCHEME, held
    from machine.tinker.provider import NAME, listed

    if "://" in ref:
        return _sampler_path(service, ref), None
    alias = ref.removeprefix(f"{NAME}/")
    for entry in listed():
        if entry.alias == alias and entry.model.startswith(SCHEME):
            return entry.model, alias
    if run := _own_run(project, ref):
        return _sampler_of(run), run.id
    if "/" in ref:
        near = difflib.get_close_matches(ref, available, n=1)
        raise Refused(
            f"the service has no model {ref!r}",
            next_step=f"machine tinker use {near[0]}" if near else "machine tinker models",
        )
    every = held(service)
    runs = {_run_of(each.path) for each in every if _run_of(each.path).startswith(ref)}
    if len(runs) > 1:
        raise Refused(f"{ref!r} names {len(runs)} runs of the service", next_step="machine tinker checkpoints")
    if not runs:
        raise Refused(
            f"{ref!r} is no base model, no alias, no run of this project and no run of the service",
            next_step="machine tinker checkpoints, or machine tinker models",
        )
    [run_id] = runs
    for each in every:
        if _run_of(each.path) == run_id and each.kind == "sampler":
            return each.path, None
    raise Refused(
        f"run {run_id} of the service has no checkpoint that can be asked, only training states",
        next_step=f"machine tinker checkpoints {run_id}",
    )


def _sampler_path(service: "Service", ref: str) -> str:
    """The path itself; one that cannot be asked is refused with the one that can, where there is such a one.

    Raises:
        Refused: it is a training state.
        UsageError: it is no path of Tinker's.
    """
    from machine.tinker.checkpoints import SCHEME, held

    if ref.startswith(SCHEME) and "/sampler_weights/" in ref:
        return ref
    if ref.startswith(SCHEME) and "/weights/" in ref:
        twin = ref.replace("/weights/", "/sampler_weights/", 1)
        is_there = any(each.path == twin for each in held(service))
        raise Refused(
            f"{ref} is a training state: a run can go on from it, but it cannot be asked",
            next_step=f"machine tinker use {twin}" if is_there else f"machine tinker checkpoints {_run_of(ref)}",
        )
    raise UsageError(
        f"{ref!r} is not a sampler path of Tinker's",
        next_step="give tinker://RUN/sampler_weights/NAME, as machine tinker checkpoints lists it",
    )


def _own_run(project: Project, ref: str) -> "Run | None":
    """This project's run of that id, or `latest`; None where none is called so.

    Raises:
        Refused: several are, or there is none yet and `latest` is asked for.
    """
    from machine.training.run import find_run, runs

    if ref == "latest" or any(run.id.startswith(ref) or run.id.endswith(ref) for run in runs(project.runs)):
        return find_run(project.runs, ref)
    return None


def _sampler_of(run: "Run") -> str:
    saved = run.sampler()
    if saved is None or saved.sampler is None:
        raise Refused(
            f"run {run.id} has no checkpoint that can be asked", next_step=f"machine train run --resume {run.id}"
        )
    return saved.sampler


def _run_of(path: str) -> str:
    """`RUN` of `tinker://RUN/kind/name`."""
    return path.partition("://")[2].partition("/")[0]
