"""Names: which of them say that their value is secret, and which only seem to: `token_type`, `next_token`, `bypass`."""

import re

from machine.privacy.forms.shapes import UUID

_LAST_WORDS = """
    algo algorithm arn class color count desc description dir email endpoint error expiration expires expiry
    field fields file filename files format header help hint host id ids index label len length limit list
    manager map message method mode msg name names param params path pattern placeholder policy prompt provider
    ref regex ring schema set size spec status store title ttl type types uri url usage user version
"""
"""Of names that say secret and hold none: `token_type`, `password_file`."""
_FIRST_WORDS = """
    arrow audio begin bos bucket cache cached change cls column completion composite continuation continue cursor data
    dedup dict end eos event foreign group hash host hot i18n idempotency image index input item json layer lock
    lookup map mask max min module n next node num object output pad page pagination param partition per prev
    previous primary prompt pub public query react record registry routing row s3 sep shard shortcut site sort
    special start state stop sync total translation unique unk video
"""
"""Before `token` and `key`, where they are no secret: `next_token`, `primary_key`."""
_KEY_OF = """
    access account admin aes anthropic api app application auth bot client connection consumer cookie crypt deploy dev
    developer encrypt\\w* fernet function functions hmac ingest ingestion instance integration jwt licen[cs]e
    management master openai partner preshared private project push root sdk search secret server service session shared
    signing storage stripe subscription tenant wallet webhook write
"""
"""Before `key`, where it is one."""
_SUFFIXES = "json|[jt]sx?|pyi?|md|ya?ml|txt|html?|css|svg|png|lock|toml|rs|go|java|rb|sh|p[lm]|php|kt|cs|cc|[ch]pp|vue"
_NO_SECRET_TAIL = re.compile(rf"(?:^|[_.-])(?:{'|'.join(_LAST_WORDS.split())})s?$|\.(?:{_SUFFIXES})$", re.IGNORECASE)
_NO_SECRET_HEAD = re.compile(rf"(?:^|[^A-Za-z])(?:{'|'.join(_FIRST_WORDS.split())})[_\W]?$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OF_A_KEY = re.compile(
    rf"(?:{'|'.join(_KEY_OF.split())})[_. -]?$|(?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_$|[?&]$"
    r"|(?:login|client|configure|connect|api)\($",
    re.IGNORECASE,
)
_OF_A_SEED = re.compile(r"(?:otp|mfa|2fa|tfa|wallet|master|hd|root|authenticator)[_. -]?$", re.IGNORECASE)
_OF_A_PASS = re.compile(
    r"(?:key|store|require|bind|user|db|root|admin|smtp|ftp|ssh|mail|auth|vault|http|proxy|redis|sql|my|wifi)$", re.I
)
"""Before `pass` and `pw` without a mark between: no `bypass`, no `compass`."""
_TYPE_OF_MANY = re.compile(r"\w::\w*$")
"""`AWS::IAM::AccessKey` is the name of a kind of thing."""
_ESCAPE = re.compile(r"\\+[nrt]")
_OF_A_SUM = re.compile(
    r"(?:checksum|sha(?:1|256|512)|digest|fingerprint)[/_.-]$|arn:aws[\w-]{0,10}:[\w:/*-]{0,80}$", re.I
)
"""Before a name whose value tells whether the secret has changed, or where it is kept."""
_OF_TWO = re.compile(r"primary[_. -]?$", re.IGNORECASE)
"""Of a service's two keys the first; or that of a table, which is short."""
_OF_AN_ASSEMBLY = re.compile(r"public_?key_?$", re.IGNORECASE)
_LONG_BASE64 = re.compile(r"[A-Za-z0-9+/]{42,86}={1,2}")
_OF_AN_ID = re.compile(r"[-_. ]?id$", re.IGNORECASE)
_PLAIN_TAIL = re.compile(
    r"(?:[-_.]?(?:[0-9]{1,3}|prod|production|staging|stage|dev|test|live|main|old|new|value))?$", re.I
)
_OF_A_TEXT = re.compile(
    r"(?:^|[^a-z])(?:forgot|reset|invalid|wrong|show|hide|toggle|change|confirm|missing|incorrect|no|bad"
    r"|bitmap|render|shadow)[-_. ]?$",
    re.IGNORECASE,
)
"""Before `password`, in the names of texts and pages; before `pass`, in those of pictures."""


def is_secret_name(head: str, word: str, tail: str, value: str) -> bool:
    """Whether the whole name is a secret's: what leads to the word that says so, the word, what follows it."""
    head = _ESCAPE.sub(" ", head)
    words = _CAMEL.sub("_", head + word)[: -len(word)]
    if _TYPE_OF_MANY.search(head) or _OF_A_SUM.search(head):
        return False
    if _NO_SECRET_TAIL.search(_CAMEL.sub("_", word[-1] + tail)):
        return word.lower() == "secret" and _OF_AN_ID.fullmatch(tail) is not None and UUID.fullmatch(value) is not None
    small = word.lower()
    if small in ("key", "token") and _NO_SECRET_HEAD.search(words):
        return small == "key" and _OF_TWO.search(words) is not None and _LONG_BASE64.fullmatch(value) is not None
    if small == "token" and _OF_AN_ASSEMBLY.search(words):
        return False
    if small == "key":
        return bool(_OF_A_KEY.search(head)) and not (tail[:1].isalpha() and tail[0].islower() == word[-1].islower())
    if small == "seed":
        return bool(_OF_A_SEED.search(head))
    return small not in ("pass", "pw", "pwd", "psk") or _is_a_word(head, word, tail)


def is_whole_name(head: str, tail: str) -> bool:
    """Whether the word that says secret ends the name, and the name is of a value rather than of a text about it."""
    return _PLAIN_TAIL.fullmatch(tail) is not None and not _OF_A_TEXT.search(_CAMEL.sub("_", head))


def _is_a_word(head: str, word: str, tail: str) -> bool:
    """Whether a short word is one of the name's own: no `bypass`, no `passenger`."""
    before, after = head[-1:], tail[:1]
    begins = not before.isalpha() or (word[0].isupper() and before.islower()) or bool(_OF_A_PASS.search(head))
    return begins and not (after.isalpha() and after.islower() == word[-1].islower())
