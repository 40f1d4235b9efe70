"""`train eval`: the suite, and what the base and a checkpoint answer to it."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.common import RECIPE, let_go, shown, tinker_service, with_page
from machine.errors import Refused, UsageError
from machine.host import Host
from machine.report import Report, Table, one_line
from machine.store.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from machine.dataset.split import Split
    from machine.evals.case import Case, Scorer
    from machine.evals.evaluation import Evaluation, Subject
    from machine.evals.proposal import Proposal
    from machine.evals.sample import Parameters
    from machine.trace import Row
    from machine.training.config import Config

SUITE = "suite.jsonl"
OBSERVED = 200
"""How many of the newest observed rows are looked at for regression cases."""
_SHOWN = 5
_WIDTH = 70


@click.group("eval")
def evaluate() -> None:
    """Measure a checkpoint against the base model on cases that were not trained on."""


@evaluate.command("init")
@click.option(
    "--from",
    "sources",
    type=click.Path(path_type=Path),
    multiple=True,
    help="JSONL of {prompt, expected?} or of cases; may be repeated.",
)
@click.option(
    "--scorer",
    help="For every case: exact, contains, regex:PATTERN, json_schema:FILE, tool_call, python:FILE:FUNCTION "
    "or judge:RUBRIC.",
)
@click.option("--force", is_flag=True, help="Replace a suite that is there.")
@click.pass_obj
def init(host: Host, sources: tuple[Path, ...], scorer: str | None, force: bool) -> Report:
    """Write the suite: from files, or from what the pool holds and the recipe does not train on."""
    from machine.evals.case import parse_scorer
    from machine.evals.suite import suite_text
    from machine.store.files import private_folder, write_private

    project = Project.at(host.cwd)
    path = project.evals / SUITE
    if path.exists() and not force:
        raise Refused(f"{path} is already there", next_step="machine train eval init --force")
    chosen = parse_scorer(scorer, project.evals) if scorer else None
    found, notes = _proposed(project, sources, chosen)
    if not found.cases:
        raise Refused(
            "; ".join(["no case came of it", *found.notes()]), next_step="machine train eval init --from FILE"
        )
    project.make()
    private_folder(project.evals)
    write_private(path, suite_text(found.cases))
    return Report(
        f"{len(found.cases)} cases, none of them trained on",
        rows=[
            ("Suite", str(path)),
            ("Scorers", _counted(found.scorers)),
            *([("Tags", _counted(found.tags))] if found.tags else []),
        ],
        notes=shown(notes + found.notes()),
        next_step="machine train eval baseline",
        data={
            "suite": str(path),
            "cases": len(found.cases),
            "scorers": found.scorers,
            "tags": found.tags,
            "left_out": {"long": found.long, "unfit": found.unfit, "trained": found.trained},
        },
    )


@evaluate.command("baseline")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens an answer may have (default 128).")
@click.option("--temperature", type=click.FloatRange(0, 10), help="0, the default, takes the likeliest token.")
@click.option("--top-p", type=float, help="Draw from the likeliest tokens of this share alone (default 1: from all).")
@click.option("--samples", type=click.IntRange(1, 1000), help="Answers to each case (default 1).")
@click.option("--seed", type=click.IntRange(min=0), help="Of what is drawn (default 0).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def baseline(
    host: Host,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    samples: int | None,
    seed: int | None,
    yes: bool,
) -> Report:
    """Ask the base model every case, and keep what it answers."""
    from machine.evals.evaluation import Subject
    from machine.evals.record import BASELINE
    from machine.tinker.students import load_student

    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "samples": samples, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    how = _parameters(given)
    if how.samples > 1 and how.temperature == 0:
        raise UsageError(
            "at temperature 0 every answer to a case is the same",
            next_step=f"machine train eval baseline --samples {how.samples} --temperature 1",
        )
    project = Project.at(host.cwd)
    config = _config(project)
    options = "".join(f"--{name.replace('_', '-')} {value} " for name, value in given.items())
    subject = Subject(
        BASELINE, load_student(config.model, config.renderer), None, f"machine train eval baseline {options}--yes"
    )
    return _asked(host, project, subject, how, yes, "machine train eval checkpoint")


def _parameters(given: "dict[str, int | float | None]") -> "Parameters":
    """How the options say that answers are sampled.

    Raises:
        UsageError: a value is out of its bounds, or is no number.
    """
    import msgspec

    from machine.evals.sample import Parameters

    try:
        return msgspec.convert(given, Parameters)
    except msgspec.ValidationError as error:
        wrong, _, name = str(error).partition(" - at `$.")
        option = name.rstrip("`").replace("_", "-")
        raise UsageError(f"--{option}: {wrong}", next_step="machine train eval baseline --help") from error


@evaluate.command("checkpoint")
@click.argument("ref", default="latest")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens an answer may have (default: as the baseline).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def checkpoint(host: Host, ref: str, max_tokens: int | None, yes: bool) -> Report:
    """Ask a checkpoint every case, as the baseline was asked. REF: latest, a run id, or a tinker:// sampler path."""
    import msgspec

    from machine.evals.record import BASELINE, read_record
    from machine.evals.sample import Parameters

    project = Project.at(host.cwd)
    kept = read_record(project.evals, BASELINE) if (project.evals / f"{BASELINE}.json").exists() else None
    how = kept.parameters if kept else Parameters()
    options = ""
    if max_tokens:
        how, options = msgspec.structs.replace(how, max_tokens=max_tokens), f"--max-tokens {max_tokens} "
    subject = _checkpoint(project, ref, options)
    return _asked(host, project, subject, how, yes, "machine train eval compare")


