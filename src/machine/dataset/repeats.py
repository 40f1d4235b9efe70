"""Repeats: targets that have one context, and questions that stand on both sides of a split."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from machine.dataset.split import Split
from machine.dataset.targets import Target, text_of
from machine.trace import Row, canonical


def faults(targets: Sequence[Target]) -> Iterator[str]:
    """Targets that contradict each other: one context, different answers."""
    for same in _by_context(targets):
        answers = {canonical(t.answer) for t in same}
        if len(answers) > 1:
            yield f"{', '.join(t.id for t in same)}: the same context, {len(answers)} different answers"


def notes(targets: Sequence[Target]) -> Iterator[str]:
    """Targets that are there several times."""
    for same in _by_context(targets):
        if len(same) > 1 and len({canonical(t.answer) for t in same}) == 1:
            yield f"{', '.join(t.id for t in same)}: the same example {len(same)} times"


def leaks(sides: Split) -> Iterator[str]:
    """Rows that are held out, and whose question is asked in a row to train on too: they measure nothing."""
    trained = {question: row.id for row in sides.train for question in _questions([row])}
    for row in sides.held_out:
        other = next((trained[question] for question in _questions([row]) if question in trained), None)
        if other is not None:
            yield f"{row.id}: held out, and its question is also that of {other}, which is trained on"


def normalised(text: str) -> str:
    """A text without what does not make it another question: case and spacing."""
    return " ".join(text.casefold().split())


def _questions(rows: Iterable[Row]) -> Iterator[str]:
    """What began the tagged turns: the last user text before the first target."""
    for row in rows:
        before = row.messages[: min(row.target, default=0)]
        text = next((text_of(m) for m in reversed(before) if m.get("role") == "user"), "")
        if normalised(text):
            yield normalised(text)


def _by_context(targets: Sequence[Target]) -> list[list[Target]]:
    groups: defaultdict[bytes, list[Target]] = defaultdict(list)
    row, digests = "", [b""]
    for target in targets:
        if row != target.row:  # each message of a row is digested once, however many targets it is before
            row, digests = target.row, [hashlib.sha256(canonical(list(target.tools))).digest()]
        for message in target.context[len(digests) - 1 :]:
            digests.append(hashlib.sha256(digests[-1] + canonical(message)).digest())
        groups[digests[len(target.context)]].append(target)
    return list(groups.values())
