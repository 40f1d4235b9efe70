"""Ends processes with SIGKILL while they write to a project, and says what that did to it. A script: see `main`.

A process is forked for each kill: a thousand starts of Python would take minutes. Some are killed by the parent, at any
moment; the others kill themselves before a call to the system or an SQL statement, or half-way through a write, and every
such point has its turn.
"""

import collections
import contextlib
import fcntl
import gc
import itertools
import json
import os
import random
import select
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import filelock  # noqa: F401 (so that no child imports it)

from machine.store import index
from machine.store.copies import copies
from machine.store.erase import is_erased
from machine.store.pool import Pool
from machine.store.project import Project
from machine.trace import Row, Source, decode, digest

KILLS_A_PROJECT = 8
SPLITS = 6
"""How often a child is killed half-way through the same write, each time elsewhere in it."""
CALLS = [
    (os, name)
    for name in ("open", "write", "pwrite", "fsync", "ftruncate", "replace", "unlink", "mkdir", "chmod", "fchmod")
]
CALLS.append((fcntl, "flock"))
REAL_WRITE = os.write


def row(name: str, *, part: int = 0, tag: str = "good", size: int = 40) -> Row:
    """A row of a turn of that name."""
    messages = ({"role": "user", "content": "Capital?"}, {"role": "assistant", "content": f"{name} {part} " * size})
    entries = (f"u{name}", f"a{name}")
    source = Source(host="pi", host_version="1", session="s", leaf=entries[-1], entries=entries, cwd="/p", part=part)
    return Row(
        id=f"t_{name}_{part}", tag=tag, messages=messages, tools=(), target=(1,), created_at="2026-01-01T00:00:00+00:00",
        source=source, digest=digest(messages, (), (1,)),
    )  # fmt: skip


class Action:
    """Something that a project is asked to keep: can be done, done again, and looked for."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        several = {"one": [row(name)], "turn": [row(name, part=i) for i in range(3)]}
        self.rows = several.get(kind, [])
        if kind == "erase":
            self.rows = [row(name), row(f"{name}.gone", size=400)]  # the second of several pages
        if kind == "observed":
            self.rows = [row(f"{name}.{i}", tag="observed") for i in range(3)]
        self.blob = name.encode() * 99

    def do(self, project: Project) -> None:
        """Returns once it is kept."""
        match self.kind:
            case "one" | "turn":
                project.pool.append_all(self.rows)
            case "erase":
                project.pool.append_all(self.rows)
                project.pool.erase([self.rows[1].id])
            case "observed":
                project.pool.append_observed(self.rows)
            case "refusal":
                project.refused("good", self.name)
            case "setting":
                project.set(auto=self.auto)
            case "blob":
                project.blobs.keep([self.blob])[0]

    @property
    def auto(self) -> bool:
        """What the setting is set to."""
        return int(self.name) % 2 == 1

    def kept(self, project: Project, seen: collections.Counter[str]) -> bool:
        """Whether it is there, once; `seen` counts the ids in the pool's listing."""
        match self.kind:
            case "refusal":
                return sum(refusal.reason == self.name for refusal in project.refusals()) == 1
            case "setting":
                return project.settings().auto == self.auto
            case "blob":
                return project.blobs.get(index.hashlib.sha256(self.blob).hexdigest()) == self.blob
            case "erase":
                gone = f"{self.name}.gone 0 {self.name}.gone".encode()
                return seen[self.rows[0].id] == 1 and not seen[self.rows[1].id] and not copies(project.folder, [gone])
        return all(seen[row.id] == 1 for row in self.rows)


