"""`tinker`: the service's models and this user's checkpoints, as models in Pi."""

import dataclasses
from typing import TYPE_CHECKING

import click

from machine.commands.common import tinker_service
from machine.commands.doctor import age, examined, tinker_checks
from machine.commands.engine import engine
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.tinker import prices


@click.group("tinker")
def tinker() -> None:
    """Models and checkpoints of the Tinker service."""


tinker.add_command(engine)


@tinker.command("models")
@click.pass_obj
def list_models(host: Host) -> Report:
    """Ask the service for its base models. Those that can be asked are models in Pi from then on."""
    from machine.tinker import prices
    from machine.tinker.catalogue import ask
    from machine.tinker.service import connect

    where = tinker_service(host)
    with connect(where) as service:
        found, is_news = ask(service)
    if is_news:
        host.models_changed()
    price = {m.name: None if where.local else prices.of(m.name) for m in found}
    lines = [
        (m.name, str(m.context or "?"), _yes(m.trainable), _yes(m.sampleable), _dollars(price[m.name])) for m in found
    ]
    note = (
        [] if where.local else ["$: US dollars for a million tokens read, and written; an estimate from dated prices"]
    )
    return Report(
        f"{len(found)} base models at {where.destination}",
        tables=[Table("Base models", ("model", "context", "train", "ask", "$ in/out"), lines)],
        notes=note,
        next_step=f"pi --model tinker/{found[0].name}" if found else "",
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

    REF: a tinker:// sampler path, a run id or its beginning, latest (this project's last run), an alias, a base model.
    """
    from machine.commands.weights import resolve, short_sample
    from machine.tinker.catalogue import ask
    from machine.tinker.provider import register
    from machine.tinker.service import connect

    where = tinker_service(host)
    with connect(where) as service:
        available = {m.name: m for m in ask(service)[0]}
        weights = resolve(service, Project.at(host.cwd), ref, available)
        answer = short_sample(service, weights)
    entry = register(
        where,
        weights.model,
        alias or weights.alias,
        available[weights.base].context,
        base=weights.base,
        temperature=temperature,
        max_tokens=max_tokens,
    )
    host.models_changed()
    return Report(
        f"{entry.ref} is a model in Pi",
        rows=[
            ("Weights", entry.model),
            ("Base", weights.base),
            ("It said", answer.strip() or "nothing yet: it thinks first"),
            ("Served by", where.destination),
        ],
        next_step=f"pi --model {entry.ref}, or /model in a running Pi",
        data={"ref": entry.ref, "model": entry.model, "base": weights.base, "sample": answer},
    )


@tinker.command("list")
@click.pass_obj
def list_registered(host: Host) -> Report:
    """List the models that are registered with Pi."""
    from machine.tinker.provider import asked_at, base_models, listed

    found, base, asked = listed(), base_models(), asked_at()
    lines = [(e.ref, e.model, e.base or "") for e in found]
    return Report(
        f"{len(found)} models registered with Pi, and {len(base)} base models",
        tables=[Table("Models", ("in Pi", "weights", "base"), lines)] if found else [],
        notes=[f"The service listed its base models {age(asked)}: machine tinker models"] if base else [],
        next_step="" if found else "machine tinker models",
        data={
            "models": [{"ref": e.ref, "alias": e.alias, "model": e.model} for e in found],
            "base_models": [e.ref for e in base],
            "asked_at": asked.isoformat() if asked else None,
        },
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
@click.argument("run", required=False)
@click.pass_obj
def list_checkpoints(host: Host, run: str | None) -> Report:
    """List the checkpoints that the service holds, newest first; those of RUN alone, a run's id or its beginning."""
    from machine.commands.weights import of_run
    from machine.tinker.checkpoints import held
    from machine.tinker.provider import listed
    from machine.tinker.service import connect

    where = tinker_service(host)
    with connect(where) as service:
        found = held(service)
    if run is not None:
        found = of_run(Project.at(host.cwd), run, found)
    aliases = {e.model: e.ref for e in listed()}
    lines = [(c.path, c.kind, c.created_at[:19], _size(c.bytes), aliases.get(c.path, "")) for c in found]
    newest = next((c.path for c in found if c.kind == "sampler"), None)
    return Report(
        f"{len(found)} checkpoints at {where.destination}",
        tables=[Table("Newest first", ("path", "kind", "created", "size", "in Pi"), lines)] if found else [],
        next_step=f"machine tinker use {newest}" if newest else "machine train run",
        data={"checkpoints": [dataclasses.asdict(c) for c in found]},
    )


@tinker.command("status")
@click.pass_obj
def status(host: Host) -> Report:
    """Say which service is meant, whether it answers, and what Pi knows of it."""
    import importlib.metadata

    from machine.tinker.catalogue import ask
    from machine.tinker.provider import asked_at, base_models, listed
    from machine.tinker.service import connect
    from machine.tinker.students import default_model

    where = tinker_service(host, wake=False)
    asked = asked_at()
    with connect(where) as service:
        available, is_news = ask(service)
    if is_news:
        host.models_changed()
    student, registered, base = default_model(available), listed(), base_models()
    version = importlib.metadata.version("tinker")
    return Report(
        f"The Tinker service at {where.destination} answers",
        rows=[
            ("Address", where.url),
            ("Key from", where.key_source),
            ("Base models", f"{len(available)}, {len(base)} of them in Pi (last asked {age(asked)})"),
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


@tinker.command("doctor")
@click.pass_obj
def doctor(host: Host) -> Report:
    """Say what the models need, what is there, and what to do next."""
    return examined(tinker_checks(host))


@tinker.command("demo")
@click.pass_obj
def demo(host: Host) -> Report:
    """Say what the demo does, and how to run it."""
    from machine import bootstrap

    return Report(
        "The demo goes through the whole loop once, on this machine alone",
        rows=[
            ("Tags", "24 answers of a small model, in real Pi sessions, each as it should have been"),
            ("Trains", "a LoRA student on them, with the engine"),
            ("Measures", "base and student on 24 other questions, and chats with the student in Pi"),
            ("Takes", "minutes, most of them training; the first time set-up too (1.6 GB)"),
            ("Keeps to", "~/.machine/demo: your pool and your models in Pi stay as they are"),
        ],
        next_step=f"in a shell: make -C {bootstrap.PACKAGE} demo",
        data={"command": ["make", "-C", str(bootstrap.PACKAGE), "demo"]},
    )


def _dollars(price: "prices.Price | None") -> str:
    if price is None or price.prefill is None or price.sample is None:
        return ""
    return f"{price.prefill:g} / {price.sample:g}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _size(count: int | None) -> str:
    return "?" if count is None else f"{count / 1e6:.1f} MB"
