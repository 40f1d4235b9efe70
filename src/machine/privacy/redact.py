"""Redaction: secrets in any JSON value become typed placeholders, the same secret the same placeholder everywhere.

Two sources: the values of the user's own environment whose names say secret (exact, the most precise), and
detect-secrets' plugins for credentials of a fixed form. A placeholder holds no quote and no backslash, so that JSON
text inside a string stays JSON.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
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
                return {self.text(k, place): self.value(v, f"{place}.{k}" if place else k) for k, v in value.items()}
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
    """Values of variables that hold a secret, also as they are spelt inside JSON text, each with its rule."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST and not value.startswith(("/", "~")):
            rule = f"env-{name.lower().replace('_', '-')}"
            found[value] = rule
            found[json.dumps(value)[1:-1]] = rule
    return found


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
