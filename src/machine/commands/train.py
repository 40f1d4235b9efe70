"""`train`: write the page that trains on the good rows, run it, list the runs."""

import contextlib
import importlib.resources
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from machine.commands.common import PAGE, RECIPE, let_go, shown, tinker_service, with_page
from machine.commands.compare import compare
from machine.commands.evaluate import evaluate
from machine.commands.validate import chosen_rows, default_student, tokens, validate
from machine.errors import Refused, StoreError, TrainingError, UsageError
from machine.host import Host
from machine.report import Report, Table, as_text
from machine.store.project import Project
from machine.training.config import figures, option

if TYPE_CHECKING:
    from machine.dataset.audit import Audit
    from machine.dataset.split import Split
    from machine.privacy.parcel import Parcel
    from machine.tinker.service import Endpoint
    from machine.tinker.students import Student
    from machine.training.config import Config
    from machine.training.forecast import Forecast
    from machine.training.recipe import Plan
    from machine.training.run import Run


_TRIED = 8
"""Rows on which the renderers of a model are tried before one is named in a recipe."""


@click.group("train")
def train() -> None:
    """Train a student on this project's good turns, and measure it."""


train.add_command(validate)
train.add_command(evaluate)
evaluate.add_command(compare)


def _figures(command: Callable[..., Report]) -> Callable[..., Report]:
    """Gives a command every figure of a recipe as an option; they are checked as the file's are."""
    for name, about in reversed(figures().items()):
        command = click.option(option(name), name, metavar="VALUE", help=about)(command)
    return command


@train.command("sft")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@_figures
@click.option("--force", is_flag=True, help="Replace a page and a recipe that are there.")
@click.pass_obj
def sft(host: Host, /, file: Path | None, force: bool, **given: str | None) -> Report:
    """Write train_sft.py and tinker.yaml into the store, with a recipe that fits the rows; options set its figures."""
    from machine.dataset.audit import audit
    from machine.dataset.readback import fitting
    from machine.dataset.targets import expand
    from machine.store.files import private_folder, write_private
    from machine.tinker.students import load_student
    from machine.training.config import POOL, chosen, written
    from machine.training.recipe import defaults, plan

    project = Project.at(host.cwd)
    page, recipe = project.train / PAGE, project.train / RECIPE
    there = [path for path in (page, recipe) if path.exists()]
    if there and not force:
        raise Refused(f"{there[0]} is already there", next_step="machine train sft --force (replaces both files)")
    mine = chosen(_given(given))
    rows = chosen_rows(project, file)
    model, why = (mine["model"], "you chose it") if "model" in mine else default_student(host)
    student = load_student(model, mine.get("renderer"))
    if "renderer" not in mine:
        student = fitting(student, expand(rows[:_TRIED]))
    found = audit(rows, student, sources=project.sources())
    if not found.examples:
        raise Refused("no row can be trained on: " + "; ".join(found.faults[:3]), next_step="machine train validate")
    datums = _trained_on(found, rows, mine)
    config, reasons = defaults(model, student.renderer_name, datums, found.conversations, found.longest, mine)
    config = _with_data(config, str(file.absolute()) if file else POOL)
    planned = plan(config, datums)
    reasons["model"] = why
    project.make()
    private_folder(project.train)
    write_private(page, importlib.resources.files("machine.templates").joinpath(PAGE + ".txt").read_bytes())
    try:
        write_private(recipe, written(config, reasons).encode())
    except StoreError:  # the same command, given again, is not to meet half of itself
        if page not in there:
            page.unlink(missing_ok=True)
        raise
    shape = (
        f"rank {config.rank}, {planned.steps} steps of {planned.batch_size} datums, "
        f"learning rate {config.learning_rate:g}, {config.test_size} conversations held out"
    )
    return Report(
        f"Wrote {PAGE} and {RECIPE}",
        rows=[
            ("Page", str(page)),
            ("Recipe", str(recipe)),
            ("Student", f"{model} ({why})"),
            ("Figures", shape),
        ],
        notes=shown(found.reasons),
        next_step="machine train run",
        data={"page": str(page), "recipe": str(recipe), "config": _plain(config), "verdict": found.verdict},
    )


