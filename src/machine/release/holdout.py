"""Holdout: which cases of an external suite were trained on after all, as they are or nearly so.

Texts are compared by their words, whatever case, spacing and punctuation, however their letters are composed, and
without signs that nobody sees. A text is the set of its shingles: word triples, or runs of five characters where it has
fewer than `SHORT_TEXT` words, of which one changed word would leave few triples. Two texts are as near as their sets
(Jaccard): what both have of what either has.

A case's question is its last user text with the tool results after it, as in `evals.suite`, and is compared with
every user text of the rows, every tool result, and every user text with its tool results. A short follow-up ("go on")
asks what was asked before it: then the whole conversation is compared with those before the rows' first targets.

The sets are intersected all at once by a sparse product, which is an inverted index: exact, and fast enough that
MinHash (datasketch) would only add an error; edit distances (rapidfuzz) would look at every pair.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from machine.dataset.repeats import normalised
from machine.dataset.targets import Target, text_of
from machine.evals.case import Case
from machine.evals.suite import SHORT, trained_on
from machine.release.gates.wording import percent

if TYPE_CHECKING:
    import numpy as np

    Shingles = np.ndarray[Any, np.dtype[np.uint64]]

SHORT_TEXT = 12
"""Words under which a text is compared by its characters."""
_WORDS, _CHARACTERS = 3, 5
_WORD = re.compile(r"\w+")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's `Default_Ignorable_Code_Point`, and what only turns the direction of writing."""
_ODD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
"""Multipliers that mix a shingle into 64 bits; two different ones meet by chance about once in 2^64 pairs."""

_Unit = tuple[str, ...]
"""Texts that are compared as one."""


@dataclass(frozen=True)
class Overlap:
    """A case that a training row holds, and how similar they are: 1 where only case, spacing and marks differ."""

    case: str
    row: str
    kind: Literal["exact", "near"]
    similarity: float

    @property
    def words(self) -> str:
        """Which case and which row, never what they say."""
        if self.kind == "exact":
            return f"case {self.case} is in the training row {self.row}"
        return f"case {self.case} is {percent(self.similarity)} like the training row {self.row}"


def overlap(cases: Sequence[Case], trained: Sequence[Target], near: float) -> list[Overlap]:
    """The cases that were trained on, each with the row that is nearest to it, in the order of the cases.

    Exact is a case whose question is a row's (see `evals.suite.trained_on`), or that a row quotes: a text of it holds
    the whole question, word for word, and that text or an answer to learn the expected answer. Near is one more similar
    than `near`, from 0 to 1, to a text of a row.
    """
    rows = {target.row: target for target in trained}  # the contexts of a row's targets begin one another
    if not rows or not cases:
        return []
    texts = _Texts(rows, trained, cases)
    found: dict[str, Overlap] = {}
    for case, row in (*_asked(cases, list(rows.values())), *texts.quoted()):
        found.setdefault(case, Overlap(case, row, "exact", 1.0))
    for case, row, similarity in texts.alike(near):
        if case not in found or similarity > found[case].similarity:
            found[case] = Overlap(case, row, "near", similarity)
    return [found[case.id] for case in cases if case.id in found]


def _asked(cases: Sequence[Case], trained: Sequence[Target]) -> Iterator[tuple[str, str]]:
    """The cases whose very question is a row's, each with the first such row."""
    leaked = set(trained_on(cases, trained))
    if not leaked:
        return
    holding: dict[str, list[Target]] = {}
    for target in trained:
        for text in {normalised(text_of(message)) for message in target.context}:
            holding.setdefault(text, []).append(target)
    for case in cases:
        if case.id in leaked:
            may = holding.get(normalised(text_of(case.messages[-1])), [])
            yield case.id, next(target.row for target in (*may, *trained) if trained_on([case], [target]))


