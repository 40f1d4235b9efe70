"""Served: which of Pi's models is the student of a project, and why, in `students.json` in Machine's folder.

The one place that says so. The extension reads the file at each request, so what is written holds from the next one on,
in every Pi: `/machine student` writes the service's default base model where nothing has been released; what releases a
checkpoint, or rolls one back, writes the checkpoint's model with the release's id. The file names models, never a key.
"""

import contextlib
from pathlib import Path

import msgspec

from machine.errors import StoreError
from machine.home import machine_home
from machine.store.files import explained, locked, private_folder, write_private
from machine.tinker.service import Endpoint

BASE = "base"
"""Why a base model is the student: nothing has been released."""

_VERSION = 1
_SECONDS = 15.0


class Served(msgspec.Struct, frozen=True):
    """A project's student: its name in Pi (`tinker/<alias>`), and what the service knows it as.

    `weights` is a base model or a `tinker://` path, `why` is `BASE` or the id of a release.
    """

    model: str
    weights: str
    why: str


class _Students(msgspec.Struct):
    version: int
    projects: dict[str, Served]


def students_file() -> Path:
    """Where the extension finds it."""
    return machine_home() / "students.json"


def served(root: Path) -> Served | None:
    """The student of the project at `root` (`Project.root`); None where it has none yet.

    Raises:
        StoreError: the file is damaged, or of a newer Machine.
    """
    return _read().projects.get(str(root))


def serve(root: Path, student: Served) -> None:
    """Makes `student` that of the project at `root`, durably, for every Pi from its next request on.

    Raises:
        StoreError: the file is damaged, of a newer Machine, or cannot be written; it is as it was.
    """
    home = private_folder(machine_home())
    with locked(private_folder(home / "locks") / "students.lock"):
        students = _read()
        students.projects[str(root)] = student
        write_private(students_file(), msgspec.json.format(msgspec.json.encode(students)) + b"\n")


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


def _read() -> _Students:
    path = students_file()
    try:
        with explained(path):
            data = path.read_bytes()
        students = msgspec.json.decode(data, type=_Students)
    except StoreError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return _Students(_VERSION, {})
        raise
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if students.version != _VERSION:
        raise _damaged(path, f"version {students.version}, this Machine reads {_VERSION}")
    return students


def _damaged(path: Path, fault: str) -> StoreError:
    return StoreError(f"{path} cannot be read ({fault})", next_step=f"remove {path}, then machine student")
