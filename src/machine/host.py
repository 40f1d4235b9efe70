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


@dataclass(frozen=True)
class Completion:
    """One answer of a model: its text without its thinking, the `provider/id` that answered, tokens, US dollars.

    The price is the host's own reckoning, zero where it knows none.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int
    cost: float


@dataclass(frozen=True)
class Retried:
    """How a retry ended, where the session stands after it (its leaf), and the `provider/id` that was asked.

    `failed`: the run ended in an error, which `detail` holds. `aborted`: the user stopped it. `not_started`: nothing
    was asked, the session stands where it stood, and `detail` says why. An answer has a `detail` where it was cut off.
    """

    outcome: Literal["answered", "failed", "aborted", "not_started"]
    leaf: str | None
    model: str
    detail: str = ""


@dataclass(frozen=True)
class Chosen:
    """A model, `provider/id`, and the level at which it thinks in the host's own words; None: not known."""

    model: str
    level: str | None


@dataclass(frozen=True)
class Selection:
    """What the host is set to: `now`, None where no model is chosen, and what was chosen `before` that, if it knows.

    `student`: the student answers. `follows`: the host has a model that stands for the student, whichever that is.
    """

    now: Chosen | None
    before: Chosen | None
    student: bool
    follows: bool
    idle: bool


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

    def complete(
        self,
        system: str,
        said: Sequence[tuple[Literal["user", "assistant"], str]],
        model: str | None = None,
        max_tokens: int = 4096,
    ) -> Completion | None:
        """One answer of a model, without tools, outside the session; None where the host has no model at all.

        `model` is `provider/id`; by default, the one that the user works with.

        Raises:
            ServiceError: no such model, no key for it, an error of its service, an answer that is empty or was cut off
                by its length, or none within the host's limit.
        """
        ...

    def retry(self, entry: str, hint: str, model: str | None = None) -> Retried | None:
        """Goes back to before the user's message `entry` and has it answered anew; None where the host cannot.

        The answer so far stays in the session, on a branch of its own. `hint` is put in front of the model for this
        run alone and is kept nowhere. `model`, a `provider/id`, answers in place of the user's, which is set again,
        thinking level included, when this returns or raises.

        Raises:
            ServiceError: no such model, no key for it, or a host too old for this; nothing has moved.
            Refused: `entry` is no message of the user in this session, or the agent is at work; nothing has moved. Or
                the session was replaced before the run ended.
        """
        ...

    def selection(self) -> Selection | None:
        """The model that the user has chosen; None where the host has no model at all."""
        ...

    def choose(self, wanted: Chosen, before: Chosen | None = None) -> None:
        """Sets the model and its thinking level. `before` is remembered as what was chosen before `wanted`.

        Raises:
            ServiceError: no such model, or no key for it; nothing has moved.
            Refused: the agent is at work, or the host has no model to set; nothing has moved.
        """
        ...

    def models_changed(self) -> None:
        """Told when the list of registered models has changed, so that a running host can read it anew."""
        ...