@train.command("run")
@_figures
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", is_flag=False, flag_value="latest", metavar="[RUN]", help="Go on with an interrupted run.")
@click.pass_obj
def run(host: Host, /, yes: bool, resume: str | None, **given: str | None) -> Report:
    """Say what will be trained and where the bytes go, ask, and train; options set figures for this run alone."""
    from machine.training.launch import LIBRARIES, Page
    from machine.training.run import Run, find_run, new_id

    project, mine = Project.at(host.cwd), _given(given)
    if mine and resume:
        raise UsageError(f"a resumed run keeps its recipe: {option(next(iter(mine)))} and --resume exclude each other",
                         next_step="machine train run --resume")  # fmt: skip
    page = project.train / PAGE
    if not page.exists():
        raise Refused("there is no training page yet", next_step="machine train sft")
    resumed = find_run(project.runs, resume) if resume else None
    if resumed:
        resumed.refuse_running()
    id = resumed.id if resumed else new_id(project.runs)
    arguments = ["--resume", id] if resumed else ["--run", id]
    arguments += [f"{option(name)}={value}" for name, value in mine.items()]
    watched = Run(project.runs / id)
    with Page(
        page, arguments, LIBRARIES
    ) as child:  # it loads what it needs while the rows are checked and the user asked
        work = _prepare(host, project, mine, resumed)
        host.notify(as_text(Report("What this run takes", rows=work.summary())))
        again = f"--resume {id} " if resumed else ""
        if work.parcel or not yes:
            words = f"machine train run {again}--yes"
            let_go(host, project, work.parcel, yes, "Train?", work.sentence(), words)
        try:
            host.progress("starting the training page")
            fault = child.run(lambda line: host.progress(line, _detail(watched, work, line)), work.rendered())
        finally:
            host.progress(None)
    if fault:
        return Report(fault.message, next_step=fault.next_step, exit_code=fault.exit_code, data={"run": id})
    done = Run(project.runs / id)
    if not (done.folder / "state.json").exists() or done.state.status != "done":
        raise TrainingError(f"{PAGE} ended, but run {id} is not done: it never trained to its last step",
                            next_step=f"mend {page}, or write it anew: machine train sft --force")  # fmt: skip
    found = work.found
    report = _trained(done, found.notes + ([] if found.verdict == "READY" else found.reasons))
    return with_page(report, project, id)


@dataclass(frozen=True)
class _Work:
    """A run before it begins: what it trains on, and what that takes."""

    config: "Config"
    where: "Endpoint"
    sides: "Split"
    found: "Audit"
    held: "Audit"
    plan: "Plan"
    expected: "Forecast"
    student: "Student"
    resumed: "Run | None"
    parcel: "Parcel | None"
    """What leaves this machine; None where nothing does."""

    def rendered(self) -> bytes:
        """What was rendered, for the page that trains on it."""
        from machine.dataset.targets import expand
        from machine.training.handover import packed

        sides = [*self.sides.train, *self.sides.held_out]
        return packed(self.student, expand(sides), [*self.found.examples, *self.held.examples])

    def summary(self) -> list[tuple[str, str]]:
        """What is trained, what goes where, what it costs, how long it takes: a row each."""
        from machine.training.progress import duration

        found, expected = self.found, self.expected
        rows = [
            ("Rows", f"{found.rows} good rows of {found.conversations} conversations; {found.targets} targets"),
            ("Held out", f"{self.held.conversations} conversations; {self.held.targets} targets"),
            ("Tokens an epoch", tokens(found)),
            ("Steps", f"{self.plan.steps} of {self.plan.batch_size} datums; {expected.tokens} tokens in all"),
            ("Student", f"{self.config.model}, rank {self.config.rank}, learning rate {self.config.learning_rate:g}"),
            ("Goes to", f"{self.where.goes_to}, as tokens: {_size(self.sides)} of conversations"),
            ("Cost", expected.cost),
        ]
        if expected.held_out:
            rows[3] = (rows[3][0], f"{rows[3][1]}, and {expected.held_out} to measure the held-out side")
        if expected.seconds is not None:
            rows.append(("Time", f"{duration(expected.seconds)}, at the speed of the last run"))
        if self.parcel:
            rows += [line for line in self.parcel.summary() if line[0] != "Goes to"]
        if self.resumed:
            rows.insert(0, ("Run", f"{self.resumed.id} goes on after step {self.resumed.state.saved or 0}"))
        return rows

    def sentence(self) -> str:
        """The same in one sentence, for a question."""
        text = (
            f"{self.found.targets} targets of {self.found.rows} rows, {self.plan.steps} steps of "
            f"{self.plan.batch_size} on {self.config.model}; cost: {self.expected.cost}; "
            f"the tokens of {_size(self.sides)} of conversations go to {self.where.goes_to}"
        )
        return (
            f"run {self.resumed.id} goes on after step {self.resumed.state.saved or 0}: {text}"
            if self.resumed
            else text
        )


