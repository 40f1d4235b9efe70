"""Rule: one form of secrets, the name of its findings, and how they are told from what only looks alike."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

SHORTEST = 8
"""Characters of the shortest secret."""
LEFT = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-F]{2})|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m))"
"""Where a token may begin: not within a word, but for the end of an escape (JSON's, a URL's, a terminal's colour)."""

LINE_END = r"(?:\r?\n|(?:\\+r)?\\+n)"
"""The end of a line, spelt as in JSON text or not."""
View = Literal["text", "lower"]


@dataclass(frozen=True)
class Form:
    """A pattern that is compiled when it is first needed: of all there are, a text needs a few."""

    source: str
    flags: int = 0

    @functools.cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern."""
        return re.compile(self.source, self.flags)


@dataclass(frozen=True)
class Rule:
    """A pattern of secrets.

    `anchors`: each match holds one of them; none: the pattern has its condition in `anchors`, or may match in any text.
    `leading`: each match begins with one of them. `view`: whether an anchor is meant as it is written (`text`), or in
    whatever case (`lower`, in which it is written). `real` is asked of each secret.
    """

    name: str
    form: Form | re.Pattern[str]
    anchors: tuple[str, ...] = ()
    leading: bool = False
    view: View = "text"
    real: Callable[[str], bool] | None = None
    NESTED: ClassVar[int] = 16
    """So many matches that begin inside another are looked at: `token=token=...` may go on without end."""

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of each match."""
        return self.form.compiled if isinstance(self.form, Form) else self.form

    def secrets(self, text: str, at: Sequence[int] | None = None) -> Iterator[str]:
        """The secrets of this rule in a text, in order, each of at least `SHORTEST` characters.

        `at` is where the anchors stand in the text; None: they are looked for.
        """
        for match in self.matches(text, at):
            for secret in self.of(match):
                if len(secret) >= SHORTEST and (self.real is None or self.real(secret)):
                    yield secret

    def matches(self, text: str, at: Sequence[int] | None = None) -> Iterator[re.Match[str]]:
        """Where the pattern matches: at its anchors where it begins with one, or anywhere."""
        if not self.leading:
            yield from self.pattern.finditer(text)
            return
        if at is None:
            at = places(lowered(text) if self.view == "lower" else text, self.anchors)
        end = inside = 0
        for place in sorted(set(at)):
            inside = inside + 1 if place < end else 0
            if inside <= self.NESTED and (match := self.pattern.match(text, place)):
                yield match
                end = max(end, match.end())

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The secret of one match: its group of that name, or its first that is long enough, or all of it."""
        if "secret" in self.pattern.groupindex:
            yield match["secret"]
        else:
            yield next((group for group in match.groups() if group and len(group) >= SHORTEST), match.group())


def places(text: str, literals: tuple[str, ...]) -> list[int]:
    """Where each of the literals stands in a text."""
    found = list[int]()
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            found.append(at)
            at = text.find(literal, at + 1)
    return found


@functools.lru_cache(maxsize=1)
def lowered(text: str) -> str:
    """The text in lower case, each character in its place."""
    small = text.lower()
    return small if len(small) == len(text) else text.replace("\u0130", "i").lower()
