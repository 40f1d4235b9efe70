"""Redaction: secrets in any JSON value become typed placeholders, the same secret the same placeholder everywhere.

Two kinds of secret: exact values (`sources`), and credentials of known forms (`patterns`). What is found in one text
of the value is taken out of all of them, however they spell it. A placeholder holds no quote and no backslash, so that
JSON text inside a string stays JSON; a secret of several lines leaves as many lines as it had.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from machine.privacy.forms.rule import SHORTEST
from machine.privacy.sources import Sources
from machine.privacy.spellings import readings, spellings
from machine.privacy.structure import FIXED, distinct, is_json, still_json

PLACEHOLDER = re.compile(r"<secret:([a-z0-9-]+):([0-9]{1,9})>")
_LINE_ENDS = re.compile(r"((?:[ \t]*(?:\r?\n|(?:\\+r)?\\+n))+[ \t]*)")
"""Also as JSON text spells them, at any depth."""
_MANY = 200
_REMEMBERED = 1 << 25
"""Characters of texts that are remembered to hold no credential."""


@dataclass
class _Clean:
    """Texts that hold no credential of a known form: a session is looked at again with every turn of it."""

    texts: set[str] = field(default_factory=set)
    characters: int = 0

    def add(self, text: str) -> None:
        if self.characters + len(text) > _REMEMBERED:
            self.texts, self.characters = set(), 0
        self.texts.add(text)
        self.characters += len(text)


_CLEAN = _Clean()


def forget() -> None:
    """Lets go of the texts that were found to hold no credential, as in a process that has just begun."""
    _CLEAN.texts, _CLEAN.characters = set(), 0


@dataclass(frozen=True)
class Finding:
    """A secret was here: the rule that found it and its place in the value, never the secret.

    `fingerprint` is what the user may allow it by; empty where the sources have no key.
    """

    rule: str
    place: str
    fingerprint: str = ""

    def __str__(self) -> str:
        return f"{self.rule} at {self.place}" if self.place else self.rule


@dataclass
class Names:
    """The placeholders of secrets, in memory alone: values that are redacted with the same names agree on them."""

    known: dict[str, str] = field(default_factory=dict, repr=False)
    last: int = 0

    def of(self, secret: str, rule: str) -> str:
        """The placeholder of a secret."""
        if secret not in self.known:
            self.last += 1
            self.known[secret] = f"<secret:{rule}:{self.last}>"
        return self.known[secret]

    def leave(self, texts: Iterable[str]) -> None:
        """Gives no number from now on that a placeholder in one of the texts has."""
        taken = (int(match.group(2)) for text in texts for match in PLACEHOLDER.finditer(text))
        self.last = max(self.last, *taken, 0)

    def rules(self) -> dict[str, str]:
        """The secrets that have a placeholder, and the rule that each was found by."""
        return {secret: placeholder.split(":")[1] for secret, placeholder in self.known.items()}


@dataclass(frozen=True)
class _Secret:
    """What a spelling found in the value stands for."""

    value: str = field(repr=False)
    rule: str
    whole: bool = False


@dataclass
class _Redactor:
    secrets: Mapping[str, _Secret]
    sources: Sources
    names: Names
    findings: list[Finding] = field(default_factory=list)
    _seen: dict[str, tuple[str, list[_Secret]]] = field(default_factory=dict)

    def value(self, value: Any, place: str) -> Any:
        match value:
            case str():
                return self.text(value, place)
            case list() | tuple():
                return [self.value(item, f"{place}[{i}]") for i, item in enumerate(value)]
            case int() | float() if not isinstance(value, bool):
                text = self.text(repr(value), place)
                return value if text == repr(value) else text
            case dict():
                clean = distinct({key: self.text(key, place) for key in value})
                return {clean[k]: self.value(v, f"{place}.{clean[k]}".lstrip(".")) for k, v in value.items()}
            case _:
                return value

    def text(self, text: str, place: str) -> str:
        if len(text) < 2 or text in FIXED:
            return text
        if text not in self._seen:
            self._seen[text] = self._replaced(text)
        clean, found = self._seen[text]
        self.findings += [Finding(each.rule, place, self.sources.fingerprint(each.value)) for each in found]
        return clean

    def _replaced(self, text: str) -> tuple[str, list[_Secret]]:
        """A text without its secrets, and those that it held; where two overlap, the longer stands for both."""
        parts, spans, end = list[str](), list[tuple[int, int, str]](), 0
        merged = _merged(self._spans(text))
        for start, stop, secret in merged:
            stand_in = _in_lines(text[start:stop], self.names.of(secret.value, secret.rule))
            parts += [text[end:start], stand_in]
            spans.append((start, stop, stand_in))
            end = stop
        clean = "".join([*parts, text[end:]])
        if spans and is_json(text):
            clean = still_json(text, spans)
        return clean, list(dict.fromkeys(secret for _, _, secret in merged))

    def _spans(self, text: str) -> Iterator[tuple[int, int, _Secret]]:
        for start, spelling in self._begins(text):
            stop, secret = start + len(spelling), self.secrets[spelling]
            if not secret.whole or _stands_alone(text, start, stop):
                yield start, stop, secret

    def _begins(self, text: str) -> Iterator[tuple[int, str]]:
        """Where the secrets stand in a text: each is looked for, or, where they are many, what begins as one does."""
        for spelling in self._few:
            start = text.find(spelling)
            while start >= 0:
                yield start, spelling
                start = text.find(spelling, start + len(spelling))
        for start in range(len(text) - SHORTEST + 1) if self._many else ():
            for length in self._many.get(text[start : start + SHORTEST], ()):
                if (spelling := text[start : start + length]) in self.secrets:
                    yield start, spelling

    @cached_property
    def _many(self) -> dict[str, set[int]]:
        """How long secrets are, by how they begin, where there are so many that looking for each would take longer."""
        found: dict[str, set[int]] = {}
        for spelling in self.secrets if len(self.secrets) > _MANY else ():
            if len(spelling) >= SHORTEST:
                found.setdefault(spelling[:SHORTEST], set()).add(len(spelling))
        return found

    @cached_property
    def _few(self) -> list[str]:
        return [spelling for spelling in self.secrets if not self._many or len(spelling) < SHORTEST]


def redacted(value: Any, sources: Sources | None = None, names: Names | None = None) -> tuple[Any, list[Finding]]:
    """A JSON value with every secret replaced, and what was found where (`messages[3].content`).

    The value is copied where there is something to replace, and is itself returned where there is nothing. Without
    `sources`, the values of this process's environment are the only exact ones. `names` are those of what was redacted
    before and belongs to the value; numbers that placeholders of the value itself have are not given again.
    """
    sources = Sources.of(os.environ) if sources is None else sources
    names = Names() if names is None else names
    texts = _texts(value)
    secrets = _secrets(texts, sources, names)
    if not secrets:
        return value, []
    names.leave(texts)
    redactor = _Redactor(secrets, sources, names)
    clean = redactor.value(value, "")
    return (clean, redactor.findings) if redactor.findings else (value, [])


def located(text: str, sources: Sources) -> list[tuple[int, Finding]]:
    """The secrets in one text, each with the place (characters from its start) where it begins, in order."""
    secrets = _secrets({text}, sources, Names())
    spans = _merged(_Redactor(secrets, sources, Names())._spans(text)) if secrets else []
    return [(start, Finding(secret.rule, "", sources.fingerprint(secret.value))) for start, _, secret in spans]


def _in_lines(secret: str, placeholder: str) -> str:
    """The placeholder, on each line that the secret went over."""
    pieces = _LINE_ENDS.split(secret)
    return "".join(piece if i % 2 else placeholder for i, piece in enumerate(pieces) if piece)


def _merged(spans: Iterable[tuple[int, int, _Secret]]) -> list[tuple[int, int, _Secret]]:
    """Spans in order, those that overlap as one, which is of the longest secret."""
    found: list[tuple[int, int, _Secret]] = []
    longest = 0
    for start, stop, secret in sorted(spans, key=lambda span: (span[0], -span[1])):
        if found and start < found[-1][1]:
            begun, ended, held = found[-1]
            if stop - start > longest:
                longest, held = stop - start, secret
            found[-1] = (begun, max(ended, stop), held)
        else:
            found.append((start, stop, secret))
            longest = stop - start
    return found


def _stands_alone(text: str, start: int, stop: int) -> bool:
    """Whether what is there is no part of a longer name."""
    before, after = text[start - 1 : start], text[stop : stop + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (after.isalnum() or after == "_")


def _texts(value: Any) -> set[str]:
    """Every text in a JSON value that is long enough to hold a secret, keys and numbers too."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, int | float):
            found.add(repr(item))
        elif isinstance(item, dict):
            found.update(item)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return {text for text in found if len(text) > 1}


