"""Configs: secrets in the files and consoles of servers, routers and networks, where a keyword and a space stand before
them: Redis, SNMP, IPsec, routers, Wi-Fi codes, cookie jars, and the lists of codes for a lost phone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from machine.privacy.forms.assigned import QUOTE
from machine.privacy.forms.commands import given
from machine.privacy.forms.given import IN_QUOTES, OF_A_SESSION, OPEN, is_given, is_given_password
from machine.privacy.forms.rule import LEFT, Rule
from machine.privacy.forms.shapes import is_password, is_token

_S = r"[ \t]+"
_VALUE = rf"(?:{IN_QUOTES}|(?P<bare>[^\s\"'`\\<>]{{6,200}}))"
_LEVEL = rf"(?:{_S}[05678])?"
_KEYWORDS = (
    (rf"{_S}{_VALUE}", "rocommunity", "rwcommunity", "rocommunity6", "rwcommunity6", "trapcommunity"),
    (rf"{_S}\S{{1,60}}{_S}\S{{1,60}}{_S}{_VALUE}", "com2sec", "com2sec6"),
    (rf"{_S}(?:-e{_S}\S+{_S})?\S{{1,60}}{_S}(?:MD5|SHA\S{{0,6}}){_S}{_VALUE}", "createuser"),
    (rf"{_S}{_VALUE}", "snmp-server community"),
    (rf"{_S}host{_S}\S{{1,60}}{_S}(?:(?:traps|informs|version{_S}\w+){_S}){{0,3}}{_VALUE}", "snmp-server"),
    (rf"[^\n]{{0,80}}?{_S}(?:md5|sha|sha-256){_S}{_VALUE}", "snmp-server user"),
    (rf"[^\n]{{0,120}}?{_S}priv{_S}(?:3?des|aes)(?:{_S}\d{{3}})?{_S}{_VALUE}", "snmp-server user"),
    (rf"(?:{_S}host{_S}\S{{1,60}})?{_S}key{_LEVEL}{_S}{_VALUE}", "tacacs-server", "radius-server"),
    (rf"(?:{_S}level{_S}\d+)?{_S}[05678]{_S}{_VALUE}", "password", "secret"),
    (rf"{_LEVEL}{_S}{_VALUE}", "isakmp key", "set psksecret", "requirepass", "masterauth"),
    (rf"{_S}ENC{_S}{_VALUE}", "set password", "set passwd", "set secret", "set passphrase"),
    (rf"{_S}\S{{1,80}}{_S}{_VALUE}", "sentinel auth-pass"),
    (r"[^\n>]{0,60}?>(?P<bare>[^\s\"'`\\<>]{6,200})", "acl setuser"),
    (r"(?P<bare>[^\s\"'`\\<>]{6,200})(?=[ \t]+[~+&%@*a-z])", "on >"),
)
_SPOKEN = (
    (rf"{_S}{_VALUE}", "enable secret", "enable password"),
    (
        rf"{_S}\S{{1,60}}(?:{_S}privilege{_S}\d+)?{_S}(?:secret|password|algorithm-type{_S}\w+{_S}secret){_S}{_VALUE}",
        "username",
    ),
    (rf"{_S}(?:ascii-text{_S}|hexadecimal{_S}|local{_S}|remote{_S})?{_VALUE}", "pre-shared-key"),
    (rf"{_S}\S{{1,60}}{_S}password{_S}{_VALUE}", "neighbor"),
    (rf"{_S}\d{{1,3}}{_S}md5{_LEVEL}{_S}{_VALUE}", "message-digest-key", "authentication-key"),
    (rf"{_S}{_VALUE}", "authentication-key", "key-string", "chap password", "set password", "set passwd", "set secret"),
)
"""What follows a keyword up to the secret; of the latter words, sentences are made too."""


@dataclass(frozen=True)
class Fields(Rule):
    """Lines of a browser's or curl's cookie jar: seven fields with tabs between, the last of which is the value."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The value, where it is a machine's, or a session's of some length."""
        if is_token(match["secret"]) or (OF_A_SESSION.search(match["name"]) and is_password(match["secret"])):
            yield match["secret"]


