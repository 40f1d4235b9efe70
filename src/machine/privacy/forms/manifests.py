"""Manifests: the values of Kubernetes' Secrets, which are base64 of anything and say nothing by themselves: as YAML or
JSON that `kind: Secret` stands in, or as `kubectl get secret` prints them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from machine.privacy.forms.assigned import QUOTE
from machine.privacy.forms.commands import PUBLIC
from machine.privacy.forms.given import decoded, is_given
from machine.privacy.forms.printed import NEXT
from machine.privacy.forms.rule import LEFT, LINE_END, Rule
from machine.privacy.forms.shapes import is_placeholder, is_weak

_BEFORE, _AFTER = 6_000, 12_000
"""Characters of a manifest that are looked at around its kind."""
_DOCUMENT = re.compile(r"(?:^|\n|\\n)---[ \t]*(?=\r?\n|\\|$)")
_LINE = re.compile(rf"{LINE_END}(?:[ ]{{0,6}}[0-9]{{1,6}}(?:\t|\\+t|→|[:|])|[+](?=[ \w])|[-](?=[ ]{{2}})|[>|][ ])?")
_SECTION = re.compile(rf"([ ]*)(?:{QUOTE})?(data|stringData)(?:{QUOTE})?:[ \t]*$")
_ENTRY = re.compile(
    rf"([ ]*)(?:{QUOTE})?([\w.-]{{1,100}})(?:{QUOTE})?:[ \t]+(?:{QUOTE})?"
    rf"([^\s\"'`\\,}}\]]{{8,20000}})(?:{QUOTE})?[\s\"'}}\],\\]{{0,24}}$"
)
_OBJECT = re.compile(rf"{QUOTE}(data|stringData){QUOTE}\s{{0,4}}:\s{{0,4}}\{{([^{{}}]{{0,6000}})\}}")
_MEMBER = re.compile(rf"{QUOTE}([\w.-]{{1,100}}){QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE}([^\s\"'`\\]{{8,20000}}){QUOTE}")


@dataclass(frozen=True)
class Manifest(Rule):
    """Secrets, around their kinds; those that stand near each other are looked at together."""

    def matches(self, text: str, at: Sequence[int] | None = None) -> Iterator[re.Match[str]]:
        """The first kind, and each that is too far from the last one to have been looked at with it."""
        last = -_BEFORE
        for match in super().matches(text, at):
            if match.start() >= last + _BEFORE:
                last = match.start()
                yield match

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The values of the Secrets' sections, but for those of names that nobody hides."""
        around = match.string[max(0, match.start() - _BEFORE) : match.end() + _AFTER]
        for document in _DOCUMENT.split(around):
            if self.pattern.search(document):
                for section, name, value in _entries(document):
                    if _is_secret(name, value, encoded=section == "data"):
                        yield value


@dataclass(frozen=True)
class Printed(Rule):
    """What `kubectl get secret` printed below itself: an object, or one value."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The values; where the command decodes them, as they are."""
        value, encoded = match["value"], "base64" not in match["command"]
        members = _MEMBER.findall(value) if value.startswith("{") else [("", value)]
        yield from (each for name, each in members if _is_secret(name, each, encoded))


def _entries(manifest: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each entry, of YAML's lines or of JSON's objects."""
    for section, inside in _OBJECT.findall(manifest):
        yield from ((section, name, value) for name, value in _MEMBER.findall(inside))
    section, deep = "", 0
    for line in _LINE.split(manifest):
        if found := _SECTION.match(line):
            deep, section = len(found[1]), found[2]
        elif section and (entry := _ENTRY.match(line)) and len(entry[1]) > deep:
            yield section, entry[2], entry[3]
        elif line.strip() and len(line) - len(line.lstrip()) <= deep:
            section = ""


def _is_secret(name: str, value: str, encoded: bool) -> bool:
    if PUBLIC.fullmatch(name) or is_placeholder(value[:40]):
        return False
    if not encoded:
        return is_given(value)
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{6,}={0,2}", value):
        return False
    text = decoded(value)
    if text is None:
        return len(value) >= 16
    if text.startswith(("{", "[", "<")):
        return True
    return not (is_weak(text[:200]) or is_placeholder(text[:200]) or text.startswith("-----BEGIN CERTIFICATE"))


def manifests() -> list[Rule]:
    """All rules of this module."""
    kind = re.compile(rf"{LEFT}(?i:kind)(?:{QUOTE})?:[ \t]*(?:{QUOTE})?Secret(?![\w.-])")
    printed = re.compile(
        rf"{LEFT}(?i:get secrets?)(?P<command>[ \t](?:(?!\\+n)[^\n]){{0,200}}(?:json|yaml|template|base64)"
        r"(?:(?!\\+n)[^\n]){0,60})" + NEXT + r"(?P<value>\{[^{}\n]{8,20000}\}|[^\s{}\"'\\]{8,4000})(?=\s|\\|\"|'|$)"
    )
    return [
        Manifest("kubernetes-secret", kind, ("kind",), leading=True, view="lower"),
        Printed("kubernetes-secret", printed, ("get secret", "get secrets"), leading=True, view="lower"),
    ]
