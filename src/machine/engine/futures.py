"""Futures: work that is asked for now and fetched later, done by one model thread.

A request becomes a `Job` with an id of the client's making, so that a resent request finds the first one's future.
Jobs of one trained model run in the order of their `seq_id`, whatever the order of arrival. Jobs that carry a sample
request run together with the compatible ones right behind them in the queue (`Worker`). Answers wait in bounded memory.
"""

import asyncio
import functools
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from machine.engine.faults import Busy, Gone
from machine.engine.sampling import SampleRequest
from machine.errors import MachineError, Refused

MAX_OPEN = 4096
"""Futures that are waiting, running, or not yet fetched."""
KEEP_FETCHED = 512
"""Fetched answers kept for a client that asks again."""
MAX_UNFETCHED_SECONDS = 3600.0
JSON, PROTOBUF = "application/json", "application/x-protobuf"


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


@dataclass(eq=False)
class Future:
    """A job's answer to be; `wait` from the event loop, `resolve` from any thread."""

    id: str
    loop: asyncio.AbstractEventLoop
    created: float = field(default_factory=time.monotonic)
    answer: Answer | None = None
    cancelled: bool = False
    fetched: bool = False
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    def resolve(self, answer: Answer) -> None:
        """Gives the answer and wakes who waits."""
        self.answer = answer
        self.loop.call_soon_threadsafe(self._done.set)

    async def wait(self, timeout: float | None = None) -> Answer | None:
        """The answer, or None if it is not there within `timeout` seconds."""
        try:
            await asyncio.wait_for(self._done.wait(), timeout)
        except TimeoutError:
            return None
        return self.answer


@dataclass(eq=False)
class Job:
    """Work for the model thread: `run` makes the answer.

    For sampling, `run` makes it of the finished `request`, and jobs of the same `group` (weights) run in one batch.
    """

    future: Future
    run: Callable[[], Answer]
    group: Hashable | None = None
    request: SampleRequest | None = None


class Batcher(Protocol):
    """Answers jobs of one group together; `more(room)` hands out jobs that have arrived meanwhile."""

    def __call__(self, group: Hashable, more: Callable[[int], list[Job]]) -> None:
        """Resolves the future of every job that `more` gave it."""
        ...


class Queue:
    """Jobs in the order in which they may run."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, job: Job) -> None:
        """Adds a job at the end."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def get(self) -> Job | None:
        """The next job, as soon as there is one; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            return None if self._closed else self._jobs.popleft()

    def unget(self, job: Job) -> None:
        """Puts back what `get` gave."""
        with self._changed:
            self._jobs.appendleft(job)

    def take(self, group: Hashable, room: int) -> list[Job]:
        """Up to `room` jobs of a group from the head of the queue: nothing older is overtaken."""
        taken: list[Job] = []
        with self._changed:
            while self._jobs and not self._closed and len(taken) < room and self._jobs[0].group == group:
                taken.append(self._jobs.popleft())
        return taken

    def close(self) -> None:
        """Lets the worker go home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Worker(threading.Thread):
    """The one thread that touches the model."""

    def __init__(self, queue: Queue, batcher: Batcher) -> None:
        super().__init__(name="model", daemon=True)
        self.queue, self.batcher = queue, batcher

    def run(self) -> None:
        """Does jobs until the queue is closed."""
        while (job := self.queue.get()) is not None:
            if job.group is None:
                job.future.resolve(guarded(job.run))
            else:
                self.queue.unget(job)
                self.batcher(job.group, functools.partial(self.queue.take, job.group))


def guarded(run: Callable[[], Answer]) -> Answer:
    """Runs a job; its failure is the answer, never the thread's death."""
    try:
        return run()
    except MachineError as error:
        category = "user" if isinstance(error, Refused) else "server"
        return Answer.failure(_message(error), category=category)
    except Exception as error:  # the boundary between one request and the engine's life
        traceback.print_exc()
        return Answer.failure(f"{type(error).__name__}: {error}", category="server")


def _message(error: MachineError) -> str:
    return f"{error.message} ({error.next_step})" if error.next_step else error.message


class Futures:
    """All futures by id; lives on the event loop."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._futures: dict[str, Future] = {}
        self._fetched: deque[str] = deque()
        self._orders: dict[str, _Order] = {}

    def submit(
        self,
        id: str,
        run: Callable[[], Answer],
        *,
        order: str = "",
        seq: int | None = None,
        group: Hashable | None = None,
        request: SampleRequest | None = None,
    ) -> Future:
        """The future of a job, made unless there is one of this id.

        With `order` and `seq` the job waits for those of the same order with a smaller number, from 1.

        Raises:
            Busy: too many futures are open.
            Gone: the order is past `seq`, and its answer is forgotten.
        """
        if (known := self._futures.get(id)) is not None:
            return known
        self._sweep()
        future = Future(id, asyncio.get_running_loop())
        job = Job(future, run, group, request)
        if request is not None:
            request.cancelled = lambda: future.cancelled
        if seq is None:
            self.queue.put(job)
        else:
            for ready in self._orders.setdefault(order, _Order()).ready(seq, job):
                self.queue.put(ready)
        self._futures[id] = future
        return future

    def get(self, id: str) -> Future:
        """The future of this id.

        Raises:
            Gone: there is none, or no longer.
        """
        if (future := self._futures.get(id)) is None:
            raise Gone(f"request_id: nothing is known of {id!r}")
        return future

    def fetched(self, future: Future) -> None:
        """Says that the client has the answer: it is kept for a while, then forgotten."""
        if not future.fetched:
            future.fetched = True
            self._fetched.append(future.id)
        while len(self._fetched) > KEEP_FETCHED:
            self._futures.pop(self._fetched.popleft(), None)

    def forget_order(self, order: str) -> None:
        """Drops an order and what it holds back, at the end of a session."""
        if (ended := self._orders.pop(order, None)) is not None:
            for job in ended.held.values():
                job.future.resolve(Answer.failure("the session has ended", category="user"))

    def _sweep(self) -> None:
        if len(self._futures) - len(self._fetched) < MAX_OPEN:
            return
        old = time.monotonic() - MAX_UNFETCHED_SECONDS
        for id, future in list(self._futures.items()):
            if future.answer is not None and future.created < old and not future.fetched:
                del self._futures[id]
        if len(self._futures) - len(self._fetched) >= MAX_OPEN:
            raise Busy(f"{MAX_OPEN} requests are waiting", next_step="fetch their results first")


@dataclass
class _Order:
    next: int = 1
    held: dict[int, Job] = field(default_factory=dict)

    def ready(self, seq: int, job: Job) -> list[Job]:
        """Takes a job in and gives those whose turn it is."""
        if seq < self.next or seq in self.held:
            raise Gone(f"seq_id: request {seq} has been done already")
        self.held[seq] = job
        jobs = []
        while self.next in self.held:
            jobs.append(self.held.pop(self.next))
            self.next += 1
        return jobs
