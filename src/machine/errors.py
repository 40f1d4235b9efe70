"""The error family: every fault that a user can meet says what happened, where, and what to do next.

One root, `MachineError`; each leaf is also the standard-library error that a caller would expect. The doors turn a
`MachineError` into a message and an exit code, never into a traceback.
"""


class MachineError(Exception):
    """A fault with a next step. `exit_code` is 1 (it failed) or 2 (it was refused, or was badly asked for)."""

    exit_code = 1

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    @property
    def whole(self) -> str:
        """What happened and what to do next, in one line."""
        return f"{self.message} ({self.next_step})" if self.next_step else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.next_step))


def _rebuild(kind: type[MachineError], message: str, next_step: str) -> MachineError:
    return kind(message, next_step=next_step)


class UsageError(MachineError, ValueError):
    """The command's words are off."""

    exit_code = 2


class Refused(MachineError, ValueError):
    """Machine will not do it, and says why: nothing to tag, data not fit to train on, no consent."""

    exit_code = 2


class SessionFault(Refused):
    """A session file that cannot be read as one; the message names file and line or entry id."""


class StoreError(MachineError, OSError):
    """The private store cannot be read or written safely."""


class MissingDependency(MachineError, ImportError):
    """An optional part of the environment (torch, tinker, Node ...) is not installed."""


class ServiceError(MachineError, ConnectionError):
    """The Tinker service, hosted or embedded, cannot be reached or refused a request."""


class TrainingError(MachineError, RuntimeError):
    """A training run or an evaluation stopped before its end; what it had saved stays."""
