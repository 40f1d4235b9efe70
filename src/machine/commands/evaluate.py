"""`train eval`: the suite, what the base and a checkpoint answer to it, and how they compare."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from machine.commands.common import RECIPE, consent
from machine.errors import Refused
from machine.host import Host
from machine.report import Report, Table, one_line
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.dataset.split import Split
    from machine.evals.record import Record
    from machine.training.config import Config

SUITE = "suite.jsonl"
_ASK_AGAIN = "machine train eval baseline --yes, then machine train eval checkpoint --yes"
_SHOWN = 5
_WIDTH = 70


@click.group("eval")
def evaluate() -> None:
    """Measure a checkpoint against the base model on cases that were not trained on."""


@evaluate.command("init")
@click.option("--from", "source", type=click.Path(path_type=Path), help="JSONL of {prompt, expected?} or of cases.")
@click.option("--scorer", help="exact, contains or regex:PATTERN, for every case.")
@click.option("--force", is_flag=True, help="Replace a suite that is there.")
@click.pass_obj
def init(host: Host, source: Path | None, scorer: str | None, force: bool) -> Report:
    """Write the suite: from a file, or from the conversations that the recipe holds out."""
    from machine.dataset.targets import expand
    from machine.evals.suite import from_file, from_held_out, parse_scorer, refuse_trained, shared_frame, suite_text
    from machine.store.files import private_folder, write_private

    project = Project.at(host.cwd)
    path = project.evals / SUITE
    if path.exists() and not force:
        raise Refused(f"{path} is already there", next_step="machine train eval init --force")
    judge = parse_scorer(scorer) if scorer else None
    sides = _sides(project, _config(project))
    notes = []
    if source:
        frame = shared_frame(sides.train)
        cases = from_file(source, frame, judge)
        if frame.share < 1:
            notes.append(f"the system prompt and tools are those of {frame.share:.0%} of the rows; the others differ")
    elif sides.held_out:
        cases = from_held_out(sides.held_out, judge)
    else:
        raise Refused(
            "the recipe holds no conversation out, so there is nothing to make cases of",
            next_step="set test_size in tinker.yaml and train, or machine train eval init --from FILE",
        )
    if not cases:
        raise Refused("no case came of it", next_step="machine train eval init --from FILE")
    refuse_trained(cases, expand(sides.train))
    project.make()
    private_folder(project.evals)
    write_private(path, suite_text(cases))
    kinds = sorted({case.scorer.kind for case in cases})
    return Report(
        f"{len(cases)} cases, none of them trained on",
        rows=[("Suite", str(path)), ("Scorer", ", ".join(kinds))],
        notes=notes,
        next_step="machine train eval baseline",
        data={"suite": str(path), "cases": len(cases), "scorers": kinds},
    )


@evaluate.command("baseline")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens an answer may have (default 128).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def baseline(host: Host, max_tokens: int | None, yes: bool) -> Report:
    """Ask the base model every case, and keep what it answers."""
    from machine.evals.record import BASELINE
    from machine.evals.sample import Parameters

    project = Project.at(host.cwd)
    config = _config(project)
    how = Parameters(max_tokens=max_tokens) if max_tokens else Parameters()
    asked = _ask(host, project, config.model, config.renderer, None, BASELINE, how, yes, "baseline")
    return _answered(project, asked, "machine train eval checkpoint")


@evaluate.command("checkpoint")
@click.argument("ref", default="latest")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens an answer may have (default: as the baseline).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def checkpoint(host: Host, ref: str, max_tokens: int | None, yes: bool) -> Report:
    """Ask a checkpoint every case. REF: latest, a run id, or a tinker:// sampler path."""
    from machine.evals.sample import Parameters
    from machine.tinker.checkpoints import SCHEME
    from machine.training.run import find_run

    project = Project.at(host.cwd)
    config = _config(project)
    how = Parameters(max_tokens=max_tokens) if max_tokens else _as_baseline(project)
    if ref.startswith(SCHEME):
        name = record_of(project, ref)
        asked = _ask(host, project, config.model, config.renderer, ref, name, how, yes, f"checkpoint {ref}")
    else:
        run = find_run(project.runs, ref)
        saved, recipe = run.sampler(), run.config["recipe"]
        if saved is None or saved.sampler is None:
            raise Refused(f"run {run.id} has no checkpoint that can be asked", next_step="machine train runs")
        asked = _ask(
            host, project, recipe["model"], recipe["renderer"], saved.sampler, record_of(project, ref), how, yes,
            f"checkpoint {run.id}", run=run.id, trained=saved.probe,
        )  # fmt: skip
    return _answered(project, asked, "machine train eval compare")


