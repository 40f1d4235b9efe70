"""Statements: secrets in SQL that makes users, and in code that logs in, fills a form or sets a cookie."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from machine.privacy.forms.accounts import accounts
from machine.privacy.forms.assigned import GAP, QUOTE
from machine.privacy.forms.clients import clients
from machine.privacy.forms.commands import Given, given
from machine.privacy.forms.given import IN_QUOTES, OF_A_SESSION, OPEN, VALUE, is_given, is_given_password
from machine.privacy.forms.rule import LEFT, Rule
from machine.privacy.forms.shapes import is_password, is_token

_FIRST = rf"(?:{GAP}{{0,12}}(?:{QUOTE}[^\"'`\n]{{1,80}}{QUOTE}|[\w.]{{1,60}}))"
_SECOND = rf"{_FIRST}{GAP}{{0,4}},{GAP}{{0,12}}{IN_QUOTES}"
_SAID = re.compile(r"passw|pwd|passphrase|passcode|secret|passwort|contrase|senha|mdp", re.IGNORECASE)


@dataclass(frozen=True)
class Filled(Rule):
    """What is typed into a field of a page, where the line calls the field a password's."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The text, if it is the call's last argument."""
        line = match.string[max(0, match.start() - 120) : match.start()].rsplit("\n", 1)[-1]
        if _SAID.search(line) or _SAID.search(match["field"] or ""):
            yield match["quoted"]


@dataclass(frozen=True)
class Cookies(Rule):
    """Cookies, each a name and a value; those that a machine made are secret."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The values, in order."""
        for name, value in _PAIR.findall(match["cookies"]):
            if is_token(value) or (OF_A_SESSION.search(name) and len(value) >= 16 and is_password(value)):
                yield value


_PAIR = re.compile(
    rf"([\w.-]+)(?:=(?:\\*\")?|{QUOTE}{GAP}{{0,4}}[,:]{GAP}{{0,4}}(?:{QUOTE}?value{QUOTE}?{GAP}{{0,4}}[:=]{GAP}{{0,4}})?{QUOTE})"
    r"([^\s;,\"'\\<>]{12,})"
)
_USERS = ("create user", "alter user", "create role", "alter role", "create login", "alter login")
_IDENTIFIED = (
    rf"{GAP}{{1,8}}(?:with{GAP}{{1,8}}\S{{1,40}}{GAP}{{1,8}})?"
    rf"by{GAP}{{1,8}}(?:password{GAP}{{1,8}}|values{GAP}{{1,8}})?{VALUE}"
)
_SQL = (
    (
        rf"{GAP}[^;\n]{{0,200}}?\b(?i:password){GAP}{{0,8}}=?{GAP}{{0,8}}[NE]?{IN_QUOTES}",
        *_USERS,
    ),
    (
        rf"{GAP}{{1,8}}(?i:for{GAP}{{1,8}}\S{{1,80}}{GAP}{{0,8}})?(?:=|(?i:to)){GAP}{{0,8}}(?i:password{GAP}{{0,2}}\()?{IN_QUOTES}",
        "set password",
    ),
    (rf"{GAP}{{1,8}}(?i:password){GAP}{{1,8}}{IN_QUOTES}", "encrypted", "unencrypted"),
    (rf"{GAP}{{0,8}}=?{GAP}{{0,8}}[NE]?{IN_QUOTES}", "with password"),
)
_CALLS = (
    *("auth=(", "auth = (", "auth=[", "auth: [", "auth(", "httpbasicauth(", "httpdigestauth(", "basicauth("),
    *("basic_auth(", "basic_auth=(", "setbasicauth(", "usernamepasswordcredentials(", "networkcredential("),
    *("passwordauthentication(", "login(", "authenticate(", "passwordcredential(", "usernamepassword("),
    *("username_pw_set(", "credentials(", "setcredentials(", "httpbasic(", "basiccredentials(", "userpass("),
)
_CONNECTS = (
    *(
        "ftp(",
        "ftp_tls(",
        "mysqli(",
        "mysqli_connect(",
        "mysql_connect(",
        "mysql.connect(",
        "pymysql.connect(",
        "mysqldb.connect(",
    ),
    *("pdo(", "getconnection(", "dbi->connect(", "create_user(", "create_superuser(", "createuser(", "client.connect("),
    *("oracledb.connect(", "cx_oracle.connect(", "pymssql.connect(", "ldap_bind(", "ftp_login(", "ssh2_auth_password("),
)
"""What takes a server, a user and a password, in this order."""
_FILLS = "fill type send_keys sendkeys setvalue set_value settext typetext enter_text input_text presssequentially"
_COOKIES = ("cookies.set(", "cookie.set(", "set_cookie(", "setcookie(", "cookies.add(", "new cookie(", "addcookie(")


