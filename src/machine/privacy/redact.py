"""Redaction: secrets in any JSON value become typed placeholders, the same secret the same placeholder everywhere.

Two sources: the values of the user's own environment whose names say secret (exact, the most precise), and
detect-secrets' plugins for credentials of a fixed form. A placeholder holds no quote and no backslash, so that JSON
text inside a string stays JSON.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_SECRET_NAME = re.compile(r"KEY(?!BOARD)|TOKEN(?!IZER)|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!OR)", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----BEGIN ).)*?-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s|\\[nr])+[A-Za-z0-9+/=]{40,}(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})*)",
    re.DOTALL,
)
"""In JSON text too, where a line ends in a spelt `\\n`; a key whose end was cut away goes as far as it is there."""
_SHORTEST = 8
_PLUGINS = (
    ("artifactory", "ArtifactoryDetector"),
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("basic_auth", "BasicAuthDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("jwt", "JwtTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)


@dataclass(frozen=True)
class Finding:
    """A secret was here: the rule that found it and its place in the value. Never the secret."""

    rule: str
    place: str


@dataclass
class _Redactor:
    exact: dict[str, str]
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
        for secret, rule in sorted(_secrets(text, self.exact), key=lambda found: -len(found[0])):
            if secret in text:
                number = self.names.setdefault(secret, str(len(self.names) + 1))
                text = text.replace(secret, f"<secret:{rule}:{number}>")
                self.findings.append(Finding(rule, place))
        return text


def redacted(value: Any, environ: Mapping[str, str] | None = None) -> tuple[Any, list[Finding]]:
    """A copy of a JSON value with every secret replaced, and what was found where (`messages[3].content`)."""
    redactor = _Redactor(_environment(os.environ if environ is None else environ))
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


def _secrets(text: str, exact: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if len(text) < _SHORTEST:
        return
    for secret, rule in exact.items():
        if secret in text:
            yield secret, rule
    for match in _PRIVATE_KEY.finditer(text):
        yield match.group(), "private-key"
    for rule, pattern in _patterns():
        for match in pattern.finditer(text):
            secret = next((g for g in match.groups() if g and len(g) >= _SHORTEST), match.group())
            if len(secret) >= _SHORTEST:
                yield secret, rule


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The plugins' own expressions; imported at the first scan."""
    from importlib import import_module

    found = []
    for module, name in _PLUGINS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        found += [(module.replace("_", "-"), pattern) for pattern in plugin.denylist]
    return tuple(found)
