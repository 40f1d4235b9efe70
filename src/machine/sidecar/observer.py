"""Observer: the turns that Pi says have ended, looked at one after another while Pi goes on, or is gone already.

It keeps those that are kept unasked, and takes in what came of those that a trial drew.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine.errors import MachineError
from machine.slash import as_typed_in_pi

if TYPE_CHECKING:
    from machine.capture.session import Session
    from machine.store.project import Project


@dataclass(frozen=True)
class _Moment:
    """A session as it was when Pi spoke of it; `entries` are the session's where no file holds it."""

    said: dict[str, Any]
    entries: list[dict[str, Any]]

    @property
    def cwd(self) -> Path:
        return Path(self.said["session"]["cwd"])

    @property
    def place(self) -> tuple[str, str | None]:
        return self.said["session"]["id"], self.said["session"]["leaf"]

    @property
    def file(self) -> Path | None:
        file = self.said["session"]["file"]
        return Path(file) if file else None

    @property
    def is_empty(self) -> bool:
        """Pi writes a session's file when something is asked in it."""
        return self.place[1] is None or (self.file is not None and not self.file.exists())

    def session(self) -> Session:
        from machine.capture.reader import latest
        from machine.capture.session import live

        return latest(self.file) if self.file else live(self.place[0], str(self.cwd), None, self.entries)


class Observer:
    """Looks at one moment after another, in a thread of its own.

    `on_changed` is called there after rows or outcomes were added, `on_said` with what the user is to hear of a trial.
    """

    def __init__(self, on_changed: Callable[[], None], on_said: Callable[[str], None]) -> None:
        self._on_changed = on_changed
        self._on_said = on_said
        self._thread = ThreadPoolExecutor(1)
        self._jobs: set[Future[None]] = set()
        self._unsaved: dict[str, dict[str, Any]] = {}
        self._unsaved_session = ""
        self._seen: tuple[str, str | None] | None = None

    @property
    def busy(self) -> bool:
        """Whether there is anything left to look at."""
        return not all(job.done() for job in self._jobs)

    def look(self, said: dict[str, Any]) -> None:
        """Takes up what Pi said (`Capture.params` in `extension/capture.ts`) and returns at once; the order matters."""
        moment = _Moment(said, self._entries(said["session"]["id"], said["entries"] or []))
        self._jobs = {job for job in self._jobs if not job.done()} | {self._thread.submit(self._look, moment)}

    def finish(self, seconds: float) -> None:
        """Waits until all is looked at, for `seconds` at most."""
        wait(self._jobs, timeout=seconds)

    def _entries(self, session: str, fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Every entry of a session that no file holds; Pi sends each one once."""
        if session != self._unsaved_session:
            self._unsaved, self._unsaved_session = {}, session
        self._unsaved |= {entry["id"]: entry for entry in fresh}
        return list(self._unsaved.values())

    def _look(self, moment: _Moment) -> None:
        words = _tried(moment)
        if words is not None:
            self._on_changed()
        if words:
            self._on_said(words)
        if not moment.said["due"] or moment.place == self._seen:
            return
        added = _observed(moment)
        if added is not None:
            self._seen = moment.place
        if added:
            self._on_changed()


def _tried(moment: _Moment) -> str | None:
    """Takes in what came of the turns that a trial drew; what the user is to hear, where that ends the trial.

    None: nothing new came, or it could not be taken in, which `/machine data` says.
    """
    from machine.observe import fault, note
    from machine.store.project import Project
    from machine.tinker.served import trial_of

    project = Project.at(moment.cwd)
    try:
        trial = trial_of(project.root)
        if trial is None or moment.is_empty:
            return None
        from machine.release.outcomes import collect
        from machine.release.trial import settle

        fresh = collect(project, moment.session(), trial.release)
        return settle(project, trial.release) or "" if fresh else None
    except MachineError as error:
        note(project, f"trial: {error.message}")
        return _ended(project, error)
    except Exception as bug:
        note(project, f"trial: {fault(bug)}")
        traceback.print_exc(file=sys.stderr)
    return None


def _ended(project: Project, error: MachineError) -> str | None:
    """What the user is to hear of a fault that has ended the trial."""
    from machine.tinker.served import trial_of

    with contextlib.suppress(MachineError):
        if trial_of(project.root) is None:
            next_step = f"Next: {as_typed_in_pi(error.next_step)}"
            return f"The trial is ended, your work model answers again: {error.message}\n{next_step}"
    return None


def _observed(moment: _Moment) -> int | None:
    """How many rows were added; None if that failed, which nobody is told of but who reads `/machine data`."""
    from machine.capture.rows import Recorder
    from machine.observe import fault, note, observe
    from machine.store.project import Project

    said = moment.said
    recorder = Recorder("pi", said["session"]["piVersion"] or "unknown", said["systemPrompt"], said["tools"])
    project = Project.at(moment.cwd)
    try:
        if moment.is_empty or not project.settings().auto:
            return 0
        session = moment.session()
        project = Project.at(Path(session.cwd)) if session.cwd else project  # the one that /good takes
        if not project.settings().auto:
            return 0
        leaf = str(moment.place[1])
        return observe(project, session, leaf, recorder, headless=said["headless"], since=said["since"])
    except MachineError as error:
        note(project, error.message)
    except Exception as bug:
        note(project, fault(bug))
        traceback.print_exc(file=sys.stderr)
    return None