@dataclass(frozen=True)
class Codes(Rule):
    """Lists of codes for the day on which the phone is lost, in JSON or one a line."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """Each code; none where they are fewer than three, or words."""
        codes = [code for code in _CODE.findall(match["codes"]) if any(c.isdigit() for c in code)]
        if len(codes) >= 3:
            yield from codes


_TAB = r"(?:\t|\\+t)"
_CODE_FORM = r"[A-Za-z0-9]{4,16}(?:-[A-Za-z0-9]{4,12}){0,5}"
_CODE = re.compile(rf"(?:(?<![A-Za-z0-9\\-])|(?<=\\[nrt])){_CODE_FORM}(?![A-Za-z0-9-])")
_BETWEEN = r"(?:[\s,;:\"'`*\[\]()|•·#]|\\+[nrt\"']|(?<=\n)[-+]|\d{1,2}[.):](?=\s)|\d{1,6}(?=\t|\\+t|→))"
_OTHERS = (
    Fields(
        "cookie",
        re.compile(
            rf"E{_TAB}/[^\s\\]{{0,100}}{_TAB}(?:TRUE|FALSE){_TAB}[0-9]{{1,16}}{_TAB}(?P<name>[\w.-]{{1,80}}){_TAB}"
            r"(?P<secret>[^\s\\\"']{8,2000})"
        ),
        ("E\t/", "\\t/"),
    ),
    Codes(
        "recovery-code",
        re.compile(
            LEFT + r"(?:recovery|backup|scratch|emergency|rescue)[ _-]?(?:codes?|keys?)[^\n\[]{0,60}?"
            rf"(?P<codes>(?:{_BETWEEN}{{1,24}}{_CODE_FORM}(?![A-Za-z0-9])){{3,24}})",
            re.ASCII | re.IGNORECASE,
        ),
        tuple(
            f"{kind}{mark}code{s}"
            for kind in ("recovery", "backup", "scratch", "emergency", "rescue")
            for mark in (" ", "_", "-", "")
            for s in ("", "s")
        ),
        leading=True,
        view="lower",
    ),
    Rule(
        "password",
        re.compile(LEFT + r"WIFI:(?:[STHIEAR]+:(?:\\.|[^;\n\"]){0,64};){0,6}P:(?P<secret>(?:\\.|[^;\n\"]){8,63});"),
        ("wifi:",),
        leading=True,
        view="lower",
        real=is_given,
    ),
    Rule(
        "password",
        re.compile(rf":{_S}(?:PSK|EAP|XAUTH|NTLM|PIN){_S}{OPEN}(?P<secret>[^\s\"'`\\]{{6,200}})"),
        (": psk ", ": eap ", ": xauth ", ": ntlm "),
        leading=True,
        view="lower",
        real=is_given,
    ),
    Rule(
        "password",
        re.compile(
            rf"> AUTH{_S}(?:[\w.-]{{1,40}}{_S})?{OPEN}(?P<secret>[^\s\"'`\\<>]{{6,200}})", re.ASCII | re.IGNORECASE
        ),
        ("> auth ",),
        leading=True,
        view="lower",
        real=is_given,
    ),
    Rule(
        "password",
        re.compile(r"<keyMaterial>(?P<secret>[^<>\s]{8,64})</"),
        ("<keymaterial>",),
        leading=True,
        view="lower",
        real=is_given,
    ),
    Rule(
        "unseal-key",
        re.compile(
            rf"{LEFT}(?:unseal|recovery){_S}key{_S}\d{{1,2}}(?:{_S}\(\w+\))?{QUOTE}?:[ \t]*{OPEN}"
            r"(?P<secret>[A-Za-z0-9+/]{40,90}={0,2})",
            re.ASCII | re.IGNORECASE,
        ),
        ("unseal key ", "recovery key "),
        leading=True,
        view="lower",
    ),
)


@dataclass(frozen=True)
class Listed(Rule):
    """Keys in a list of JSON."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """Each of them."""
        yield from re.findall(r"[A-Za-z0-9+/]{40,90}={0,2}", match["keys"])


_SHARES = Listed(
    "unseal-key",
    re.compile(
        rf"{LEFT}(?:(?:unseal|recovery)_)?keys_(?:b64|hex|base64)(?![A-Za-z0-9]){QUOTE}:\s{{0,8}}\[(?P<keys>(?:(?:\s|\\+n){{0,24}}{QUOTE}"
        rf"[A-Za-z0-9+/]{{40,90}}={{0,2}}{QUOTE},?){{1,16}})",
        re.ASCII,
    ),
    ("unseal_keys_", "recovery_keys_", "keys_base64", "keys_b64"),
    leading=True,
    view="lower",
)


def configs() -> list[Rule]:
    """All rules of this module."""
    certain = [given("password", pattern, *heads) for pattern, *heads in _KEYWORDS]
    spoken = [given("password", pattern, *heads, real=is_given_password) for pattern, *heads in _SPOKEN]
    return [*certain, *spoken, *_OTHERS, _SHARES]
