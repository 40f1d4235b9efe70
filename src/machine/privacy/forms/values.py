"""Values: whether a word in a sentence, a cell or a line is a secret, as strictly as what stands around it asks.

`shapes` judges what is given to a name in code. Here a name is only near: `is_made` holds for what a machine made,
`is_chosen` for a bare word that no sentence has, `is_entry` for what stands where nothing but a secret is expected.
"""

import re
from functools import lru_cache

from machine.privacy.forms.shapes import (
    LOOKED_AT,
    UUID,
    is_phrase,
    is_place,
    is_placeholder,
    is_scrambled,
    is_token,
    is_weak,
)

_PLAIN = re.compile(r"(?=(?:[^0-9]*[0-9]){3})(?=(?:[^a-zA-Z]*[a-zA-Z]){3})(?:[0-9a-z]{20,}|[0-9A-Z]{16,})=*", re.ASCII)
"""Letters of one size and digits: hexadecimal, base32, and what vendors make of them."""
_CODE = re.compile(r"[(){}\[\]<>|\\`\"]|::|->|=>|&&|\?\.|^[-/#.]|[:;{,]$|^[A-Za-z_]{3,}=|^@\w+/|^\$\w+$|^%\w+%$")
_CALL = re.compile(r"[A-Za-z_]\w*[(\[{]|[)\]}][.,;:]?$|\[[\w:]*\]")
_CALLED = re.compile(r"[A-Za-z_.]{3,}\(")
_TYPE = re.compile(r"[A-Z]\w*(?:Key|Token|Secret|Password|Credential|Type|Error|Exception|Provider|Params|Config)s?")
_ADDRESS = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:[\w-]+\.)+[a-z]{2,6}(?:[:/].*)?|[\w.-]+/[\w./@-]+|[\w./-]+[:@]v?\d+(?:\.\d+)+"
)
_FILE = re.compile(
    r".*\.(?:json|[jt]sx?|py|md|ya?ml|txt|html?|css|svg|png|lock|toml|rs|go|java|rb|sh|env|pem|key|crt|csv|xml|conf|cfg"
    r"|ini|log|zip|gz|exe|dll|so|sql|php|c|h|cc|cpp|cs|kt|swift|ipynb|rst)(?::\d+)*",
    re.IGNORECASE,
)
_VERSION = re.compile(
    r"(?:v|\d+:)?\d+\.\d+(?:[.+~-][\w.+~:-]*)?|[vV]?\d+(?:[.\-:/T]\d+)+.{0,8}|\d[\d.,_]*[a-zA-Z%]{0,3}|0x[0-9a-fA-F]{1,8}"
)
_ALGORITHM = re.compile(
    r"(?:aes|sha|md|rsa|utf|iso|hmac|pbkdf|bcrypt|base|ed|ecdsa|secp|x|oauth|int|uint|float|hs|rs|es|ps|varchar|char"
    r"|python|node|java|http|ipv|win|mp|web|log4j|k8s|neo4j|version|sprint|q|ubuntu|debian)[_-]?\d{1,5}[\w.-]{0,12}",
    re.IGNORECASE,
)
_CHARSET = re.compile(r"[a-z0-9]{3,10}_(?:[a-z0-9]{2,10}_){0,3}(?:ci|cs|bin)", re.IGNORECASE)
_CLASS = re.compile(r"(?:[A-Z][a-z]{2,}){2,}")
_NAME = re.compile(r"[^\W\d_][^\W_]*(?:[_\-.][^\W_]+)*|[_\-.\w]*_")
"""As code and texts name things: words with nothing between, or one mark."""
_MARK = re.compile(r"[!@#$%^&*~+=?]")
_SURE = re.compile(
    r"(?=.*[!@#$%^&*~+=])(?=.*\d)(?=.*[a-z].*[a-z])(?:(?=.*\d.*\d)|(?=.*[A-Z].*[A-Z]))[\w!@#$%^&*~+=?.-]{8,80}"
)
_PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_A-Za-z]+")
_PASSED_OVER = frozenset(
    """
    pass password passwort passwd pwd passphrase secret secrets token tokens key keys api access auth authorization
    authentication login user username users admin test tests name names value values default string number type types
    required optional missing invalid empty null none true false undefined unset hidden masked redacted encrypted
    hashed stored get set is has new old my your our the this that here with and for not from into must should see can
    will ask config settings client service server request response session refresh param params field fields input
    output file files path env var vars data json index module class object function method error message event state
    handler manager provider factory helper util utils controller component view model schema table column query header
    headers body url uri http https sdk com org net io www internal local localhost example id ids hash digest length
    size count policy prompt reset change changed expired forgot forgotten generator validator vault store storage
    private public shared master root bearer basic jwt oauth ssh aws gcp azure github gitlab google app application
    system info list item content text label title option options process window document event events state props
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Words of code, screens and sentences: what is made of them says what a secret is, and is none."""


@lru_cache(maxsize=1024)
def is_made(value: str) -> bool:
    """Whether a machine made a value: 16 or more characters, mixed, a UUID, or hexadecimal."""
    begin = value[:LOOKED_AT]
    if (
        is_placeholder(begin)
        or is_place(begin)
        or len(set(begin)) < 6
        or _CALL.search(begin)
        or _VERSION.fullmatch(begin)
        or _TYPE.fullmatch(begin)
        or _CHARSET.fullmatch(begin)
    ):
        return False
    return bool(UUID.fullmatch(begin) or _PLAIN.fullmatch(begin)) or is_token(value)


@lru_cache(maxsize=1024)
def is_chosen(value: str) -> bool:
    """Whether a bare word is no word: 8 or more characters with digits, marks or capitals where names have none."""
    if not 8 <= len(value) <= 400 or any(c.isspace() for c in value) or not any(c.isalpha() for c in value):
        return False
    if is_placeholder(value) or is_weak(value) or _is_thing(value):
        return False
    if is_made(value):
        return True
    digits = sum(c.isdigit() for c in value)
    small, large = any(c.islower() for c in value), any(c.isupper() for c in value)
    if not _NAME.fullmatch(value):
        return digits > 0 or (small and large and _MARK.search(value) is not None)
    words = _words(value)
    if words & _PASSED_OVER or _ALGORITHM.fullmatch(value):
        return False
    if _CLASS.fullmatch(value) or _CHARSET.fullmatch(value):
        return False
    if digits:
        return digits >= 2 or (small and large) or not value[-1].isdigit()
    if _is_of_words(value) or is_scrambled(value):
        return True
    return len(value) >= 14 and small and large and value.isalpha() and not value.istitle()


@lru_cache(maxsize=1024)
def is_entry(value: str) -> bool:
    """Whether a word is a secret where one is expected: one that is chosen, or longer than words are."""
    if is_chosen(value):
        return True
    if _is_of_words(value, 1 / 3):
        return True
    if len(value) < 8 or " " in value or is_placeholder(value) or is_weak(value) or _is_thing(value):
        return False
    if value.isalpha():
        return len(value) >= 17 and not any(word in value.lower() for word in ("password", "passwort", "secret"))
    return (value.isalnum() or _MARK.search(value) is not None) and not (
        _words(value) & _PASSED_OVER or _ALGORITHM.fullmatch(value) or _CHARSET.fullmatch(value)
    )


def is_sure(value: str) -> bool:
    """Whether a word has letters, digits or capitals more than one, and a mark that no name has."""
    return _SURE.fullmatch(value) is not None and is_chosen(value)


def is_quoted(value: str) -> bool:
    """Whether a text in quotes that a sentence calls a secret is one: words that make no sentence, too."""
    if " " in value:
        return is_phrase(value) and not set(value.split(" ")) & _PASSED_OVER
    return is_entry(value)


def _words(value: str) -> set[str]:
    return {piece.lower() for piece in _PIECE.findall(value)}


def _is_thing(value: str) -> bool:
    """Whether a value is code, an address, a file, a version or a number."""
    if is_place(value) or _FILE.fullmatch(value) or _VERSION.fullmatch(value) or _ADDRESS.fullmatch(value):
        return not _is_of_words(value) and not is_made(value)
    return bool(_CALLED.search(value)) or (bool(_CODE.search(value)) and not is_token(value))


def _is_of_words(value: str, among: float = 0) -> bool:
    """Whether a value is four or more words with one mark between, as passphrases are made.

    `among`: the share of them that may be words of code.
    """
    for mark in "-._":
        words = value.rstrip("!?0123456789").split(mark)
        if len(words) >= 4 and all(word.isalpha() and len(word) >= 3 for word in words):
            return sum(word.lower() in _PASSED_OVER for word in words) <= len(words) * among
    return False
