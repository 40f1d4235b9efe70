"""Patterns: what secrets of a fixed form look like, each with the name of its findings: private keys and
detect-secrets' plugins for credentials.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module

PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----BEGIN ).)*?-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s|\\[nr])+[A-Za-z0-9+/=]{40,}(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})*)",
    re.DOTALL,
)
"""In JSON text too, where a line ends in a spelt `\\n`; a key whose end was cut away goes as far as it is there."""
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
class Rule:
    """A pattern of secrets and the name that its findings get."""

    name: str
    pattern: re.Pattern[str]


@cache
def rules() -> tuple[Rule, ...]:
    """All there are, in the order in which they are tried; the plugins are imported at the first call."""
    found = [Rule("private-key", PRIVATE_KEY)]
    for module, name in _PLUGINS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        found += [Rule(module.replace("_", "-"), pattern) for pattern in plugin.denylist]
    return tuple(found)