class Points:
    """Counts the calls and statements of this process, and kills it at one of them."""

    def __init__(self, fatal: int, split: float | None) -> None:
        self.fatal, self.split, self.calls, self.writes = fatal, split, 0, 0
        for module, name in CALLS:
            setattr(module, name, self.hooked(name, getattr(module, name)))
        connect = sqlite3.connect

        def traced(*words: object, **options: object) -> sqlite3.Connection:
            db = connect(*words, **options)
            db.set_trace_callback(lambda _: self.reach())
            return db

        sqlite3.connect = traced

    def hooked(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        """The same call, which may be the last."""

        def hook(*words: object, **options: object) -> object:
            if name in ("write", "pwrite"):
                self.writes += 1
                if self.split is not None and self.writes == self.fatal:
                    call(words[0], bytes(words[1])[: int(len(words[1]) * self.split)], *words[2:])
                    os.kill(os.getpid(), signal.SIGKILL)
            self.reach()
            return call(*words, **options)

        return hook

    def reach(self) -> None:
        """Dies if this is the point."""
        self.calls += 1
        if self.split is None and self.calls == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class Field:
    """A project under fire, what it was asked for, and what it turned out to have lost."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.numbers = folder, random.Random(seed), itertools.count(1)
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []
        self.renew()

    def renew(self) -> None:
        """Goes on with an empty project, so that looking at all of it stays quick."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.project, self.done, self.age = Project(self.folder, self.folder / "store"), [], 0

    def shoot(self, kinds: list[str], fatal: int | None = None, split: float | None = None) -> bool:
        """Lets a child do things of these kinds, kills it, and looks at what is left; False if it was not killed."""
        actions = [Action(kind, str(next(self.numbers))) for kind in kinds]
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                self._child(actions, fatal, split, writing)
            os._exit(3)
        os.close(writing)
        if fatal is None:
            self._wait(reading, self.random.randrange(len(kinds)))
            time.sleep(self.random.random() * 0.003)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        confirmed = self._confirmed(reading)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        if not killed and os.WEXITSTATUS(status):
            self.faults.append(f"{kinds} at {fatal}, {split}: the child failed after {confirmed} confirmations")
        self._look(actions, confirmed, f"{kinds} killed at {fatal}, {split}")
        self.counts["kills"] += killed
        self.age += 1
        if self.age == KILLS_A_PROJECT:
            self._lines()
            self.renew()
        return killed

    def _child(self, actions: list[Action], fatal: int | None, split: float | None, writing: int) -> None:
        if fatal is not None:
            Points(fatal, split)
        for action in actions:
            action.do(self.project)
            REAL_WRITE(writing, b".")
        os._exit(0)

    def _wait(self, reading: int, confirmations: int) -> None:
        self.heard = b""
        while len(self.heard) < confirmations and select.select([reading], [], [], 5)[0]:
            heard = os.read(reading, 1)
            if not heard:
                return
            self.heard += heard

    def _confirmed(self, reading: int) -> int:
        heard = getattr(self, "heard", b"")
        self.heard = b""
        with open(reading, "rb") as file:
            return len(heard + file.read())

    def _look(self, actions: list[Action], confirmed: int, what: str) -> None:
        """What was confirmed is there, once; the first that was not is done again; then all is there, once."""
        try:
            self._strays()
            seen = self._seen()
            done, undone = actions[:confirmed], actions[confirmed : confirmed + 1]
            self._expect(done, undone, seen, f"{what}, {confirmed} confirmed")
            for action in undone:
                if action.kind != "refusal" or not action.kept(self.project, seen):
                    action.do(self.project)
            self.done += done + undone
            self._expect([], [], self._seen(), f"{what}, {confirmed} confirmed, then done again")
        except Exception as error:
            self.faults.append(f"{what}: {type(error).__name__}: {error}")

    def _strays(self) -> None:
        """Notes which remains of a crash were met, so that a test can say that they were."""
        pool = self.project.pool
        self.counts["temporaries"] += len(list(self.folder.rglob(".tmp-*")))
        if pool.path.exists():
            data = pool.path.read_bytes()
            self.counts["torn lines"] += not data.endswith(b"\n") and bool(data)
            self.counts["torn turns"] += index.readable(pool.path) < len(data)

    def _seen(self) -> collections.Counter[str]:
        """How often each row is there; one that is not as it was written is under no id."""
        rows = list(self.project.pool.rows())
        whole = [found for found in rows if digest(found.messages, found.tools, found.target) == found.digest]
        self.faults += [f"{found.id} is not whole" for found in rows if found not in whole]
        return collections.Counter(found.id for found in whole)

    def _expect(self, done: list[Action], unsure: list[Action], seen: collections.Counter[str], what: str) -> None:
        for action in [*self.done, *done]:
            last = action is (self.done + done)[-1]
            if (action.kind != "setting" or (last and not unsure)) and not action.kept(self.project, seen):
                self.faults.append(f"{what}: {action.kind} {action.name} is not there once")
        for action in unsure:
            if action.kind == "turn" and sum(seen[row.id] for row in action.rows) not in (0, len(action.rows)):
                self.faults.append(f"{what}: only a part of turn {action.name} is there")
        self.project.settings()

    def _lines(self) -> None:
        """Every line of the pool is a row or was one, each row is there once and in its place, and the index says so too."""
        pool = self.project.pool
        expected = [row.id for action in self.done for row in action.rows if not row.id.endswith(".gone_0")]
        if not expected and not pool.path.exists():
            return
        whole, rest = pool.path.read_bytes().rsplit(b"\n", 1) if expected else (b"", b"")
        found = [decode(line).id for line in whole.split(b"\n") if expected and not is_erased(line)]
        if found != expected or rest:
            self.faults.append(
                f"before {self.done[-1].name}: lines {sorted(set(found) ^ set(expected))} and {len(rest)} bytes"
            )
        kept, fresh = self._index(pool, "index"), self._index(pool, "fresh")
        if kept != fresh or [id for id, *_ in kept] != expected:
            self.faults.append(f"before {self.done[-1].name}: the index is not what the pool says")

    def _index(self, pool: Pool, suffix: str) -> list[object]:
        path = pool.path.with_suffix(f".{suffix}")
        with index.Index(pool.path, path) as opened:
            found = opened._ask("SELECT id, * FROM rows ORDER BY offset")
            broken = opened.broken()
        if suffix == "fresh":
            path.unlink()
        if broken:
            self.faults.append(f"{broken} broken lines")
        return found


def kill(folder: Path, shots: int, *kinds: str) -> dict[str, object]:
    """Kills at every point of two actions of a kind, then `shots` times at any moment of actions of several kinds."""
    gc.freeze()  # else each child copies most of the memory that it shares with its parent
    gc.disable()
    field = Field(folder, seed=shots)
    for kind, index._KEPT_LINES in itertools.product(
        kinds, (1, 8)
    ):  # an index that every opening writes, or that few do
        twice = [kind] * (1 if kind == "erase" else 2)  # an erasing has many points, and begins with an append
        if kind == "erase" and index._KEPT_LINES > 1:
            continue
        for fatal in itertools.count(1):
            if not field.shoot(twice, fatal):
                break
        for fatal in itertools.count(1):
            if not all(field.shoot(twice, fatal, field.random.random()) for _ in range(SPLITS)):
                break
    field.counts["points"] = field.counts["kills"]
    for _ in range(shots):
        field.shoot(field.random.choices(kinds, k=4))
    return {"faults": field.faults, **field.counts}


def crowd(folder: Path, processes: int, rows: int, singles: int) -> dict[str, object]:
    """Lets that many processes append that many rows each to one pool, so many of them one by one, and looks for them."""
    pool = Pool(folder / "traces.jsonl")
    given = [[row(f"{number}-{i}", size=10) for i in range(rows)] for number in range(processes)]
    children = []
    for mine in given:
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                for i in range(0, rows, rows // singles):
                    pool.append(mine[i])
                    pool.append_all(mine[i + 1 : i + rows // singles])
                os._exit(0)
            os._exit(3)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    found = [decode(line).id for line in pool.path.read_bytes().splitlines()]
    orders = [[id for id in found if id in mine] for mine in ({row.id for row in rows} for rows in given)]
    return {
        "failed": sum(map(bool, failed)),
        "rows": len(found),
        "in order": orders == [[row.id for row in mine] for mine in given],
        "listed": [row.id for row in pool.rows()] == found,
    }


def main() -> None:
    """`underfire.py FOLDER kill SHOTS KIND...` or `underfire.py FOLDER crowd PROCESSES ROWS SINGLES`: prints what became of it as JSON."""
    folder, what, *numbers = sys.argv[1:]
    print(
        json.dumps(
            {"kill": kill, "crowd": crowd}[what](Path(folder), *(int(n) if n.isdecimal() else n for n in numbers))
        )
    )


if __name__ == "__main__":
    main()
