"""How long the user waits for a large pool: /tagged, /machine data, the append of /good; what index and reading cost.

    python bench/pool.py [--rows 100000] [--bytes 1000000000] [--repeats 15]

Writes a pool of that size into a temporary folder. Beside each figure stands what the same answer costs without the
index, or the least that it can cost: reading the whole pool with json and with msgspec, a Python that does nothing, a
bare write and sync of the same bytes, a bare read of the same rows. The bars, for medians: 100 ms for a listing where
Pi asks for it (a process of its own is shown beside it), 10 ms for an append.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from machine.cli import ShellHost
from machine.commands import run
from machine.store.files import write_all
from machine.store.index import Index
from machine.store.project import Project
from machine.trace import TAGS, Row, Source, decode, digest, encode

PACKAGE = Path(__file__).resolve().parents[1]
LISTING_MS, APPEND_MS = 100.0, 10.0
TURNS_A_SESSION = 40
COLUMNS = "{:<34} {:>10} ms   p95 {:>10} ms   {}"


def main() -> int:
    """Measures, prints, and returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="machine-pool-") as folder:
        os.environ["MACHINE_DATA_DIR"] = f"{folder}/home"
        (place := Path(folder, "work")).mkdir()
        with contextlib.chdir(place):
            return measure(Project.at(place), options.rows, options.bytes // options.rows, options.repeats)


def measure(project: Project, count: int, size: int, repeats: int) -> int:
    """Fills the pool with `count` rows of about `size` bytes and prints what they cost; 1 if a bar is missed."""
    pool, numbers = project.pool, itertools.count()
    project.make()
    with pool.path.open("wb") as file:
        for number in itertools.islice(numbers, count):
            file.write(encode(row(number, size)) + b"\n")
    print(f"{count} rows, {pool.path.stat().st_size / 1e9:.2f} GB")
    [whole_json] = report("read the whole pool with json", [lambda: each_line(pool.path, json.loads)])
    [whole] = report("read the whole pool with msgspec", [lambda: each_line(pool.path, decode)])
    report("make the index", [pool.counts], "{:.1f} x msgspec, {:.1f} x json", whole, whole_json)
    taken = [
        (timed(partial(each_place, project)), timed(partial(each_row, project))) for _ in range(repeats)
    ]  # in turn, so that both meet the same noise
    least = statistics.median(shown("read every row, barely", [one for one, _ in taken], "{:.2f} x msgspec", whole))
    shown("read every row", [one for _, one in taken], "{:.2f} x bare", least)
    [nothing] = [statistics.median(report("python -c pass", [lambda: start("-c", "pass")] * repeats))]
    missed = []
    for word in ("tagged", "data"):
        warm = report(f"machine {word}, warm", [partial(listed, word)] * repeats, "1/{:.0f} of msgspec", whole)
        process = partial(start, "-m", "machine.cli", word)
        report(f"machine {word}, its own process", [process] * repeats, "{:.1f} x python -c pass", nothing)
        missed += [f"machine {word}"] * (statistics.median(warm) > LISTING_MS)
    write = partial(write_bare, project.folder / "bare", encode(row(0, size)) + b"\n")
    bare = statistics.median(report("bare write and sync", [write] * repeats * 4))
    new = [partial(pool.append, row(number, size)) for number in itertools.islice(numbers, repeats * 4)]
    appended = report("append", new, "{:.1f} x bare", bare)
    missed += ["append"] * (statistics.median(appended) > APPEND_MS)
    print(f"bars: {LISTING_MS:.0f} ms a listing, {APPEND_MS:.0f} ms an append; missed: {', '.join(missed) or 'none'}")
    return int(bool(missed))


def report(what: str, runs: Sequence[Callable[[], object]], ratio: str = "", *others: float) -> list[float]:
    """The milliseconds of each run; prints their median and how it compares with those of the others."""
    return shown(what, [timed(run_once) for run_once in runs], ratio, *others)


def timed(run_once: Callable[[], object]) -> float:
    """The milliseconds of one run."""
    began = time.perf_counter()
    run_once()
    return (time.perf_counter() - began) * 1e3


def shown(what: str, taken: list[float], ratio: str = "", *others: float) -> list[float]:
    """Prints the median of some milliseconds, and how it compares with others; returns them."""
    median = statistics.median(taken)
    ratios = [other / median if ratio.startswith("1/") else median / other for other in others]
    p95 = sorted(taken)[int(len(taken) * 0.95)]
    print(COLUMNS.format(what, f"{median:.2f}", f"{p95:.2f}", ratio.format(*ratios)), flush=True)
    return taken


def row(number: int, size: int) -> Row:
    """A turn with one tool call, whose result is most of its bytes."""
    call = {"type": "function", "id": "c1", "function": {"name": "read", "arguments": '{"path":"src/main.py"}'}}
    messages = (
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": f"What does function {number} do?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "    return total\n" * (size // 18 - 50)},
        {"role": "assistant", "content": f"It is function {number}."},
    )
    entries = tuple(f"{number:x}-{i}" for i in range(4))
    session = f"session-{number // TURNS_A_SESSION}"
    return Row(
        id=f"t_{number:026d}", tag=TAGS[number % 3], messages=messages, tools=(), target=(2, 4),
        created_at="2026-01-01T00:00:00+00:00", digest=digest(messages, (), (2, 4)),
        source=Source("pi", "1", session, entries[-1], entries, "/project", models=(None, None, "m", None, "m")),
    )  # fmt: skip


def each_line(pool: Path, read: Callable[[bytes], object]) -> int:
    """Reads every line of the pool."""
    with pool.open("rb") as file:
        return sum(read(line) is not None for line in file)


def each_row(project: Project) -> int:
    """Reads every row in force as the pool gives it out."""
    return sum(1 for _ in project.pool.rows())


def each_place(project: Project) -> int:
    """Reads every row in force where the index says that it lies, and asks nothing else."""
    pool = project.pool.path
    with Index(pool, pool.with_suffix(".index")) as index, pool.open("rb") as file:
        return sum(
            decode(file.read(place.length)) is not None for place in index.places() if file.seek(place.offset) >= 0
        )


def listed(word: str) -> None:
    """Runs a command in this process."""
    assert run([word], ShellHost(quiet=True)).exit_code == 0


def start(*words: str) -> None:
    """Runs Python in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE / "src")}
    subprocess.run([sys.executable, "-P", *words], check=True, stdout=subprocess.DEVNULL, env=environment)


def write_bare(path: Path, line: bytes) -> None:
    """Appends a line and syncs: the least that an append can do."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    write_all(descriptor, line)
    os.fsync(descriptor)
    os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
