"""Rule: one form of secrets, the name of its findings, and how they are told from what only looks alike."""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

SHORTEST = 8
"""Characters of the shortest secret."""
LEFT = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-F]{2})|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m))"
"""Where a token may begin: not within a word, but for the end of an escape (JSON's, a URL's, a terminal's colour)."""

HEAD = 3
_HEAD = re.compile(rb"[A-Za-z0-9]{1,%d}" % HEAD)
_WORD = re.compile(rb"[a-z0-9]+|[\x80-\xff]")
View = Literal["text", "lower", "words", "runs", "near"]


@dataclass(frozen=True)
class Rule:
    """A pattern of secrets.

    `anchors`: each match holds one of them; none: the pattern has its condition in `anchors.NEEDS`, or may match in
    any text. `leading`: each match begins with one of them. `view`: where an anchor has to stand (`anchors`): in the
    `text`, in the text in `lower` case, among its `words` (each word of the anchor, whatever its case), in long `runs`
    of name characters, or in them and what is `near` before them. `real` is asked of each secret.
    """

    name: str
    pattern: re.Pattern[str]
    anchors: tuple[str, ...] = ()
    leading: bool = False
    view: View = "text"
    real: Callable[[str], bool] | None = None
    NESTED: ClassVar[int] = 16
    """So many matches that begin inside another are looked at: `token=token=...` may go on without end."""

    @functools.cached_property
    def encoded(self) -> tuple[bytes, ...]:
        """The anchors as `anchors` looks for them."""
        return tuple(anchor.encode() for anchor in self.anchors)

    @functools.cached_property
    def worded(self) -> tuple[tuple[bytes, frozenset[bytes]], ...]:
        """Each anchor and the words of it; beyond ASCII, each byte is one."""
        return tuple((anchor, frozenset(_WORD.findall(anchor))) for anchor in self.encoded)

    @functools.cached_property
    def needed(self) -> frozenset[bytes]:
        """A word of each anchor, or how it begins where that is `begun`: without any of them there is no match."""
        if self.view == "words":
            return frozenset(max(words, key=len, default=b"") for _, words in self.worded)
        return frozenset(head for _, head in self.begun)

    @functools.cached_property
    def begun(self) -> tuple[tuple[bytes, bytes], ...]:
        """Each anchor and how its first word begins, where no match begins inside of a word; empty: one may."""
        if not (self.leading and self.pattern.pattern.startswith(LEFT)):
            return ()
        return tuple((anchor, _HEAD.findall(anchor)[0]) for anchor in self.encoded)

    def secrets(self, text: str) -> Iterator[str]:
        """The secrets of this rule in a text, in order, each of at least `SHORTEST` characters."""
        for match in self.matches(text):
            for secret in self.of(match):
                if len(secret) >= SHORTEST and (self.real is None or self.real(secret)):
                    yield secret

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Where the pattern matches: at its anchors where it begins with one, or anywhere."""
        if not self.leading:
            yield from self.pattern.finditer(text)
            return
        within = lowered(text) if self.view in ("lower", "words") else text
        end = inside = 0
        found = places(within, self.anchors)
        for at in sorted(set(found)) if len(found) > 1 else found:
            inside = inside + 1 if at < end else 0
            if inside <= self.NESTED and (match := self.pattern.match(text, at)):
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