def _secrets(texts: set[str], sources: Sources, names: Names) -> dict[str, _Secret]:
    """What is to be replaced, by how it is spelt: found in one of the texts, and not allowed."""
    formed = dict(_formed(texts)) | names.rules()
    found = {
        spelling: _Secret(secret, rule)
        for secret, rule in formed.items()
        if not sources.allows(secret)
        for spelling in spellings(secret)
    }
    found |= {
        spelling: _Secret(value, exact.rule, exact.whole)
        for spelling, (value, exact) in sources.spelt.items()
        if not sources.allows(value)
    }
    return _present(found, texts) if found else {}


def _present(wanted: Mapping[str, _Secret], texts: Iterable[str]) -> dict[str, _Secret]:
    """Those that stand in one of the texts; all, where they are many."""
    if len(wanted) > _MANY:
        return dict(wanted)
    whole = "\0".join(texts)
    return {spelling: secret for spelling, secret in wanted.items() if spelling in whole}


def _formed(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Credentials of known forms and their rules. A text that was found to hold none is not looked at again."""
    from machine.privacy.forms.anchors import anchors  # with all the forms: only who looks for them waits for that

    for text in texts:
        if len(text) < SHORTEST or text in _CLEAN.texts:
            continue
        clean = True
        for read in readings(text):
            for rule, at in anchors().possible(read):
                for secret in rule.secrets(read, at):
                    clean = False
                    yield secret, rule.name
        if clean:
            _CLEAN.add(text)
