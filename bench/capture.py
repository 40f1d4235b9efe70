"""How fast a session is read, how much memory a huge one takes, and how long `/good` takes in the real Pi.

    python bench/capture.py [--megabytes 50] [--huge 600] [--entries 1000] [--repeats 7]

Projection is measured against Pi's own `SessionManager.open` + `buildSessionContext` on the same file, in turns. The
bars: at least 3x as fast; a huge session within 300 MB; `/good` within 50 ms, from keystroke to what Pi shows (which
comes after the row is synced).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import bootstrap
from machine.capture.projection import project
from machine.capture.reader import read

sys.path.insert(0, str(bootstrap.PACKAGE / "tests"))

from sessions_of import source, talk, write

from pi.harness import Pi, World
from pi.scripted import Server

PI = bootstrap.PACKAGE / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "index.js"
BARS = {"projection": 3.0, "memory": 300.0, "good": 50.0}
_PI_PROJECTS = """
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
const { SessionManager } = await import(pathToFileURL(process.argv[1]).href);
for await (const file of createInterface({ input: process.stdin })) {
	const began = performance.now();
	const { messages } = SessionManager.open(file).buildSessionContext();
	console.log(`${messages.length} ${performance.now() - began}`);
}
"""


def main() -> int:
    """Measures, prints, and returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--huge", type=int, default=600, help="megabytes")
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), source()
        missed = projections(folder, text, options.megabytes, options.repeats)
        missed += memory(folder, text, options.huge)
        missed += good(folder, text, options.entries, options.repeats)
    return int(missed > 0)


def projections(folder: Path, text: str, megabytes: int, repeats: int) -> int:
    """Pi's projection and ours, in turns, of a session that was compacted as it grew and of one that never was."""
    missed = 0
    with subprocess.Popen(
        [bootstrap.tools(Path(sys.prefix)).node, "--input-type=module", "-e", _PI_PROJECTS, str(PI)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    ) as child:  # fmt: skip
        for what, every in (("compacted", 20), ("never compacted", 0)):
            file = folder / f"{every}.jsonl"
            turns = talk(text, steps=5, characters=4000, compact_every=every)
            count = write(file, turns, lambda _, size: size >= megabytes * 10**6, folder)
            theirs, ours = [], []
            for _ in range(repeats):
                child.stdin.write(f"{file}\n")
                seen, taken = child.stdout.readline().split()
                theirs.append(float(taken))
                began = time.perf_counter()
                there = len(project(read(file).path()))
                ours.append((time.perf_counter() - began) * 1e3)
                assert there == int(seen)
            ratio = statistics.median(theirs) / statistics.median(ours)
            missed += ratio < BARS["projection"]
            print(f"{megabytes} MB, {what}, {count} entries, {seen} messages in the context")
            mine, pis = statistics.median(ours), statistics.median(theirs)
            print(f"  Pi {pis:.0f} ms   Machine {mine:.0f} ms   {ratio:.1f}x   bar {BARS['projection']:.0f}x")
            file.unlink()
        child.stdin.close()
    return missed


def memory(folder: Path, text: str, megabytes: int) -> int:
    """The most memory that `machine good` has at once, in a session with lines of 5 MB."""
    file = folder / "huge.jsonl"
    turns = talk(text, steps=5, characters=20_000, compact_every=20, large=5_000_000)
    count = write(file, turns, lambda _, size: size >= megabytes * 10**6, folder)
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "machine.cli", "good", "--session", str(file)],
        env={**os.environ, "MACHINE_DATA_DIR": str(folder / "machine")}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    print(f"{file.stat().st_size / 1e6:.0f} MB with lines of 5 MB, {count} entries: machine good --session")
    print(f"  {time.perf_counter() - began:.1f} s   peak {peak:.0f} MB   bar {BARS['memory']:.0f} MB")
    file.unlink()
    return peak > BARS["memory"]


def good(folder: Path, text: str, entries: int, repeats: int) -> int:
    """`/good` in the real Pi, each time with another note, so that each writes a row."""
    with Server() as server:
        world = World(folder / "world", server.pi_models())
        file = folder / "session.jsonl"
        count = write(file, talk(text, steps=4, characters=1500), lambda made, _: made >= entries, world.project)
        size = file.stat().st_size / 1e6
        with Pi(world, "--session", str(file)) as pi:
            pi.prompt("/machine data")
            taken = []
            for number in range(3 * repeats):
                start, began = len(pi.records), time.perf_counter()
                name = pi.send("prompt", message=f"/good note {number}")
                pi.dialog("notify", start=start)
                taken.append((time.perf_counter() - began) * 1e3)
                pi.wait(lambda r, name=name: r["type"] == "response" and r.get("id") == name, start=start)
            assert len(world.rows()) == len(taken), pi.messages()[-1]
    median = statistics.median(taken[1:])
    print(f"/good in a session of {count} entries ({size:.1f} MB), {len(taken) - 1} times after the first")
    print(
        f"  first {taken[0]:.0f} ms   median {median:.0f} ms   most {max(taken[1:]):.0f} ms  bar {BARS['good']:.0f} ms"
    )
    return median > BARS["good"]


if __name__ == "__main__":
    sys.exit(main())
