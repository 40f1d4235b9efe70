"""Accounts: passwords that stand beside the names of their users, without a name of their own: in lists of pairs, rows
that SQL inserts, calls over XML, files of two lines, relays of mail, URLs in base64, and what is typed twice.
"""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from machine.privacy.forms.assigned import GAP, QUOTE
from machine.privacy.forms.given import decoded, is_given, is_given_password
from machine.privacy.forms.rule import LEFT, LINE_END, Rule
from machine.privacy.forms.shapes import holds_pair, is_odd_password, is_token

_COLOUR = r"(?:(?:\x1b|\\+u001[bB])\[[0-9;]{0,8}m)?"
_MARGIN = rf"{_COLOUR}(?:[ ]{{0,6}}[0-9]{{1,6}}(?:\t|\\+t|→|[:|])|[+>|│])?{_COLOUR}[ ]?"
_WORD = r"[^\s\"'`\\]{2,80}"
_TWO = rf"{QUOTE}{_WORD}{QUOTE}{GAP}{{0,4}}(?:,|:|=>){GAP}{{0,4}}{QUOTE}{_WORD}{QUOTE}"
_PAIR = re.compile(rf"{QUOTE}({_WORD}){QUOTE}{GAP}{{0,4}}(,|:|=>){GAP}{{0,4}}{QUOTE}({_WORD}){QUOTE}")
_LISTS = ("account", "user", "login", "creds", "credentials", "admins", "members")
_FIELD = re.compile(
    r"(?:\w*(?:name|id|key|type|role|email|mail|url|login|avatar|created|updated|date|hash|plan|team|group|lang|locale))s?",
    re.IGNORECASE,
)
"""What an object that describes one account calls its values."""
_COLUMN = re.compile(
    r"(?:\w{1,30}_)?(?:password|passwd|passphrase|pass|pwd|psk|secret|token)|(?:\w{1,30}_)?(?:api|access|secret|private)_?key",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"[ \t]{0,8}(?:[NEB]?'([^'\n]{0,400})'|\\*\"([^\"\\\n]{0,400})\\*\"|[^,'\"\n]{1,80})[ \t]{0,8}(?:,|$)"
)
_ROW = re.compile(r"\(((?:[^()'\n]|'[^'\n]*'|\([^()\n]*\)){1,2000}+)\)")
_PARAM = re.compile(r"<param>(?:\s|\\+[nrt]){0,20}<value>(?:<string>)?([^<>\n]{0,200})(?:</string>)?</value>")
_SCHEMES = """
    postgres postgresql mysql mariadb mongodb redis rediss amqp amqps mssql sqlserver oracle http https ftp ftps sftp
    smtp smtps ldap ldaps imap imaps clickhouse cockroachdb nats mqtt mqtts ssh
""".split()  # noqa: SIM905
_URL = re.compile(r"[a-z][a-z0-9+.]{2,40}://[^\s/@:]{0,120}:(?P<password>[^\s/@]{3,200})@[^\s@]+\s*")
_PORTS = (":587", ":465", ":2525", ":25", ":submission")


@dataclass(frozen=True)
class Pairs(Rule):
    """A list of pairs of user and password, after a name that says that it is one."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The passwords; of an object, whose names may be those of fields, what looks like nothing else."""
        for user, mark, password in _PAIR.findall(match["pairs"]):
            if is_token(user) or _FIELD.fullmatch(user):
                continue
            numbered = is_given_password(password) and any(c.isdigit() for c in password)
            if numbered or (is_given_password(password) if mark == "," else is_odd_password(password)):
                yield password


@dataclass(frozen=True)
class Inserted(Rule):
    """Rows that SQL inserts, with the names of their columns before them."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """What stands in a column that says secret."""
        columns = [column.strip(" \t\r\n\"'`[]\\") for column in match["columns"].split(",")]
        wanted = [i for i, column in enumerate(columns) if _COLUMN.fullmatch(column)]
        for row in _ROW.findall(match["rows"]) if wanted else ():
            items = [single or double for single, double in _ITEM.findall(row)]
            yield from (items[i] for i in wanted if i < len(items) and is_given_password(items[i]))


@dataclass(frozen=True)
class Parameters(Rule):
    """Parameters of a call over XML: a user's name, and a password after it."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The second one."""
        found = _PARAM.findall(match["params"])
        for user, password in pairwise(found):
            if re.fullmatch(r"[\w.@-]{2,60}", user) and is_given_password(password):
                yield password


