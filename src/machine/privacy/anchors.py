"""Anchors: which patterns can match in a text at all, told by bytes that none of their matches lacks.

Python's `re` takes 0.3 s for a MB with the patterns of detect-secrets, a search for a few bytes under 1 ms. What can
stand outside a long run of name characters is looked for in the whole text; all the rest, only in the runs of at
least `RUN` and the `CONTEXT` bytes before each, a few per cent of what an agent's session holds. Nothing is lost: each
condition below follows from its pattern, and a pattern that isn't here word for word, flags too, may always match.

Texts are looked at as UTF-8, so that one pass serves all: every byte beyond ASCII counts as a name character.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from machine.privacy.hashes import CRYPT, CRYPT_MARK
from machine.privacy.keys import WALLET
from machine.privacy.parts import MAILGUN, NGROK
from machine.privacy.patterns import PRIVATE_KEY
from machine.privacy.rule import HEAD, Rule, lowered

RUN = 20
"""Bytes. `AKIA` and 16 more is the shortest token that is looked for in runs only."""
SHORT = 16 * 1024
"""Characters of a text that is looked at as it is."""
CONTEXT = 176
"""Bytes before a run: more than what may stand before a value in any pattern, but for `_GAP`."""
_GAP = b" " * ((CONTEXT - 32) // 2)
"""Cloudant's name and value may be any number of spaces apart, in two places; all else before a value is 32 bytes."""
_NAME = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-/+\\" + bytes(range(0x80, 0x100))
_SHAPE = bytes.maketrans(_NAME + b"'", b"a" * len(_NAME) + b'"')
_RUNS = bytes(97 if byte in _NAME else 32 for byte in range(0x100))
_SPACED = bytes(byte if byte in b"abcdefghijklmnopqrstuvwxyz0123456789" else 32 for byte in range(0x100))
_ASCII = bytes(range(0x80))
_PARTED = bytes(byte if bytes([byte]).isalnum() else 32 for byte in range(0x100))
_LENGTHENED = re.compile(rb"\\(?:[bfnrt]|u[0-9a-fA-F]{4})([A-Za-z0-9]{1,3})")
_ESCAPES = (
    (b"\\", re.compile(rb"\\(?:[bfnrt]|u[0-9a-f]{4})([a-z0-9]+)")),
    (b"%", re.compile(rb"%[0-9a-f]{2}([a-z0-9]+)")),
    (b"m", re.compile(rb"\[[0-9;]{1,12}m([a-z0-9]+)")),
)
"""How JSON, a URL and a terminal's colours spell what stands before a word."""
SAME_AS_ASCII = {"\u017f": b"s", "\u212a": b"k", "\u0131": b"i", "\u0130": b"i"}
"""All the characters beyond ASCII that `re.IGNORECASE` takes for a letter of ASCII."""


