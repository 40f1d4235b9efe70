"""Common: what several commands do the same way."""

from dataclasses import replace

from machine.errors import Refused
from machine.host import Host
from machine.report import Report
from machine.store.project import Project

PAGE, RECIPE = "train_sft.py", "tinker.yaml"
"""The files that `train sft` writes into the store's `train/`."""

_SHOWN = 12


def consent(host: Host, yes: bool, title: str, summary: str, words: str) -> None:
    """Asks the user, unless `--yes` was given.

    Raises:
        Refused: the answer is no, or nobody can answer.
    """
    if yes:
        host.notify(summary)
    elif not host.interactive:
        raise Refused(f"{summary}; nobody is here to agree", next_step=words)
    elif not host.confirm(title, summary):
        raise Refused("not agreed; nothing was sent", next_step=words)


def with_page(report: Report, project: Project, run: str | None) -> Report:
    """The report with the path of the run's page, which is written anew; as it is where there is no such run."""
    from machine.evals.page import write_page
    from machine.training.run import Run

    if run is None or not (project.runs / run / "state.json").exists():
        return report
    page = str(write_page(Run(project.runs / run), project.evals))
    return replace(report, rows=[*report.rows, ("Page", page)], data={**report.data, "page": page})


def shown(lines: list[str]) -> list[str]:
    """The first lines, and how many more there are."""
    more = [f"... and {len(lines) - _SHOWN} more (--json shows all)"] if len(lines) > _SHOWN else []
    return lines[:_SHOWN] + more
