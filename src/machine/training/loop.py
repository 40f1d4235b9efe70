"""Loop: train a LoRA student on datums, over the Tinker API.

Examples of which one begins another go together as one datum (`dataset/merge.py`), and a plan's batches are of datums.
For each step: one batch forward and backward, one Adam step. The service works through what it is sent in order, and
the next step is always sent before the one before is waited for, with whatever lies between them (a state to be saved,
the held-out side to be measured), so that the service is never idle while this side reads metrics. The loss of a step
is the sum over its examples of the negative log-likelihood of their targets, weighted per token (`Example.weights` sum
to 1 for each example); Adam does not care about its scale, and the metrics hold the mean.

Where conversations are held out, their mean loss is measured (forward only, weighted the same) before the first step,
at every saved state and at the end.

A run can be left at any time. Ctrl-C finishes the steps that were sent, saves the state (optimiser included) and
marks the run interrupted; resuming goes on with the very next step. If the service dies, the last saved state
stands. A loss that is not a finite number ends the run: no metric, and no probe, ever holds one.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machine.dataset.merge import Pack
from machine.dataset.render import datum
from machine.errors import MachineError, StoreError, TrainingError
from machine.tinker import probe
from machine.tinker.service import Pending, Service
from machine.tinker.students import Student
from machine.training import progress
from machine.training.config import Config
from machine.training.forecast import trained
from machine.training.recipe import Plan
from machine.training.run import Checkpoint, HeldOut, Run, State, now

if TYPE_CHECKING:
    from tinker.types import SaveWeightsResponse

    from tinker import Datum, ForwardBackwardOutput, OptimStepResponse, TrainingClient

KEEP_SECONDS = 7 * 24 * 3600
"""How long the service is asked to keep the states in mid-run; those at a run's end have no limit."""

Progress = Callable[[str], None]


class _RanAway(TrainingError):
    """A number that ought to be finite is not: to go on from there would only repeat it."""


@dataclass(frozen=True)
class _Step:
    """A training step on its way; `number` counts from 1."""

    number: int
    batch: list[int]
    rate: float
    loss: "Pending[ForwardBackwardOutput]"
    update: "Pending[OptimStepResponse]"


@dataclass(frozen=True)
class _Save:
    """A state on its way to be saved, of the weights after `step` steps."""

    step: int
    state: "Pending[SaveWeightsResponse]"


@dataclass(frozen=True)
class _Look:
    """A measurement of the held-out side on its way, batch by batch, under the weights after `step` steps."""

    step: int
    losses: "Sequence[tuple[list[Pack], Pending[ForwardBackwardOutput]]]"


def open_model(
    service: Service, config: Config, run: str, saved: Checkpoint | None = None
) -> "Pending[TrainingClient]":
    """Asks the service for the model that run `run` trains: a new LoRA model, or the one of a saved state."""
    if saved and saved.state:
        return service.client.create_training_client_from_state_with_optimizer(saved.state)
    return service.client.create_lora_training_client(
        config.model, rank=config.rank, seed=config.seed, user_metadata={"run": run}
    )


