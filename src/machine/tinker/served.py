"""Served: which of Pi's models is the student of a project, and why, in `students.json` in Machine's folder.

The one place that says so. The extension reads the file at each request, so what is written holds from the next one on,
in every Pi: `/machine student` writes the service's default base model where nothing has been released; what releases a
checkpoint, or rolls one back, writes the checkpoint's model with the release's id. Beside the student is the release
that is on trial, if one is: it answers a share of what Pi's `machine/student` is asked. The file names models, never a
key. It is of version 2 while it holds a trial, which a Machine without trials refuses to read, and of version 1 else.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from machine.errors import StoreError, UsageError
from machine.home import machine_home
from machine.store.files import explained, locked, private_folder, write_private
from machine.tinker.service import Endpoint

BASE = "base"
"""Why a base model is the student: nothing has been released."""

_PLAIN, _WITH_TRIALS = 1, 2
_SECONDS = 15.0


class Served(msgspec.Struct, frozen=True):
    """A project's student: its name in Pi (`tinker/<alias>`), and what the service knows it as.

    `weights` is a base model or a `tinker://` path, `why` is `BASE` or the id of a release.
    """

    model: str
    weights: str
    why: str


class Trial(msgspec.Struct, frozen=True):
    """A release on trial: `model` (its name in Pi) with `weights` (a `tinker://` path) answers `share` (0 to 1) of the
    turns, or of whole sessions.

    Which ones is drawn with `salt` (random, hexadecimal, new with each trial): nobody knows before, anybody can check
    after (`machine.release.outcomes.arm_of`).
    """

    release: str
    model: str
    weights: str
    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    unit: Literal["turn", "session"]
    salt: str


class _Students(msgspec.Struct, omit_defaults=True):
    version: int
    projects: dict[str, Served]
    trials: dict[str, Trial] = msgspec.field(default_factory=dict)


def students_file() -> Path:
    """Where the extension finds it."""
    return machine_home() / "students.json"


def served(root: Path) -> Served | None:
    """The student of the project at `root` (`Project.root`); None where it has none yet.

    Raises:
        StoreError: the file is damaged, or of a newer Machine.
    """
    return _read().projects.get(str(root))


def trial_of(root: Path) -> Trial | None:
    """The release that is on trial in the project at `root`; None where none is.

    Raises:
        StoreError: the file is damaged, or of a newer Machine.
    """
    return _read().trials.get(str(root))


def serve(root: Path, student: Served) -> None:
    """Makes `student` that of the project at `root`, durably, for every Pi from its next request on.

    A trial in the project goes on, unless it is of the model that is served now.

    Raises:
        StoreError: the file is damaged, of a newer Machine, or cannot be written; it is as it was.
    """
    with _changing() as students:
        students.projects[str(root)] = student
        trial = students.trials.get(str(root))
        if trial and (trial.model, trial.weights) == (student.model, student.weights):
            del students.trials[str(root)]


def try_out(root: Path, trial: Trial | None) -> None:
    """Puts a release on trial in the project at `root`, in place of one that may be; None ends the trial that is on.

    It is durable, and holds for every Pi from its next request on, in the middle of a run too.

    Raises:
        UsageError: the share is not above 0 and at most 1.
        StoreError: the file is damaged, of a newer Machine, or cannot be written; it is as it was.
    """
    if trial and not 0 < trial.share <= 1:
        raise UsageError(f"a trial's share is above 0 and at most 1, not {trial.share}", next_step="give another share")
    with _changing() as students:
        students.trials.pop(str(root), None)
        if trial:
            students.trials[str(root)] = trial


def answers(where: Endpoint, weights: str) -> bool:
    """Whether the service answers a chat request of one token to `weights`, as Pi would send it, in 15 seconds."""
    try:
        import httpx
    except ImportError:
        return False
    asked = {"model": weights, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1}
    with contextlib.suppress(httpx.HTTPError, ValueError), httpx.Client(trust_env=not where.local) as client:
        bearer = {"Authorization": f"Bearer {where.key}"}
        answer = client.post(f"{where.chat_url}/chat/completions", json=asked, headers=bearer, timeout=_SECONDS)
        return answer.is_success
    return False


@contextlib.contextmanager
def _changing() -> Iterator[_Students]:
    """What the file holds, to be changed; it is written when the block is left without an error."""
    home = private_folder(machine_home())
    with locked(private_folder(home / "locks") / "students.lock"):
        students = _read()
        yield students
        students.version = _WITH_TRIALS if students.trials else _PLAIN
        write_private(students_file(), msgspec.json.format(msgspec.json.encode(students)) + b"\n")


def _read() -> _Students:
    path = students_file()
    try:
        with explained(path):
            data = path.read_bytes()
        students = msgspec.json.decode(data, type=_Students)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return _Students(_PLAIN, {})
        raise
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not _PLAIN <= students.version <= _WITH_TRIALS:
        raise _damaged(path, f"version {students.version}, this Machine reads {_WITH_TRIALS}")
    return students


def _damaged(path: Path, fault: str) -> StoreError:
    return StoreError(f"{path} cannot be read ({fault})", next_step=f"remove {path}, then machine student")
