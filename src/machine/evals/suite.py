"""Suite: the cases that a student is measured on, `evals/suite.jsonl`, one JSON object a line, to be edited by hand.

No case may have been trained on: one whose question also occurs in the training rows is refused by name.
"""

import codecs
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from machine.dataset.repeats import normalised
from machine.dataset.targets import Target, text_of
from machine.errors import Refused
from machine.evals.case import Case, messages_fault, named, scorer_fault
from machine.trace import canonical

SHORT = 4
"""Words up to which a follow-up ("yes", "go on") is a question only together with the one before it."""


def read_suite(path: Path) -> list[Case]:
    """The cases of a suite.

    Raises:
        Refused: there is none, a line is not a case (the message names it), or two cases have one id.
    """
    if not path.exists():
        raise Refused("there is no evaluation suite yet", next_step="machine train eval init")
    cases = [parse_case(path, number, value, path.parent) for number, value in read_lines(path)]
    if not cases:
        raise Refused(f"{path} holds no case", next_step="machine train eval init --force")
    return unlike(path, cases)


def suite_text(cases: Iterable[Case]) -> bytes:
    """The suite as it is written to disk."""
    return b"".join(canonical(msgspec.to_builtins(case)) + b"\n" for case in cases)


def suite_hash(cases: Iterable[Case]) -> str:
    """SHA-256 (hex) of the cases: two records with the same one were asked the same."""
    return hashlib.sha256(suite_text(cases)).hexdigest()


def trained_on(cases: Sequence[Case], trained: Sequence[Target]) -> list[str]:
    """The ids of the cases whose question is in the training rows, whatever its case and spacing.

    A question is the last user text and the tool results that came after it; a follow-up of at most `SHORT` words is
    one only together with the user text before it.
    """
    longest = {target.row: target for target in trained}  # the contexts of a row's targets begin one another
    asked = {each for target in longest.values() for each in _asked(target.context)}
    asked |= {("", *texts) for _, *texts in asked}
    return [case.id for case in cases if _question(case) in asked]


def refuse_trained(cases: Sequence[Case], trained: Sequence[Target]) -> None:
    """Refuses cases that were trained on (see `trained_on`).

    Raises:
        Refused: naming the first ones.
    """
    leaked = trained_on(cases, trained)
    if leaked:
        raise Refused(
            f"{len(leaked)} cases were trained on and prove nothing: {named(leaked)}",
            next_step="take them out of the suite",
        )


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The JSON objects of a JSONL file with their line numbers.

    Raises:
        Refused: it cannot be read, or a line is not a JSON object.
    """
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step="give the path of a JSONL file") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append((number, msgspec.json.decode(line, type=dict[str, Any])))
            except (msgspec.MsgspecError, RecursionError) as error:
                raise Refused(
                    f"{path} line {number} is not a JSON object: {error}", next_step=f"mend {path}"
                ) from error
    return found


def unlike(path: Path, cases: list[Case]) -> list[Case]:
    """The cases, whose ids differ.

    Raises:
        Refused: two are the same.
    """
    twice = [id for id, count in Counter(case.id for case in cases).items() if count > 1]
    if twice:
        raise Refused(f"{path}: two cases are called {twice[0]!r}", next_step=f"mend {path}")
    return cases


def parse_case(path: Path, number: int, value: dict[str, Any], evals: Path) -> Case:
    """A case of line `number` of `path`; `evals` is the store's folder, in which the files of functions lie.

    Raises:
        Refused: it is not a case, does not end before an answer, or its scorer cannot be used.
    """
    try:
        case = msgspec.convert(value, Case)
    except msgspec.ValidationError as error:
        raise Refused(f"{path} line {number} is not a case: {error}", next_step=f"mend {path}") from error
    if fault := messages_fault(case):
        raise Refused(f"{path} line {number}: {fault}", next_step=f"mend {path}")
    if fault := scorer_fault(case, evals):
        raise Refused(f"{path} line {number}: {fault}", next_step=f"mend {path}, or give --scorer regex:PATTERN")
    return case


_Question = tuple[str, ...]
"""Texts, normalised: the one before a short follow-up (else empty), the user's, and the tool results after it."""


def _question(case: Case) -> _Question:
    *_, last = _asked(case.messages) if case.question else [("",)]
    return last


def _asked(messages: Sequence[dict[str, Any]]) -> Iterator[_Question]:
    """The questions of a conversation, in order: a new one at every user text and every tool result after it."""
    before = ""
    question: _Question = ("",)
    for message in messages:
        text = normalised(text_of(message))
        match message.get("role"):
            case "user":
                short = before if len(text.split()) <= SHORT else ""
                before, question = text, (short, text)
                yield question
            case "tool":
                question = (*question, text)
                yield question
