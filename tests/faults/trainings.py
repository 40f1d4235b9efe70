"""Scenarios of a training run: itself, the command that shows it, and the engine that does its work, killed or asleep."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from ground import Ground, Said, children, gone, until
from survived import Cell, Survived, equal, holds, says, scenario

from machine.engine import life

SHARED = True
"""One ground for all of them: its rows, its page and, unless it was killed, its engine."""
STEPS = [1, 2, 3, 4, 5, 6]
KEPT = "the state after step 2 is saved, the steps before are in metrics.jsonl, each line whole"


def _ended(process: "subprocess.Popen[str]", seconds: float = 120) -> Said:
    out, err = process.communicate(timeout=seconds)
    return Said(process.returncode, out or "", err or "")


def _kept(ground: Ground, status: str) -> Cell:
    """What a run had acknowledged: the state that it can go on from, the metrics, and what its state says."""
    run = ground.run
    saved = run.resumable()
    steps = [line["step"] for line in run.metrics()]
    checks = {
        f"status {run.state.status}": run.state.status == status,
        f"saved {saved}": saved is not None and saved.step >= 2,
        f"metrics {steps}": len(steps) >= 3 and steps == STEPS[: len(steps)],
        "whole lines": (run.folder / "metrics.jsonl").read_bytes().endswith(b"\n"),
    }
    return holds(f"{KEPT}; its state says {status}", checks)


def _goes_on(ground: Ground) -> Cell:
    """Resumes the newest run."""
    id = ground.run.id
    said = ground.machine("train", "run", "--resume", "--yes")
    run = ground.run
    checks = {
        said.text[-300:]: said.code == 0,
        "the same run": run.id == id,
        "done": run.state.status == "done",
        "every step once": [line["step"] for line in run.metrics()] == STEPS,
        "sealed": run.unsealed() == [],
        "as a run without a fault": ground.losses_of(run) == ground.losses,
    }
    return holds(
        "`machine train run --resume` ends it: every step once, its losses those of a run without a fault", checks
    )


@scenario("kill -9 of a training run's page, in mid-step")
def page_killed(ground: Ground) -> Survived:
    process = ground.training()
    [page] = children(process.pid)
    os.kill(page, signal.SIGKILL)
    said = _ended(process)
    return Survived(
        "SIGKILL after step 3 of 6",
        _kept(ground, "interrupted"),
        _goes_on(ground),
        says(
            said.err,
            "the training page was killed (SIGKILL)",
            "what was saved before stays",
            "Next: machine train run --resume",
        ),
    )


@scenario("kill -9 of `machine train run`, which shows the run", slow=True)
def command_killed(ground: Ground) -> Survived:
    process = ground.training()
    [page] = children(process.pid)
    process.kill()
    process.wait()
    stopped = until(lambda: gone(page), 60)
    kept = _kept(ground, "interrupted")
    cause = ground.run.state.cause or ""
    listed = ground.machine("train", "runs").text
    return Survived(
        "SIGKILL after step 3 of 6; the page notices at its next line",
        holds(f"{kept.text}; the page stopped by itself", {str(kept): kept.holds, "stopped": stopped}),
        _goes_on(ground),
        Cell(
            "`train runs` says interrupted, the run's state `told to stop`",
            "interrupted" in listed and cause == "told to stop",
            (cause, listed),
        ),
    )


@scenario("kill -9 of the engine, in mid-step", slow=True)
def engine_killed_in_step(ground: Ground) -> Survived:
    process = ground.training()
    ground.kill_engine()
    return _without_engine(ground, process, "SIGKILL while step 4 was computed")


@scenario("kill -9 of the engine, in the middle of saving a state")
def engine_killed_in_save(ground: Ground) -> Survived:
    store = ground.engine_state / "checkpoints"
    half, process = False, None
    for _ in range(5):
        process = ground.training(after_step=3)
        half = _kill_in_save(ground, process)
        if half:
            break
        _ended(process)
    assert process is not None
    survived = _without_engine(ground, process, "SIGKILL while the state after step 4 was being written")
    left = [str(path) for path in store.glob("*/*/.*")]
    kept = holds(
        f"{survived.kept.text}; of the half checkpoint nothing is left or listed",
        {"it was killed in the middle": half, str(survived.kept): survived.kept.holds, f"left {left}": not left},
    )
    return Survived(survived.done, kept, survived.after, survived.message)


def _kill_in_save(ground: Ground, process: "subprocess.Popen[str]") -> bool:
    """Ends the engine when it has begun to write a checkpoint; whether it had not ended."""
    store, found = ground.engine_state / "checkpoints", life.status(state=ground.engine_state)
    assert found is not None
    until(lambda: any(store.glob("*/weights/.tmp-*")) or process.poll() is not None, 60, every=0)
    os.kill(found.pid, signal.SIGKILL)
    until(lambda: life.status(state=ground.engine_state) is None)
    return any(store.glob("*/weights/.tmp-*"))


def _without_engine(ground: Ground, process: "subprocess.Popen[str]", done: str) -> Survived:
    said = _ended(process)
    kept = _kept(ground, "failed")
    id = ground.run.id
    ground.engine()
    return Survived(
        done,
        kept,
        _goes_on(ground),
        says(
            said.err,
            "does not answer; the state after step 2 is saved",
            f"Next: machine engine start, then machine train run --resume {id}",
        ),
    )


@scenario("sleep and resume of the whole machine, in the middle of a training run")
def all_asleep(ground: Ground) -> Survived:
    return _slept(ground, lambda process, engine: [process.pid, *children(process.pid), engine], 6)


@scenario("sleep and resume of the engine, in the middle of a training run", slow=True)
def engine_asleep(ground: Ground) -> Survived:
    return _slept(ground, lambda process, engine: [engine], 6)


@scenario("the engine stops for longer than the SDK waits for an answer, then goes on", slow=True)
def engine_asleep_long(ground: Ground) -> Survived:
    return _slept(ground, lambda process, engine: [engine], 60)


@scenario("sleep and resume of the page, in the middle of a training run", slow=True)
def page_asleep(ground: Ground) -> Survived:
    return _slept(ground, lambda process, engine: children(process.pid), 20)


def _slept(ground: Ground, who: Callable[["subprocess.Popen[str]", int], Sequence[int]], seconds: float) -> Survived:
    process = ground.training(after_step=2)
    found = life.status(state=ground.engine_state)
    assert found is not None
    pids = who(process, found.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)
    said = _ended(process)
    run = ground.run
    steps = [line["step"] for line in run.metrics()]
    losses = ground.losses_of(run)
    return Survived(
        f"SIGSTOP after step 2 of 6, {seconds:g} s, SIGCONT",
        equal("every step is in metrics.jsonl, once", steps, STEPS),
        equal("the run ends as one without a fault, with the same losses", (said.code, losses), (0, ground.losses)),
        says(said.out, "Trained 6 steps"),
    )


@scenario("two training runs on one project, and one run trained twice", slow=True)
def two_runs(ground: Ground) -> Survived:
    first = ground.training(after_step=1)
    run = ground.run
    again = ground.machine("train", "run", "--resume", run.id, "--yes")
    second = ground.start("train", "run", "--yes")
    ends = [_ended(first), _ended(second)]
    found = [each for each in ground.runs if each.id >= run.id]
    steps = [[line["step"] for line in each.metrics()] for each in found]
    return Survived(
        "a second run begun beside the first; then the first one resumed while it runs",
        equal(
            "both runs are done, every step of each once",
            (steps, [each.state.status for each in found]),
            ([STEPS] * 2, ["done"] * 2),
        ),
        equal("both commands end well", [end.code for end in ends], [0, 0]),
        Cell(
            "`run … is being trained by process …`, exit 2",
            again.code == 2 and "is being trained by process" in again.text,
            again.text,
        ),
    )