def statements() -> list[Rule]:
    """All rules of this module."""
    fills = tuple(f".{name}(" for name in _FILLS.split())
    either = "|".join(_FILLS.split())
    field = rf"(?P<field>{QUOTE}[^\n,]{{1,80}}?{QUOTE}{GAP}{{0,4}},{GAP}{{0,4}})?"
    sets = "|".join(re.escape(each).replace(r"\ ", GAP) for each in _COOKIES)
    flags = re.ASCII | re.IGNORECASE
    return [
        *accounts(),
        *clients(),
        *(given("password", f"(?i:{pattern})", *heads) for pattern, *heads in _SQL),
        given("password", f"(?i:{_IDENTIFIED})", "identified", real=is_given_password),
        given("password", rf"[^;\n]{{1,200}}?\b(?i:identified{_IDENTIFIED})", *_USERS, "grant "),
        given("password", _SECOND, *_CALLS, real=is_given_password),
        given("password", rf"{_FIRST}{GAP}{{0,4}},{_SECOND}", *_CONNECTS, real=is_given_password),
        Filled(
            "password",
            re.compile(rf"\.(?:{either})\({GAP}{{0,4}}{field}{IN_QUOTES}{GAP}{{0,4}}[,)]", flags),
            fills,
            leading=True,
            view="lower",
            real=is_given,
        ),
        Cookies(
            "cookie",
            re.compile(
                rf"{LEFT}(?:{sets}){GAP}{{0,8}}(?P<cookies>{QUOTE}[\w.-]{{1,60}}{QUOTE},[^\n]{{8,2000}})", flags
            ),
            _COOKIES,
            leading=True,
            view="lower",
        ),
        Cookies(
            "cookie",
            re.compile(
                rf"cookies?(?:{QUOTE})?[ \t]{{0,4}}(?:[:=,]|(?<=-cookie))[ \t]{{0,4}}\{{?(?:{OPEN})"
                rf"(?P<cookies>[\w.-]+(?:=|{QUOTE}:)[^\n\r`]{{8,2000}})",
                flags,
            ),
            ("cookie",),
            leading=True,
            view="lower",
        ),
        Cookies(
            "cookie",
            re.compile(
                rf"{LEFT}curl(?![A-Za-z0-9])[^\n|;&]{{0,200}}?[ \t](?:-b|--cookie)[ \t=]{{0,4}}{OPEN}"
                r"(?P<cookies>[\w.-]+=[^\n\r\"'`]{8,2000})",
                re.ASCII,
            ),
            ("curl",),
            leading=True,
            view="lower",
        ),
        Given(
            "password",
            re.compile(
                rf"{LEFT}expect(?![A-Za-z0-9])[^\n]{{0,80}}(?:assword|assphrase)[^\n]{{0,40}}{GAP}{{1,16}}"
                r"[^\n]{0,20}?send(?:[ \t]--)?[ \t]+"
                rf"{QUOTE}(?P<bare>[^\s\"'`\\]{{6,100}})\\+[rn]",
            ),
            ("expect",),
            leading=True,
            view="lower",
            real=is_given,
        ),
    ]
