"""Work: the model that the student last took the place of in a project, in `work.json` in the project's folder.

A session knows what was chosen in it before the student, and that goes first. This is for a session that begins with
the student, in a Pi that was started anew: where `machine/student` is Pi's default or was given as `--model`, or where
an older Pi makes any model that is set the default.
"""

from pathlib import Path

import msgspec

from machine.errors import StoreError
from machine.host import Chosen
from machine.store.files import explained, write_private
from machine.store.project import Project

_VERSION = 1


class _Work(msgspec.Struct):
    version: int
    model: str
    level: str | None


def remember(project: Project, work: Chosen) -> None:
    """Notes what the student takes the place of.

    Raises:
        StoreError: it cannot be written.
    """
    project.make()
    write_private(_file(project), msgspec.json.encode(_Work(_VERSION, work.model, work.level)) + b"\n")


def remembered(project: Project) -> Chosen | None:
    """What the student last took the place of, in whichever Pi; None where it never did.

    Raises:
        StoreError: the note is damaged, or of a newer Machine.
    """
    path = _file(project)
    if not path.exists():
        return None
    try:
        with explained(path):
            work = msgspec.json.decode(path.read_bytes(), type=_Work)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreError(f"{path} cannot be read ({error})", next_step=f"remove {path}; choose with /model") from error
    if work.version != _VERSION:
        raise StoreError(f"{path} is of version {work.version}, from a newer Machine", next_step="update Machine")
    return Chosen(work.model, work.level)


def _file(project: Project) -> Path:
    return project.folder / "work.json"
