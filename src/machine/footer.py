"""Footer: what Pi's status line says about the project, in a few words."""

from pathlib import Path

from machine.store.project import Project
from machine.trace import TAGS

UNTAGGED = "last turn untagged"


def footer(cwd: Path, session: str, answer: str | None) -> str:
    """Counts by tag, and whether the last turn is in none of them; empty where there is nothing to say.

    `answer` is the entry id of the last turn's final answer, None if there is no turn that could be tagged. Costs a
    look into the pool's index, never a read of the pool.
    """
    pool = Project.at(cwd).pool
    counts = pool.counts()
    parts = [", ".join(f"{counts[tag]} {tag}" for tag in TAGS if counts.get(tag))]
    if answer is not None and answer not in pool.tagged_entries(session):
        parts.append(UNTAGGED)
    said = " · ".join(filter(None, parts))
    return f"machine: {said}" if said else ""