@dataclass(frozen=True)
class _Views:
    """Texts as the conditions look at them; each view is made when first asked for."""

    texts: tuple[str, ...]

    @cached_property
    def text(self) -> bytes:
        return b"\n".join(text.encode("utf-8", "surrogatepass") for text in self.texts)

    @property
    def is_short(self) -> bool:
        """Whether the views cost more than they spare."""
        return len(self.texts) == 1 and len(self.texts[0]) < SHORT

    def hold_anywhere(self, rule: Rule) -> bool:
        """Whether one of a rule's anchors stands in a text at all."""
        text = lowered(self.texts[0]) if rule.view in ("lower", "words") else self.texts[0]
        return any(anchor in text for anchor in rule.anchors)

    def hold(self, rule: Rule) -> bool:
        """Whether one of a rule's anchors stands where it has to."""
        if rule.view == "words":
            if rule.needed.isdisjoint(self.words):
                return False
            return any(words <= self.words and self.holds_lower(literal) for literal, words in rule.worded)
        if rule.view == "runs" and rule.begun:
            if rule.needed.isdisjoint(self.heads):
                return False
            return any(head in self.heads and literal in self.runs for literal, head in rule.begun)
        view: bytes = getattr(self, rule.view)
        return any(literal in view for literal in rule.encoded)

    def holds_lower(self, literal: bytes) -> bool:
        """Whether the text in lower case holds a literal; many rules ask for the same."""
        if literal not in self.asked:
            self.asked[literal] = literal in self.lower
        return self.asked[literal]

    @cached_property
    def asked(self) -> dict[bytes, bool]:
        return {}

    @cached_property
    def lower(self) -> bytes:
        return self.text.lower()

    @cached_property
    def words(self) -> set[bytes]:
        """All words of letters and digits, in lower case; also those that an escape before them seems to lengthen.
        Beyond ASCII, each byte is one.
        """
        words = {b"", *self.lower.translate(_SPACED).split()}
        if not self.text.isascii():
            words.update(bytes([byte]) for byte in set(self.text.translate(None, _ASCII)))
        for mark, escape in _ESCAPES:
            if mark in self.lower:
                words.update(escape.findall(self.lower))
        return words

    @cached_property
    def folded(self) -> bytes:
        return _folded(self.text)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """From where to where each long run of name characters goes, in order."""
        names = self.text.translate(_RUNS)
        find, run, found, end = names.find, b"a" * RUN, [], 0
        while end >= 0 and (start := find(run, end)) >= 0:
            end = find(b" ", start + RUN)
            found.append((start, end if end >= 0 else len(names)))
        return found

    @cached_property
    def runs(self) -> bytes:
        """The long runs only."""
        return b" ".join([self.text[start:end] for start, end in self.spans])

    @cached_property
    def heads(self) -> set[bytes]:
        """How the words in the long runs begin; also those that an escape before them seems to lengthen."""
        words = self.runs.translate(_PARTED).split()
        words += _LENGTHENED.findall(self.runs)
        words += [self.text[start + cut : end] for start, end in self.spans for cut in (2, 3)]
        return {word[:HEAD] for word in words}

    @cached_property
    def near(self) -> bytes:
        """The long runs, what stands before them and one byte after; no byte twice, so that neighbours stay such."""
        found, last = [], 0
        for start, end in self.spans:
            found.append(self.text[max(last, start - CONTEXT) : end + 1])
            last = end + 1
        return b"".join(found)

    @cached_property
    def folded_near(self) -> bytes:
        return _folded(self.near)

    @cached_property
    def shape(self) -> bytes:
        """`near` with each name character an `a` and each quote a double one."""
        return self.near.translate(_SHAPE)


def _folded(text: bytes) -> bytes:
    text = text.lower()
    for character, letter in SAME_AS_ASCII.items():
        text = text.replace(character.encode(), letter)
    return text


_Need = Callable[[_Views], bool]


def possible(rules: Sequence[Rule], texts: Sequence[str]) -> list[Rule]:
    """Those of the rules that may match in one of the texts; all that do match are among them.

    In a short text, rules that look for their anchors themselves are not spared that.
    """
    views = _Views(tuple(texts))
    met = cache(lambda need: need(views))
    holds = views.hold_anywhere if views.is_short else views.hold
    return [
        rule
        for rule in rules
        if (
            (views.is_short and rule.leading) or holds(rule)
            if rule.anchors
            else all(met(need) for need in NEEDS.get(rule.pattern, ()))
        )
    ]


def _text(literal: bytes) -> _Need:
    return lambda views: literal in views.text


def _lower(literal: bytes) -> _Need:
    return lambda views: literal in views.lower


def _runs(*literals: bytes) -> _Need:
    return lambda views: any(literal in views.runs for literal in literals)


def _in_shape(literal: bytes) -> _Need:
    return lambda views: literal in views.shape


def _search(view: Callable[[_Views], bytes], pattern: bytes) -> _Need:
    search = re.compile(pattern).search
    return lambda views: search(view(views)) is not None


def _any_runs(views: _Views) -> bytes:
    return views.runs


def _any_text(views: _Views) -> bytes:
    return views.text


def _any_near(views: _Views) -> bytes:
    return views.near


def _folded_near(views: _Views) -> bytes:
    return views.folded_near


def _shape(views: _Views) -> bytes:
    return views.shape


def _around_cloudant(views: _Views) -> bytes:
    return views.folded if _GAP in views.near else views.folded_near


