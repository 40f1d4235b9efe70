"""`train`: write the page that trains on the good rows, run it, list the runs."""

import importlib.resources
from pathlib import Path
from typing import Any

import click

from machine.commands.common import PAGE, RECIPE, consent, shown
from machine.commands.compare import compare
from machine.commands.evaluate import evaluate
from machine.commands.validate import chosen_rows, default_student, tokens, validate
from machine.errors import Refused, StoreError, UsageError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project


@click.group("train")
def train() -> None:
    """Train a student on this project's good turns, and measure it."""


train.add_command(validate)
train.add_command(evaluate)
evaluate.add_command(compare)


@train.command("sft")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--model", help="The base model to train; default: Inkling-Small, or what the service can train.")
@click.option("--force", is_flag=True, help="Replace a page and a recipe that are there.")
@click.pass_obj
def sft(host: Host, file: Path | None, model: str | None, force: bool) -> Report:
    """Write train_sft.py and tinker.yaml into the store, with a recipe that fits the rows."""
    from machine.dataset.audit import audit
    from machine.store.files import private_folder, write_private
    from machine.tinker.students import load_student
    from machine.training.config import POOL, written
    from machine.training.recipe import defaults

    project = Project.at(host.cwd)
    page, recipe = project.train / PAGE, project.train / RECIPE
    there = [path for path in (page, recipe) if path.exists()]
    if there and not force:
        raise Refused(f"{there[0]} is already there", next_step="machine train sft --force (replaces both files)")
    rows = chosen_rows(project, file)
    model, why = (model, "you chose it") if model else default_student()
    student = load_student(model)
    found = audit(rows, student, 1 << 30)
    if not found.examples:
        raise Refused("no row can be trained on: " + "; ".join(found.faults[:3]), next_step="machine train validate")
    longest = max(len(e.tokens) for e in found.examples)
    config, reasons = defaults(model, student.renderer_name, len(found.packs), found.conversations, longest)
    config = _with_data(config, str(file.absolute()) if file else POOL)
    reasons["model"] = why
    project.make()
    private_folder(project.train)
    write_private(page, importlib.resources.files("machine.templates").joinpath(PAGE + ".txt").read_bytes())
    write_private(recipe, written(config, reasons).encode())
    figures = (
        f"rank {config.rank}, batch {config.batch_size}, {config.epochs} epochs, learning rate {config.learning_rate:g}"
    )
    return Report(
        f"Wrote {PAGE} and {RECIPE}",
        rows=[
            ("Page", str(page)),
            ("Recipe", str(recipe)),
            ("Student", f"{model} ({why})"),
            ("Figures", figures),
        ],
        notes=shown(found.reasons),
        next_step="machine train run",
        data={"page": str(page), "recipe": str(recipe), "config": _plain(config), "verdict": found.verdict},
    )


@train.command("run")
@click.option("--steps", type=click.IntRange(min=1), help="Train this many steps instead of the recipe's.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", is_flag=False, flag_value="latest", metavar="[RUN]", help="Go on with an interrupted run.")
@click.pass_obj
def run(host: Host, steps: int | None, yes: bool, resume: str | None) -> Report:
    """Say what will be trained and where the bytes go, ask, and train."""
    from machine.dataset.audit import audit
    from machine.dataset.scan import refuse_secrets
    from machine.dataset.split import split
    from machine.tinker.service import endpoint
    from machine.tinker.students import load_student
    from machine.training.config import read_config
    from machine.training.launch import launch
    from machine.training.recipe import plan
    from machine.training.run import find_run, new_id
    from machine.training.script import MEND_SECRET, load_rows

    if steps is not None and resume:
        raise UsageError("a resumed run keeps its steps: --steps and --resume exclude each other",
                         next_step="machine train run --resume")  # fmt: skip
    project = Project.at(host.cwd)
    page = project.train / PAGE
    if not page.exists():
        raise Refused("there is no training page yet", next_step="machine train sft")
    config, where = read_config(project.train / RECIPE), endpoint()
    student = load_student(config.model, config.renderer)
    sides = split(load_rows(config, project.folder), config.test_size, config.seed)
    found = audit(sides.train, student, config.max_length)
    if found.verdict == "FIX FIRST":
        raise Refused("not fit to train on: " + "; ".join(found.reasons[:3]), next_step="machine train validate")
    if not where.local:
        refuse_secrets(sides.train, MEND_SECRET)
    resumed = find_run(project.runs, resume) if resume else None
    planned = plan(config, len(found.packs), resumed.config["steps"] if resumed else steps)
    summary = (
        f"{found.targets} targets of {found.rows} rows ({tokens(found)} an epoch), {planned.steps} steps of "
        f"{planned.batch_size} on {config.model}; the tokens go to {where.destination}"
    )
    if resumed:
        summary = f"run {resumed.id} goes on after step {resumed.state.saved or 0}: {summary}"
    consent(host, yes, "Train?", summary, "machine train run --yes")
    id = resumed.id if resumed else new_id()
    given = ["--resume", id] if resumed else ["--run", id]
    if steps is not None:
        given += ["--steps", str(steps)]
    try:
        fault = launch(page, given, host.progress)
    finally:
        host.progress(None)
    if fault:
        return Report(fault.message, next_step=fault.next_step, exit_code=fault.exit_code, data={"run": id})
    return _trained(find_run(project.runs, id), found.notes + ([] if found.verdict == "READY" else found.reasons))


@train.command("runs")
@click.pass_obj
def list_runs(host: Host) -> Report:
    """List this project's training runs, newest first."""
    from machine.training.run import runs

    project = Project.at(host.cwd)
    found = runs(project.runs)
    lines, data, notes = [], [], []
    for each in found:
        try:
            state, metrics, sampler = each.state, each.metrics(), each.sampler()
        except StoreError as error:
            lines.append((each.id, "damaged", "", "", ""))
            notes.append(error.message)
            continue
        loss = f"{metrics[0]['loss']:.3f} to {metrics[-1]['loss']:.3f}" if metrics else ""
        lines.append(
            (each.id, state.status, f"{state.step}/{state.steps}", loss, sampler.sampler or "" if sampler else "")
        )
        tokens = sum(line["tokens"] for line in metrics)
        path = sampler.sampler if sampler else None
        data.append({"id": each.id, "state": _plain(state), "sampler": path, "tokens": tokens})
    return Report(
        f"{len(found)} training runs" if found else "No training run yet",
        tables=[Table("Newest first", ("run", "status", "steps", "loss", "checkpoint"), lines)] if found else [],
        notes=notes,
        next_step="" if found else "machine train sft",
        data={"runs": data},
    )


def _trained(run: Any, notes: list[str]) -> Report:
    state, metrics, sampler = run.state, run.metrics(), run.sampler()
    tokens = sum(line["tokens"] for line in metrics)
    return Report(
        f"Trained {state.step} steps in {state.seconds:.0f} s",
        rows=[
            ("Run", run.id),
            ("Loss", f"{metrics[0]['loss']:.3f} at step 1, {metrics[-1]['loss']:.3f} at step {metrics[-1]['step']}"),
            ("Tokens", f"{tokens}, {tokens / max(state.seconds, 1e-9):.0f} a second"),
            ("Checkpoint", sampler.sampler),
            ("Folder", str(run.folder)),
        ],
        notes=shown(notes),
        next_step="machine train eval init",
        data={"run": run.id, "state": _plain(state), "sampler": sampler.sampler, "tokens": tokens, "metrics": metrics},
    )


def _with_data(config: Any, data: str) -> Any:
    import msgspec

    return msgspec.structs.replace(config, data=data)


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)
