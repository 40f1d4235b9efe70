"""Observe: turns go into the pool unasked, as `observed`, where the user has switched automatic capture on.

What is kept: the turns that a compaction summarised, and every completed turn of a headless run. Each goes in once, and
never over a tag of the user's. What cannot be kept becomes a line of `/machine data`, once; nobody is interrupted.
"""

import contextlib
from collections.abc import Iterator, Sequence

from machine.capture.policy import Doorkeeper, plain
from machine.capture.projection import last_compaction
from machine.capture.rows import Recorder, capture_turn
from machine.capture.session import Branch, Session
from machine.capture.turn import Turn, turns
from machine.errors import Refused, StoreError
from machine.store.project import Project
from machine.trace import well_formed

COMMAND = "auto"
"""Whose refusals they are, in `/machine data`."""


def observe(
    project: Project,
    session: Session,
    leaf: str,
    recorder: Recorder,
    *,
    headless: bool = False,
    since: str | None = None,
) -> int:
    """Keeps what is to be kept of the branch that ends at `leaf`, turn by turn, and returns how many rows are new.

    `headless` turns are those that ended after the entry `since`, where the run took the session up (None: it began
    it). What is held already is not built again, nor is a turn that was refused before, or erased.

    Raises:
        SessionFault: the branch is damaged.
        StoreError: the pool cannot be read or written; the turns before stay.
    """
    branch = session.path(leaf)
    _, cut = last_compaction(branch) or (0, 0)  # what lies before, the model only knows from a summary
    answered, _ = turns(branch)
    found = [turn for turn in answered if turn.end < cut or (headless and _is_later(branch, turn, since))]
    entries = [turn.entries(branch) for turn in found]
    known = zip(found, project.pool.holds(entries), project.forgotten.holds(entries), strict=True)
    missing = [turn for turn, held, forgotten in known if not held and not forgotten]
    door = Doorkeeper(project)
    return sum(_keep(door, branch, turn, recorder) for turn in _untried(project, branch, missing))


def note(project: Project, reason: str) -> None:
    """Writes down why something was not kept, unless that is written already; a store that fails here is let be."""
    with contextlib.suppress(StoreError):
        if (clean := plain(project, well_formed(reason))) not in _reasons(project):
            project.refused(COMMAND, clean)


def fault(bug: Exception) -> str:
    """A bug, as a reason."""
    return f"a fault of Machine's own: {type(bug).__name__}: {bug}"


def _is_later(branch: Branch, turn: Turn, since: str | None) -> bool:
    """Whether a turn's answer was written after the entry `since`; not, where that is no entry of the session."""
    if since is None:
        return True
    mark = branch.session.heads.get(since)
    return mark is not None and branch.heads[turn.end].line > mark.line


def _untried(project: Project, branch: Branch, found: Sequence[Turn]) -> Iterator[Turn]:
    """The turns that have not been refused yet."""
    known = {reason.partition(": ")[0] for reason in _reasons(project)} if found else set()
    yield from (turn for turn in found if _name(branch, turn) not in known)


def _keep(door: Doorkeeper, branch: Branch, turn: Turn, recorder: Recorder) -> int:
    project = door.project
    try:
        captured = door.let_in(
            lambda sources: capture_turn(
                branch[: turn.end + 1], turn, tag="observed", recorder=recorder, sources=sources
            )
        )
    except Exception as error:  # of the next turn, one that cannot be built says nothing, whatever the reason
        why = error.message if isinstance(error, Refused) else fault(error)
        project.refused(COMMAND, f"{_name(branch, turn)}: {plain(project, well_formed(why))}")
        return 0
    project.make()
    with project.blobs.holding(captured.pictures.values()):
        return project.pool.append_observed(captured.rows)


def _name(branch: Branch, turn: Turn) -> str:
    """A turn, as a refusal names it: forks of a session keep its entries, and so its name."""
    return f"turn of entries {branch.heads[turn.start].id} to {branch.heads[turn.end].id}"


def _reasons(project: Project) -> list[str]:
    return [refusal.reason for refusal in project.refusals() if refusal.command == COMMAND]
