"""Suite: the cases that a student is measured on, `evals/suite.jsonl`, one JSON object a line, to be edited by hand.

No case may have been trained on: a case whose last user text also occurs in the training rows is refused by name.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from machine.dataset.targets import Target, expand, text_of
from machine.errors import Refused, UsageError
from machine.trace import Row, canonical

Kind = Literal["exact", "contains", "regex"]


class Scorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How an answer is judged. `value` is the text or pattern; without it, `expected` of the case."""

    kind: Kind
    value: str | None = None


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question: `messages` and `tools` as a row has them, ending before the answer; `expected`, where it is known."""

    id: str
    messages: tuple[dict[str, Any], ...]
    scorer: Scorer
    expected: str | None = None
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def question(self) -> str:
        """The last user text."""
        return last_user_text(self.messages)


def read_suite(path: Path) -> list[Case]:
    """The cases of a suite.

    Raises:
        Refused: there is none, a line is not a case (the message names it), or two cases have one id.
    """
    if not path.exists():
        raise Refused("there is no evaluation suite yet", next_step="machine train eval init")
    cases = [_case(path, number, value) for number, value in read_lines(path)]
    if not cases:
        raise Refused(f"{path} holds no case", next_step="machine train eval init --force")
    return _unlike(path, cases)


def suite_text(cases: Iterable[Case]) -> bytes:
    """The suite as it is written to disk."""
    return b"".join(canonical(msgspec.to_builtins(case)) + b"\n" for case in cases)


def suite_hash(cases: Iterable[Case]) -> str:
    """SHA-256 (hex) of the cases: two records with the same one were asked the same."""
    return hashlib.sha256(suite_text(cases)).hexdigest()


def parse_scorer(text: str) -> Scorer:
    """`exact`, `contains`, `regex:PATTERN`, `contains:TEXT` or `exact:TEXT`.

    Raises:
        UsageError: another word, or a pattern that does not compile.
    """
    kind, _, value = text.partition(":")
    try:
        scorer = msgspec.convert({"kind": kind, "value": value or None}, Scorer)
    except msgspec.ValidationError as error:
        raise UsageError(f"no scorer is called {kind!r}", next_step="use exact, contains or regex:PATTERN") from error
    fault = _fault(scorer, "given")
    if fault:
        raise UsageError(fault, next_step="machine train eval init --scorer regex:PATTERN")
    return scorer


def from_file(path: Path, frame: "Frame", scorer: Scorer | None) -> list[Case]:
    """Cases from a JSONL file of `{"prompt", "expected"?}`, asked within `frame`, or of whole cases.

    Raises:
        Refused: a line is neither, or has no way to be judged, or two cases have one id.
    """
    cases = []
    for number, value in read_lines(path):
        if "prompt" in value:
            try:
                prompt = msgspec.convert(value, _Prompt)
            except msgspec.ValidationError as error:
                raise Refused(f"{path} line {number}: {error}", next_step=f"mend {path}") from error
            value = {
                "id": prompt.id or f"{path.stem}-{number}",
                "messages": [*frame.system, {"role": "user", "content": prompt.prompt}],
                "tools": list(frame.tools),
                "scorer": msgspec.to_builtins(scorer or Scorer("exact")),
            }
            if prompt.expected is not None:
                value["expected"] = prompt.expected
        elif scorer:
            value = value | {"scorer": msgspec.to_builtins(scorer)}
        cases.append(_case(path, number, value))
    return _unlike(path, cases)


def from_held_out(rows: Sequence[Row], scorer: Scorer | None) -> list[Case]:
    """A case for each target of the rows that were held out, judged against the tagged answer."""
    return [
        Case(t.id, t.context, scorer or Scorer("exact"), text_of(t.answer), t.tools)
        for t in expand(rows)
        if text_of(t.answer) or scorer
    ]


class Frame(msgspec.Struct, frozen=True):
    """What surrounds a question in the user's agent: system message (if any) and tools; `share` of the rows have it."""

    system: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    share: float


def shared_frame(rows: Sequence[Row]) -> Frame:
    """The system message and tools that most rows have, so that a question is asked as the agent asks it."""
    frames = [(tuple(m for m in row.messages[:1] if m.get("role") == "system"), row.tools) for row in rows]
    keys = [canonical([list(system), list(tools)]) for system, tools in frames]
    key, count = Counter(keys).most_common(1)[0]
    system, tools = frames[keys.index(key)]
    return Frame(system, tools, count / len(rows))


def refuse_trained(cases: Sequence[Case], trained: Sequence[Target]) -> None:
    """Refuses cases whose question is in the training rows, whatever its case and spacing.

    Raises:
        Refused: naming the first ones.
    """
    seen = {normalised(text_of(m)) for t in trained for m in t.context if m.get("role") == "user"}
    leaked = [case.id for case in cases if normalised(case.question) in seen]
    if leaked:
        raise Refused(
            f"{len(leaked)} cases were trained on and prove nothing: {', '.join(leaked[:5])}",
            next_step="take them out of the suite",
        )


def normalised(text: str) -> str:
    """A text without what does not make it another question: case and spacing."""
    return " ".join(text.casefold().split())


def last_user_text(messages: Sequence[dict[str, Any]]) -> str:
    """The text of the last user message; empty where there is none."""
    return next((text_of(m) for m in reversed(messages) if m.get("role") == "user"), "")


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The JSON objects of a JSONL file with their line numbers.

    Raises:
        Refused: it cannot be read, or a line is not a JSON object.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step="give the path of a JSONL file") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append((number, msgspec.json.decode(line, type=dict[str, Any])))
            except msgspec.MsgspecError as error:
                raise Refused(
                    f"{path} line {number} is not a JSON object: {error}", next_step=f"mend {path}"
                ) from error
    return found


class _Prompt(msgspec.Struct, forbid_unknown_fields=True):
    prompt: str
    expected: str | None = None
    id: str | None = None


def _unlike(path: Path, cases: list[Case]) -> list[Case]:
    twice = [id for id, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise Refused(f"{path}: two cases are called {twice[0]!r}", next_step=f"mend {path}")
    return cases


def _case(path: Path, number: int, value: dict[str, Any]) -> Case:
    try:
        case = msgspec.convert(value, Case)
    except msgspec.ValidationError as error:
        raise Refused(f"{path} line {number} is not a case: {error}", next_step=f"mend {path}") from error
    if not case.messages or case.messages[-1].get("role") not in ("user", "tool"):
        fault = f"case {case.id!r} does not end with a user message or a tool result"
    else:
        fault = _fault(case.scorer, case.expected)
    if fault:
        raise Refused(f"{path} line {number}: {fault}", next_step=f"mend {path}, or give --scorer regex:PATTERN")
    return case


def _fault(scorer: Scorer, expected: str | None) -> str:
    if scorer.kind == "regex":
        if scorer.value is None:
            return "a regex scorer needs its pattern in value"
        try:
            re.compile(scorer.value)
        except re.error as error:
            return f"the pattern {scorer.value!r} does not compile: {error}"
    elif scorer.value is None and expected is None:
        return f"nothing to compare with: neither expected nor a value for the {scorer.kind} scorer"
    return ""
