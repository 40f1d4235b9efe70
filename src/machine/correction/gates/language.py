"""Language: whether a reasoning is in the language that its user wrote in. What is not sure is no finding."""

import re
from functools import cache
from importlib import import_module
from typing import Any

from machine.correction.gates.wording import DENSE, Wording, prose_of
from machine.trace import well_formed

_ENOUGH = 24
"""Letters of prose, below which a language is not told."""
_PLENTY = 48
_SURE = 0.95
_SURER = 0.995
"""How sure the identifier must be of a text of fewer than `_PLENTY` letters."""
_DENSE_LETTERS = 4
"""Letters that one character of a script without spaces stands for."""
_ALIKE = (
    {"no", "nb", "nn", "da", "sv"},
    {"hr", "sr", "bs", "sl", "mk"},
    {"id", "ms", "jv", "su"},
    {"pt", "gl", "es", "ca"},
    {"cs", "sk"},
    {"ru", "uk", "be", "bg"},
    {"nl", "af", "fy"},
    {"hi", "mr", "ne"},
    {"de", "lb"},
)
"""Languages that short texts do not tell apart."""
_LETTERS = re.compile(r"[^\W\d_]")
_DENSE_ONE = re.compile(rf"[{DENSE}]")


def mismatch(wording: Wording, question: str) -> tuple[str, str] | None:
    """The language of the reasoning and that of the question (BCP 47), where both are sure and they differ."""
    said = _told(wording.prose)
    if said is None:
        return None
    lines = [prose_of(question), *prose_of(question).splitlines()]
    asked = [language for language in map(_told, lines) if language is not None]
    if not asked or any(_same(said, language) for language in asked):
        return None
    return said, asked[0]


def _same(one: str, other: str) -> bool:
    return one == other or any(one in group and other in group for group in _ALIKE)


def _told(text: str) -> str | None:
    """The language that a text is surely in."""
    letters = len(_LETTERS.findall(text)) + (_DENSE_LETTERS - 1) * len(_DENSE_ONE.findall(text))
    if letters < _ENOUGH:
        return None
    found = _identifier().FindLanguage(well_formed(" ".join(text.split())))
    sure = _SURE if letters >= _PLENTY else _SURER
    return found.language.split("-")[0] if found.is_reliable and found.probability >= sure else None


@cache
def _identifier() -> Any:
    """CLD3, whose weights are in the library."""
    return import_module("gcld3").NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=4000)
