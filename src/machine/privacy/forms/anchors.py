"""Anchors: which rules may match in a text, and where, told by literals that none of their matches lacks.

Python's `re` takes a second for a MB with all patterns. One pass of an Aho-Corasick automaton looks for the literals of
all of them at once, whatever their case, in some milliseconds; what it does not find was not there. The patterns of
detect-secrets come without literals: each has here what follows from it, letters that have to stand in the text or a
run of name characters of some length, and a pattern that isn't here word for word, flags too, may always match.
"""

import re
from collections.abc import Sequence
from functools import cache

from ahocorasick_rs import AhoCorasick

from machine.privacy.forms.hashes import CRYPT
from machine.privacy.forms.keys import WALLET
from machine.privacy.forms.parts import MAILGUN, NGROK
from machine.privacy.forms.patterns import PRIVATE_KEY, rules
from machine.privacy.forms.rule import Rule, lowered

_NAME = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+\\" + bytes(range(0x80, 0x100))
_SHAPE = bytes.maketrans(_NAME, b"a" * len(_NAME))
"""In the shape of a text each character of names is an `a`; one beyond ASCII is several."""
_CLOUDANT_NAME = (
    r"""(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:cloudant|cl|clou)(?:_|-|)(?:api|)(?:key|pwd|pw|password|pass|token)"""
    r"""(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)"""
)
_CLOUDANT_WORDS = tuple(
    name + dash + api + key
    for name in ("cl", "clou", "cloudant")
    for dash in ("", "_", "-")
    for api in ("", "api")
    for key in ("key", "pw", "pass", "token")
)
_CLOUDANT_HOST = r"\@[\w\-]+\.cloudant\.com"

LITERALS: dict[re.Pattern[str], tuple[str, ...]] = {
    PRIVATE_KEY: ("-----BEGIN ",),
    CRYPT: ("$",),
    re.compile(r'(?:\s|=|:|"|^)AKC[a-zA-Z0-9]{10,}(?:\s|"|$)'): ("AKC",),
    re.compile(r'(?:\s|=|:|"|^)AP[\dABCDEF][a-zA-Z0-9]{8,}(?:\s|"|$)'): ("AP",),
    re.compile(r"AC[a-z0-9]{32}"): ("AC",),
    re.compile(r"SK[a-z0-9]{32}"): ("SK",),
    re.compile(r"AccountKey=[a-zA-Z0-9+\/=]{88}"): ("AccountKey=",),
    re.compile(_CLOUDANT_NAME + r"""([0-9a-f]{64})(?:"|\'|)""", re.IGNORECASE): _CLOUDANT_WORDS,
    re.compile(_CLOUDANT_NAME + r"""([a-z]{24})(?:"|\'|)""", re.IGNORECASE): _CLOUDANT_WORDS,
    re.compile(r"(?:https?\:\/\/)[\w\-]+\:([0-9a-f]{64})" + _CLOUDANT_HOST, re.IGNORECASE): (".cloudant.com",),
    re.compile(r"(?:https?\:\/\/)[\w\-]+\:([a-z]{24})" + _CLOUDANT_HOST, re.IGNORECASE): (".cloudant.com",),
    re.compile(r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9-_]{70,}"): ("pypi-AgEIcHlwaS5vcmc",),
    re.compile(r"pypi-AgENdGVzdC5weXBpLm9yZw[A-Za-z0-9-_]{70,}"): ("pypi-AgENdGVzdC5weXBpLm9yZw",),
    re.compile(r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"): ("SG.",),
    re.compile(r"xox(?:a|b|p|o|s|r)-(?:\d+-)+[a-z0-9]+", re.IGNORECASE): ("xox",),
    re.compile(
        r"https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+", re.IGNORECASE | re.VERBOSE
    ): ("hooks.slack.com/services/",),
    re.compile(r"[0-9a-z]{32}-us[0-9]{1,2}"): ("-us",),
}
"""Letters of which each match of a pattern holds some; in whatever case, where the pattern asks for none."""
SHAPES: dict[re.Pattern[str], bytes] = {
    WALLET: b"a" * 51,
    MAILGUN: b"a" * 50,
    NGROK: b"a" * 49,
    re.compile(r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}"): b"a" * 24 + b".aaaaaa",
    re.compile(r"\d{8,10}:[0-9A-Za-z_-]{35}"): b"a" * 8 + b":" + b"a" * 35,
}
"""What the shape of each match of a pattern holds."""


class Anchors:
    """The literals of rules, and the automaton that looks for them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._always = [rule for rule in rules if not _literals(rule) and rule.pattern not in SHAPES]
        self._shaped = [(rule, SHAPES[rule.pattern]) for rule in rules if not rule.anchors and rule.pattern in SHAPES]
        self._order = {id(rule): number for number, rule in enumerate(rules)}
        owners: dict[str, list[tuple[Rule, str | None]]] = {}
        for rule in rules:
            for literal in _literals(rule):
                exact = literal if _is_exact(rule) else None
                owners.setdefault(lowered(literal), []).append((rule, exact))
        self._owners = list(owners.values())
        self._automaton = AhoCorasick(list(owners))

    def possible(self, text: str) -> list[tuple[Rule, list[int]]]:
        """The rules that may match in a text, in their order, and where their literals stand in it.

        All that do match are among them, each match of a `leading` rule at one of its places.
        """
        found: dict[int, tuple[Rule, list[int]]] = {}
        for number, start, _ in self._automaton.find_matches_as_indexes(_folded(text), overlapping=True):
            for rule, exact in self._owners[number]:
                if exact is None or text.startswith(exact, start):
                    found.setdefault(id(rule), (rule, []))[1].append(start)
        if self._shaped:
            shape = text.encode("utf-8", "surrogatepass").translate(_SHAPE)
            found |= {id(rule): (rule, []) for rule, needed in self._shaped if needed in shape}
        found |= {id(rule): (rule, []) for rule in self._always}
        return [found[each] for each in sorted(found, key=self._order.__getitem__)]


@cache
def anchors() -> Anchors:
    """Those of all rules there are; made at the first call."""
    return Anchors(rules())


def _is_exact(rule: Rule) -> bool:
    return rule.view == "text" if rule.anchors else not rule.pattern.flags & re.IGNORECASE


def _literals(rule: Rule) -> tuple[str, ...]:
    return rule.anchors or LITERALS.get(rule.pattern, ())


SAME_AS_ASCII = {"\u017f": "s", "\u212a": "k", "\u0131": "i", "\u0130": "i"}
"""All the characters beyond ASCII that `re.IGNORECASE` takes for a letter of ASCII."""
_ODD = re.compile(f"[{''.join(SAME_AS_ASCII)}\ud800-\udfff]")


def _folded(text: str) -> str:
    """The text in lower case, each character in its place, as the automaton can take it."""
    if not text.isascii():
        text = _ODD.sub(lambda odd: SAME_AS_ASCII.get(odd[0], "\ufffd"), text)
    return lowered(text)