def _ask(
    host: Host, project: Project, model: str, renderer: str, path: str | None, name: str, how: Any, yes: bool,
    words: str, *, run: str | None = None, trained: tuple[float, ...] | None = None,
) -> "Record":  # fmt: skip
    """Asks every case of the weights at `path`, proves who answered, and keeps the record."""
    import msgspec

    from machine.dataset.scan import refuse_secrets
    from machine.dataset.targets import expand
    from machine.evals.proof import prove
    from machine.evals.record import Record, write_record
    from machine.evals.sample import Asker, ask
    from machine.evals.score import passes
    from machine.evals.suite import read_suite, refuse_trained, suite_hash
    from machine.tinker.checkpoints import sampler
    from machine.tinker.service import connect, endpoint
    from machine.tinker.students import load_student
    from machine.training.run import now

    cases = read_suite(project.evals / SUITE)
    refuse_trained(cases, expand(_sides(project, _config(project)).train))
    where = endpoint()
    if not where.local:
        refuse_secrets(cases, f"take it out of {project.evals / SUITE}")
    summary = (
        f"{len(cases)} cases, answers of at most {how.max_tokens} tokens, are asked of {path or model}; "
        f"they go to {where.destination}"
    )
    consent(host, yes, "Ask?", summary, f"machine train eval {words} --yes")
    student, began = load_student(model, renderer), time.monotonic()
    try:
        with connect(where) as service:
            base = None
            if path:
                base = prove(Asker(service, student, sampler(service, model, None)), None)
            asker = Asker(service, student, sampler(service, model, path))
            proof = prove(asker, path, base, trained)
            samples = ask(asker, cases, how, host.progress)
    finally:
        host.progress(None)
    scored = tuple(
        msgspec.structs.replace(s, passed=passes(case, s.text)) for case, s in zip(cases, samples, strict=True)
    )
    seconds = round(time.monotonic() - began, 3)
    record = Record(
        name, now(), suite_hash(cases), model, student.renderer_name, how, proof, scored, seconds, base, run
    )
    write_record(project.evals, record)
    return record


def _answered(project: Project, record: "Record", next_step: str) -> Report:
    passed, cases = sum(record.passed.values()), len(record.samples)
    proof = record.proof
    rows = [
        ("Passed", f"{passed} of {cases} ({passed / cases:.0%})"),
        ("Answered by", proof.path or f"{proof.base_model} (base)"),
        ("Took", f"{record.seconds:.0f} s"),
        ("Record", str(project.evals / f"{record.name}.json")),
    ]
    if proof.distance is not None:
        rows.insert(2, ("Proof", f"its probe is {proof.distance:.3g} nats a token from the base's"))
    shown = [(s.case, "yes" if s.passed else "no", one_line(s.text, _WIDTH)) for s in record.samples[:_SHOWN]]
    return Report(
        f"{record.name}: {passed} of {cases} cases passed",
        rows=rows,
        tables=[Table(f"The first {len(shown)}", ("case", "passed", "answer"), shown)],
        next_step=next_step,
        data={"record": record.name, "passed": passed, "cases": cases, "path": proof.path, "seconds": record.seconds},
    )


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


def _as_baseline(project: Project) -> Any:
    from machine.evals.record import BASELINE, read_record
    from machine.evals.sample import Parameters

    if (project.evals / f"{BASELINE}.json").exists():
        return read_record(project.evals, BASELINE).parameters
    return Parameters()
