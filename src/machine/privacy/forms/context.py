"""Context: credentials that have no form of their own and are known by what stands before them: HTTP headers, URLs and
their queries, password files, strings that say how to connect.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from machine.privacy.forms.assigned import GAP, QUOTE
from machine.privacy.forms.given import OPEN, decoded, is_given, is_given_password
from machine.privacy.forms.passphrases import is_phrase
from machine.privacy.forms.rule import LEFT, Form, Rule, View
from machine.privacy.forms.shapes import holds_pair, is_place, is_placeholder, is_token, is_weak

_IN_QUERY = re.compile(r"(?:[?&;,]|u0026|%26|%3[fF])[\w.-]{0,60}$", re.ASCII)


@dataclass(frozen=True)
class Query(Rule):
    """A value in a URL's query."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The value, where a query's mark stands before its name."""
        if _IN_QUERY.search(match.string, max(0, match.start() - 64), match.start()):
            yield match["secret"]


def _rule(
    name: str,
    pattern: str,
    *anchors: str,
    leading: bool = True,
    view: View = "lower",
    real: Callable[[str], bool] | None = None,
) -> Rule:
    return Rule(name, Form(pattern, re.ASCII | re.IGNORECASE), anchors, leading=leading, view=view, real=real)


def _bearer(value: str) -> bool:
    return is_token(value) and len(value) >= 20


def _pair(value: str) -> bool:
    """Whether a base64 text is a user and a password that is no example's."""
    return holds_pair(value) and not is_weak((decoded(value) or "").partition(":")[2])


def _url_password(value: str) -> bool:
    """In a URL any word is a password, but for those of examples."""
    value = unquote(value)
    named = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return is_given(value) or (named and not (is_placeholder(value) or is_weak(value) or is_place(value)))


def _scheme(value: str) -> bool:
    """Whether what follows a scheme in a header is a machine's, and no example's user and password."""
    return is_token(value) and not (holds_pair(value) and not _pair(value))


def _is_aws_secret(value: str) -> bool:
    return is_token(value) and any(c.isupper() for c in value) and any(c.islower() for c in value)


def _is_id_and_key(value: str) -> bool:
    """Whether a base64 text is the id of a key and the key, as Elasticsearch hands them out."""
    head, colon, key = (decoded(value) or "").partition(":")
    return bool(colon) and len(head) >= 16 and len(key) >= 16


def _is_made_bytes(value: str) -> bool:
    return not is_placeholder(value) and len(set(value)) > 12


def _in_query(value: str) -> bool:
    """Whether a value of a URL's query is a machine's, and no text, as pages hand code to playgrounds."""
    return is_token(value) and not any(mark in value for mark in ("++", "%0A", "%0a", "%20", "//"))


