"""Loop: train a LoRA student on rendered examples, over the Tinker API.

Examples of which one begins another go together as one datum (`dataset/merge.py`), and a plan's batches are of datums.
For each step: one batch forward and backward, one Adam step. Step n+1 is sent before step n is waited for, so that
the service is never idle while this side reads metrics. The loss of a step is the sum over its examples of the
negative log-likelihood of their targets, weighted per token (`Example.weights` sum to 1 for each example); Adam
does not care about its scale, and the metrics hold the mean.

A run can be left at any time. Ctrl-C finishes the steps that were sent, saves the state (optimiser included) and
marks the run interrupted; resuming goes on with the very next step. If the service dies, the last saved state
stands.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from machine.dataset.merge import Pack, merged
from machine.dataset.render import Example, datum
from machine.errors import MachineError, StoreError, TrainingError
from machine.tinker import probe
from machine.tinker.service import Pending, Service
from machine.tinker.students import Student
from machine.training.recipe import Plan
from machine.training.run import Checkpoint, Run, State, now

if TYPE_CHECKING:
    from tinker import Datum, ForwardBackwardOutput, OptimStepResponse, TrainingClient

KEEP_SECONDS = 7 * 24 * 3600
"""How long the service is asked to keep the states in mid-run; those at a run's end have no limit."""

Progress = Callable[[str], None]


class _Sent(NamedTuple):
    """A step on its way."""

    step: int
    batch: list[int]
    rate: float
    loss: "Pending[ForwardBackwardOutput]"
    update: "Pending[OptimStepResponse]"


@dataclass
class Loop:
    """One run of `plan`, which is over what `examples` are merged to. `save_every` counts steps."""

    service: Service
    student: Student
    examples: Sequence[Example]
    plan: Plan
    run: Run
    rank: int
    save_every: int
    progress: Progress

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
                self._client = self._open(saved)
                stopped = self._steps(stop)
            if stopped:
                raise KeyboardInterrupt
            self._finish()
        except KeyboardInterrupt:
            raise self._ended("interrupted", "told to stop") from None
        except MachineError as error:
            raise self._ended("failed", error.message, error.next_step) from error
        except BaseException as error:
            self._ended("failed", f"{type(error).__name__}: {error}")
            raise
        return self._state

    def _open(self, saved: Checkpoint | None) -> "TrainingClient":
        client = self.service.client
        if saved and saved.state:
            self.progress(f"continuing after step {saved.step}")
            pending = client.create_training_client_from_state_with_optimizer(saved.state)
            return self.service.wait(pending, f"loading {saved.state}")
        new = client.create_lora_training_client(
            self.student.model, rank=self.rank, seed=self.plan.seed, user_metadata={"run": self.run.id}
        )
        return self.service.wait(new, f"creating a LoRA model of {self.student.model}")

    def _steps(self, stop: threading.Event) -> bool:
        """Trains until the plan is done; True when it was told to stop before. Every step that was sent is finished."""
        self._packs = merged(self.examples)
        data = [datum(pack) for pack in self._packs]
        ahead: _Sent | None = None
        for step in range(self._start, self.plan.steps):
            sent = self._send(step, data)
            if ahead:
                self._record(ahead)
            ahead = sent
            if stop.is_set():
                break
            if (step + 1) % self.save_every == 0 and step + 1 < self.plan.steps:
                self._record(ahead)
                ahead = None
                self._save(f"step-{step + 1:06d}", KEEP_SECONDS)
        if ahead:
            self._record(ahead)
        if self._state.step < self.plan.steps:
            self._save(f"stopped-{self._state.step:06d}", None)
            return True
        return False

    def _send(self, step: int, data: Sequence["Datum"]) -> _Sent:
        from tinker import AdamParams

        batch, rate = self.plan.batch(step), self.plan.rate(step)
        loss = self._client.forward_backward([data[i] for i in batch], "cross_entropy")
        return _Sent(step, batch, rate, loss, self._client.optim_step(AdamParams(learning_rate=rate)))

    def _record(self, sent: _Sent) -> None:
        """Waits for a step and keeps its metrics: mean NLL of its targets, rate, tokens."""
        doing = f"training step {sent.step + 1} of {self.plan.steps}"
        output = self.service.wait(sent.loss, doing)
        self.service.wait(sent.update, doing)
        packs = [self._packs[i] for i in sent.batch]
        loss = _mean_nll(output, packs)
        seconds = time.monotonic() - self._began
        self.run.add_metrics(
            {
                "step": sent.step + 1,
                "epoch": sent.step // self.plan.steps_per_epoch + 1,
                "loss": round(loss, 6),
                "learning_rate": sent.rate,
                "examples": sum(len(pack.examples) for pack in packs),
                "tokens": sum(len(pack.tokens) - 1 for pack in packs),
                "trained_tokens": sum(weight != 0 for pack in packs for weight in pack.weights),
                "seconds": round(seconds, 3),
            }
        )
        self._update(step=sent.step + 1)
        left = seconds / (sent.step + 1) * (self.plan.steps - sent.step - 1)
        self.progress(f"step {sent.step + 1}/{self.plan.steps}  loss {loss:.3f}  {left:.0f} s left")

    def _save(self, name: str, keep: int | None) -> str:
        pending = self._client.save_state(f"{self.run.id}-{name}", ttl_seconds=keep)
        path = self.service.wait(pending, "saving the state").path
        self.run.add_checkpoint(Checkpoint(self._state.step, state=path))
        self._update(saved=self._state.step)
        return path

    def _finish(self) -> None:
        self.progress("saving the checkpoint")
        state = self._save("final", None)
        pending = self._client.save_weights_for_sampler(f"{self.run.id}-final")
        sampler = self.service.wait(pending, "saving the weights for sampling").path
        taken = tuple(probe.of_trainer(self.service, self._client, self.student))
        self.run.add_checkpoint(Checkpoint(self._state.step, state=state, sampler=sampler, probe=taken))
        self._update(status="done", ended_at=now())

    def _ended(self, status: str, cause: str, next_step: str = "") -> TrainingError:
        """Marks the run, and says what is left of it."""
        saved = self._state.saved
        kept = f"the state after step {saved} is saved" if saved else "nothing was saved yet"
        resume = f"machine train run --resume {self.run.id}" if saved else "machine train run"
        step = f"{next_step}, then {resume}" if next_step else resume
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


def _mean_nll(output: "ForwardBackwardOutput", packs: Sequence[Pack]) -> float:
    """Mean over the batch of each target's weighted negative log-likelihood, in nats a token."""
    total = 0.0
    for pack, outputs in zip(packs, output.loss_fn_outputs, strict=True):
        logprobs = outputs["logprobs"].data
        total -= sum(p * w for p, w in zip(logprobs, pack.weights[1:], strict=True) if w)
    return total / sum(len(pack.examples) for pack in packs)


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