@dataclass(frozen=True)
class Encoded(Rule):
    """Base64 of a URL that holds a password."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """All of it."""
        text = decoded(match["secret"])
        if text and (url := _URL.fullmatch(text)) and is_given(unquote(url["password"])):
            yield match["secret"]


def _starts(scheme: str) -> str:
    """How base64 of a URL of this scheme begins, as far as that is sure."""
    return base64.b64encode(scheme.encode()[: len(scheme) // 3 * 3]).decode()


def accounts() -> list[Rule]:
    """All rules of this module."""
    listed = (
        r"(?:accounts?|users?|logins?|creds|credentials|admins|members)"
        rf"(?:{QUOTE})?(?::[ \t]{{0,2}}[\w\[\], ]{{1,40}}=|[ \t]{{0,4}}(?::=|[=:]))[ \t]{{0,4}}(?:new \w{{1,20}})?"
        rf"(?P<pairs>[\[({{](?:{GAP}{{0,24}}[\[({{]?{GAP}{{0,8}}{_TWO}[)\]}}]?,?){{1,40}})"
    )
    inserted = (
        rf"{LEFT}(?:insert|replace)(?:{GAP}{{1,8}}\w{{1,12}})?{GAP}{{1,8}}into{GAP}{{1,8}}[^\s(]{{1,120}}{GAP}{{0,8}}"
        rf"\((?P<columns>[^()]{{1,2000}})\){GAP}{{0,8}}values{GAP}{{0,8}}(?P<rows>\([^;]{{1,4000}})"
    )
    shown = (
        rf"{LEFT}(?:cat|less|head|tail|bat)[ ]+[^\s\\]{{0,80}}(?:auth|cred|pass|login|secret)[^\s\\]{{0,40}}"
        rf"{LINE_END}{_MARGIN}[\w.@+-]{{2,64}}{LINE_END}{_MARGIN}(?P<secret>[^\s\"'`\\<>]{{6,200}})"
        r"(?=[ \t]{0,8}(?:$|[\r\n\"\\]))"
    )
    relay = r"(?<![0-9]):(?:25|465|587|2525|submission)(?:[ \t]|\\+t){1,20}"
    relay += r"[^\s:\"'\\]{1,120}:(?P<secret>[^\s\"'`\\<>]{6,200})"
    twice = (
        rf"{LEFT}(?:echo|printf)[ ]+(?:-[ne]{{1,2}}[ \t]+)?(?P<quote>{QUOTE})(?P<secret>[^\s\\\"'`]{{6,100}})"
        rf"(?:(?P=quote)[ \t]{{0,4}};[ \t]{{0,4}}(?:sleep[ \t]+\d{{1,3}};[ \t]{{0,4}})?echo[ \t]+(?P=quote)|\\+n)"
        rf"(?P=secret)(?:\\+n)?(?P=quote)[ \t]{{0,4}}\)?[ \t]{{0,4}}\|"
    )
    encoded = rf"encoded{QUOTE}[ \t]{{0,4}}:[ \t]{{0,4}}{QUOTE}(?P<secret>[A-Za-z0-9+/]{{40,200}}={{0,2}}){QUOTE}"
    starts = tuple(dict.fromkeys(_starts(scheme) for scheme in _SCHEMES))
    urls = rf"{LEFT}(?P<secret>(?:{'|'.join(map(re.escape, starts))})[A-Za-z0-9+/]{{8,800}}={{0,2}})(?![A-Za-z0-9+/])"
    flags = re.ASCII | re.IGNORECASE
    return [
        Pairs("password", re.compile(listed, flags), _LISTS, leading=True, view="lower"),
        Inserted("password", re.compile(inserted, flags), ("insert", "replace"), leading=True, view="lower"),
        Parameters(
            "password",
            re.compile(r"(?P<params>(?:<param>[^\x00]{1,600}?</param>(?:\s|\\+[nrt]){0,40}){2,12})"),
            ("<param>",),
            leading=True,
        ),
        Rule(
            "password",
            re.compile(shown, flags),
            ("cat ", "less ", "head ", "tail ", "bat "),
            leading=True,
            view="lower",
            real=is_given,
        ),
        Rule("password", re.compile(relay), _PORTS, leading=True, real=is_given),
        Rule("password", re.compile(twice), ("echo ", "printf "), leading=True, real=is_given),
        Rule("api-key", re.compile(encoded), ("encoded",), leading=True, real=holds_pair),
        Encoded("url-password", re.compile(urls), starts, leading=True),
    ]
