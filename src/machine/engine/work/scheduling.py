"""Scheduling: one thread has the model, and those who want it take turns by the time that they have had.

Work waits in lines: one of each session's training, in order of arrival, and one of each set of weights that is sampled
from, in which the sessions alternate. The line that has had the least time is next; one that comes anew begins level
with the least of the others. A training job is one turn, and so is one token of all sequences that decode together: a
long answer holds nobody up, and a long batch of training lets others sample between its passes (`Worker.pause`).
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from machine.engine.faults import Fault
from machine.engine.sampling.requests import SampleRequest
from machine.engine.work.futures import CANCELLED, Answer, Future, failure

SAMPLED_AT_ONCE = 3
"""Sets of weights that decode in alternation; each has a batch of its own, with its caches."""


_log = logging.getLogger(__name__)


class Stopped(Fault):
    """The job was given up while it ran."""


@dataclass(eq=False)
class Job:
    """Work for the model thread: `run` makes the answer.

    For sampling, `run` makes it of the finished `request`, and jobs of the same `group` (weights) run in one batch.
    """

    future: Future
    run: Callable[[], Answer]
    group: Hashable | None = None
    request: SampleRequest | None = None

    @property
    def sequences(self) -> int:
        """How many sequences it decodes."""
        return 0 if self.request is None else self.request.count


@dataclass(eq=False)
class Line:
    """Jobs that wait for the same turn, by owner; `used` counts the seconds that the line has had."""

    group: Hashable | None
    used: float
    running: bool = False
    owners: OrderedDict[str, deque[Job]] = field(default_factory=OrderedDict)

    def put(self, job: Job) -> None:
        """Adds a job behind its owner's others."""
        self.owners.setdefault(job.future.owner, deque()).append(job)

    def pop(self, without: Collection[str] = ()) -> Job | None:
        """The next job: owners alternate; `without` these owners."""
        for owner, jobs in self.owners.items():
            if owner not in without:
                job = jobs.popleft()
                self.owners.move_to_end(owner)
                if not jobs:
                    del self.owners[owner]
                return job
        return None

    def remove(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Takes out the jobs that are not wanted any more."""
        removed = [job for jobs in self.owners.values() for job in jobs if unwanted(job)]
        for owner, jobs in list(self.owners.items()):
            self.owners[owner] = deque(job for job in jobs if job not in removed)
            if not self.owners[owner]:
                del self.owners[owner]
        return removed


class More(Protocol):
    """Hands out sample jobs to a batch that has room for so many sequences, and runs those of `present` owners."""

    def __call__(self, room: int, present: Collection[str]) -> list[Job]:
        """The jobs; each must be resolved by who takes them."""
        ...


Sampler = Callable[[Hashable, More], bool]
"""Takes the batch of a group one step on, with the jobs that have arrived; says whether it goes on after that."""


class Queue:
    """The lines. May be called from any thread."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, Line] = {}
        self._changed = threading.Condition()
        self.closed = False

    def put(self, job: Job) -> None:
        """Adds a job to its line."""
        key = ("train", job.future.owner) if job.group is None else ("sample", job.group)
        with self._changed:
            if key not in self._lines:
                level = min((line.used for line in self._lines.values()), default=0.0)
                self._lines[key] = Line(job.group, level)
            self._lines[key].put(job)
            self._changed.notify()

    def turn(self) -> Line | None:
        """The line whose turn it is, as soon as there is one; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self._next() is not None)
            return None if self.closed else self._next()

    def overtaking(self, line: Line) -> Line | None:
        """A line to sample from that has had less time than this one."""
        with self._changed:
            other = self._next(sampling=True)
            return other if other is not None and other.used < line.used and not self.closed else None

    def take(self, line: Line) -> Job | None:
        """A training line's next job."""
        with self._changed:
            job = line.pop()
            line.running = job is not None
            return job

    def join(self, line: Line, room: int, present: Collection[str]) -> list[Job]:
        """Jobs for a batch with room for so many sequences; who has none in it gets one in even if it is full."""
        taken: list[Job] = []
        with self._changed:
            if line.running and self._crowded(line):
                return taken
            line.running = True
            here = set(present)
            while (job := line.pop() if room > 0 else line.pop(here)) is not None:
                taken.append(job)
                here.add(job.future.owner)
                room -= job.sequences
        return taken

    def charge(self, line: Line, seconds: float, *, running: bool) -> None:
        """Counts the time that a line has had; one that neither runs nor waits is gone."""
        with self._changed:
            line.used += seconds
            line.running = running
            if not line.running and not line.owners:
                self._lines = {key: other for key, other in self._lines.items() if other is not line}

    def remove(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Takes out jobs that wait and are not wanted any more."""
        with self._changed:
            removed = [job for line in self._lines.values() for job in line.remove(unwanted)]
            self._lines = {key: line for key, line in self._lines.items() if line.running or line.owners}
        return removed

    def close(self) -> None:
        """Lets the worker go home."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _next(self, *, sampling: bool = False) -> Line | None:
        lines = [line for line in self._lines.values() if line.group is not None or not sampling]
        full = self._sampled() >= SAMPLED_AT_ONCE
        lines = [line for line in lines if line.group is None or line.running or not full]
        return min(lines, key=lambda line: line.used, default=None)

    def _sampled(self) -> int:
        return sum(line.running for line in self._lines.values() if line.group is not None)

    def _crowded(self, line: Line) -> bool:
        """Whether this batch must come to an end before another set of weights can begin."""
        waiting = (other for other in self._lines.values() if other.group is not None and not other.running)
        return self._sampled() >= SAMPLED_AT_ONCE and any(other.used < line.used for other in waiting)


class Worker(threading.Thread):
    """The one thread that touches the model; `first` is what it does before all jobs."""

    def __init__(self, queue: Queue, sampler: Sampler, first: Callable[[], None] = lambda: None) -> None:
        super().__init__(name="model", daemon=True)
        self.queue, self.sampler, self.first = queue, sampler, first
        self._job: Job | None = None
        self._line: Line | None = None
        self._began = 0.0

    def run(self) -> None:
        """Does jobs until the queue is closed."""
        self.first()
        while (line := self.queue.turn()) is not None:
            try:
                if line.group is None:
                    self._train(line)
                else:
                    self._sample(line)
            except MemoryError:  # even for the answer there was none; by now there is
                _log.error("out of memory")

    def pause(self) -> None:
        """To be called between the parts of a long job: those who had less time may sample meanwhile.

        Raises:
            Stopped: nobody wants the answer any more, or the engine is stopping.
        """
        if self._line is None or self._job is None:
            return
        self._count(running=True)
        while (other := self.queue.overtaking(self._line)) is not None:
            self._sample(other)
        self._began = time.monotonic()
        if self._job.future.cancelled:
            raise Stopped("the request was cancelled")
        if self.queue.closed:
            raise Stopped("the engine was stopped")

    def _train(self, line: Line) -> None:
        self._line, self._job, self._began = line, self.queue.take(line), time.monotonic()
        if self._job is not None:
            self._job.future.resolve(CANCELLED if self._job.future.cancelled else attempt(self._job))
        self._job = None  # frees the request
        self._count(running=False)

    def _sample(self, line: Line) -> None:
        began = time.monotonic()
        running = self.sampler(line.group, lambda room, present: self.queue.join(line, room, present))
        self.queue.charge(line, time.monotonic() - began, running=running)

    def _count(self, *, running: bool) -> None:
        assert self._line is not None
        self.queue.charge(self._line, time.monotonic() - self._began, running=running)


def attempt(job: Job) -> Answer:
    """Runs a job; its failure is the answer, never the thread's death."""
    try:
        return job.run()
    except Exception as error:  # the boundary between one request and the engine's life
        return failure(error, job.future.id)
