"""Overlap: what a reasoning says in the words of a text that it may not know, and what it knows only from there.

Of the words that both have in common only those count that were not visible when the turn was decided.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from machine.correction.gates.moment import Moment
from machine.correction.gates.wording import Span, Word, Wording, folded_words, is_dense

_VISIBLE = 4
"""Words in a row that stand in the context are the context's."""
_TELLING = 3
"""Of the shared words, how many must be longer than `_SHORT` letters."""
_SHORT = 3
_GAP = 1
"""Words between two shared passages that still make one of them."""


@dataclass(frozen=True)
class Bounds:
    """From when on shared words are a quotation: words in a row, and words of it that were not visible."""

    row: int
    total: int


CORRECTION = Bounds(row=4, total=6)
ANSWER = Bounds(row=4, total=7)
LATER = Bounds(row=5, total=8)
HIDDEN = Bounds(row=5, total=8)


class Visible:
    """What the model could see: context and question."""

    def __init__(self, moment: Moment) -> None:
        self._texts = [*moment.context, moment.question]

    @cached_property
    def words(self) -> list[str]:
        """Its words; texts are kept apart by an empty one."""
        return _joined(self._texts)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Every word of it once."""
        return frozenset(self.words)

    @cached_property
    def text(self) -> str:
        """All of it in small letters."""
        return "\n".join(self._texts).lower()


def quotations(wording: Wording, source: Iterable[str], visible: Visible, bounds: Bounds) -> Iterator[Span]:
    """Passages of the reasoning, from where to where, that stand in the source nearly word for word."""
    words = wording.words
    shared = _covered(words, _joined(source), bounds.row)
    if not any(shared):
        return
    seen = _covered(words, visible.words, _VISIBLE)
    for start, end in _runs(shared):
        own = [words[i] for i in range(start, end) if shared[i] and not seen[i]]
        telling = sum(word.weight for word in own if is_dense(word.folded) or len(word.folded) > _SHORT)
        if sum(word.weight for word in own) >= bounds.total and telling >= _TELLING:
            yield words[start].start, words[end - 1].end


def facts(wording: Wording, source: Iterable[str], visible: Visible) -> Iterator[Span]:
    """Paths, numbers and hashes of the reasoning that stand in the source and that nobody guesses from the context."""
    said = "\n".join(source).lower()
    if not said:
        return
    for pattern, guessable in _FACTS:
        for match in pattern.finditer(wording.text):
            fact = match.group().lower().rstrip(".,:")
            if fact in said and fact not in visible.text and not guessable(fact, visible):
                yield match.start(), match.start() + len(fact)


def _joined(texts: Iterable[str]) -> list[str]:
    joined: list[str] = []
    for text in texts:
        joined += folded_words(text)
        joined.append("")
    return joined


def _covered(words: Sequence[Word], source: Sequence[str], row: int) -> list[bool]:
    """Of each word, whether it is in a row of `row` words (twice as many dense ones) that stands in the source."""
    covered = [False] * len(words)
    wanted: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for i, word in enumerate(words):
        size = 2 * row if is_dense(word.folded) else row
        if i + size <= len(words):
            gram = tuple(each.folded for each in words[i : i + size])
            wanted.setdefault(size, {}).setdefault(gram, []).append(i)
    for size, grams in wanted.items():
        for gram in set(zip(*(source[i:] for i in range(size)), strict=False)).intersection(grams):
            for i in grams[gram]:
                covered[i : i + size] = [True] * size
    return covered


def _runs(covered: Sequence[bool]) -> Iterator[Span]:
    start, last = -1, -1
    for i, is_covered in enumerate(covered):
        if not is_covered:
            continue
        if start < 0 or i - last > _GAP + 1:
            if start >= 0:
                yield start, last + 1
            start = i
        last = i
    if start >= 0:
        yield start, last + 1


_COMMON = (
    "src lib app apps test tests spec specs docs doc main index init config configs settings setup utils util "
    "helpers readme changelog license package lock tsconfig pyproject conftest makefile dockerfile scripts "
    "script bin cmd pkg internal api core common models model views routes components py js ts tsx jsx go rs "
    "rb java kt c h cpp hpp cs php swift json yaml yml toml md txt html css scss sql sh cfg ini env xml csv "
    "lock usr etc var tmp dev null local github workflows ci yarn npm pip node modules dist build target"
)
"""Words of paths that everybody guesses."""
_WELL_KNOWN = "1000 1024 2048 3000 3306 4096 5000 5432 6379 8000 8080 8443 8192 8888 9000 9090 9092 27017 65535 65536"
"""Numbers that everybody knows: ports, and powers of two."""
_GUESSED = frozenset(_COMMON.split())
_KNOWN = frozenset(_WELL_KNOWN.split())
_YEAR = re.compile(r"(?:19|20)\d\d(?:[-.]\d+)*|\d0*")


def _path_is_guessable(path: str, visible: Visible) -> bool:
    if re.search(r":\d+$", path):
        return False
    if "." not in re.split(r"[/\\]", path)[-1]:
        return True
    unknown = {part for part in folded_words(path) if part not in _GUESSED and part not in visible.vocabulary}
    return len(unknown) < 2


def _number_is_guessable(number: str, visible: Visible) -> bool:
    return number in _KNOWN or _YEAR.fullmatch(number) is not None


def _hash_is_guessable(digits: str, visible: Visible) -> bool:
    return digits.isdigit() or digits.isalpha()


_FACTS: tuple[tuple[re.Pattern[str], Callable[[str, Visible], bool]], ...] = (
    (re.compile(r"(?<![\w:/])[\w.@-]+(?:[/\\][\w.@-]+)+(?::\d+)?|[\w-]+\.[a-z]{1,5}:\d+"), _path_is_guessable),
    (re.compile(r"(?<![\w.])(?=(?:[.,]?\d){4})\d+(?:[.,]\d+)*"), _number_is_guessable),
    (re.compile(r"(?<!\w)[0-9a-fA-F]{7,64}(?!\w)"), _hash_is_guessable),
)
