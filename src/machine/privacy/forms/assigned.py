"""Assigned: the values that are given to names that say secret, whichever way a language has to give them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from machine.privacy.forms.names import is_secret_name, is_whole_name
from machine.privacy.forms.passphrases import is_passphrase
from machine.privacy.forms.rule import Form, Rule
from machine.privacy.forms.shapes import (
    changes,
    is_code,
    is_full_of_marks,
    is_marked,
    is_odd_password,
    is_password,
    is_salt,
    is_scrambled,
    is_token,
    is_version,
)
from machine.privacy.forms.ways import (
    AFTER,
    ASKS,
    CALL,
    CONNECTION,
    DEFAULT,
    ENDS,
    ENV_LINE,
    EQUALS,
    GIVEN,
    HELM,
    JOINED,
    MOUNT,
    NAMED,
    NARROW,
    OF_PAIRS,
    OPENED,
    OPTION,
    PART,
    QUERY,
    QUOTED_AGAIN,
    SED,
    SETS,
    SETTING,
    TUPLE,
    VARIABLE,
)
from machine.privacy.forms.ways import GAP as GAP
from machine.privacy.forms.ways import QUOTE as QUOTE
from machine.privacy.spellings import spellings

_SPELT = re.compile(r"\\+u([0-9a-fA-F]{4})")
_NO_MARKS = re.compile(r"[^\s\"'`\\<>{}]+")
_ANONYMOUS = re.compile(r"anonymous[^\n]{0,12}\n?[^\n]{0,28}$", re.IGNORECASE)
"""What leads to the password of a user who needs none."""
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_MARKS = re.compile(r"[!@#$%^&*]")
_APP = re.compile(r"app[-_. ]?$", re.IGNORECASE)
_NOUNS = ("password", "passwd", "passphrase", "passwort", "pw", "pwd")
"""Unlike `pass`, which sentences and commands have before what is no password."""


@dataclass(frozen=True)
class Assigned(Rule):
    """A name that says secret, and the value that it is given in whatever language.

    `password`: people choose such values too, so 8 characters with a digit or a mark, or a few words, will do; any
    other value has to look as if a machine had made it.
    """

    password: bool = False
    NESTED: ClassVar[int] = 64
    """A query may have that many names before the one that counts; a match is short."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The value, unless the name or the value says that it is none."""
        spelt: str = match["quoted"] or ""
        meant = _meant(spelt)
        value = self._quoted(match, meant) if meant else None if spelt else self._bare(match)
        if (
            value
            and not _ANONYMOUS.search(_head(match))
            and is_secret_name(_head(match), match["word"], match["tail"], value)
        ):
            if meant == spelt or not spelt:
                yield value
            elif spelt not in spellings(value):
                yield spelt

    def _quoted(self, match: re.Match[str], value: str) -> str | None:
        head = _head(match)
        if again := QUOTED_AGAIN.fullmatch(value):
            value = again["value"]
        if match["tag"] or not _is_pair(match):
            return None
        if match["call"] and (match["close"] or ASKS.search(head) or not is_whole_name(head, match["tail"])):
            return None
        if match["comma"] and not self._is_listed(match, value):
            return None
        if match["space"] and not ("-" in head[-30:] or match["word"].lower() in _NOUNS or GIVEN.search(head)):
            return value if is_token(value) else None
        return value if self._is_secret(match, value, only=True) else None

    def _is_listed(self, match: re.Match[str], value: str) -> bool:
        """Whether a value that follows a name and a comma is given to it."""
        head = _head(match)
        if SETS.search(head) or (match["close"] and self._is_odd(value)):
            return True
        if match["close"] and OPTION.search(head):
            return not value.startswith("-")
        if match.string[match.end() : match.end() + 2].strip()[:1] not in ("}", ")", "]", ">"):
            return False
        return OF_PAIRS.search(head) is not None or (
            TUPLE.search(head) is not None and (not match["close"] or is_odd_password(value))
        )

    def _is_odd(self, value: str) -> bool:
        """Whether a value that follows a name in a list, as anything may, looks like nothing else."""
        return is_scrambled(value) or (self.password and is_marked(value))

    def _is_secret(self, match: re.Match[str], value: str, only: bool) -> bool:
        """Whether a value is one; `only`: nothing but a value stands there, no name and no expression of code."""
        if not self.password:
            return is_token(value)
        if not only or not is_whole_name(_head(match), match["tail"]):
            return is_odd_password(value)
        return is_password(value) or (bool(_APP.search(_head(match))) and re.fullmatch(r"[a-z]{16}", value) is not None)

    def _bare(self, match: re.Match[str]) -> str | None:
        """A value without quotes: to the end of the line where the line is a variable's, to a mark elsewhere."""
        if match["comma"] or match["call"] or match["typed"] or match["else"]:
            return None
        if (match["close"] and not (match["assign"] or match["pair"] or match["tag"])) or not _is_pair(match):
            return None
        bare: str = match["bare"]
        after = match.string[match.end() : match.end() + 1]
        if bare[0] in "?+" and DEFAULT.search(_head(match)):
            return None
        if match["tag"] and after != "<" and not bare.endswith("]]"):
            return None
        if match["space"] and (is_version(bare) or not self._is_option(match, bare)):
            return None
        only = bool(match["tag"]) or self._is_whole_line(match, after)
        if cut := self._cut(match):
            only, bare = True, re.split(cut, bare, maxsplit=1)[0]
        elif not only:
            joined = JOINED.fullmatch(bare) if self.password and not match["space"] else None
            if not (narrow := joined or NARROW.match(bare)) or bare[narrow.end() :].startswith(("(", "[", "{")):
                return None
            bare, whole = narrow.group().rstrip(".:"), bare
            only = bare == whole.rstrip(",;)}]") and self._is_alone(match, after)
        bare = bare.removesuffix("]]").rstrip(";,")
        if (opened := OPENED.search(_head(match))) and bare.endswith(_CLOSES[opened[1]]):
            bare = bare[:-1]
        if is_code(bare) and not (only and is_passphrase(bare)):
            return None
        only = only and not (VARIABLE.fullmatch(bare) and (match["assign"] or "").startswith((" ", "\t")))
        return bare if self._is_secret(match, bare, only) else None

    def _cut(self, match: re.Match[str]) -> str | None:
        """What ends the value of an editor's command, a default, a query or a connection string."""
        lead = match.string[max(0, match.start() - 160) : match.start()]
        if (sed := SED.search(lead)) and match["assign"]:
            return re.escape(sed[1])
        if DEFAULT.search(lead):
            return "}"
        if QUERY.search(lead):
            return r"&|[),;]+$"
        if HELM.search(lead) or (match["assign"] == "=" and MOUNT.search(lead)):
            return ","
        return ";" if CONNECTION.search(lead) else None

    def _is_whole_line(self, match: re.Match[str], after: str) -> bool:
        """Whether all up to the next space is the value, marks too: of a variable, or what no expression looks like."""
        ends = ENDS.match(match.string, match.end()) is not None
        if match["rows"] or match["part"]:
            return True
        if match["space"]:
            return bool(GIVEN.search(_head(match))) or _is_of_marks(match["bare"])
        if not match["assign"]:
            return False
        if ends and _is_of_marks(match["bare"]):
            return True
        given = _is_plain(match["assign"]) or match["assign"].strip() in (":=", "?=")
        if given and match["word"][-1].isupper() and ENV_LINE.search(_head(match)):
            return not CALL.match(match["bare"])
        return ends and changes(match["bare"]) >= 0.3 and not CALL.search(match["bare"])

    def _is_alone(self, match: re.Match[str], after: str) -> bool:
        """Whether nothing but a value stands there: to the end of the line, of the option, of what is logged."""
        if match["space"] or match["pair"]:
            return True
        tight = re.fullmatch(EQUALS, match["assign"] or "") is not None and after in (" ", "'", '"', "`")
        logged = match["assign"] == ":" and after == " "
        ends = after == "`" or ENDS.match(match.string, match.end()) is not None
        return tight or logged or (ends and _is_plain(match["assign"] or ""))

    def _is_option(self, match: re.Match[str], value: str) -> bool:
        """Whether a name and a value with a space between are an option of a command: `--token abc`."""
        head = _head(match)
        if len(match["tail"]) >= len("_x") and f"{match['word']}{match['tail']}" in value:
            return False
        if (
            match["word"].lower() == "masterauth"
            or GIVEN.search(head)
            or re.search(r"(?:^|[\s\"'=(\[])--?[\w.-]*$", head)
        ):
            return True
        return is_token(value) and len(value) >= 20


