"""Context: credentials that have no form of their own and are known by what stands before them: HTTP headers, URLs,
command lines, password files.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from machine.privacy.assigned import GAP, QUOTE
from machine.privacy.rule import Rule
from machine.privacy.shapes import holds_pair, is_password, is_phrase, is_place, is_placeholder, is_token, is_weak


@dataclass(frozen=True)
class Cookies(Rule):
    """Cookies of a header, each a name and a value; those that a machine made are secret."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The values, in order."""
        for name, value in _COOKIE.findall(match[1]):
            if is_token(value) or (_SESSION.search(name) and len(value) >= 16 and is_password(value)):
                yield value


_COOKIE = re.compile(r"([\w.-]+)=(?:\\*\")?([^\s;,\"'\\<>]{12,})")
_SESSION = re.compile(r"sess|sid|auth|token|jwt|csrf|login|remember", re.IGNORECASE)


def _rule(
    name: str, pattern: str, *anchors: str, leading: bool = True, real: Callable[[str], bool] | None = None
) -> Rule:
    return Rule(name, re.compile(pattern, re.ASCII | re.IGNORECASE), anchors, leading=leading, view="lower", real=real)


_OPEN = rf"(?:{QUOTE})?"
_COMMAND = re.compile(
    r"(?:sshpass|(?:mysql|mariadb|mongo|smb)\w*|(?:docker|podman|az|registry) login|7z a|unzip|zip|htpasswd|redis-cli"
    r"|curl|wget|http|https|xh)\b[^\n|;&]*$"
)


@dataclass(frozen=True)
class Option(Rule):
    """The value of an option of a command that takes a password there."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The password, where the command is one of those on the same line."""
        if _COMMAND.search(match.string, max(0, match.start() - 200), match.start()):
            yield match["secret"]


def _bearer(value: str) -> bool:
    return is_token(value) and len(value) >= 20


def _url_password(value: str) -> bool:
    """In a URL a name with a digit in it is a password too, but for those of examples."""
    named = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return is_password(value) or (named and not (is_placeholder(value) or is_weak(value) or is_place(value)))


_RULES = (
    _rule(
        "token",
        rf"authorization(?:{QUOTE})?[ \t]*[:=,][ \t]*{_OPEN}[a-z-]{{2,20}}[ \t]+(?:token=)?{_OPEN}"
        r"(?P<secret>[A-Za-z0-9._~+/=|-]{16,})",
        "authorization",
        real=is_token,
    ),
    _rule("basic-credentials", r"basic[ \t]+(?P<secret>[A-Za-z0-9+/_-]{10,}={0,2})", "basic ", real=holds_pair),
    _rule(
        "basic-credentials",
        rf"auth(?:{QUOTE})?[ \t]*[:=][ \t]*{_OPEN}(?P<secret>[A-Za-z0-9+/]{{10,}}={{0,2}})",
        "auth",
        real=holds_pair,
    ),
    _rule("bearer-token", r"bearer[ \t]+(?P<secret>[A-Za-z0-9._~+/=|-]{20,})", "bearer ", real=_bearer),
    _rule(
        "url-password",
        r"://[^\s:/?#@\"'`<>\\(){},|]{0,100}:(?P<secret>[^\s/\"'`<>\\]{8,200}?)@[\w.\[%-]",
        "://",
        real=_url_password,
    ),
    _rule(
        "url-token",
        r"://(?P<secret>[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]+)*)(?::x-oauth-basic|:)?@[\w.-]",
        "://",
        real=is_token,
    ),
    Option(
        "password",
        re.compile(rf"(?<=[\s\"'])-(?:[pa][ \t]*{_OPEN}|u[ \t]*{_OPEN}[\w.@+-]+:)(?P<secret>[^\s\"'`\\<>]{{6,200}})"),
        ("-p", "-a ", "-u"),
        leading=True,
        real=is_password,
    ),
    _rule(
        "password",
        rf"-user[ =]{_OPEN}[\w.@+-]+:(?P<secret>[^\s\"'`\\<>]{{6,200}})",
        "-user",
        real=is_password,
    ),
    _rule(
        "password",
        rf"login{GAP}{{1,8}}\S{{1,100}}?{GAP}{{1,8}}password{GAP}{{1,8}}{_OPEN}(?P<secret>[^\s\"'\\<>]{{6,200}})",
        "login",
        real=is_password,
    ),
    _rule(
        "password",
        rf"identified[ \t](?:with[ \t][\w\"'`]+[ \t])?by[ \t]+(?:password[ \t]+)?{_OPEN}"
        r"(?P<secret>[^\s\"'`\\<>]{6,200})",
        "identified",
        real=is_password,
    ),
    _rule(
        "password",
        r"(?<![\w.*-])[\w.*-]+:(?:5432|5433|6432|6543|\*):[\w*.-]+:[\w*.-]+:(?P<secret>[^\s:\"'`\\<>()]{6,200})",
        *(":5432:", ":5433:", ":6432:", ":6543:", ":*:"),
        leading=False,
        real=is_password,
    ),
    _rule(
        "password",
        rf"securestring[ \t]+(?:-string[ \t]+)?{_OPEN}(?P<secret>[^\s\"'`\\<>]{{6,200}})",
        "securestring",
        real=is_password,
    ),
    _rule(
        "passphrase",
        rf"(?:passphrase|mnemonic|seed[ _-]?phrase){_OPEN}[ \t]*[:=][ \t]*{_OPEN}(?P<secret>[a-z0-9 ]{{12,240}})",
        *("passphrase", "mnemonic", "seed phrase", "seed_phrase", "seed-phrase", "seedphrase"),
        real=is_phrase,
    ),
    Cookies(
        "cookie",
        re.compile(
            rf"cookie(?:{QUOTE})?[ \t]*[:=,][ \t]*{_OPEN}([\w.-]+=[^\n\r\"'`]{{8,2000}})", re.ASCII | re.IGNORECASE
        ),
        ("cookie",),
        leading=True,
        view="lower",
    ),
)


def contexts() -> list[Rule]:
    """All rules of this module."""
    return list(_RULES)
