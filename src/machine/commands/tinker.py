"""`tinker`: the service's models and this user's checkpoints, as models in Pi."""

import dataclasses
from typing import TYPE_CHECKING

import click

from machine.errors import Refused
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.tinker.service import Endpoint, Service

_SAMPLE_TOKENS = 8


@click.group("tinker")
def tinker() -> None:
    """Models and checkpoints of the Tinker service."""


@tinker.command("models")
@click.pass_obj
def list_models(host: Host) -> Report:
    """List the base models of the service."""
    from machine.tinker.service import connect
    from machine.tinker.students import models

    where = _endpoint()
    with connect(where) as service:
        found = models(service)
    lines = [(m.name, str(m.context or "?"), _yes(m.trainable), _yes(m.sampleable)) for m in found]
    return Report(
        f"{len(found)} base models at {where.destination}",
        tables=[Table("Base models", ("model", "context", "train", "ask"), lines)],
        next_step=f"machine tinker use {found[0].name}" if found else "",
        data={"models": [dataclasses.asdict(m) for m in found]},
    )


@tinker.command("use")
@click.argument("ref")
@click.argument("alias", required=False)
@click.option("--temperature", type=click.FloatRange(min=0, max=2), help="What Pi samples at (default: the service's).")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens an answer may have in Pi.")
@click.pass_obj
def use(host: Host, ref: str, alias: str | None, temperature: float | None, max_tokens: int | None) -> Report:
    """Ask a model for a few tokens, then register it with Pi.

    REF: a base model, a tinker:// sampler path, a run id, or latest (this project's last run).
    """
    from machine.tinker.checkpoints import base_of, sampler
    from machine.tinker.provider import register
    from machine.tinker.service import connect
    from machine.tinker.students import models

    where = _endpoint()
    with connect(where) as service:
        available = {m.name: m.context for m in models(service)}
        path, named = _resolve(Project.at(host.cwd), ref, available)
        base = base_of(service, path) if path else ref
        answer = _short_sample(service, base, sampler(service, base, path))
    entry, dropped = register(
        where, path or base, alias or named, available.get(base), temperature=temperature, max_tokens=max_tokens
    )
    host.models_changed()
    return Report(
        f"{entry.ref} is a model in Pi",
        rows=[("Weights", entry.model), ("Base", base), ("It said", answer), ("Served by", where.destination)],
        notes=[f"{dropped} models of another service were taken out of Pi's list"] if dropped else [],
        next_step=f"pi --model {entry.ref}, or /model in a running Pi",
        data={"ref": entry.ref, "model": entry.model, "base": base, "sample": answer, "dropped": dropped},
    )


@tinker.command("list")
@click.pass_obj
def list_registered(host: Host) -> Report:
    """List the models that are registered with Pi."""
    from machine.tinker.provider import listed

    found = listed()
    return Report(
        f"{len(found)} models registered with Pi",
        tables=[Table("Models", ("in Pi", "weights"), [(e.ref, e.model) for e in found])] if found else [],
        next_step="" if found else "machine tinker models",
        data={"models": [{"ref": e.ref, "alias": e.alias, "model": e.model} for e in found]},
    )


@tinker.command("remove")
@click.argument("alias")
@click.pass_obj
def remove(host: Host, alias: str) -> Report:
    """Take a model out of Pi's list. The checkpoint stays."""
    from machine.tinker.provider import NAME, unregister

    unregister(alias.removeprefix(f"{NAME}/"))
    host.models_changed()
    return Report(f"{alias} is no longer a model in Pi", next_step="machine tinker list", data={"alias": alias})


@tinker.command("checkpoints")
@click.pass_obj
def list_checkpoints(host: Host) -> Report:
    """List the checkpoints that the service holds, newest first."""
    from machine.tinker.checkpoints import held
    from machine.tinker.service import connect

    where = _endpoint()
    with connect(where) as service:
        found = held(service)
    lines = [(c.path, c.kind, c.created_at[:19], _size(c.bytes)) for c in found]
    return Report(
        f"{len(found)} checkpoints at {where.destination}",
        tables=[Table("Newest first", ("path", "kind", "created", "size"), lines)] if found else [],
        next_step="machine tinker use latest" if found else "machine train run",
        data={"checkpoints": [dataclasses.asdict(c) for c in found]},
    )


@tinker.command("status")
@click.pass_obj
def status(host: Host) -> Report:
    """Say which service is meant, whether it answers, and what Pi knows of it."""
    import importlib.metadata

    from machine.tinker.provider import listed
    from machine.tinker.service import connect
    from machine.tinker.students import default_model, models

    where = _endpoint()
    with connect(where) as service:
        available = models(service)
    student, registered = default_model(available), listed()
    version = importlib.metadata.version("tinker")
    return Report(
        f"The Tinker service at {where.destination} answers",
        rows=[
            ("Address", where.url),
            ("Key from", where.key_source),
            ("Base models", str(len(available))),
            ("Default student", student),
            ("Registered with Pi", ", ".join(e.ref for e in registered) or "none"),
            ("SDK", version),
        ],
        next_step="machine tinker models",
        data={
            "url": where.url,
            "destination": where.destination,
            "models": len(available),
            "default": student,
            "registered": [e.ref for e in registered],
            "sdk": version,
        },
    )


def _endpoint() -> "Endpoint":
    """The service; Pi's providers file follows it, should it have moved."""
    from machine.tinker.provider import refresh
    from machine.tinker.service import endpoint

    where = endpoint()
    refresh(where)
    return where


def _resolve(project: Project, ref: str, available: dict[str, int | None]) -> tuple[str | None, str | None]:
    """The sampler path that `ref` means (None: it is a base model), and the alias that suggests itself."""
    from machine.tinker.checkpoints import SCHEME
    from machine.training.run import find_run

    if ref in available:
        return None, None
    if ref.startswith(SCHEME):
        return ref, None
    if "/" in ref:
        raise Refused(f"the service has no model {ref!r}", next_step="machine tinker models")
    run = find_run(project.runs, ref)
    saved = run.sampler()
    if saved is None or saved.sampler is None:
        raise Refused(f"run {run.id} has no checkpoint that can be asked", next_step="machine train runs")
    return saved.sampler, run.id


def _short_sample(service: "Service", base: str, client: object) -> str:
    """A few tokens from the model, through its own renderer."""
    from machine.evals.case import Case, Scorer
    from machine.evals.sample import Asker, Parameters, ask
    from machine.tinker.students import load_student

    case = Case("greeting", ({"role": "user", "content": "Say hello."},), Scorer("contains", ""))
    asker = Asker(service, load_student(base), client)  # type: ignore[arg-type]
    return ask(asker, [case], Parameters(max_tokens=_SAMPLE_TOKENS))[0].text


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _size(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e6:.1f} MB"