@dataclass(frozen=True)
class Compared(Rule):
    """A value that stands before a name that says secret: what a test compares, `assert "..." == config.password`, or
    an object of a value and a name.
    """

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The value, if it looks like what the name says."""
        named = match["word"].lower() in ("secret", "token", "key")
        if is_token(match["secret"]) if named else is_password(match["secret"]):
            yield match["secret"]


def _head(match: re.Match[str]) -> str:
    """What stands before the name that was found: the rest of it and what leads to it."""
    return match.string[max(0, match.start() - 48) : match.start()]


def _meant(value: str) -> str:
    """A value with its characters as JSON spells them written out; nothing, where what they are would end it."""
    if not _SPELT.search(value):
        return value
    meant = _SPELT.sub(lambda spelt: chr(int(spelt[1], 16)), value)
    return meant if _NO_MARKS.fullmatch(meant) else ""


def _is_pair(match: re.Match[str]) -> bool:
    """Whether the name stands where those do that have a value in another line."""
    if match["rows"]:
        return NAMED.search(_head(match)) is not None
    return not match["part"] or PART.search(_head(match)) is not None


def _is_of_marks(value: str) -> bool:
    """Whether a value has so many marks, of kinds that code has few of, that it can only be a key."""
    return len(value) >= 32 and len(_MARKS.findall(value)) >= 3 and is_full_of_marks(value)


def _is_plain(assign: str) -> bool:
    """Whether a value is given as in a file of settings."""
    return SETTING.fullmatch(assign) is not None


_PASSWORDS = "pass(?:word|wort|wd|phrase|code)?|pwd?|psk"
_WORDS = (
    rf"key|token|(?:(?<![A-Za-z])|(?<=\\[nrt]))tok(?![A-Za-z])|(?-i:(?<=[a-z])Pat)(?![a-z])|[_-]pat(?![a-z])|seed|xprv"
    rf"|wif|secret|credential|{_PASSWORDS}|masterauth"
)
_GIVEN = Form(f"(?P<word>(?i:{_WORDS})){AFTER}", re.ASCII)
"""All rules have one pattern, since to compile it takes long; each is asked where its own words are."""
_COMPARED = Form(
    rf"(?i:(?:assert|expect)\w{{0,20}}[ \t(]{{1,4}}{QUOTE}(?P<secret>[^\s\"'`\\]{{8,200}}){QUOTE}\)?[ \t]{{0,4}}"
    rf"(?:===?|!==?|,|is|in|\.to\w{{0,12}}\()[ \t]{{0,4}}[\w.()\[\]\"'$>-]{{0,60}}?"
    rf"(?P<word>{_PASSWORDS}|secret|token|key)(?![a-z]))",
    re.ASCII,
)
_VALUE_FIRST = Form(
    rf"(?i:value{QUOTE}[ \t]{{0,4}}:[ \t]{{0,4}}{QUOTE}(?P<secret>[^\s\"'`\\]{{8,400}}){QUOTE},{GAP}{{0,40}}"
    rf"{QUOTE}(?:name|key|id|label|field|title){QUOTE}[ \t]{{0,4}}:[ \t]{{0,4}}{QUOTE}[\w./-]{{0,60}}?"
    rf"(?P<word>{_PASSWORDS}|secret|token|(?<=[_-])key){QUOTE})",
    re.ASCII,
)
_SALT = Form(
    rf"(?i:(?:auth|logged_in|nonce)_(?:key|salt){QUOTE}?[ \t]{{0,20}}(?:,|=>?|:)[ \t]{{0,20}}"
    rf"{QUOTE}(?P<secret>[^\n\r'\"]{{56,80}}){QUOTE})",
    re.ASCII,
)


def _assigned(name: str, *anchors: str, password: bool = False) -> Assigned:
    return Assigned(name, _GIVEN, anchors, leading=True, view="lower", password=password)


def assigned() -> list[Rule]:
    """All rules of this module."""
    return [
        _assigned("api-key", "key"),
        _assigned("token", "tok", "_pat", "-pat", *(f"pat{mark}" for mark in "\\\"'=: "), "seed", "xprv", "wif"),
        _assigned("secret", "secret", "credential"),
        _assigned("password", "pass", "pw", "psk", "masterauth", password=True),
        Compared("secret", _COMPARED, ("assert", "expect"), leading=True, view="lower"),
        Compared("secret", _VALUE_FIRST, ("value",), leading=True, view="lower"),
        Rule("secret", _SALT, ("auth_", "logged_in_", "nonce_"), leading=True, view="lower", real=is_salt),
    ]
