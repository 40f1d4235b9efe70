"""Task: a small repository with one seeded fault for an agent to repair, named by fault and seed, pinned by a digest.

A suite file (JSONL) holds a task a line; the repository itself is made anew from fault and seed, and its digest proves
that it is the one that was meant. The same fault and seed give the same bytes on every Python from 3.11 on.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from machine.agentic import faults
from machine.agentic.chance import Chance
from machine.agentic.project import sound
from machine.errors import Refused
from machine.evals.suite import read_lines
from machine.trace import canonical

FAULTS = tuple(faults.FAULTS)
SEEDS = 2**48
"""Seeds are drawn below this; any from 0 to 2**63 - 1 will do."""

ASKS = (
    "Find out why and repair it. Please change nothing else.",
    "Mend it, but leave the tests and everything that works as they are.",
    "Please repair what is broken, and only that.",
    "Get it to work again; touch no more files than you have to, the tests least of all.",
)
CHECKS = (
    "`{check}` has to end with 0.",
    "You are done when `{check}` succeeds.",
    "`{check}` is the check; it must pass again.",
    "`{check}` shows whether all is well.",
)


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a suite: `id` is "<fault>-<seed>", `digest` SHA-256 (hex) over the whole repository."""

    id: str
    fault: str
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Repository:
    """A task made real. Paths are relative and POSIX; contents are bytes.

    `files` is what the agent finds, `prompt` what it is asked, `check` the argv that ends with 0 in a sound repository
    (whoever runs it puts an interpreter of Python 3.11 or later for `python3`), `allowed` the paths that a repair may
    change, `solution` the files of a right repair, `hidden` tests that only the judging adds.
    """

    task: Task
    files: Mapping[str, bytes]
    prompt: str
    check: tuple[str, ...]
    allowed: frozenset[str]
    solution: Mapping[str, bytes]
    hidden: Mapping[str, bytes]


def repository(fault: str, seed: int) -> Repository:
    """The repository of a fault and a seed.

    Raises:
        Refused: there is no such fault.
    """
    if fault not in faults.FAULTS:
        raise Refused(f"there is no fault called {fault!r}", next_step=f"one of {', '.join(FAULTS)}")
    chance = Chance(f"{fault}-{seed}")
    kind = faults.FAULTS[fault]
    project = sound(chance, chance.pick(kind.stores) if kind.stores else None)
    damage = kind.breaks(chance, project)
    words = [damage.told, chance.pick(ASKS), chance.pick(CHECKS).format(check=" ".join(project.check))]
    files = {**project.files, **damage.changes}
    solution = {path: project.files[path] for path in sorted(damage.changes)}
    allowed = frozenset(damage.changes) | damage.elsewhere
    digest = _digest(files, " ".join(words), project.check, allowed, solution, project.hidden)
    task = Task(f"{fault}-{seed}", fault, seed, digest)
    return Repository(task, files, " ".join(words), project.check, allowed, solution, project.hidden)


def build(task: Task) -> Repository:
    """The repository of a task.

    Raises:
        Refused: what this Machine makes of its fault and seed has another digest: the suite was made by another
            generator, or edited.
    """
    made = repository(task.fault, task.seed)
    if made.task != task:
        raise Refused(
            f"this Machine makes another task of {task.id!r} than the suite says: the suite comes from another version "
            "of it, or was edited",
            next_step="use the Machine that drew the suite, or draw a new one",
        )
    return made


def draw(count: int, seed: int | None = None, faults: Sequence[str] = FAULTS) -> list[Task]:
    """`count` tasks, no two alike, the faults in turn; a seed gives the same ones for ever, none gives fresh ones.

    Raises:
        Refused: there is no fault to draw from, or one of them is unknown.
    """
    if not faults:
        raise Refused("there is no fault to draw tasks of", next_step=f"one of {', '.join(FAULTS)}")
    chance = None if seed is None else Chance(f"suite-{seed}")
    tasks: dict[str, Task] = {}
    while len(tasks) < count:
        drawn = secrets.randbelow(SEEDS) if chance is None else chance.below(SEEDS)
        task = repository(faults[len(tasks) % len(faults)], drawn).task
        tasks.setdefault(task.digest, task)
    return list(tasks.values())


def read_tasks(path: Path) -> list[Task]:
    """The tasks of a suite file.

    Raises:
        Refused: it cannot be read, holds no task, or a line is not one, has an id that is not its fault and seed, or
            stands there twice; the message names file and line.
    """
    tasks: list[Task] = []
    known: set[str] = set()
    for number, value in read_lines(path):
        try:
            task = msgspec.convert(value, Task)
        except msgspec.ValidationError as error:
            raise Refused(f"{path} line {number} is not a task: {error}", next_step=f"mend {path}") from error
        if wrong := _wrong(task, known):
            raise Refused(f"{path} line {number}: {wrong}", next_step=f"mend {path}")
        tasks.append(task)
        known |= {task.id, task.digest}
    if not tasks:
        raise Refused(f"{path} holds no task", next_step=f"mend {path}")
    return tasks


def _wrong(task: Task, known: set[str]) -> str:
    """What is wrong with a line that reads as a task; `known` are ids and digests before it. Empty for nothing."""
    if task.fault not in FAULTS:
        return f"there is no fault called {task.fault!r}"
    if task.id != f"{task.fault}-{task.seed}":
        return f"the id {task.id!r} is not {task.fault}-{task.seed}"
    return f"{task.id} stands there twice" if known & {task.id, task.digest} else ""


def tasks_text(tasks: Iterable[Task]) -> bytes:
    """The suite as it is written to disk, a line a task."""
    return b"".join(canonical(msgspec.to_builtins(task)) + b"\n" for task in tasks)


def _digest(
    files: Mapping[str, bytes],
    prompt: str,
    check: Sequence[str],
    allowed: frozenset[str],
    solution: Mapping[str, bytes],
    hidden: Mapping[str, bytes],
) -> str:
    """SHA-256 (hex) over everything that makes the task, each part after its length."""
    digest = hashlib.sha256()

    def fields() -> Iterator[bytes]:
        for each in (files, solution, hidden):
            yield b"%d" % len(each)
            for path in sorted(each):
                yield from (path.encode(), each[path])
        for words in ([prompt], check, sorted(allowed)):
            yield b"%d" % len(words)
            yield from (word.encode() for word in words)

    for field in fields():
        digest.update(b"%d:%b" % (len(field), field))
    return digest.hexdigest()
