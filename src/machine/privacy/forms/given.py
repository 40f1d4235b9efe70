"""Given: values that stand where a command, a URL or a configuration file takes a secret. There any word will do, but
for variables, names of things, and what examples are made of.
"""

import base64
import binascii
import re

from machine.privacy.forms.assigned import QUOTE
from machine.privacy.forms.passphrases import is_passphrase
from machine.privacy.forms.shapes import CONSTANT, LOOKED_AT, is_password, is_place, is_placeholder, is_weak

OPEN = rf"(?:{QUOTE})?"
IN_QUOTES = rf"(?P<quote>{QUOTE})(?P<quoted>(?:(?!(?P=quote))[^\n]){{6,200}}?)(?P=quote)"
VALUE = rf"(?:{IN_QUOTES}|(?P<bare>[^\s\"'`\\<>|;&]{{6,200}}))"
"""A value of a command line: in quotes anything, without them up to a space or a mark of the shell."""
OF_A_SESSION = re.compile(r"sess|sid|auth|token|jwt|csrf|login|remember", re.IGNORECASE)
"""In the name of a cookie that lets somebody in."""
_NAMES_A_THING = re.compile(
    r"passw|passphrase|contrase|kennwort|pwd|secret|token|user|creds?\b|credential|login|auth|host|port\b|config|env\b|param"
    r"|value|string|input|variable|name|account|database|server|domain|file|path|stdin|prompt|argument|option|\bfunc"
    r"|sample|demo|\bkey\b|api_?key|^(?:self|this|os|process|sys|args|request|req|opts?)\.|\.(?:com|org|net|txt|json|ya?ml|py|js|md)$",
    re.IGNORECASE,
)
_CODE = re.compile(r"[()\[\]{}|^]|::|->|=>|\\[wdsS.]")
_FLAG = re.compile(r"--?[a-z][a-z-]*")


def is_given(value: str) -> bool:
    """Whether a value that stands where a secret has to is one."""
    begin = value[:LOOKED_AT]
    if (
        is_placeholder(begin)
        or is_weak(begin)
        or is_place(begin)
        or CONSTANT.fullmatch(begin)
        or _FLAG.fullmatch(begin)
    ):
        return False
    if " " in value and not _is_of_words(value):
        return False
    return is_password(begin) or not (_NAMES_A_THING.search(begin) or _CODE.search(begin) or begin.isdigit())


def is_given_password(value: str) -> bool:
    """Whether a value that stands where a secret may be is one: of a given one, what looks like a password."""
    return is_given(value) and (is_password(value) or is_passphrase(value))


def _is_of_words(value: str) -> bool:
    """Whether a value with spaces in it is words only, as people choose them."""
    words = value.split(" ")
    return 3 <= len(words) <= 24 and all(word.isalnum() and len(word) >= 3 for word in words)


def decoded(value: str) -> str | None:
    """What a base64 text (either alphabet, with or without its end) stands for; None: no text."""
    value = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return text if text.strip().isprintable() or "\n" in text else None