_AUTHORITY = r"(?![\w.-]{1,80}/[0-9]{1,20}(?![\w/]))"
"""No public key of Sentry's before it: `https://key@host/1`."""
_RULES = (
    _rule(
        "token",
        rf"authorization(?:{QUOTE})?[ \t]*[:=,][ \t]*{OPEN}[a-z-]{{2,20}}[ \t]+(?:token=)?{OPEN}"
        r"(?P<secret>[A-Za-z0-9._~+/=|-]{16,})",
        "authorization",
        real=_scheme,
    ),
    _rule("basic-credentials", r"basic[ \t]+(?P<secret>[A-Za-z0-9+/_-]{10,}={0,2})", "basic ", real=_pair),
    _rule(
        "basic-credentials",
        rf"auth(?:{QUOTE})?[ \t]*[:=][ \t]*{OPEN}(?P<secret>[A-Za-z0-9+/]{{10,}}={{0,2}})",
        "auth",
        real=_pair,
    ),
    _rule(
        "api-key",
        rf"encoded{QUOTE}[ \t]*:[ \t]*{QUOTE}(?P<secret>[A-Za-z0-9+/]{{40,120}}={{0,2}})",
        "encoded",
        real=_is_id_and_key,
    ),
    _rule(
        "token",
        rf"art-api(?:{QUOTE})?[ \t]*[:=,][ \t]*{OPEN}(?P<secret>[A-Za-z0-9+/=_-]{{20,}})",
        "art-api",
        real=is_token,
    ),
    _rule(
        "fernet-key",
        rf"fernet\([ \t]*(?:key[ \t]*=[ \t]*)?b?{QUOTE}(?P<secret>[A-Za-z0-9_-]{{43}}=)",
        "fernet(",
        real=_is_made_bytes,
    ),
    _rule(
        "totp-seed",
        rf"[th]otp\([ \t]*(?:(?:s|secret|key)[ \t]*[=:][ \t]*)?{QUOTE}(?P<secret>[A-Z2-7]{{16,128}})=*{QUOTE}",
        *("totp(", "hotp("),
        real=is_token,
    ),
    _rule(
        "token",
        rf"(?:login|auth|authenticate|configure|client|connect)\([ \t]*key[ \t]*=[ \t]*"
        rf"{QUOTE}(?P<secret>[A-Za-z0-9+/=_-]{{20,200}}){QUOTE}",
        *("login(", "auth(", "authenticate(", "configure(", "client(", "connect("),
        real=is_token,
    ),
    _rule(
        "password",
        r"(?:\]|smtp[.-][\w.-]{1,80}|mail\.[\w.-]{1,80}):(?:25|465|587|2525)[ \t]+[\w.+@-]{1,100}:"
        r"(?P<secret>[^\s\"'`\\<>]{6,100})",
        *("]:25", "]:465", "]:587", "smtp.", "smtp-", "mail."),
        real=is_given,
    ),
    _rule(
        "password",
        r"(?:key content|schl(?:ü|\\+u00fc)sselinhalt|contenu de la clé|contenido de la clave)[ \t]*:[ \t]*"
        r"(?P<secret>[^\s\"'`\\<>]{8,63})",
        *("key content", "schlüsselinhalt", "schl\\u00fcsselinhalt", "contenu de la clé", "contenido de la clave"),
        real=is_given,
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
        r"://(?P<secret>[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]+)*)(?::x-oauth-basic|:)?@" + _AUTHORITY + r"[\w.-]",
        "://",
        real=is_token,
    ),
    _rule(
        "password",
        rf"login{GAP}{{1,8}}\S{{1,100}}?{GAP}{{1,8}}password{GAP}{{1,8}}{OPEN}(?P<secret>[^\s\"'\\<>]{{6,200}})",
        "login",
        real=is_given_password,
    ),
    _rule(
        "password",
        r"(?<![\w.*-])[\w.*-]+:(?:5432|5433|6432|6543|\*):[\w*.-]+:[\w*.-]+:(?P<secret>[^\s:\"'`\\<>()]{6,200})",
        *(":5432:", ":5433:", ":6432:", ":6543:", ":*:"),
        leading=False,
        real=is_given_password,
    ),
    _rule(
        "password",
        rf"securestring[ \t]+(?:-string[ \t]+)?{OPEN}(?P<secret>[^\s\"'`\\<>]{{6,200}})",
        "securestring",
        real=is_given,
    ),
    _rule(
        "passphrase",
        rf"(?:passphrase|mnemonic){OPEN}[ \t]*[:=][ \t]*{OPEN}(?P<secret>[a-z0-9 ]{{12,240}})",
        *("passphrase", "mnemonic"),
        real=is_phrase,
    ),
    Query(
        "url-token",
        re.compile(
            LEFT + r"(?:(?:api|access|auth|app|secret)?key|sig|signature|pat|(?:auth)?code|auth|hmac|sas)="
            r"(?P<secret>[A-Za-z0-9%._~+/-]{16,2000}={0,2})",
            re.ASCII | re.IGNORECASE,
        ),
        (
            *("key=", "apikey=", "accesskey=", "authkey=", "appkey=", "secretkey=", "sig=", "signature=", "pat="),
            *("code=", "authcode=", "auth=", "hmac=", "sas="),
        ),
        leading=True,
        view="lower",
        real=_in_query,
    ),
    _rule(
        "password",
        rf";[ ]?(?:password|pwd)[ ]?=[ ]?{OPEN}(?P<secret>[^;\"'`\\\n]{{6,200}}?)(?=[;\"'`\\\n]|$)",
        *(";password=", ";pwd=", "; password=", "; pwd="),
        real=is_given,
    ),
    Rule(
        "aws",
        re.compile(
            r"A(?:KI|SI)A[0-9A-Z]{16}(?![A-Za-z0-9])[\s\S]{1,120}?(?<![A-Za-z0-9+/])(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])"
        ),
        ("AKIA", "ASIA"),
        leading=True,
        real=_is_aws_secret,
    ),
)


def contexts() -> list[Rule]:
    """All rules of this module."""
    return list(_RULES)