@dataclass
class Loop:
    """One run of `plan`, which is over `datums`. `save_every` counts steps; `model` comes from `open_model`."""

    service: Service
    student: Student
    model: "Pending[TrainingClient]"
    datums: Sequence[Pack]
    held_out: Sequence[Pack]
    plan: Plan
    run: Run
    save_every: int
    progress: Progress
    _sent: "deque[_Step | _Save | _Look]" = field(default_factory=deque, init=False, repr=False)

    def __call__(self) -> State:
        """Trains to the end, or from the run's last state to the end.

        Raises:
            TrainingError: it was interrupted, or the service failed; the message says what was saved.
        """
        saved = self.run.resumable()
        self._start = saved.step if saved else 0
        self._began = time.monotonic() - self.run.state.seconds
        at = saved.step if saved else None
        self._state = State("running", self._start, self.plan.steps, now(), os.getpid(), saved=at)
        self.run.write_state(self._state)
        try:
            with _stop_on_signal() as stop:
                if saved:
                    self.progress(f"continuing after step {saved.step}")
                self._client = self.service.wait(self.model, f"opening a LoRA model of {self.student.model}")
                stopped = self._steps(stop)
            if stopped:
                raise KeyboardInterrupt
            self._finish()
        except KeyboardInterrupt:
            raise self._ended("interrupted", "told to stop") from None
        except _RanAway as error:
            raise self._ended("failed", error.message, error.next_step, goes_on=False) from error
        except MachineError as error:
            raise self._ended("failed", error.message, error.next_step) from error
        except BaseException as error:
            self._ended("failed", f"{type(error).__name__}: {error}")
            raise
        return self._state

    def _steps(self, stop: threading.Event) -> bool:
        """Trains until the plan is done; True when it was told to stop before. All that was sent is finished."""
        data = [datum(pack) for pack in self.datums]
        self._measured = {each.step for each in self.run.held_out()}
        before = [line for line in self.run.metrics() if line["step"] <= self._start]
        self._recent = deque(before[-progress.RECENT :], maxlen=progress.RECENT)
        self._look(self._start)
        for step in range(self._start, self.plan.steps):
            self._sent.append(self._step(step, data))
            self._settle(steps_ahead=1)
            if stop.is_set():
                break
            if (step + 1) % self.save_every == 0 and step + 1 < self.plan.steps:
                self._save(step + 1, f"step-{step + 1:06d}", KEEP_SECONDS)
                self._look(step + 1)
        self._settle()
        if self._state.step < self.plan.steps:
            self._save(self._state.step, f"stopped-{self._state.step:06d}", None)
            self._settle()
            return True
        return False

    def _step(self, step: int, data: Sequence["Datum"]) -> _Step:
        from tinker import AdamParams

        batch, rate = self.plan.batch(step), self.plan.rate(step)
        loss = self._client.forward_backward([data[i] for i in batch], "cross_entropy")
        return _Step(step + 1, batch, rate, loss, self._client.optim_step(AdamParams(learning_rate=rate)))

    def _save(self, step: int, name: str, keep: int | None) -> None:
        self._sent.append(_Save(step, self._client.save_state(f"{self.run.id}-{name}", ttl_seconds=keep)))

    def _look(self, step: int) -> None:
        """Has the held-out side measured, unless it was before the run was left."""
        if not self.held_out or step in self._measured:
            return
        size = self.plan.batch_size
        batches = [list(self.held_out[at : at + size]) for at in range(0, len(self.held_out), size)]
        sent = [(b, self._client.forward([datum(pack) for pack in b], "cross_entropy")) for b in batches]
        self._sent.append(_Look(step, sent))

    def _settle(self, steps_ahead: int = 0) -> None:
        """Waits for what was sent, in order, and keeps what came of it, until so many steps are still on their way."""
        while self._sent and (not steps_ahead or sum(isinstance(each, _Step) for each in self._sent) > steps_ahead):
            match self._sent.popleft():
                case _Step() as step:
                    self._record(step)
                case _Save(step=number, state=state):
                    path = self.service.wait(state, "saving the state").path
                    self.run.add_checkpoint(Checkpoint(number, state=path))
                    self._update(saved=number)
                case _Look() as look:
                    self._keep(look)

    def _record(self, step: _Step) -> None:
        """Keeps the metrics of a step: mean NLL of its targets, rate, tokens."""
        doing = f"training step {step.number} of {self.plan.steps}"
        output = self.service.wait(step.loss, doing)
        self.service.wait(step.update, doing)
        packs = [self.datums[i] for i in step.batch]
        metrics = {
            "step": step.number,
            "epoch": (step.number - 1) // self.plan.steps_per_epoch + 1,
            "loss": self._mean(_nll(output, packs), packs, f"the loss of step {step.number}"),
            "learning_rate": step.rate,
            "examples": _examples(packs),
            "tokens": sum(map(trained, packs)),
            "trained_tokens": sum(weight != 0 for pack in packs for weight in pack.weights),
            "seconds": round(time.monotonic() - self._began, 3),
        }
        self.run.add_metrics(metrics)
        self._recent.append(metrics)
        self._update(step=step.number)
        self.progress(progress.line(self._recent, self.plan.steps))

    def _keep(self, look: _Look) -> None:
        doing = "measuring the held-out conversations"
        total = sum(_nll(self.service.wait(output, doing), packs) for packs, output in look.losses)
        loss = self._mean(total, self.held_out, f"the held-out loss after step {look.step}")
        self.run.add_held_out(HeldOut(look.step, loss, _examples(self.held_out)))

    def _mean(self, nll: float, packs: Sequence[Pack], what: str) -> float:
        """The mean loss of the examples of `packs`, in nats a token."""
        return round(self._finite(nll, what) / _examples(packs), 6)

    def _finite(self, value: float, what: str) -> float:
        if math.isfinite(value):
            return value
        rate = self.plan.learning_rate
        raise _RanAway(
            f"{what} is {value}: training ran away at learning rate {rate:g}",
            next_step=f"machine train run --learning-rate {rate / 4:g}",
        )

    def _finish(self) -> None:
        self.progress("saving the checkpoint")
        steps = self.plan.steps
        self._save(steps, "final", None)
        sampler = self._client.save_weights_for_sampler(f"{self.run.id}-final")
        self._look(steps)
        given = probe.of_trainer(self.service, self._client, self.student)
        taken = tuple(self._finite(each, "a log-probability under the trained weights") for each in given)
        self._settle()
        path = self.service.wait(sampler, "saving the weights for sampling").path
        state = self.run.checkpoints()[-1].state
        self.run.add_checkpoint(Checkpoint(steps, state=state, sampler=path, probe=taken))
        self.run.seal()
        self._update(status="done", ended_at=now())

    def _ended(self, status: str, cause: str, next_step: str = "", *, goes_on: bool = True) -> TrainingError:
        """Marks the run, and says what is left of it; whether it `goes_on` once `next_step` is done."""
        saved = self._state.saved
        kept = f"the state after step {saved} is saved" if saved else "nothing was saved yet"
        resume = f"machine train run --resume {self.run.id}" if saved else "machine train run"
        step = f"{next_step}, then {resume}" if next_step and goes_on else next_step or resume
        with contextlib.suppress(StoreError):  # the disk is full, say: the cause is told all the same
            self._update(status=status, ended_at=now(), cause=cause, next_step=step)
        return TrainingError(
            f"run {self.run.id} {status} at step {self._state.step} of {self.plan.steps}: {cause}; {kept}",
            next_step=step,
        )

    def _update(self, **changes: Any) -> None:
        import msgspec

        seconds = round(time.monotonic() - self._began, 3)
        self._state = msgspec.structs.replace(self._state, seconds=seconds, **changes)
        self.run.write_state(self._state)


def _nll(output: "ForwardBackwardOutput", packs: Sequence[Pack]) -> float:
    """Sum over the examples of each target's weighted negative log-likelihood, in nats a token."""
    total = 0.0
    for pack, outputs in zip(packs, output.loss_fn_outputs, strict=True):
        logprobs = outputs["logprobs"].data
        total -= sum(p * w for p, w in zip(logprobs, pack.weights[1:], strict=True) if w)
    return total


def _examples(packs: Sequence[Pack]) -> int:
    return sum(len(pack.examples) for pack in packs)


@contextlib.contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Sets an event at the first Ctrl-C, termination or closing of the terminal; a second one interrupts at once."""
    stop = threading.Event()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
