"""Show: the tokens that a row is trained as, for a person to read, with the trained ones marked.

What is shown is what is sent: examples that are trained as one datum (see `merge`) are shown as one.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from machine.dataset.controls import control_tokens
from machine.dataset.merge import Pack, merged
from machine.dataset.render import Example, Weighted
from machine.page import page
from machine.report import Passage, Span
from machine.tinker.students import Student

CONTEXT_LINES, CONTEXT_CHARACTERS = 40, 3000
"""How much of the context before trained text a terminal is shown; the page has it all."""

_INCOMPLETE = "\ufffd"
_WINDOW = 8
"""Tokens decoded before a piece, whose text its own may depend on (a space at the beginning of a text is dropped)."""


@dataclass(frozen=True)
class Piece:
    """The fewest tokens that are whole characters. `weights` are theirs; `start` is the first one's place.

    `control` is true of a token that stands for its whole spelling: the renderer's own markup.
    """

    text: str
    tokens: tuple[int, ...]
    weights: tuple[float, ...]
    start: int
    control: bool

    @property
    def trained(self) -> bool:
        """Whether one of its tokens has weight."""
        return any(self.weights)


def pieces(student: Student, example: Weighted) -> list[Piece]:
    """The tokens of an example as text, in order; together they hold each token once.

    A character that several tokens share is one piece. What is no UTF-8 becomes U+FFFD.
    """
    special = frozenset(control_tokens(student.tokenizer).values())
    found: list[Piece] = []
    start = 0
    while start < len(example.tokens):
        control = example.tokens[start] in special
        text, end = _decoded(student.tokenizer, example.tokens, start, special)
        tokens, weights = tuple(example.tokens[start:end]), tuple(example.weights[start:end])
        found.append(Piece(text, tokens, weights, start, control))
        start = end
    return found


def passages(student: Student, examples: Sequence[Example]) -> list[Passage]:
    """What a terminal shows of the examples of a row: the trained text whole, and the end of what comes before it."""
    packs = merged(examples)
    return [
        Passage(_title(examples, pack, i, len(packs)), tuple(_spans(pieces(student, pack))))
        for i, pack in enumerate(packs, 1)
    ]


def html(student: Student, row: str, examples: Sequence[Example]) -> str:
    """The page of a row: every token of its examples, the trained ones marked, with ids and weights."""
    packs = merged(examples)
    data = [
        {
            "title": _title(examples, pack, i, len(packs)),
            "tokens": len(pack.tokens),
            "trained": sum(weight != 0 for weight in pack.weights),
            "pieces": (held := pieces(student, pack)),
            "anchors": _anchors(held),
        }
        for i, pack in enumerate(packs, 1)
    ]
    return page("show.html.j2", row=row, student=student, data=data, examples=len(examples))


def as_data(student: Student, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """The same for programs: each datum with its pieces, and of each its text, tokens, weights and whether control."""
    return [
        {
            "examples": [examples[i].id for i in pack.examples],
            "tokens": len(pack.tokens),
            "trained": sum(weight != 0 for weight in pack.weights),
            "pieces": [
                {"text": p.text, "tokens": p.tokens, "weights": p.weights, "control": p.control}
                for p in pieces(student, pack)
            ],
        }
        for pack in merged(examples)
    ]


def _title(examples: Sequence[Example], pack: Pack, number: int, of: int) -> str:
    row = examples[pack.examples[0]].id.partition("#")[0]
    first, *more = (examples[i].id for i in pack.examples)
    names = ", ".join([first, *(id.removeprefix(row) for id in more)])
    return names if of == 1 else f"{names} (datum {number} of {of})"


def _decoded(tokenizer: Any, tokens: Sequence[int], start: int, special: Set[int]) -> tuple[str, int]:
    """The text of the piece that begins at `start`, and where it ends: after a control token, or a whole character."""
    if tokens[start] in special:
        return _text(tokenizer, tokens[start : start + 1]), start + 1
    before = start
    while before > max(0, start - _WINDOW) and tokens[before - 1] not in special:
        before -= 1
    known = _text(tokenizer, tokens[before:start])
    first = ""
    for end in range(start + 1, min(start + 4, len(tokens)) + 1):  # no character has more than four bytes
        if end > start + 1 and tokens[end - 1] in special:
            break
        text = _text(tokenizer, tokens[before:end])[len(known) :]
        if text and not text.endswith(_INCOMPLETE):
            return text, end
        first = first or text
    return first or _INCOMPLETE, start + 1


def _text(tokenizer: Any, tokens: Sequence[int]) -> str:
    if not tokens:
        return ""
    return str(tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _anchors(held: Sequence[Piece]) -> dict[int, int]:
    """Where each run of trained pieces begins (index of a piece), numbered from 1."""
    begins = [i for i, piece in enumerate(held) if piece.trained and not (i and held[i - 1].trained)]
    return {index: number for number, index in enumerate(begins, 1)}


def _spans(held: Sequence[Piece]) -> Iterator[Span]:
    """Runs of one look; of what comes before trained text, the end, and after the last, nothing but its beginning."""
    for trained, group in groupby(held, lambda piece: piece.trained):
        run = list(group)
        shown = run if trained else _end(run)
        left_out = sum(len(piece.tokens) for piece in run[: len(run) - len(shown)])
        if left_out:
            yield Span(f"[{left_out} tokens that are not shown here]\n", note=True)
        for control, same in groupby(shown, lambda piece: piece.control):
            yield Span("".join(piece.text for piece in same), trained=trained, control=control)


def _end(run: Sequence[Piece]) -> Sequence[Piece]:
    """The last pieces of a run that are within the lines and characters that a terminal is shown."""
    lines = characters = 0
    for index in range(len(run) - 1, -1, -1):
        lines += run[index].text.count("\n")
        characters += len(run[index].text)
        if lines > CONTEXT_LINES or characters > CONTEXT_CHARACTERS:
            return run[index + 1 :]
    return run
