"""Patterns: all forms of secrets that are looked for, each with the name of its findings: what is given to names that
say secret, what a word, a table, a command or a configuration announces, vendors' forms, keys, detect-secrets' plugins.
"""

import re
from functools import cache
from importlib import import_module

from machine.privacy.forms.assigned import assigned
from machine.privacy.forms.commands import commands
from machine.privacy.forms.configs import configs
from machine.privacy.forms.context import contexts
from machine.privacy.forms.hashes import hashes
from machine.privacy.forms.keys import keys
from machine.privacy.forms.manifests import manifests
from machine.privacy.forms.parts import parts
from machine.privacy.forms.printed import printed
from machine.privacy.forms.rule import Rule
from machine.privacy.forms.shapes import LOOKED_AT, is_sample
from machine.privacy.forms.statements import statements
from machine.privacy.forms.vendors import vendors
from machine.privacy.forms.words import named

_BREAK = r"(?:\s|\\+[nrt]|[+>|]|[0-9]+(?=\t|\\+t))+"
PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----BEGIN ).)*?-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    rf"|(?:{_BREAK}[A-Z][A-Za-z-]+: [^\n\\]*)*{_BREAK}[A-Za-z0-9+/=]{{40,}}(?:{_BREAK}[A-Za-z0-9+/=]{{16,}})*)",
    re.DOTALL,
)
"""In JSON text too, where a line ends in a spelt `\\n`; a key whose end was cut away goes as far as it is there."""
_PLUGINS = (
    ("artifactory", "ArtifactoryDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("cloudant", "CloudantDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
"""But for those of which a long text may take forever: `vendors` has its own of their kinds."""


@cache
def rules() -> tuple[Rule, ...]:
    """All there are, in the order in which they are tried; made at the first call.

    Of two that find the same secret, the later one names it: a form of its own says more than what stands before.
    """

    found = [*named(), *assigned(), *contexts(), *commands(), *configs(), *statements(), *manifests(), *printed()]
    found += [*hashes(), *vendors(), *parts(), *keys(), Rule("private-key", PRIVATE_KEY)]
    for module, name in _PLUGINS:
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        found += [Rule(module.replace("_", "-"), pattern, real=_real) for pattern in plugin.denylist]
    return tuple(found)


def _real(secret: str) -> bool:
    return not is_sample(secret[:LOOKED_AT])