def _checkpoint(project: Project, ref: str, options: str) -> "Subject":
    """What REF names."""
    from machine.evals.evaluation import Subject
    from machine.tinker.checkpoints import SCHEME
    from machine.tinker.students import load_student
    from machine.training.run import find_run
    from machine.training.script import kept_recipe

    name = record_of(project, ref)
    if ref.startswith(SCHEME):
        config = _config(project)
        again = f"machine train eval checkpoint {shlex.quote(ref)} {options}--yes"
        return Subject(name, load_student(config.model, config.renderer), ref, again)
    run = find_run(project.runs, ref)
    saved, recipe = run.sampler(), kept_recipe(run)
    if saved is None or saved.sampler is None:
        raise Refused(f"run {run.id} has no checkpoint that can be asked", next_step="machine train runs")
    student = load_student(recipe.model, recipe.renderer)
    again = f"machine train eval checkpoint {run.id} {options}--yes"
    return Subject(name, student, saved.sampler, again, run.id, saved.probe)


def _asked(host: Host, project: Project, subject: "Subject", how: "Parameters", yes: bool, next_step: str) -> Report:
    """Asks for consent, evaluates, and reports."""
    from machine.dataset.targets import expand
    from machine.evals.evaluation import evaluate as evaluated
    from machine.evals.evaluation import outdated, spend
    from machine.evals.leaving import look, parcel
    from machine.evals.suite import read_suite, refuse_trained
    from machine.store.approvals import Approvals
    from machine.tinker.service import connect

    cases = read_suite(project.evals / SUITE)
    refuse_trained(cases, expand(_trained_on(project, subject.run)))
    where = tinker_service(host)
    leaving = None
    if not where.stays:
        mend = f"take it out of {project.evals / SUITE}; if it is none, machine privacy allow FINGERPRINT"
        look(subject.student, cases, mend, project.sources(fingerprints=True))
        leaving = parcel(cases, project.root.name, where.goes_to)
    summary = f"{spend(cases, how)}; {subject.path or subject.student.model} answers; they go to {where.goes_to}"
    if stale := outdated(subject, cases, how, project.evals):
        summary += f"; the baseline was asked with {stale}, and must be asked again before the two can be compared"
    let_go(host, project, leaving, yes, "Ask?", summary, subject.command)
    try:
        with connect(where) as service:
            if leaving:
                sent = parcel(cases, project.root.name, where.goes_to)
                Approvals(project.folder).refuse_unapproved(sent, subject.command)
            found = evaluated(service, subject, cases, how, project.evals, host.progress)
    finally:
        host.progress(None)
    return with_page(_answered(project, found, cases, next_step), project, subject.run)


def _trained_on(project: Project, run: str | None) -> "list[Row]":
    """The rows that a run trained on, or that the recipe would; of a run's sessions, those tagged since too."""
    from machine.training.run import Run
    from machine.training.script import trained_rows

    if not run or Run(project.runs / run).config.get("split") is None:
        return list(_sides(project, _config(project)).train)
    return trained_rows(Run(project.runs / run), project.folder)


