"""Intake: where requests become work, within bounds.

A request has an id of the client's making, so that one that is sent again finds the first one's future. Requests of one
trained model run in the order of their `seq_id`, whatever the order of arrival; those that come early are held. What
waits, runs, or lies ready is bounded by number and by bytes: beyond that a client is told to come back (`Busy`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from machine.engine.faults import Busy, Gone
from machine.engine.sampling.requests import SampleRequest
from machine.engine.work.futures import CANCELLED, ENDED, STOPPED, Answer, Future
from machine.engine.work.scheduling import Job, Queue


@dataclass(frozen=True)
class Limits:
    """What may be in memory at a time."""

    open: int = 2048
    """Requests that wait, run, or whose answer has not been fetched."""
    open_each: int = 1024
    """Those of one session."""
    open_bytes: int = 512 * 1024 * 1024
    """Bytes of these requests and answers."""
    kept: int = 512
    """Fetched answers kept for a client that asks again."""
    kept_bytes: int = 64 * 1024 * 1024
    missing_seconds: float = 120.0
    """How long held requests wait for the one before them, counted from the last that came."""
    unfetched_seconds: float = 3600.0
    """How long an answer waits for its client."""


@dataclass(eq=False)
class _Turns:
    """Requests of one model: the next number, and those that came before their turn."""

    owner: str
    next: int = 1
    held: dict[int, Job] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def ready(self, seq: int, job: Job) -> list[Job]:
        """Takes a job in and gives those whose turn it is."""
        self.held[seq] = job
        self.last = time.monotonic()
        jobs = []
        while self.next in self.held:
            jobs.append(self.held.pop(self.next))
            self.next += 1
        return jobs

    def give_up(self) -> None:
        """Fails what is held, since a request before it never came, and goes on behind it."""
        message = (
            f"seq_id: request {self.next} never came, so those after it cannot be done (send them in order from 1)"
        )
        for job in self.held.values():
            job.future.resolve(Answer.failure(message, category="user"))
        self.next = max(self.held) + 1
        self.held.clear()


class Intake:
    """All futures by id; lives on the event loop."""

    def __init__(self, queue: Queue, limits: Limits | None = None) -> None:
        self.queue, self.limits = queue, limits or Limits()
        self._futures: dict[str, Future] = {}
        self._kept: deque[Future] = deque()
        self._turns: dict[str, _Turns] = {}

    def submit(
        self,
        id: str,
        run: Callable[[], Answer],
        *,
        owner: str = "",
        weight: int = 0,
        order: str = "",
        seq: int | None = None,
        group: Hashable | None = None,
        request: SampleRequest | None = None,
    ) -> Future:
        """The future of a job, made unless there is one of this id.

        Args:
            id: what the client calls it.
            run: the work, see `scheduling.Job`, as for `group` and `request`.
            owner: the session that asks.
            weight: bytes that the request keeps in memory.
            order: with `seq`, the job waits for those of the same order with a smaller number, from 1.
            seq: see `order`.
            group: see `run`.
            request: see `run`.

        Raises:
            Busy: too much is waiting; a request that others are held for is always let in.
            Gone: the order is past `seq`, and its answer is forgotten.
        """
        if (known := self._futures.get(id)) is not None:
            return known
        turns = self._turns.get(order) or _Turns(owner)
        if seq is not None and (seq < turns.next or seq in turns.held):
            raise Gone(f"seq_id: request {seq} is past, and its answer is gone", next_step="create a new client")
        if not (turns.held and seq == turns.next):
            self._check_room(owner, weight)
        future = Future(id, asyncio.get_running_loop(), owner, weight)
        job = Job(future, run, group, request)
        if request is not None:
            request.cancelled = lambda: future.cancelled
        self._futures[id] = future
        if seq is None:
            self.queue.put(job)
        else:
            self._turns[order] = turns
            for ready in turns.ready(seq, job):
                self.queue.put(ready)
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
            self._kept.append(future)
        size = sum(kept.size for kept in self._kept)
        while len(self._kept) > self.limits.kept or (size > self.limits.kept_bytes and len(self._kept) > 1):
            oldest = self._kept.popleft()
            size -= oldest.size
            self._futures.pop(oldest.id, None)

    def cancel(self, future: Future) -> None:
        """Gives a request up: what waits is dropped, what runs ends at the next token or pass."""
        future.cancelled = True
        if self.queue.remove(lambda job: job.future is future):
            future.resolve(CANCELLED)

    def end(self, owner: str) -> None:
        """Gives up everything that a session has asked for."""
        self._turns = {order: turns for order, turns in self._turns.items() if turns.owner != owner}
        self.queue.remove(lambda job: job.future.owner == owner)
        for future in [future for future in self._futures.values() if future.owner == owner]:
            future.cancelled = True
            future.resolve(ENDED)
            self.fetched(future)

    def tend(self) -> None:
        """What is done every few seconds: requests that wait for one that never came fail, old answers are dropped."""
        now = time.monotonic()
        for turns in self._turns.values():
            if turns.held and now - turns.last > self.limits.missing_seconds:
                turns.give_up()
        for future in list(self._futures.values()):
            if future.answer is not None and now - future.created > self.limits.unfetched_seconds:
                self.fetched(future)

    def close(self) -> None:
        """Answers everyone who waits: the engine is stopping."""
        self.queue.close()
        for future in self._futures.values():
            future.resolve(STOPPED)

    def _check_room(self, owner: str, weight: int) -> None:
        waiting = [future for future in self._futures.values() if not future.fetched]
        own = sum(future.owner == owner for future in waiting)
        size = sum(future.size for future in waiting)
        if len(waiting) >= self.limits.open or own >= self.limits.open_each:
            raise Busy(f"{len(waiting)} requests are waiting", next_step="fetch their results first")
        if waiting and size + weight > self.limits.open_bytes:
            raise Busy(f"{size} bytes of requests and answers are waiting", next_step="fetch the results first")
