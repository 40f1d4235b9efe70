"""Proposal: the cases that `train eval init` writes, from a file or from what the pool holds and nothing trains on.

`held-out` cases are the targets of the conversations that the recipe holds out. `regression` cases are those of
observed turns: how the newest turn of a conversation that is not trained on began, everyday work that nobody tagged.
Training must not break it: those cases that the base model passes are what a checkpoint can lose.

The tagged answer decides the scorer: tool calls must be made again, a short text must be said again. A long text, or a
call with long arguments, is never written twice in the same words, so no case is made of it unless a scorer is named.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from machine.dataset.targets import Target, expand, text_of
from machine.errors import Refused
from machine.evals.case import Call, Case, Scorer, named, scorer_fault
from machine.evals.suite import parse_case, read_lines, trained_on, unlike
from machine.trace import Row, canonical

HELD_OUT, REGRESSION = "held-out", "regression"
"""The tags of proposed cases."""
LONG = 200
"""Characters from which on an answer, or the arguments of a call, cannot be expected again word for word."""


@dataclass(frozen=True)
class Proposal:
    """The cases, and the targets of which none was made.

    Their answers are too `long`, or `unfit` for the scorer that was named, or their questions are `trained` on.
    """

    cases: list[Case]
    long: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()

    @property
    def scorers(self) -> dict[str, int]:
        """How many cases each kind of scorer judges."""
        return dict(Counter(case.scorer.kind for case in self.cases))

    @property
    def tags(self) -> dict[str, int]:
        """How many cases have each tag."""
        return dict(Counter(tag for case in self.cases for tag in case.tags))

    def notes(self) -> list[str]:
        """What was left out and why, and what the user should look at."""
        found = []
        if self.long:
            found.append(
                f"{len(self.long)} answers are too long to be given again word for word ({named(self.long)}): no case "
                "was made of them; --scorer judge:RUBRIC or contains:TEXT makes cases of all"
            )
        if self.unfit:
            found.append(
                f"{len(self.unfit)} answers cannot be judged by the scorer named ({named(self.unfit)}): left out"
            )
        if self.trained:
            found.append(f"{len(self.trained)} questions are trained on too ({named(self.trained)}): left out")
        if self.scorers.get("exact"):
            found.append(
                f"{self.scorers['exact']} cases want the very words of the tagged answer: edit them if others do"
            )
        return found


class Frame(msgspec.Struct, frozen=True):
    """What surrounds a question in the user's agent: system message (if any) and tools; `share` of the rows have it."""

    system: tuple[dict[str, object], ...]
    tools: tuple[dict[str, object], ...]
    share: float


def shared_frame(rows: Sequence[Row]) -> Frame:
    """The system message and tools that most rows have, so that a question is asked as the agent asks it."""
    frames = [(tuple(m for m in row.messages[:1] if m.get("role") == "system"), row.tools) for row in rows]
    keys = [canonical([list(system), list(tools)]) for system, tools in frames]
    key, count = Counter(keys).most_common(1)[0]
    system, tools = frames[keys.index(key)]
    return Frame(system, tools, count / len(rows))


def from_file(path: Path, frame: Frame, scorer: Scorer | None, evals: Path) -> list[Case]:
    """Cases from a JSONL file, each line a case, or `{"prompt", "expected"?, "id"?, "tags"?, "weight"?}`.

    A prompt is asked within `frame`, and judged by `scorer` (default: exact), which also replaces that of a case.

    Raises:
        Refused: a line is neither, or has no way to be judged, or two cases have one id.
    """
    cases = []
    for number, value in read_lines(path):
        if "prompt" in value:
            value = _asked_within(frame, path, number, value, scorer or Scorer("exact"))
        elif scorer:
            value = value | {"scorer": msgspec.to_builtins(scorer)}
        cases.append(parse_case(path, number, value, evals))
    return unlike(path, cases)


def from_pool(
    held_out: Sequence[Row], observed: Sequence[Row], trained: Sequence[Target], scorer: Scorer | None, evals: Path
) -> Proposal:
    """Cases of the rows that are held out and of the observed ones, none of them trained on.

    Args:
        held_out: good rows of conversations that the recipe holds out.
        observed: observed rows, newest first.
        trained: the targets that are trained on; no case is of one of their conversations.
        scorer: judges every case; without it each answer decides, and the long ones are left out.
        evals: the store's folder that will hold the suite.
    """
    sessions = {target.session for target in trained} | {row.source.session for row in held_out}
    newest = {row.source.session: row for row in reversed(observed) if row.source.session not in sessions}
    began = {target.row: target for target in reversed(expand(newest.values()))}
    cases: list[Case] = []
    left: dict[str, list[str]] = {"long": [], "unfit": []}
    for target, tag in [*((t, HELD_OUT) for t in expand(held_out)), *((t, REGRESSION) for t in began.values())]:
        case = _case(target, tag, scorer)
        if scorer is None and _long(target):
            left["long"].append(target.id)
        elif scorer_fault(case, evals):
            left["unfit"].append(target.id)
        else:
            cases.append(case)
    leaked = trained_on(cases, trained)
    kept = [case for case in cases if case.id not in set(leaked)]
    return Proposal(kept, tuple(left["long"]), tuple(left["unfit"]), tuple(leaked))


def _case(target: Target, tag: str, scorer: Scorer | None) -> Case:
    """A case that wants the target again."""
    calls = _calls(target)
    return Case(
        id=target.id,
        messages=target.context,
        scorer=scorer or Scorer("tool_call" if calls else "exact"),
        expected=text_of(target.answer) or None,
        tools=target.tools,
        expected_calls=calls,
        tags=(tag,),
    )


def _long(target: Target) -> bool:
    calls, text = target.answer.get("tool_calls") or (), text_of(target.answer).strip()
    if calls:
        return sum(len(call["function"]["arguments"]) for call in calls) > LONG
    return len(text) > LONG or "\n" in text


def _calls(target: Target) -> tuple[Call, ...]:
    made = [call["function"] for call in target.answer.get("tool_calls") or ()]
    try:
        return tuple(Call(each["name"], msgspec.json.decode(each["arguments"], type=dict)) for each in made)
    except msgspec.MsgspecError as error:
        raise Refused(
            f"{target.id} calls a tool with arguments that are not a JSON object", next_step="machine train validate"
        ) from error


class _Prompt(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str
    expected: str | None = None
    id: str | None = None
    weight: float = 1.0
    tags: tuple[str, ...] = ()


def _asked_within(frame: Frame, path: Path, number: int, value: dict[str, object], scorer: Scorer) -> dict[str, object]:
    try:
        given = msgspec.convert(value, _Prompt)
    except msgspec.ValidationError as error:
        raise Refused(f"{path} line {number}: {error}", next_step=f"mend {path}") from error
    case = {
        "id": given.id or f"{path.stem}-{number}",
        "messages": [*frame.system, {"role": "user", "content": given.prompt}],
        "tools": list(frame.tools),
        "scorer": msgspec.to_builtins(scorer),
        "weight": given.weight,
        "tags": list(given.tags),
    }
    return case if given.expected is None else case | {"expected": given.expected}