_ARTIFACTORY = _search(
    _any_text,
    rb'A(?<![^\s\x1c-\x1f=:"\x80-\xff]A)(?:KC[A-Za-z0-9]{10}|P(?:[0-9A-F]|[\x80-\xff]+)[A-Za-z0-9]{8})',
)
"""Both kinds, with the mark before; a digit or a space may be one beyond ASCII."""
_CLOUDANT = _search(_around_cloudant, rb"cl(?:ou(?:dant)?)?[_-]?(?:api)?(?:key|pw|pass|token)")
_IN_URL = _in_shape(b":" + b"a" * 24)
_CLOUDANT_URL = _search(_shape, rb":a{24,}@")
_CLOUDANT_NAME = (
    r"""(?:(?<=\W)|(?<=^))(?:\[|)(?:"|\'|)(?:cloudant|cl|clou)(?:_|-|)(?:api|)(?:key|pwd|pw|password|pass|token)"""
    r"""(?:"|\'|)(?:\]|)(?: *)(?:=|:|:=|=>| +|::)(?: *)(?:"|\'|)"""
)
_CLOUDANT_HOST = r"\@[\w\-]+\.cloudant\.com"

NEEDS: dict[re.Pattern[str], tuple[_Need, ...]] = {
    PRIVATE_KEY: (_text(b"PRIVATE KEY"), _text(b"-----BEGIN ")),
    CRYPT: (_search(_any_text, CRYPT_MARK.pattern),),
    WALLET: (_search(_any_runs, rb"[5KL][1-9A-HJ-NP-Za-km-z]{50}"),),
    MAILGUN: (_search(_any_runs, rb"-(?<=[0-9a-f]{32}-)[0-9a-f]{8}-[0-9a-f]{8}"),),
    NGROK: (_search(_any_runs, rb"_(?<=[A-Za-z0-9]{27}_)[A-Za-z0-9]{21}"),),
    re.compile(r'(?:\s|=|:|"|^)AKC[a-zA-Z0-9]{10,}(?:\s|"|$)'): (_ARTIFACTORY,),
    re.compile(r'(?:\s|=|:|"|^)AP[\dABCDEF][a-zA-Z0-9]{8,}(?:\s|"|$)'): (_ARTIFACTORY,),
    re.compile(r"AccountKey=[a-zA-Z0-9+\/=]{88}"): (_text(b"AccountKey="),),
    re.compile(_CLOUDANT_NAME + r"""([0-9a-f]{64})(?:"|\'|)""", re.IGNORECASE): (_CLOUDANT,),
    re.compile(_CLOUDANT_NAME + r"""([a-z]{24})(?:"|\'|)""", re.IGNORECASE): (_CLOUDANT,),
    re.compile(r"(?:https?\:\/\/)[\w\-]+\:([0-9a-f]{64})" + _CLOUDANT_HOST, re.IGNORECASE): (_IN_URL, _CLOUDANT_URL),
    re.compile(r"(?:https?\:\/\/)[\w\-]+\:([a-z]{24})" + _CLOUDANT_HOST, re.IGNORECASE): (_IN_URL, _CLOUDANT_URL),
    re.compile(r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}"): (
        _in_shape(b"a" * 6 + b"." + b"a" * 27),
        _search(_shape, rb"\.(?<=a{24}\.)a{6,24}\.a{27}"),
    ),
    re.compile(r"[0-9a-z]{32}-us[0-9]{1,2}"): (_search(_any_runs, rb"-us(?<=[0-9a-z]{32}-us)[0-9]"),),
    re.compile(r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9-_]{70,}"): (_runs(b"pypi-AgEIcHlwaS5vcmc"),),
    re.compile(r"pypi-AgENdGVzdC5weXBpLm9yZw[A-Za-z0-9-_]{70,}"): (_runs(b"pypi-AgENdGVzdC5weXBpLm9yZw"),),
    re.compile(r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"): (
        _in_shape(b"aa." + b"a" * 22 + b"." + b"a" * 43),
        _search(_any_near, rb"SG\."),
    ),
    re.compile(r"xox(?:a|b|p|o|s|r)-(?:\d+-)+[a-z0-9]+", re.IGNORECASE): (_lower(b"xox"),),
    re.compile(
        r"https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+", re.IGNORECASE | re.VERBOSE
    ): (_search(_folded_near, rb"hooks\.slack\.com/services/t"),),
    re.compile(r"\d{8,10}:[0-9A-Za-z_-]{35}"): (_in_shape(b"a" * 8 + b":" + b"a" * 35),),
    re.compile(r"AC[a-z0-9]{32}"): (_search(_any_runs, rb"AC[a-z0-9]{32}"),),
    re.compile(r"SK[a-z0-9]{32}"): (_search(_any_runs, rb"SK[a-z0-9]{32}"),),
}
"""What each pattern needs; of one condition's literals, one."""
