"""Wording: a text as the gates read it: its words, its prose without code and quotations, and short quotes of it.

Words are compared folded (NFKC, no case, no punctuation). In scripts that put no spaces between words every character
is a word that weighs half a word.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

DENSE = (
    "\u3005\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
)
"""Han, kana, Thai, Lao, Burmese and Khmer, for a character class."""
_WORD = re.compile(rf"[{DENSE}]|[^\W_{DENSE}]+")
_DENSE = re.compile(rf"[{DENSE}]")
_JOINT = re.compile(r"[._/\\:]{1,2}")
_ESCAPE = re.compile(r"\\[nrt\"]")
_CODE = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`"
    r"|https?://\S+|(?<![\w.])[~.]{0,2}/?[\w.@$-]+(?:[/\\][\w.@$-]+)+/?|\w+(?:[_.:]+\w+)+(?:\([^()\n]*\))?|\w+\(\)",
    re.DOTALL,
)
_QUOTATION = re.compile(
    r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|„[^“”\n]{1,400}[“”]|«[^»\n]{1,400}»|「[^」\n]{1,400}」"
    r"|(?<!\w)['‘][^'’\n]{1,400}['’](?!\w)"
)
_SHOWN = 60

Span = tuple[int, int]


@dataclass(frozen=True)
class Word:
    """A word of a text, folded, and from where to where it goes there."""

    folded: str
    start: int
    end: int
    weight: float
    """1; a half for one character of a script without spaces; none for a further part of a name (`a_b`, `a/b.c`)."""


@dataclass(frozen=True)
class Wording:
    """A reasoning, with every secret in it replaced. What is hidden reasoning, or personal, is never shown."""

    text: str
    copied: Sequence[Span] = field(default=())
    personal: Sequence[Span] = field(default=())

    @cached_property
    def words(self) -> list[Word]:
        """Its words in order."""
        text, last, found = _unescaped(self.text), 0, list[Word]()
        for match in _WORD.finditer(text):
            folded, (start, end) = _folded(match.group()), match.span()
            part = last and _JOINT.fullmatch(text, last, start)
            found.append(Word(folded, start, end, 0.5 if is_dense(folded) else 0.0 if part else 1.0))
            last = end
        return found

    @cached_property
    def prose(self) -> str:
        """The text with code and quotations blanked: every character stays at its place."""
        return prose_of(self.text)

    @property
    def weight(self) -> float:
        """How many words it has; two characters of a script without spaces count as one."""
        return sum(word.weight for word in self.words)

    def quoted(self, start: int, end: int) -> str:
        """A short quote of it, or only the place where it may not be shown."""
        if any(start < last and first < end for first, last in (*self.copied, *self.personal)):
            return f"(characters {start + 1} to {end})"
        shown = " ".join(self.text[start:end].split())
        return f'"{shown[:_SHOWN]}…"' if len(shown) > _SHOWN else f'"{shown}"'


def folded_words(text: str) -> list[str]:
    """The words of any text, folded."""
    text = _unescaped(text)
    return _WORD.findall(text.lower()) if text.isascii() else [_folded(word) for word in _WORD.findall(text)]


def is_dense(word: str) -> bool:
    """Whether it is a character of a script without spaces."""
    return len(word) == 1 and _DENSE.match(word) is not None


def prose_of(text: str) -> str:
    """A text of the same length in which code, paths, addresses and quotations are blank."""
    return _QUOTATION.sub(_blank, _CODE.sub(_blank, text))


def sentence_starts(text: str) -> Iterator[int]:
    """Where the sentences of a text, and the items of its lists, begin."""
    return (match.end() for match in _BEFORE_SENTENCE.finditer(text))


_BEFORE_SENTENCE = re.compile(r"(?:\A|[.!?…]\s|[。！？]|\n)\s*(?:[-*•]\s+|\d+[.)]\s+)?")


def _unescaped(text: str) -> str:
    """Calls are JSON: what it spells as an escape is no letter."""
    return _ESCAPE.sub("  ", text) if "\\" in text else text


def _folded(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())
