"""Scenarios of a wall clock that jumps: of the store, of a training run and the engine's tokens, of the list of models."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ground import Ground, children
from survived import Cell, Survived, equal, holds, says, scenario

from machine.engine import life

YEAR = 365 * 86400.0
STEPS = [1, 2, 3, 4, 5, 6]


def _clock(ground: Ground) -> Path:
    """The file that every Python which is started from now on takes its time from (see `clock/sitecustomize.py`)."""
    file = ground.base / "clock"
    if not file.exists():
        file.write_text("0")
        ground.world.extra |= {"FAULTS_CLOCK": str(file), "PYTHONPATH": str(Path(__file__).parent / "clock")}
    return file


def _jump(ground: Ground, seconds: float) -> None:
    """Sets the clock to so many seconds after the true time."""
    half = ground.base / "clock.new"
    half.write_text(str(seconds))
    half.replace(_clock(ground))


@scenario("a clock that jumps a year ahead, then back: tagging")
def clock_store(ground: Ground) -> Survived:
    ids, years = [], []
    for number, shift in enumerate((0.0, YEAR, -YEAR, 1.0)):
        _jump(ground, shift)
        said = ground.machine(
            "good", "--session", str(ground.session(f"question {number}", f"answer {number}")), "--json"
        )
        ids.append(json.loads(said.out)["data"]["id"])
    rows = {row["id"]: row for row in ground.world.rows()}
    years = [int(rows[id]["created_at"][:4]) for id in ids]
    listed = json.loads(ground.machine("tagged", "--json").out)["data"]["rows"]
    shown = [ground.machine("tagged", id).code for id in ids]
    again = ground.machine("good", "--session", str(ground.base / "session-2.jsonl"))
    now = years[0]
    return Survived(
        "`/good` at the true time, a year ahead, a year back, and at the true time again",
        equal("every row is there, dated by the clock of its moment", years, [now, now + 1, now - 1, now]),
        holds(
            "`/tagged` lists them in the order of tagging, finds each by its id; the same turn is one row",
            {
                "order": [row["id"] for row in listed] == ids[::-1],
                "found": shown == [0] * 4,
                "one row": "Already tagged" in again.out,
            },
        ),
        says(again.out, "Already tagged"),
    )


@scenario("sleep for a year, in the middle of a training run; then the clock is set back by two", slow=True)
def clock_run(ground: Ground) -> Survived:
    _jump(ground, 0)
    process = ground.training(after_step=2)
    engine = life.status(state=ground.engine_state)
    assert engine is not None
    pids = [process.pid, *children(process.pid), engine.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    _jump(ground, YEAR)  # a clock that only runs does not count a sleep: the tokens have expired, and no timer knows
    time.sleep(1)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)
    time.sleep(6)  # the engine looks after its sessions every 5 s
    _jump(ground, -YEAR)
    out, err = process.communicate(timeout=240)
    run = ground.run
    alive = life.status(state=ground.engine_state)
    log = (ground.engine_state / "engine.log").read_text()
    _jump(ground, 0)
    after = {
        f"exit {process.returncode} {err[-300:]}": process.returncode == 0,
        "the same losses": ground.losses_of(run) == ground.losses,
        "the engine lives": alive is not None and alive.pid == engine.pid,
        "no fault of the engine's": "Traceback" not in log,
    }
    return Survived(
        "all stopped after step 2 of 6, the clock a year on, all goes on; then a year before the true time",
        equal("every step is in metrics.jsonl, once", [line["step"] for line in run.metrics()], STEPS),
        holds("tokens are renewed, no session and no engine ends for it; the run ends with the same losses", after),
        says(out, "Trained 6 steps"),
    )


@scenario(
    "a clock that was a year ahead: the newest run, and the list of models",
    slow=True,
)
def clock_after(ground: Ground) -> Survived:
    _jump(ground, YEAR)
    ground.ready_to_train()
    first = ground.machine("train", "run", "--yes", "--steps", "1", "--json")
    ahead = _listed(ground)
    _jump(ground, 0)
    second = ground.machine("train", "run", "--yes", "--steps", "1", "--json")
    now = _listed(ground)
    ids = [json.loads(each.out)["data"]["run"] for each in (first, second)]
    found = [run["id"] for run in json.loads(ground.machine("train", "runs", "--json").out)["data"]["runs"]]
    return Survived(
        "a run and a look at the models a year ahead, then both at the true time",
        equal("both runs are there, the one begun last is the newest", found, ids[::-1]),
        Cell("the list of models, dated a year ahead, is asked for anew at once", now < ahead, (ahead, now)),
        Cell("`train runs` lists the one begun last first", found[:1] == ids[1:], found),
    )


def _listed(ground: Ground) -> str:
    """When the list of models was asked for, by the clock, after what Pi runs at the start of a session."""
    words = [sys.executable, "-m", "machine.tinker.catalogue"]
    subprocess.run(words, env=ground.env, cwd=ground.world.project, check=True, timeout=60)
    [provider, *_] = json.loads((ground.world.machine / "providers.json").read_text())["providers"]
    return str(provider["asked_at"])
