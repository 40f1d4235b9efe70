"""Futures: answers that are asked for now and fetched later.

`intake` makes them, the model thread (`scheduling`) resolves them, an endpoint waits for them on the event loop.
"""

import asyncio
import contextlib
import logging
import time
import traceback
from dataclasses import dataclass, field

import msgspec

from machine.errors import MachineError, Refused

JSON, PROTOBUF = "application/json", "application/x-protobuf"
_NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "bad_alloc", "could not create a memory")
"""How torch and its libraries word it where they raise a plain RuntimeError."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """The body of a future's result."""

    body: bytes
    media_type: str = JSON

    @classmethod
    def json(cls, value: object) -> "Answer":
        """A JSON answer."""
        return cls(msgspec.json.encode(value))

    @classmethod
    def failure(cls, message: str, *, category: str) -> "Answer":
        """A failure: category "user" for the client's fault, "server" for the engine's."""
        return cls.json({"error": message, "category": category})


CANCELLED = Answer.failure("the request was cancelled", category="user")
ENDED = Answer.failure("the session has ended", category="user")
STOPPED = Answer.failure("the engine was stopped", category="server")


@dataclass(eq=False)
class Future:
    """A job's answer to be; `wait` from the event loop, `resolve` from any thread.

    `owner` is the session that asked, `weight` the bytes of its request, which wait in memory until it is answered.
    """

    id: str
    loop: asyncio.AbstractEventLoop
    owner: str = ""
    weight: int = 0
    created: float = field(default_factory=time.monotonic)
    answer: Answer | None = None
    cancelled: bool = False
    fetched: bool = False
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def size(self) -> int:
        """Bytes that it keeps in memory: the request's, then the answer's."""
        return self.weight if self.answer is None else len(self.answer.body)

    def resolve(self, answer: Answer) -> None:
        """Gives the answer and wakes who waits; the first answer stays."""
        if self.answer is None:
            self.answer = answer
            if not self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._done.set)

    async def wait(self, timeout: float | None = None) -> Answer | None:
        """The answer, or None if it is not there within `timeout` seconds."""
        if self.answer is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), timeout)
        return self.answer


def failure(error: Exception, id: str) -> Answer:
    """What request `id` is answered when its work raised `error`, which the log is told of.

    What the work held is freed first: there may be no memory left to answer with. A log line holds the id and the
    message, which names fields, sizes and paths, and never a prompt or an answer.
    """
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, MachineError):
        _log.warning("%s failed: %s", id, error.whole)
        return Answer.failure(error.whole, category="user" if isinstance(error, Refused) else "server")
    if is_out_of_memory(error):
        _log.warning("%s failed: out of memory", id)
        return Answer.failure(
            "out of memory (send fewer or shorter rows at a time, or less to sample)", category="user"
        )
    _log.error("%s failed: %s", id, type(error).__name__, exc_info=error)
    return Answer.failure(f"{type(error).__name__}: {error}", category="server")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, here or on a GPU (whose error is a RuntimeError too)."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(s in text for s in _NO_MEMORY))
