"""Scenarios of a pipe that is full, or that nobody reads any more: of the shell's commands and of a training run."""

import contextlib
import os
import subprocess
import time
from pathlib import Path

from ground import Ground, Said, children, gone, until
from survived import Cell, Survived, equal, holds, says, scenario

from machine.trace import Row
from students import assistant, row, user

STEPS = [1, 2, 3, 4, 5, 6]


def _filled(ground: Ground, count: int) -> None:
    """Puts so many rows into the pool, more than a pipe holds."""
    ground.project.make()
    made: list[Row] = [row(user(f"{n} " * 300), assistant("a"), number=n) for n in range(count)]
    for each in made:
        ground.project.pool.append(each)


@scenario("a full pipe: a command whose reader (`| head -1`) goes")
def reader_leaves(ground: Ground) -> Survived:
    _filled(ground, 60)
    ends = []
    for words in (["tagged", "99"], ["tagged", "99", "--json"], ["data"], ["--help"]):
        process = ground.start(*words)
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        ends.append((process.wait(30), process.stderr.read() if process.stderr else ""))
    file = str(ground.session())
    with ground.start("good", "--session", file, stdout=_closed()) as process:
        ends.append((process.wait(30), process.stderr.read() if process.stderr else ""))
    rows = len(ground.world.rows())
    again = ground.machine("good", "--session", file)
    return Survived(
        "five commands whose reader goes after a byte, one of them `/good`",
        equal("the row that `/good` could not speak of is in the pool", rows, 61),
        says(again.out, "Already tagged"),
        equal("exit 0 and not a word on stderr", ends, [(0, "")] * 5),
    )


def _closed() -> int:
    """The writing end of a pipe that has no reader."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@scenario("a full disk behind a command whose output goes to a file")
def stdout_full(ground: Ground) -> Survived:
    file = str(ground.session())
    ends = []
    for words in (["good", "--session", file], ["data"], ["data", "--json"]):
        with Path("/dev/full").open("w") as full, ground.start(*words, stdout=full) as process:
            _, err = process.communicate(timeout=60)
        ends.append(Said(process.returncode, "", err))
    rows = len(ground.world.rows())
    again = ground.machine("good", "--session", file)
    bad = [
        end for end in ends if end.code != 1 or end.crashed or "No space left" not in end.err or "Next: " not in end.err
    ]
    return Survived(
        "`/good`, `data` and `data --json` into a file on a full disk",
        equal("the row is in the pool", rows, 1),
        says(again.out, "Already tagged"),
        Cell("exit 1: `the report could not be written: No space left on device`, and what to do", not bad, bad),
    )


@scenario("a full pipe: nobody reads what `machine train run` says, for a while", slow=True)
def run_unread(ground: Ground) -> Survived:
    ground.ready_to_train()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    process = ground.start("train", "run", "--yes", stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    time.sleep(10)
    with os.fdopen(reading, "rb") as stream:
        err = stream.read().lstrip(b"\0").decode()
    out, _ = process.communicate(timeout=120)
    steps = [line["step"] for line in ground.run.metrics()] if ground.runs else err
    return Survived(
        "its stderr full from the beginning, read after 10 s",
        equal("every step is in metrics.jsonl, once", steps, STEPS),
        equal("once it is read the run ends as it would", process.returncode, 0),
        holds(
            "all that it said is there",
            {"what it takes": "What this run takes" in err, "how it ended": "Trained 6 steps" in out},
        ),
    )


@scenario("a full pipe: the reader of `machine train run` goes, in mid-run", slow=True)
def run_reader_leaves(ground: Ground) -> Survived:
    ground.ready_to_train()
    process = ground.training("--steps=30", stderr=subprocess.STDOUT)
    [page] = children(process.pid)
    assert process.stdout is not None
    process.stdout.close()
    code = process.wait(120)
    ended = until(lambda: gone(page), 60)
    run = ground.run
    steps, saved = len(run.metrics()), run.resumable()
    stands = {
        f"steps {steps}": steps >= 3,
        f"saved {saved}": saved is not None and saved.step >= 2,
        "the page ended": ended,
        f"{run.state.status}: the state of the last step is saved": run.state.status == "done"
        or (saved is not None and saved.step == steps),
    }
    resumed = ground.machine("train", "run", "--resume", "--yes")
    return Survived(
        "its reader goes after step 3 of 30",
        holds("the state after the last step is saved", stands),
        equal(
            "`--resume` ends it, every step once",
            (run.state.status, [line["step"] for line in run.metrics()]),
            ("done", [*range(1, 31)]),
        ),
        Cell("nothing can be said; the exit code is not a crash", code in (0, 1) and not resumed.crashed, code),
    )
