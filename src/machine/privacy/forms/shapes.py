"""Shapes: whether a value looks like a secret, or like a word, a name, a placeholder, a piece of code."""

import base64
import binascii
import re
from itertools import pairwise

from machine.privacy.forms.passphrases import are_of_code, humps, is_app_password, is_passphrase, is_spaced
from machine.privacy.forms.passphrases import is_phrase as is_phrase
from machine.privacy.forms.readable import is_readable

_SAMPLE = re.compile(
    r"<secret:|your[-_ ]|[-_ ]your|yours?(?:api|token|key|secret|pass)|example|placeholder|change[-_ ]?(?:me|this|it)"
    r"|x{5}|\*{3}|\.{3}|…|redacted|replace[-_ ]?(?:me|with|this)|insert[-_ ]|[-_]here\b|not[-_]a[-_]|unittest"
    r"|(?<![A-Za-z0-9])(?:todo|fixme|dummy|sample|lorem|fake|mock)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(r"a-z0-9|12345678|01020304|abcdefgh|deadbeef|foobar", re.IGNORECASE)
_SAME = re.compile(r"0{8,}|1{8,}|a{8,}", re.IGNORECASE)
_TEMPLATE = re.compile(
    r"^[<{\\]|^\.\*|^\$?ENC[\[(]|^@Microsoft\.KeyVault\(|^(?:vault|ssm|secretsmanager|ref\+\w+):|^!(?:vault|Ref|Sub)\b"
    r"|^Ag[A-D][A-Za-z0-9+/]{150}"
    r"|^[$%@#&]+[A-Za-z_][\w.]*%?$|\$\{|\{\{|^\$\(|%\(\w+\)[sd]|\{[\w.\[\]!:]*\}|<[\w -]+>|^\[[\w ]+\]$"
    r"|(?:^|[\s/=:,('\".-])%[sdr](?:$|[\s/,;:)'\".-])|(?<![A-Za-z])[aA]-[zZ]|\[[^\]\s]{0,12}0-9"
)
_WEAK = re.compile(
    r"pass(?:word|wd|phrase|code)?s?|p[a4@][s$5]{2}w[o0]rds?|pwd|secrets?|tokens?|test(?:ing|er)?s?|user(?:name)?s?"
    r"|admin(?:istrator)?|root|guest|demo|default|postgres(?:ql)?|mysql|redis|mongo(?:db)?|hello|world|qwerty\w*|abc"
    r"|my|the|new|old|some|key|api|access|auth|none|null|true|false|undefined|string|value|foo|bar|baz|letmein|welcome"
    r"|super|very|top|strong|long|random|secure|local(?:host)?|dev(?:elopment)?|prod(?:uction)?|change",
    re.IGNORECASE,
)
LOOKED_AT = 256
"""Characters at a value's beginning that tell what kind it is of."""
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
"""As programs and environments write the names of what they keep."""
_SPACE = re.compile(r"\s")
_LETTER = re.compile(r"[^\W\d_]")
_MARK = re.compile(r"[!@#$%^&*+?~=]")
_IDENTIFIER = re.compile(r"[A-Za-z_$@#.\-/][\w.:$\-/#]*")
_WORD_AND_NUMBER = re.compile(r"(?=\D{0,40}\d)[^\W_]{2,24}(?:[-_.#@+][^\W_]{1,24}){0,2}[!?*#.$]?")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_LETTERS = re.compile(r"[^\W\d_]+")
_ONE_CASE = re.compile(r"[a-z]{8,64}|[A-Z]{12,64}|[a-z0-9]{32,64}(?<![0-9a-f]{32})")
_DIGITS = re.compile(r"[0-9]+")
_CODE = re.compile(r"[()\[\]{}]|::|->|=>|\?\.|&&|\|\|")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[.,:;]?")
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_TYPE = re.compile(r"(?:Big)?(?:[Uu]?[Ii]nt|[Ff]loat|[Cc]omplex|[Uu]tf)-?[0-9]+(?:Clamped)?(?:Array|_t)?(?:\[\])?")
_EXPRESSION = re.compile(
    r"(?:exports|module|this|self|window|process|cls|config|settings|args)\.[A-Za-z_]|[\w.$]+\?[\w.$]+:"
)
_ALGORITHM = re.compile(
    r"sha\d|md5|argon\d|scrypt|scram|utf-?\d|iso-?\d|hmac|pbkdf|aes|rsa|bcrypt|base64|ed25519|x509|oauth|int\d|float\d",
    re.I,
)
_LOCATION = re.compile(r"[a-z+]+://|[A-Za-z]:\\|arn:|urn:|data:")
_PATH = re.compile(r"(?:\.{0,2}|~)/")
_ADDRESS = re.compile(r"[a-z][a-z.]*@[a-z-]+(?:\.[a-z-]+)*\.(?:com|org|net|edu|io|de|invalid|test)")
_VERSION = re.compile(r"(?:[0-9]{1,3}:)?[0-9]{1,4}(?:\.[0-9]{1,8}){1,4}(?:[-+~.][A-Za-z0-9.+~-]{0,40})?")
"""Of a package: `1:4.13+dfsg1-1`."""


def is_sample(value: str) -> bool:
    """Whether a value of a fixed form says of itself that it is none: `AKIA...EXAMPLE`, `sk-xxxxx`."""
    return bool(_SAMPLE.search(value)) or len(set(value)) < 5


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret that somebody is to fill in, or that a program fills in."""
    return is_sample(value) or _TEMPLATE.search(value) is not None or is_sequence(value)


def is_sequence(value: str) -> bool:
    """Whether a value has what people type for any, `12345678`, or one character so often that little else is left."""
    left = _SAME.sub("", value)
    return _SEQUENCE.search(value) is not None or (left != value and len(left) < 32)


def is_weak(value: str) -> bool:
    """Whether nothing is left of a value without the words that examples are made of, digits and marks."""
    letters = re.sub(r"[\W\d_]+", "", value)
    left = re.sub(r"[\W\d_]+", "", _WEAK.sub(" ", value))
    chosen = sum(c.isdigit() for c in value) >= 2 and re.search(r"[!@#$%^&*+?]", value)
    few = len(left) < (3 if left == letters else 4)
    return few and not chosen and not is_mixed(value)


def changes(value: str) -> float:
    """How often the kind of character (small, capital, digit) changes, per letter and digit; words begin large."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in value if c.isalnum()]
    turns = sum(a != b and (a, b) != ("u", "l") for a, b in pairwise(kinds))
    return turns / max(len(kinds), 1)


def is_mixed(value: str) -> bool:
    """Whether letters and digits, or small and capital letters, are mixed as dice mix them, not as in names."""
    if not any(c.isalpha() for c in value) or (value != value.lower() and word_length(value) >= 5):
        return False
    if any(c.isdigit() for c in value) and changes(value) >= (0.2 if len(value) < 24 else 0.15):
        return True
    if value.isascii() and value.isalpha() and is_readable(value.lower()):
        return False
    small_large = sum(a.islower() and b.isupper() for a, b in pairwise(value))
    return len(value) >= 20 and small_large >= 3 and sum(a.isupper() and b.isupper() for a, b in pairwise(value)) >= 3


def is_scrambled(value: str) -> bool:
    """Whether small letters, capitals and digits follow each other without order, as in no name of words."""
    return len(value) >= 12 and value != value.upper() and word_length(value) <= 3.5 and "_" not in value


def word_length(value: str) -> float:
    """The mean length of the words that a name is made of, were it one: capitals begin them, digits are apart."""
    pieces = _PIECE.findall(value)
    return len(value) / max(len(pieces), 1)


def is_marked(value: str) -> bool:
    """Whether a digit and a mark that no name has are in a value."""
    return any(c.isdigit() for c in value) and _MARK.search(value) is not None


def is_place(value: str) -> bool:
    """Whether a value is a URL, a name of that kind, or a path that people gave."""
    return bool(_LOCATION.match(value)) or (bool(_PATH.match(value)) and changes(value) < 0.25)


def is_version(value: str) -> bool:
    """Whether a value is the version of a package."""
    return _VERSION.fullmatch(value) is not None


def is_full_of_marks(value: str) -> bool:
    """As Django makes its keys, of letters, digits and marks alike."""
    return (
        len(value) >= 24 and len(re.findall(r"[!@#$%^&*()+=?~]", value)) >= 4 and sum(c.isdigit() for c in value) >= 2
    )


def _is_seed(value: str) -> bool:
    """As base32 spells what a second factor is counted from."""
    return _BASE32.fullmatch(value) is not None and any(c.isdigit() for c in value)


def is_token(value: str) -> bool:
    """A value that a machine made: 16 or more characters without spaces, mixed, no place and no code."""
    begin = value[:LOOKED_AT]
    return (
        len(value) >= 16
        and not _SPACE.search(value)
        and not is_placeholder(begin)
        and not is_place(begin)
        and (is_mixed(begin) or is_full_of_marks(begin) or _is_seed(begin) or is_unreadable(begin))
        and len(set(begin)) >= 8
    )


def is_salt(value: str) -> bool:
    """As WordPress makes its keys, of letters, digits, marks and spaces alike."""
    marks = sum(not c.isalnum() for c in value)
    return marks >= 10 and any(c.isdigit() for c in value) and len(set(value)) >= 24


def is_password(value: str) -> bool:
    """A value where nothing but a password stands: letters, and digits, marks, words or what nobody can read."""
    if " " in value:
        return is_app_password(value) or is_spaced(value)
    if _is_no_password(value):
        return False
    value = value[:LOOKED_AT]
    return _is_odd(value) or is_passphrase(value) or _is_word_and_number(value) or is_unreadable(value)


def is_odd_password(value: str) -> bool:
    """A password where a name or an expression of code may stand as well: it has to look like neither."""
    return not _is_no_password(value) and _is_odd(value[:LOOKED_AT])


def _is_no_password(value: str) -> bool:
    if _SPACE.search(value):
        return True
    value = value[:LOOKED_AT]
    if is_placeholder(value) or not _LETTER.search(value) or is_weak(value) or is_place(value):
        return True
    return _ADDRESS.fullmatch(value) is not None


def _is_odd(value: str) -> bool:
    digits = sum(c.isdigit() for c in value)
    if _ALGORITHM.match(value) and len(value) <= 20:
        return False
    if is_app_password(value):
        return not is_readable(re.sub(r"\W", "", value))
    if _IDENTIFIER.fullmatch(value):
        return is_mixed(value) or is_scrambled(value) or (digits >= 3 and not _ALGORITHM.search(value))
    return (digits > 0 or _MARK.search(value) is not None) and not (_CODE.search(value) and not is_mixed(value))


def _is_word_and_number(value: str) -> bool:
    """Whether a value is a word or two and a number, as people choose them: `cactus8506`, `Svc_Velvet39`."""
    return (
        _WORD_AND_NUMBER.fullmatch(value) is not None
        and not _ALGORITHM.search(value)
        and not are_of_code([word for word in _LETTERS.findall(value) for word in humps(word)], few=True)
    )


def is_unreadable(value: str) -> bool:
    """Whether a value is letters that make no word, all small or all large, with few digits: `zdeynmpqictgzbcb`."""
    return _ONE_CASE.fullmatch(value) is not None and not is_readable(_DIGITS.sub("", value).lower())


def is_code(value: str) -> bool:
    """Whether an unquoted value is rather an expression: a call, a name with dots, a type."""
    if _EXPRESSION.match(value) or _TYPE.fullmatch(value):
        return True
    if not _DOTTED.fullmatch(value):
        return False
    return value.endswith(("Key", "Ref", "Token", "Type")) or not any(
        (len(part) >= 6 and is_mixed(part)) or re.search(r"[A-Za-z]\d{3,}$", part)
        for part in re.split(r"[.:\->?]+", value)
    )


def holds_pair(value: str) -> bool:
    """Whether a base64 text is `user:password`."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    _user, colon, password = decoded.partition(":")
    return bool(colon) and len(password) >= 3 and decoded.isprintable() and not is_placeholder(password)
