"""Redaction: secrets in any JSON value become typed placeholders, the same secret the same placeholder everywhere.

Two sources: the values of the user's own environment whose names say secret (exact, the most precise), and
detect-secrets' plugins for credentials of a fixed form. A placeholder holds no quote and no backslash, so that JSON
text inside a string stays JSON.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine.privacy.anchors import possible
from machine.privacy.patterns import Rule, rules

_SECRET_NAME = re.compile(r"KEY(?!BOARD)|TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!OR)", re.IGNORECASE)
_SHORTEST = 8
_BATCH = 64 * 1024
"""Characters that are looked at together: few enough for a processor's cache."""
_REMEMBERED = 1 << 25
"""Characters of texts that are remembered to hold no credential."""


@dataclass
class _Clean:
    """Texts that hold no credential of a fixed form: a session is looked at again with every turn of it."""

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
    """A secret was here: the rule that found it and its place in the value. Never the secret."""

    rule: str
    place: str


@dataclass
class _Redactor:
    secrets: Mapping[str, list[tuple[str, str]]]
    names: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def value(self, value: Any, place: str) -> Any:
        match value:
            case str():
                return self.text(value, place)
            case list() | tuple():
                return [self.value(item, f"{place}[{i}]") for i, item in enumerate(value)]
            case dict():
                clean = {key: self.text(key, place) for key in value}
                return {clean[k]: self.value(v, f"{place}.{clean[k]}".lstrip(".")) for k, v in value.items()}
            case _:
                return value

    def text(self, text: str, place: str) -> str:
        for secret, rule in self.secrets.get(text, ()):
            if secret in text:
                number = self.names.setdefault(secret, str(len(self.names) + 1))
                text = text.replace(secret, f"<secret:{rule}:{number}>")
                self.findings.append(Finding(rule, place))
        return text


def redacted(value: Any, environ: Mapping[str, str] | None = None) -> tuple[Any, list[Finding]]:
    """A JSON value with every secret replaced, and what was found where (`messages[3].content`).

    The value is copied where there is something to replace, and is itself returned where there is nothing.
    """
    exact = _environment(os.environ if environ is None else environ)
    secrets = _secrets(value, exact)
    if not secrets:
        return value, []
    redactor = _Redactor(secrets)
    return redactor.value(value, ""), redactor.findings


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Values of variables that hold a secret (a path is none), also as JSON text spells them, each with its rule."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST and not _is_path(value):
            rule = f"env-{name.lower().replace('_', '-')}"
            spelt = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
            found |= dict.fromkeys([value, *spelt], rule)
    return found


def _is_path(value: str) -> bool:
    if value.startswith(("/", "~")):
        with contextlib.suppress(OSError, RuntimeError):  # too long for a path; no such user
            return Path(value).expanduser().exists()
    return False


def _texts(value: Any) -> set[str]:
    """Every text in a JSON value that is long enough to hold a secret, keys too."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, dict):
            found.update(item)
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return {text for text in found if len(text) >= _SHORTEST}


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _secrets(value: Any, exact: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Of each text that holds secrets: them, the longest first, each with its rule. Equal texts are looked at once."""
    texts = _texts(value)
    found: dict[str, list[tuple[str, str]]] = {}
    for text in texts if exact else ():
        if secrets := list(_exact(text, exact)):
            found[text] = secrets
    for text, secrets in _formed(texts):
        found[text] = [*found.get(text, ()), *secrets]
    return {text: sorted(secrets, key=lambda secret: -len(secret[0])) for text, secrets in found.items()}


def _formed(texts: Iterable[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Texts that hold credentials of a fixed form. A text that was found to hold none is not looked at again."""
    for batch in _batches([text for text in texts if text not in _CLEAN.texts]):
        near = possible(rules(), batch)
        for text in batch:
            matching = possible(near, [text]) if near and len(batch) > 1 else near
            if secrets := list(_matches(text, matching)):
                yield text, secrets
            else:
                _CLEAN.add(text)


def _exact(text: str, exact: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((secret, rule) for secret, rule in exact.items() if secret in text)


def _matches(text: str, rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
    for rule in rules:
        for match in rule.pattern.finditer(text):
            secret = next((g for g in match.groups() if g and len(g) >= _SHORTEST), match.group())
            if len(secret) >= _SHORTEST:
                yield secret, rule.name
