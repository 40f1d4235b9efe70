"""Scenarios of a full disk: at each write of `/good`, of `/correction`, of `train sft`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ground import Ground, Said
from smalldisk import FULL, small_disk, sweep
from survived import Cell, Survived, holds, scenario

from sessions import Script

SIZE = 4 << 20
LONG = "a long answer " * 350
"""More than the slack of a file's last page."""
FREE = ("free space on the disk", "check the disk")
"""The next step: on a full disk, and under the limit that stands for it."""
FIT = "The user wants a line printed, and the shell prints it, so I call read with exactly that file."


def _told(said: list[Said]) -> Cell:
    """Whether each refusal names the disk and says what to do."""
    bad = [each.text for each in said if not _fits(each)]
    return Cell(
        f"`{FULL[0]} on device`, next: `{FREE[0]} … then run the command again`", not bad and bool(said), bad[:2]
    )


def _fits(said: Said) -> bool:
    named = any(word in said.text for word in FULL) and any(word in said.text for word in FREE)
    return said.code == 1 and named and not said.crashed


def _holds(ground: Ground) -> Any:
    """What a user would miss: rows, ledger, settings."""
    project = ground.project
    ledger = project.corrections.read_bytes() if project.corrections.exists() else b""
    return [(row.tag, row.messages[-1]["content"]) for row in project.pool.rows()], ledger, project.settings()


def _swept(ground: Ground, words: Callable[[], list[str]], look: Callable[[], None]) -> list[Said]:
    """Runs a command on a disk that has 0 pages left, then 1 ... until it is done; what it said before that."""
    refusals: list[Said] = []

    def attempt(options: dict[str, Any]) -> bool:
        said = ground.machine(*words(), **options)
        if said.code == 0:
            return True
        refusals.append(said)
        look()
        return False

    sweep(ground.disk, attempt)
    return refusals


@scenario("a full disk, at each write of `/good`")
def disk_good(ground: Ground) -> Survived:
    with small_disk(ground.world.machine, SIZE) as ground.disk:
        first = str(ground.session("first", "first answer"))
        refusals = _swept(ground, lambda: ["good", "--session", first], lambda: None)
        before, spoilt = _holds(ground), []
        file = str(ground.session("second", LONG))

        def look() -> None:
            if _holds(ground) != before:
                spoilt.append(_holds(ground))

        refusals += _swept(ground, lambda: ["good", "--session", file], look)
        rows = _holds(ground)[0]
        third = ground.machine("good", "--session", str(ground.session("third", "third answer")))
        lines = [
            json.loads(line)["messages"][-1]["content"] for line in ground.project.pool.path.read_bytes().splitlines()
        ]
        listed = ground.machine("tagged").text
    wanted = ["first answer", LONG]
    return Survived(
        f"the disk filled up but for 0, 1, 2 … pages until it was saved ({len(refusals)} times it was not)",
        holds(
            "the row before is there; of the refused one nothing",
            {"as it was": not spoilt, "saved once it could be": [answer for _, answer in rows] == wanted},
        ),
        holds(
            "with space again: the same turn is one row, the next is saved, both are listed",
            {"third": third.code == 0, "lines": lines == [*wanted, "third answer"], "listed": "3 of 3" in listed},
        ),
        _told(refusals),
    )


def _correctable(ground: Ground) -> Path:
    """A session whose one turn calls a tool."""
    script = Script(str(ground.world.project))
    script.user("Print a line.")
    script.assistant("", [("c1", {"path": "wrong"})])
    script.result("c1", "nothing")
    script.assistant(LONG)
    return script.save(ground.base / "wrong.jsonl")


@scenario("a full disk, at each write of `/correction` (rows and ledger)")
def disk_correction(ground: Ground) -> Survived:
    with small_disk(ground.world.machine, SIZE) as ground.disk:
        ground.machine("good", "--session", str(ground.session("first", "first answer")))
        file = str(_correctable(ground))
        words = ["correction", "it printed nothing", "--reasoning", FIT, "--as", f"A line. {LONG}", "--session", file]
        torn: list[str] = []

        def look() -> None:
            read = ground.machine("corrections")
            if read.code != 0 or "damaged" in read.text or "first answer" not in str(_holds(ground)[0]):
                torn.append(read.text)

        refusals = _swept(ground, lambda: words, look)
        pairs = ground.machine("corrections", "export", "--pairs", str(ground.base / "pairs.jsonl"), "--yes", "--json")
        listed = json.loads(ground.machine("corrections", "--json").out)["data"]["corrections"]
        tags = sorted(tag for tag, _ in _holds(ground)[0])
        again = ground.machine(*words)
    after = {
        "one correction, linked": [each["state"] for each in listed if each["state"] != "dropped"] == ["linked"],
        "its answer stands for the rejected one": tags == ["good", "good"],
        "its pair": len(json.loads(pairs.out)["data"].get("pairs", [])) == 1,
        "said anew it works": again.code == 0,
    }
    return Survived(
        f"the disk filled up but for 0, 1, 2 … pages until it was done ({len(refusals)} times it was not)",
        Cell("the row before is there, the ledger can be read, no line of it is half", not torn, torn[:2]),
        holds(
            "with space again: the same command ends with one correction, linked, and one pair of its bad and its good row",
            after,
        ),
        _told(refusals),
    )


@scenario(
    "a full disk, at each write of `train sft`",
    slow=True,
)
def disk_sft(ground: Ground) -> Survived:
    with small_disk(ground.world.machine, SIZE) as ground.disk:
        ground.ready_to_train()
        project = ground.project
        pages = [project.train / name for name in ("train_sft.py", "tinker.yaml")]
        for page in pages:
            page.unlink()
        words, half = ["train", "sft", "--rank", "4"], []

        def look() -> None:
            half.extend(page.name for page in pages if page.exists() and not page.stat().st_size)

        refusals = _swept(ground, lambda: words, look)
        rows = len(list(project.pool.rows()))
        after = {page.name: page.exists() for page in pages}
        after["validate"] = ground.machine("train", "validate").code == 0
        ground.kill_engine()
    return Survived(
        f"the disk filled up but for 0, 1, 2 … pages until both were written ({len(refusals)} times they were not)",
        Cell("the rows are there; no file is half", rows == 8 and not half, (rows, half)),
        holds("with space again the same command writes both", after),
        _told(refusals),
    )


@scenario("a full disk, at each write of a training run (config, state, metrics, checkpoints, seal)", slow=True)
def disk_run(ground: Ground) -> Survived:
    ground.engine()
    here = Path(__file__).parent
    env = {**ground.env, "PYTHONPATH": str(here.parent)}
    words = [sys.executable, str(here / "runwrites.py"), str(ground.base / "runs")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-500:]
    found = json.loads(done.stdout)
    said = [fault for fault in found["faults"] if "(" in fault]
    rest = [fault for fault in found["faults"] if "(" not in fault]
    return Survived(
        f"one run for each of its {found['writes']} writes: half of that write, then nothing, can be written",
        Cell(
            "state and metrics can be read, the steps before the saved state are as they were",
            found["writes"] >= 12 and not rest,
            rest,
        ),
        Cell("with space again the run is resumed and ends: every step once, sealed", not rest, rest),
        Cell(
            "`… No space left on device; the state after step N is saved`, next: `free space …, then machine train run --resume`",
            not said,
            said[:2],
        ),
    )
