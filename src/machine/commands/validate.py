"""`train validate`: audit the good rows, or a file's, before anything is spent."""

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from machine.commands.common import PAGE, RECIPE, shown, tinker_service
from machine.errors import Refused, ServiceError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.dataset.audit import Audit
    from machine.tinker.students import Student
    from machine.trace import Row
    from machine.training.config import Config


_NAME = re.compile(r"[\w-][\w.:-]{0,199}", re.ASCII)
"""An id that names a page: the file's rows are of whoever wrote it."""


@click.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--show", metavar="ID", help="Show the tokens of one row (the end of its id will do), the trained ones marked."
)
@click.pass_obj
def validate(host: Host, file: Path | None, show: str | None) -> Report:
    """Render every good row as the student will see it, and say whether they are fit to train on."""
    from machine.dataset.audit import audit

    project = Project.at(host.cwd)
    rows = chosen_rows(project, file)
    student, config, why = _student(host, project)
    if show is not None:
        return _shown(project, student, _named(rows, show))
    try:
        found = audit(rows, student, config.max_length if config else None, host.progress, project.sources())
    finally:
        host.progress(None)
    notes = found.notes + (_leaks(rows, config) if config and not file else [])
    price = _cost(student.model, found.tokens)
    return Report(
        f"{found.verdict}: {found.targets} targets in {found.rows} rows",
        rows=[
            ("Rows", f"{found.rows} good rows of {found.conversations} conversations"),
            ("Targets", str(found.targets)),
            ("Tokens an epoch", f"{tokens(found)}; {found.trained} of them trained"),
            ("Cost an epoch", price),
            ("Longest example", f"{found.longest} tokens"),
            ("Student", f"{student.model} ({why})"),
            ("Renderer", student.renderer_name),
        ],
        tables=[_histogram(found)],
        notes=shown(found.reasons) + shown(notes),
        next_step=_after_validate(project, found.verdict),
        data={
            "verdict": found.verdict,
            "reasons": found.reasons,
            "notes": notes,
            "rows": found.rows,
            "conversations": found.conversations,
            "targets": found.targets,
            "tokens": found.tokens,
            "tokens_apart": found.tokens_apart,
            "trained_tokens": found.trained,
            "cost": price,
            "longest": found.longest,
            "histogram": found.histogram(),
            "model": student.model,
            "renderer": student.renderer_name,
        },
        exit_code=2 if found.verdict == "FIX FIRST" else 0,
    )


def _shown(project: Project, student: "Student", row: "Row") -> Report:
    from machine.dataset import show
    from machine.dataset.render import render
    from machine.dataset.targets import expand
    from machine.store.files import private_folder, write_private

    if not _NAME.fullmatch(row.id):
        raise Refused(f"the id {row.id!r:.80} cannot be the name of a page", next_step="give the row another id")
    examples = [render(student, target) for target in expand([row])]
    if not examples:
        raise Refused(f"{row.id} has no target, so nothing of it is trained", next_step="machine train validate")
    page = project.train / "shown" / f"{row.id}.html"
    project.make()
    private_folder(project.train)
    private_folder(page.parent)
    write_private(page, show.html(student, row.id, examples).encode())
    trained = sum(example.trained for example in examples)
    return Report(
        f"{row.id} as {student.renderer_name} writes it",
        rows=[("Targets", f"{len(examples)}, {trained} tokens trained"), ("Page", str(page))],
        passages=show.passages(student, examples),
        next_step="machine train validate",
        data={"row": row.id, "page": str(page), "datums": show.as_data(student, examples)},
    )


def _named(rows: "list[Row]", id: str) -> "Row":
    """The row whose id begins or ends with `id`."""
    found = [row for row in rows if row.id.startswith(id) or row.id.endswith(id)]
    if len(found) != 1:
        raise Refused(f"{id!r} names {len(found)} of the {len(rows)} good rows", next_step="machine tagged")
    return found[0]


def _histogram(found: "Audit") -> Table:
    lines = [(bucket, str(whole or ""), str(trained or "")) for bucket, whole, trained in found.histogram()]
    return Table("Examples by tokens, and by trained tokens", ("tokens", "examples", "by trained tokens"), lines)


def _leaks(rows: "list[Row]", config: "Config") -> list[str]:
    from machine.dataset.repeats import leaks
    from machine.dataset.split import split

    return list(leaks(split(rows, config.test_size, config.seed)))


def _cost(model: str, train_tokens: int) -> str:
    """What training on so many tokens costs at the service that would train, in words."""
    from machine.tinker import prices
    from machine.tinker.service import endpoint

    local = False
    with contextlib.suppress(ServiceError):
        local = endpoint().local
    return prices.cost(model, train_tokens=train_tokens, local=local)


def tokens(found: "Audit") -> str:
    """The tokens of an epoch, and how many they would be with every target trained by itself."""
    apart = found.tokens_apart
    return f"{found.tokens} tokens" + (f" ({apart} before merging)" if apart != found.tokens else "")


def chosen_rows(project: Project, file: Path | None) -> "list[Row]":
    """The rows of `file`, or the good rows of the project."""
    from machine.dataset.select import good_rows, rows_of

    return rows_of(file) if file else good_rows(project.pool)


def _student(host: Host, project: Project) -> "tuple[Student, Config | None, str]":
    """The student of the recipe, else the default one; the recipe, if there is one; and why this student."""
    from machine.tinker.students import load_student
    from machine.training.config import read_config

    if (project.train / RECIPE).exists():
        config = read_config(project.train / RECIPE)
        return load_student(config.model, config.renderer), config, "named in tinker.yaml"
    model, why = default_student(host)
    return load_student(model), None, why


def default_student(host: Host) -> tuple[str, str]:
    """The model that is trained when the user names none, and why this one."""
    from machine.tinker.service import connect
    from machine.tinker.students import DEFAULT_MODEL, default_model, models

    try:
        with connect(tinker_service(host)) as service:
            name = default_model(models(service))
    except ServiceError as error:
        return DEFAULT_MODEL, f"the default; {error.message}"
    return name, "the default" if name == DEFAULT_MODEL else "the first model that the service can train"


def _after_validate(project: Project, verdict: str) -> str:
    if verdict == "FIX FIRST":
        return "mend or leave out the rows named above, then machine train validate"
    return "machine train run" if (project.train / PAGE).exists() else "machine train sft"
