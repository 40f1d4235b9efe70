"""Footer: what Pi's status line says about the project, in a few words."""

from pathlib import Path

from machine.errors import StoreError
from machine.home import machine_home
from machine.store.project import Project
from machine.trace import TAGS

AUTO = "auto"
UNTAGGED = "last turn untagged"


def footer(cwd: Path, session: str, answer: str | None, *, student: bool = False) -> str:
    """Who answers, if it is the student; the release on trial; counts by tag, whether turns are captured unasked,
    pending corrections, and whether the last turn is in the pool.

    Empty where there is nothing to say, or where the user has switched it off. `answer` is the entry id of the last
    turn's final answer, None if there is no turn that could be tagged. Costs a look into the pool's index, never a read
    of the pool.

    Raises:
        StoreError: the settings or the pool cannot be read.
    """
    project = Project.at(cwd)
    settings = project.settings()
    if not settings.footer:
        return ""
    pool = project.pool
    counts = pool.counts()
    pending = _pending(project)
    parts = [", ".join(f"{counts[tag]} {tag}" for tag in TAGS if counts.get(tag))]
    if settings.auto:
        parts.append(AUTO)
    if pending:
        parts.append(f"{pending} correction{'s' * (pending > 1)} pending")
    if answer is not None and answer not in pool.tagged_entries(session):
        parts.append(UNTAGGED)
    said = " · ".join(filter(None, parts))
    return " · ".join(filter(None, [_student(project, answers=student), f"machine: {said}" if said else ""]))


def _student(project: Project, *, answers: bool) -> str:
    """The release on trial, if one is, else the student, where it answers; nobody who has neither pays for it."""
    if not answers and not (machine_home() / "students.json").exists():
        return ""
    from machine.tinker.served import BASE, served, trial_of

    try:
        trial, now = trial_of(project.root), served(project.root)
    except StoreError:
        if answers:
            raise
        return ""  # of whom the user does not ask anything
    if trial is not None:
        said = _progress(project, trial.release)
        return f"student: {said}" if answers else f"{said}, paused"
    if not answers:
        return ""
    if now is None:
        return "student: none yet"
    return f"student: {now.model}" + (f" ({now.why}{_forced(project, now.why)})" if now.why != BASE else "")


def _progress(project: Project, release: str) -> str:
    from machine.release.glance import progress

    asked, turns = progress(project.releases, release)
    return f"trial {release} {asked}" + (f"/{turns}" if turns else "")


def _forced(project: Project, release: str) -> str:
    from machine.release.glance import forced

    return ", FORCED" if forced(project.releases, release) else ""


def _pending(project: Project) -> int:
    """Corrections that no good turn has answered yet; nobody who has none pays for it."""
    if not project.corrections.exists():
        return 0
    from machine.correction.ledger import Ledger

    return len(Ledger(project).pending())