class _Texts:
    """The questions of the cases and the texts of the rows, and what they have in common."""

    def __init__(self, rows: Mapping[str, Target], trained: Sequence[Target], cases: Sequence[Case]) -> None:
        self._rows, self._cases = rows, {case.id: case for case in cases}
        self._answers: dict[str, list[str]] = {row: [] for row in rows}
        for target in trained:
            self._answers[target.row].append(text_of(target.answer))
        self._questions = {case.id: _question(case) for case in cases}
        self._follow_ups = {case.id: _whole(case.messages) for case in cases if not self._questions[case.id]}
        self._units: dict[_Unit, str] = {}
        for row, target in rows.items():
            for unit in _units(target.context):
                self._units.setdefault(unit, row)
        self._contexts: dict[_Unit, str] = {}
        if self._follow_ups:
            for target in {target.row: target for target in reversed(trained)}.values():  # the first of each row
                self._contexts.setdefault(_whole(target.context), target.row)
        self._shared = _common(self._questions, list(self._units), _Words())

    def alike(self, near: float) -> Iterator[tuple[str, str, float]]:
        """(case, row, similarity) of all that are nearer than `near`."""
        follow_ups = _common(self._follow_ups, list(self._contexts), _Words())
        for asked, among, by_words in (
            (self._questions, self._units, self._shared),
            (self._follow_ups, self._contexts, follow_ups),
        ):
            short = {case: unit for case, unit in asked.items() if _short(unit)}
            most = 2 * max((len(text) for unit in short.values() for text in unit), default=0) / near
            brief = [unit for unit in among if sum(map(len, unit)) <= most]  # a longer one is not near
            whole = list(among)
            found = [(each, whole) for each in by_words if each.case not in short]
            found += [(each, brief) for each in _common(short, brief, _characters)]
            for each, units in found:
                if each.similarity > near:
                    yield each.case, among[units[each.unit]], each.similarity

    def quoted(self) -> Iterator[tuple[str, str]]:
        """(case, row) where a text of the row holds all the question, and the row the expected answer."""
        units = list(self._units)
        for each in self._shared:
            unit = units[each.unit]
            row = self._units[unit]
            if each.both == each.mine and self._quotes(each.case, unit, row):
                yield each.case, row

    def _quotes(self, case: str, unit: _Unit, row: str) -> bool:
        expected = _spelt([_expected(self._cases[case])])
        question, text = self._questions[case], _spelt(unit)
        if not expected.strip() or len(_spelt(question).split()) <= SHORT:
            return False
        if not all(_spelt([piece]) in text for piece in question):
            return False
        return any(expected in held for held in (text, *(_spelt([answer]) for answer in self._answers[row])))


@dataclass(frozen=True)
class _Shared:
    """A case and a unit, by its place, with `both` shingles in common; the case has `mine`, the unit `other`."""

    case: str
    unit: int
    both: int
    mine: int
    other: int

    @property
    def similarity(self) -> float:
        return self.both / (self.mine + self.other - self.both)


class _Words(dict[str, int]):
    """The word triples of units; every word has a number."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, Shingles] = {}

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number

    def __call__(self, unit: _Unit) -> "Shingles":
        """All word triples; none goes from one text of the unit into the next."""
        import numpy as np

        for text in unit:
            if text not in self._known:
                words = _words(text)
                self._known[text] = _mixed(np.fromiter(map(self.__getitem__, words), np.uint64, len(words)), _WORDS)
        return np.concatenate([self._known[text] for text in unit])


def _characters(unit: _Unit) -> "Shingles":
    """All runs of five characters of a unit's words."""
    import numpy as np

    points = [[ord(each) for each in _bare(text).ljust(_CHARACTERS)] for text in unit]
    return np.concatenate([_mixed(np.array(each, np.uint64), _CHARACTERS) for each in points])


def _mixed(values: "Shingles", width: int) -> "Shingles":
    """Every `width` numbers in a row as one of 64 bits."""
    import numpy as np

    count = max(0, len(values) - width + 1)
    mixed = np.zeros(count, np.uint64)
    for place in range(width):
        mixed += values[place : place + count] * np.uint64(_ODD[place])
    return mixed


