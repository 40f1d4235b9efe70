"""Alone: one process at a time takes a version through its gates, and only as long as it stands where it began."""

from collections.abc import Iterator
from contextlib import contextmanager

from machine.errors import Refused
from machine.release import log
from machine.release.seal import Place
from machine.release.standing import Standing, ledger
from machine.store.files import locked
from machine.store.project import Project

LOCK = "gates.lock"


@contextmanager
def alone(project: Project, standing: Standing) -> Iterator[Standing]:
    """Keeps other processes from the gates of a version; gives where it stands now, with its history.

    Raises:
        Refused: it has moved on since `standing` was read: gated, rejected, amended, or with another candidate.
        StoreError: another process is at its gates.
    """
    with locked(Place(project.releases, standing.release, standing.version).folder / LOCK):
        yield unmoved(project, standing)


def unmoved(project: Project, standing: Standing) -> Standing:
    """Where the release stands now.

    Raises:
        Refused: it has moved on.
    """
    now = ledger(log.read(project.releases)).of(standing.release)
    if _where(now) != _where(standing):
        raise Refused(
            f"{standing.release} has moved on meanwhile: v{now.version} is at {now.stage} now; nothing was entered in "
            "the log",
            next_step=now.next_step,
        )
    return now


def _where(standing: Standing) -> tuple[object, ...]:
    return standing.version, standing.stage, standing.candidate, standing.verdicts
