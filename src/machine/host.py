"""Host: what a command may ask of whoever called it, a shell or Pi.

A second host (another agent) comes in by implementing this protocol and a session reader; no room after `capture`
knows which host it serves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class LiveSession:
    """The session that the command was called in.

    `entries` is the whole active path where the host has no file for it (an unsaved session), else None: read `file` up
    to `leaf`. `system_prompt` and `tools` are the live ones, for hosts whose session does not record them.
    """

    host: str
    host_version: str
    session: str
    cwd: Path
    file: Path | None
    leaf: str | None
    idle: bool
    entries: Sequence[dict[str, Any]] | None = None
    system_prompt: str | None = None
    tools: Sequence[dict[str, Any]] = field(default=())


class Host(Protocol):
    """The seam between a command and its caller. Every dialog returns None or False where nobody can answer."""

    @property
    def cwd(self) -> Path:
        """The folder whose project the command is about."""
        ...

    @property
    def interactive(self) -> bool:
        """Whether a person can answer a dialog."""
        ...

    def session(self) -> LiveSession | None:
        """The session that the command was called in; None in a shell."""
        ...

    def confirm(self, title: str, message: str = "") -> bool:
        """Asks yes or no; no where nobody can answer."""
        ...

    def select(self, title: str, options: Sequence[str]) -> str | None:
        """Lets the user choose one of `options`."""
        ...

    def input(self, title: str, placeholder: str = "") -> str | None:
        """One line of text."""
        ...

    def editor(self, title: str, prefill: str = "") -> str | None:
        """Text of any length."""
        ...

    def notify(self, message: str, level: Level = "info") -> None:
        """Says something that needs no answer."""
        ...

    def progress(self, message: str | None, detail: Sequence[str] = ()) -> None:
        """Shows the latest line of a long job in place of the one before; None ends it.

        `detail` is more of the same in a few lines, for a host that has the room.
        """
        ...

    def models_changed(self) -> None:
        """Told when the list of registered models has changed, so that a running host can read it anew."""
        ...