def _prepare(host: Host, project: Project, mine: Mapping[str, str], resumed: "Run | None") -> _Work:
    """Reads, splits and checks what is to be trained on.

    Raises:
        Refused: it is not fit to train on, holds a secret that would leave this machine, or comes to 0 steps.
        UsageError: a figure is wrong.
    """
    from machine.dataset.audit import audit
    from machine.dataset.merge import merged
    from machine.dataset.split import split
    from machine.tinker.students import load_student
    from machine.training.config import chosen, overridden, read_config
    from machine.training.forecast import forecast
    from machine.training.leaving import look, parcel
    from machine.training.recipe import plan
    from machine.training.script import Data, kept_recipe, load_rows

    config = kept_recipe(resumed) if resumed else overridden(read_config(project.train / RECIPE), chosen(mine))
    where = tinker_service(host)
    student = load_student(config.model, config.renderer)
    sides = split(load_rows(config, project.folder), config.test_size, config.seed)
    sources = project.sources()
    found, held = (audit(side, student, config.max_length, sources=sources) for side in (sides.train, sides.held_out))
    faults = found.faults + held.faults
    if faults or found.verdict == "FIX FIRST":
        raise Refused("not fit to train on: " + "; ".join(faults[:3]), next_step="machine train validate")
    planned = plan(config, len(found.packs))
    expected = forecast(config, planned, found.packs, merged(held.examples), where, project.runs)
    leaving = None
    if not where.stays:
        data = Data(sides, found.examples, held.examples)
        look(project, config, data)
        leaving = parcel(config, data, where)
    return _Work(config, where, sides, found, held, planned, expected, student, resumed, leaving)


def _detail(run: "Run", work: _Work, line: str) -> list[str]:
    """How a run goes, in a few lines: what it is, its latest line, the curve of its losses."""
    from machine.training.progress import sparkline

    losses: list[float] = []
    with contextlib.suppress(StoreError):
        losses = [metrics["loss"] for metrics in run.metrics()]
    curve = [f"loss {sparkline(losses)} {losses[0]:.3f} to {losses[-1]:.3f}"] if losses else []
    return [f"Training {work.config.model} · run {run.id}", line, *curve]


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _trained_on(found: "Audit", rows: Any, mine: Mapping[str, Any]) -> int:
    """Datums of the side that is trained, when as many conversations are held out as the recipe will say."""
    from machine.dataset.merge import merged
    from machine.dataset.split import split
    from machine.training.recipe import held_out

    size = mine.get("test_size", held_out(found.conversations))
    kept = {row.id for row in split(rows, size, mine.get("seed", 0)).train}
    return len(merged([example for example in found.examples if example.id.partition("#")[0] in kept]))


def _size(sides: "Split") -> str:
    """How much of the user's data a run sends, as it stands in the rows: messages and tools, in bytes."""
    from machine.trace import canonical

    total = sum(len(canonical([row.messages, row.tools])) for row in [*sides.train, *sides.held_out])
    return (
        f"{total} bytes"
        if total < 10_000
        else f"{total / 1000:.0f} kB"
        if total < 10_000_000
        else f"{total / 1e6:.0f} MB"
    )


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
        held = _plain(each.held_out())
        data.append({"id": each.id, "state": _plain(state), "sampler": path, "tokens": tokens, "held_out": held})
    return Report(
        f"{len(found)} training runs" if found else "No training run yet",
        tables=[Table("Newest first", ("run", "status", "steps", "loss", "checkpoint"), lines)] if found else [],
        notes=notes,
        next_step="" if found else "machine train sft",
        data={"runs": data},
    )


def _trained(run: "Run", notes: list[str]) -> Report:
    state, metrics, sampler, held = run.state, run.metrics(), run.sampler(), run.held_out()
    tokens = sum(line["tokens"] for line in metrics)
    path = (sampler.sampler if sampler else None) or ""
    rows = [
        ("Run", run.id),
        ("Loss", f"{metrics[0]['loss']:.3f} at step 1, {metrics[-1]['loss']:.3f} at step {metrics[-1]['step']}"),
        ("Tokens", f"{tokens}, {tokens / max(state.seconds, 1e-9):.0f} a second"),
        ("Checkpoint", path),
        ("Folder", str(run.folder)),
    ]
    if held:
        rows.insert(2, ("Held out", f"loss {held[0].loss:.3f} at first, {held[-1].loss:.3f} at step {held[-1].step}"))
    return Report(
        f"Trained {state.step} steps in {state.seconds:.0f} s",
        rows=rows,
        notes=shown(notes),
        next_step="machine train eval init",
        data={
            "run": run.id,
            "state": _plain(state),
            "sampler": path,
            "tokens": tokens,
            "metrics": metrics,
            "held_out": _plain(held),
        },
    )


def _with_data(config: Any, data: str) -> Any:
    import msgspec

    return msgspec.structs.replace(config, data=data)


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)