def _common(
    asked: Mapping[str, _Unit], held: Sequence[_Unit], shingles: Callable[[_Unit], "Shingles"]
) -> list[_Shared]:
    """Every case and every unit that have a shingle in common."""
    import numpy as np

    mine = {case: np.unique(shingles(unit)) for case, unit in asked.items() if unit}
    wanted = np.unique(np.concatenate([*mine.values(), np.zeros(0, np.uint64)]))
    if not len(wanted):
        return []
    theirs = [np.unique(_among(shingles(unit), wanted)) for unit in held]
    product = (_table(list(mine.values()), wanted) @ _table(theirs, wanted).T).tocoo()
    sizes = {place: len(np.unique(shingles(held[place]))) for place in np.unique(product.col).tolist()}
    cases = list(mine)
    return [
        _Shared(cases[i], j, both, len(mine[cases[i]]), sizes[j])
        for i, j, both in zip(product.row.tolist(), product.col.tolist(), product.data.tolist(), strict=True)
    ]


def _table(sets: Sequence["Shingles"], wanted: "Shingles") -> Any:
    """Which set (row) has which of `wanted` (column), as a sparse matrix of ones."""
    import numpy as np
    from scipy.sparse import csr_array

    ends = np.cumsum([0, *map(len, sets)])
    places = np.searchsorted(wanted, np.concatenate([*sets, np.zeros(0, np.uint64)]))
    return csr_array((np.ones(len(places), np.int32), places, ends), shape=(len(sets), len(wanted)))


def _among(some: "Shingles", wanted: "Shingles") -> "Shingles":
    """Those of `some` that are in `wanted`, which is sorted."""
    import numpy as np

    places = np.minimum(np.searchsorted(wanted, some), len(wanted) - 1)
    found: Shingles = some[wanted[places] == some]
    return found


def _expected(case: Case) -> str:
    """The answer that is expected, where it is a text."""
    return case.expected or (case.wanted_text if case.scorer.kind in ("exact", "contains") else "")


def _question(case: Case) -> _Unit:
    """The last user text and the tool results after it; empty where that is a short follow-up."""
    *_, (before, unit) = ((False, ()), *_segments(case.messages))
    follows_up = before and len(unit) == 1 and len(unit[0].split()) <= SHORT
    return () if follows_up else unit


def _units(messages: Iterable[dict[str, Any]]) -> Iterator[_Unit]:
    """Every user text, every tool result, and every user text with the tool results after it."""
    for _, unit in _segments(messages):
        yield unit
        if len(unit) > 1:
            yield from ((text,) for text in unit)


def _segments(messages: Iterable[dict[str, Any]]) -> Iterator[tuple[bool, _Unit]]:
    """Each user text with its tool results, and whether a user text came before."""
    unit: _Unit = ()
    before = False
    for message in messages:
        match message.get("role"):
            case "user":
                if unit:
                    yield before, unit
                    before = True
                unit = (text_of(message),)
            case "tool":
                unit = (*unit, text_of(message))
    if unit:
        yield before, unit


def _whole(messages: Iterable[dict[str, Any]]) -> _Unit:
    """All texts of a conversation but the system prompt, which is everywhere the same."""
    return tuple(text_of(message) for message in messages if message.get("role") != "system")


def _short(unit: _Unit) -> bool:
    return sum(len(_words(text)) for text in unit) < SHORT_TEXT


def _spelt(texts: Iterable[str]) -> str:
    """The words of texts, each between two spaces."""
    return f" {' '.join(_bare(text) for text in texts)} "


def plain(text: str) -> str:
    """A text with its letters composed in one way (NFKC), and without signs that nobody sees."""
    return text if text.isascii() else _UNSEEN.sub("", unicodedata.normalize("NFKC", text))


def _words(text: str) -> list[str]:
    return _WORD.findall(plain(text).casefold())


def _bare(text: str) -> str:
    """The words of a text; the text itself, where it has none."""
    return " ".join(_words(text)) or normalised(text)
