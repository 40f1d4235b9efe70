"""`train validate`: audit the good rows, or a file's, before anything is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from machine.commands.common import PAGE, RECIPE, shown
from machine.errors import ServiceError
from machine.host import Host
from machine.report import Report, Table
from machine.store.project import Project

if TYPE_CHECKING:
    from machine.dataset.audit import Audit
    from machine.trace import Row


@click.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.pass_obj
def validate(host: Host, file: Path | None) -> Report:
    """Render every good row as the student will see it, and say whether they are fit to train on."""
    from machine.dataset.audit import audit

    project = Project.at(host.cwd)
    rows = chosen_rows(project, file)
    student, max_length, why = _student(project)
    found = audit(rows, student, max_length or 1 << 30)
    longest = max((len(e.tokens) for e in found.examples), default=0)
    return Report(
        f"{found.verdict}: {found.targets} targets in {found.rows} rows",
        rows=[
            ("Rows", f"{found.rows} good rows of {found.conversations} conversations"),
            ("Targets", str(found.targets)),
            ("Tokens an epoch", f"{tokens(found)}; {found.trained} of them trained"),
            ("Longest example", f"{longest} tokens"),
            ("Student", f"{student.model} ({why})"),
            ("Renderer", student.renderer_name),
        ],
        tables=[Table("Examples by tokens", ("tokens", "examples"), [(b, str(n)) for b, n in found.histogram()])],
        notes=shown(found.reasons) + shown(found.notes),
        next_step=_after_validate(project, found.verdict),
        data={
            "verdict": found.verdict,
            "reasons": found.reasons,
            "notes": found.notes,
            "rows": found.rows,
            "conversations": found.conversations,
            "targets": found.targets,
            "tokens": found.tokens,
            "tokens_apart": found.tokens_apart,
            "trained_tokens": found.trained,
            "longest": longest,
            "histogram": found.histogram(),
            "model": student.model,
            "renderer": student.renderer_name,
        },
        exit_code=2 if found.verdict == "FIX FIRST" else 0,
    )


def tokens(found: "Audit") -> str:
    """The tokens of an epoch, and how many they would be with every target trained by itself."""
    apart = found.tokens_apart
    return f"{found.tokens} tokens" + (f" ({apart} before merging)" if apart != found.tokens else "")


def chosen_rows(project: Project, file: Path | None) -> "list[Row]":
    """The rows of `file`, or the good rows of the project."""
    from machine.dataset.select import good_rows, rows_of

    return rows_of(file) if file else good_rows(project.pool)


def _student(project: Project) -> tuple[Any, int | None, str]:
    """The student of the recipe, else the default one; its length limit, where a recipe sets one; and why this one."""
    from machine.tinker.students import load_student
    from machine.training.config import read_config

    if (project.train / RECIPE).exists():
        config = read_config(project.train / RECIPE)
        return load_student(config.model, config.renderer), config.max_length, "named in tinker.yaml"
    model, why = default_student()
    return load_student(model), None, why


def default_student() -> tuple[str, str]:
    """The model that is trained when the user names none, and why this one."""
    from machine.tinker.service import connect, endpoint
    from machine.tinker.students import DEFAULT_MODEL, default_model, models

    try:
        with connect(endpoint()) as service:
            name = default_model(models(service))
    except ServiceError as error:
        return DEFAULT_MODEL, f"the default; {error.message}"
    return name, "the default" if name == DEFAULT_MODEL else "the first model that the service can train"


def _after_validate(project: Project, verdict: str) -> str:
    if verdict == "FIX FIRST":
        return "mend or leave out the rows named above, then machine train validate"
    return "machine train run" if (project.train / PAGE).exists() else "machine train sft"
