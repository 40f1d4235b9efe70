"""Arms: what the base, the candidate and the prompted base (the control) did with a suite, one form for every gate."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from machine.evals.record import Record
from machine.evals.sample import Sample
from machine.evals.score import PASS

Arm = Literal["base", "candidate", "control"]


class Measured(msgspec.Struct, frozen=True):
    """One arm's answers to one suite, by case or task id.

    `scores` are from 0 to 1, `passed` where they are at least `PASS`, `tokens` are mean sampled tokens an answer.
    `texts` are the answers as they were written: the visible text, and what tools were called with. `cut` says of how
    many answers to a case ran into their limit of tokens (cases without one are not in it). `why` says of repairs that
    failed what was wrong. `samples` is the file, relative to the gate run's folder, that holds them whole.
    """

    suite: str
    arm: Arm
    scores: dict[str, float]
    passed: dict[str, bool]
    tokens: dict[str, float]
    texts: dict[str, tuple[str, ...]]
    cut: dict[str, int]
    samples: str
    why: dict[str, str] = {}


class Attempt(Protocol):
    """One try of one task: what a gate needs of it. `why` says what was wrong with one that failed."""

    @property
    def task(self) -> str:
        """The task's id."""

    @property
    def passed(self) -> bool:
        """Whether the repository was mended."""

    @property
    def completion_tokens(self) -> int:
        """Tokens sampled in all its turns."""

    @property
    def why(self) -> str:
        """What was wrong; of one that passed it is not read."""


def from_record(suite: str, arm: Arm, record: Record, samples: str) -> Measured:
    """What an arm did with a suite of cases. The weights of the cases are not used: in a gate every case counts one."""
    of_case: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in record.samples:
        of_case[sample.case].append(sample)
    return Measured(
        suite=suite,
        arm=arm,
        scores=record.scores,
        passed=record.passed,
        tokens={case: _mean([sample.tokens for sample in each]) for case, each in of_case.items()},
        texts={case: tuple(written(sample) for sample in each) for case, each in of_case.items()},
        cut=dict(Counter(sample.case for sample in record.samples if sample.stopped == "length")),
        samples=samples,
    )


def from_attempts(suite: str, arm: Arm, attempts: Iterable[Attempt], samples: str) -> Measured:
    """What an arm did with a suite of repositories; a task that was tried several times scores the mean."""
    of_task: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        of_task[attempt.task].append(attempt)
    scores = {task: _mean([attempt.passed for attempt in each]) for task, each in of_task.items()}
    failed = {task: next((each.why for each in tries if not each.passed), "") for task, tries in of_task.items()}
    return Measured(
        suite=suite,
        arm=arm,
        scores=scores,
        passed={task: score >= PASS for task, score in scores.items()},
        tokens={task: _mean([attempt.completion_tokens for attempt in each]) for task, each in of_task.items()},
        texts={task: () for task in of_task},
        cut={},
        samples=samples,
        why={task: why for task, why in failed.items() if why},
    )


def alike(one: Measured, other: Measured) -> Sequence[str]:
    """The ids of the cases that both arms were given.

    Raises:
        ValueError: they were given different suites or cases, or none.
    """
    if one.suite != other.suite or one.scores.keys() != other.scores.keys() or not one.scores:
        raise ValueError(f"{one.arm} and {other.arm} were not given the same cases")
    return list(one.scores)


def written(sample: Sample) -> str:
    """All that an answer says to its reader and to tools; thinking is neither."""
    message: dict[str, Any] = sample.message or {}
    calls = [each.get("function") or {} for each in message.get("tool_calls") or ()]
    said = [sample.text, *(f"{call.get('name')} {call.get('arguments')}" for call in calls)]
    said += ["(a tool call that cannot be read)" for _ in message.get("unparsed_tool_calls") or ()]
    return "\n".join(text for text in said if text.strip())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