def _answered(project: Project, found: "Evaluation", cases: "Sequence[Case]", next_step: str) -> Report:
    from machine.evals.evaluation import by_tag, rate

    record, passed = found.record, found.record.passed
    count, proof = sum(passed.values()), found.record.proof
    weighted, tags = rate(passed, cases), by_tag(passed, cases)
    rows = [("Passed", f"{count} of {len(cases)} ({count / len(cases):.0%})")]
    if len({case.weight for case in cases}) > 1:
        rows.append(("By weight", f"{weighted:.0%}"))
    if record.parameters.samples > 1 or set(record.scores.values()) - {0.0, 1.0}:
        rows.append(("Mean score", f"{sum(record.scores.values()) / len(cases):.3f}"))
    rows.append(("Answered by", proof.path or f"{proof.base_model} (base)"))
    if proof.distance is not None:
        rows.append(("Proof", f"its probe is {proof.distance:.3g} nats a token from the base's"))
    rows += [("Took", f"{record.seconds:.0f} s"), ("Record", str(project.evals / f"{record.name}.json"))]
    first = [(s.case, "yes" if s.passed else "no", one_line(s.text, _WIDTH)) for s in record.samples[:_SHOWN]]
    tables = [Table(f"The first {len(first)}", ("case", "passed", "answer"), first)]
    if tags:
        lines = [(tag, f"{part} of {of}", f"{part / of:.0%}") for tag, (part, of) in tags.items()]
        tables.insert(0, Table("By tag", ("tag", "passed", "share"), lines))
    return Report(
        f"{record.name}: {count} of {len(cases)} cases passed",
        rows=rows,
        tables=tables,
        notes=found.notes(cases),
        next_step=next_step,
        data={
            "record": record.name,
            "passed": count,
            "cases": len(cases),
            "weighted": weighted,
            "tags": {tag: {"passed": part, "cases": of} for tag, (part, of) in tags.items()},
            "scores": record.scores,
            "path": proof.path,
            "seconds": record.seconds,
            "already_asked": found.kept,
            "identical": record.identical,
            "unclear_verdicts": found.unclear,
            "slow": found.slow,
        },
    )


def _proposed(project: Project, sources: tuple[Path, ...], scorer: "Scorer | None") -> "tuple[Proposal, list[str]]":
    """The cases to write, and what is to be said of them."""
    from machine.dataset.targets import expand
    from machine.evals.proposal import Proposal, from_file, from_pool, shared_frame
    from machine.evals.suite import refuse_trained, unlike

    sides = _sides(project, _config(project))
    trained = expand(sides.train)
    if sources:
        frame = shared_frame(sides.train)
        cases = [case for source in sources for case in from_file(source, frame, scorer, project.evals)]
        refuse_trained(unlike(sources[-1], cases), trained)
        share = f"the system prompt and tools are those of {frame.share:.0%} of the rows; the others differ"
        return Proposal(cases), [share] if frame.share < 1 else []
    if not sides.held_out:
        raise Refused(
            "the recipe holds no conversation out, so there is nothing to make cases of",
            next_step="set test_size in tinker.yaml and train, or machine train eval init --from FILE",
        )
    observed = project.pool.recent(OBSERVED, "observed")
    return from_pool(sides.held_out, observed, trained, scorer, project.evals), []


def record_of(project: Project, ref: str) -> str:
    """The name of the record of a checkpoint: a run's (by id, part of it, or latest), or a tinker:// path's."""
    from machine.evals.record import CHECKPOINT
    from machine.tinker.checkpoints import SCHEME
    from machine.training.run import find_run

    if ref.startswith(SCHEME):
        return CHECKPOINT + ref.removeprefix(SCHEME).replace("/", "_").replace(":", "_")
    return CHECKPOINT + find_run(project.runs, ref).id


def _config(project: Project) -> "Config":
    from machine.training.config import read_config

    if not (project.train / RECIPE).exists():
        raise Refused("there is no recipe yet, so it is not known what is trained", next_step="machine train sft")
    return read_config(project.train / RECIPE)


def _sides(project: Project, config: "Config") -> "Split":
    from machine.dataset.split import split
    from machine.training.script import load_rows

    return split(load_rows(config, project.folder), config.test_size, config.seed)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
