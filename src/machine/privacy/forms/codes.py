"""Codes: digits that are called a PIN or a code to get in with, and lists of codes to get back into an account."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from machine.privacy.forms.rule import Rule

_WORDS = ("pin", "otp", "code", "codes", "digos", "backupcodes", "wiederherstellungscodes")
_LETS_IN = re.compile(
    r"(?:verification|sms|authenti\w+|confirmation|activation|security|access|door|keypad|alarm|gate|2fa|mfa|login|sign-in|pin"
    r"|one-time|unlock|pairing|entry|bestätigungs|zugangs|sicherheits)[ _-]?\Z",
    re.IGNORECASE,
)
_RECOVERY = re.compile(
    r"(?:recovery|back-?up|rescue|scratch|emergency|2fa|mfa|one-time|wiederherstellungs|ersatz|notfall)[ _-]?\Z",
    re.IGNORECASE,
)
_RECOVERY_AFTER = re.compile(r" (?:de|di) (?:r[eé]cup|secours|respaldo|recup|backup|emerg)", re.IGNORECASE)
_DIGITS = re.compile(
    r"(?:[ _-](?:code|number|nummer))?\\*[\"'`]?(?:[ \t]+(?:for|of|für|de|del|du)(?:[ \t]+[\w-]{1,24}){1,4}?)?"
    r"(?:[ \t]*(?::=|=>|->|→|[:=])[ \t]*|[ \t]+(?:(?:is|was|ist|lautet|es|est|è|é)[ \t]+)?(?:now[ \t]+)?)\\*[\"'`]?"
    r"(?P<digits>[0-9]{6,12})(?![\w.]|,\d)",
    re.IGNORECASE,
)
_BREAK = r"[\s,;|*`+>\[-]{0,24}(?:\\+n[\s*`+>-]{0,12}){0,3}(?:[0-9]{1,2}[.)] )?(?:\\*\")?"
_TO_CODES = re.compile(rf"[^\n\\:\[=]{{0,60}}(?:\\*\")?[:=(]?{_BREAK}")
_TO_NEXT = re.compile(rf"(?:\\*\")?{_BREAK}")
_ONE = re.compile(
    r"([0-9]{4} [0-9]{4}|(?=[A-Za-z-]*[0-9]|[a-z]+-[a-z]+)[0-9A-Za-z]{4,12}(?:-[0-9A-Za-z]{3,12}){0,7})(?![\w-])",
    re.ASCII,
)
_SHORTEST = 6
_SINGLE = re.compile(
    r"(?:[ _-](?:for|of|für|pour|para|de|is|ist)(?:[ \t]+[\w@.-]{1,40}){0,4}?)?(?:\\*\")?"
    r"[ \t]*(?::|=|→|->|\bis\b)[ \t]*\\*[\"'`]?"
    r"(?P<code>(?=[A-Za-z-]*[0-9]|[a-z]+-[a-z]+-)[0-9A-Za-z]{4,8}(?:-[0-9A-Za-z]{4,8}){1,7})(?![\w-])",
    re.ASCII,
)
_BITLOCKER = re.compile(
    r"(?:bitlocker|manage-bde|numerical ?password|recovery ?(?:key|password)|wiederherstellungsschl|clé de récup|-rp )"
    r"[\s\S]{0,300}?(?<![\w-])(?P<secret>[0-9]{6}(?:-[0-9]{6}){7})(?![\w-])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Code(Rule):
    """A word for codes, and those that it announces; they may have fewer characters than secrets elsewhere."""

    def secrets(self, text: str, at: Sequence[int] | None = None) -> Iterator[str]:
        """The codes: a PIN of six digits and more, or a list."""
        for match in self.matches(text, at):
            yield from self.of(match)

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The codes that one word announces."""
        text, word = match.string, match.group().lower()
        before = text[max(0, match.start() - 32) : match.start()]
        if word in ("pin", "otp", "code"):
            announces = not before[-1:].isalpha() if word != "code" else _LETS_IN.search(before)
            if announces and (found := _DIGITS.match(text, match.end())) and not _is_made_up(found["digits"]):
                yield found["digits"]
            elif word == "code" and _RECOVERY.search(before) and (one := _SINGLE.match(text, match.end())):
                yield one["code"]
        elif len(word) > 5 or _RECOVERY.search(before) or _RECOVERY_AFTER.match(text, match.end()):
            listed = list(_listed(text, match.end()))
            yield from listed
            if not listed and (one := _SINGLE.match(text, match.end())):
                yield one["code"]


def _is_made_up(digits: str) -> bool:
    """Whether digits are an example's or a round number."""
    return len(set(digits)) < 3 or digits in "01234567890987654321" or digits.endswith("000")


def _listed(text: str, at: int) -> Iterator[str]:
    """The codes of a list of at least three that begins soon after a place."""
    found = list[str]()
    start = _TO_CODES.match(text, at)
    while start and (code := _ONE.match(text, start.end())) and len(found) < 64:
        found.append(code[1])
        start = _TO_NEXT.match(text, code.end())
    if len(found) >= 3:
        yield from (code for code in found if len(code) >= _SHORTEST)


def codes() -> list[Rule]:
    """All rules of this module."""
    words = re.compile("wiederherstellungscodes|backupcodes|codes?|digos|pin|otp", re.ASCII | re.IGNORECASE)
    bitlocker = Rule(
        "recovery-key",
        _BITLOCKER,
        (
            *("bitlocker", "manage-bde", "numerical password", "numericalpassword", "recovery key", "recoverykey"),
            *("recovery password", "recoverypassword", "wiederherstellungsschl", "clé de récup", "-rp "),
        ),
        leading=True,
        view="lower",
    )
    return [Code("code", words, _WORDS, leading=True, view="lower"), bitlocker]
