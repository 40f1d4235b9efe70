"""Assigned: the values that are given to names that say secret, in any language that has names.

Quotes may be escaped any number of times and line ends spelt, as in JSON inside JSON inside a shell's command.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from machine.privacy.rule import Rule
from machine.privacy.shapes import changes, is_code, is_marked, is_password, is_scrambled, is_token

GAP = r"(?:\s|\\+[nrt])"
"""A space or a line's end, spelt or not."""
QUOTE = r"""(?:'\\*"'\\*"'|'\\+''|\\*["'`])"""
"""A quote, escaped as often as it may be, or as a shell has one inside single quotes."""
_SCHEME = r"(?:(?:[Bb]earer|[Tt]oken|[Bb]asic) |base64:)?+"
_TYPE = r"\??:[ \t]?[&*]?[A-Za-z_][A-Za-z_.\[\]<>|&' ,]{0,40}+=[ \t]*"
_MARKUP = r"(?:\*\*|__|(?:\x1b|\\+u001[bB]|\\+x1[bB]|\\+033)\[[0-9;]{0,12}m)?+"
"""What makes a name bold, in Markdown or on a terminal."""
_ASSIGN = rf"{_TYPE}|[ \t]*(?:=>|:=|\|\|=|\?\?=|\?=|!?={{1,3}}|:(?!:)|<-|%3[dD]){_MARKUP}[ \t]*"
_LINE = rf"{GAP}{{1,8}}(?:[0-9]+(?:\t|\\+t)|[+>|])?{GAP}{{0,8}}"
_PAIR = rf"{GAP}{{0,8}},{GAP}{{0,8}}{QUOTE}[vV]alue{QUOTE}[ \t]*[:=][ \t]*|{_LINE}value:[ \t]+|{GAP}{{1,8}}value="
_QUOTED = rf"[bBrRuUfF@]?(?P<quote>{QUOTE}){_SCHEME}(?P<quoted>(?:(?!(?<!\\)(?P=quote))[^\s\x00]){{8,1500}}+)(?P=quote)"
_AFTER = re.compile(
    rf"(?P<tail>[\w.-]{{0,40}}+)(?P<close>{QUOTE})?+[\])]?+{_MARKUP}"
    rf"(?:(?P<pair>{_PAIR})|(?P<assign>{_ASSIGN})|(?P<comma>,[ \t]*)|(?P<tag>>)"
    rf"|(?P<says>[ \t]+(?:is|was)(?: now)?:?[ \t]+)|(?P<space>[ \t]+))"
    rf"(?:{_QUOTED}|{_SCHEME}(?P<bare>[^\s\"'`\\<>]{{8,1500}}+))",
    re.ASCII,
)
_NARROW = re.compile(r"[^,;&|(){}\[\]]{8,}")
_ENV_LINE = re.compile(
    r"(?:^|[\n\r+\t\"'`]|\\[nt]|(?:export|env|ENV|ARG|set|setx|-e|--env|--build-arg|:|&&|;|\||→)[ \t]+|^ +|\n +"
    r"|\b[A-Z]\w*=\S* )[A-Z0-9_]*$"
)
_LAST_WORDS = """
    algo algorithm arn class color count desc description dir email endpoint error expiration expires expiry
    field fields file filename files format header help hint host id ids index label len length limit list
    manager map message method mode msg name names param params path pattern placeholder policy prompt provider
    ref regex ring schema set size spec status store title ttl type types uri url usage user version
"""
"""Of names that say secret and hold none: `token_type`, `password_file`."""
_FIRST_WORDS = """
    arrow audio begin bos bucket cache cached cls column completion composite continuation continue cursor data
    dedup dict end eos event foreign group hash host hot i18n idempotency image index input item json layer lock
    lookup map mask max min module n next node num object output pad page pagination param partition per prev
    previous primary prompt pub public query react record registry routing row s3 sep shard shortcut site sort
    special start state stop sync total translation unique unk video
"""
"""Before `token` and `key`, where they are no secret: `next_token`, `primary_key`."""
_SUFFIXES = "json|[jt]sx?|py|md|ya?ml|txt|html?|css|svg|png|lock|toml|rs|go|java|rb|sh"
_NO_SECRET_TAIL = re.compile(rf"(?:^|[_.-])(?:{'|'.join(_LAST_WORDS.split())})s?$|\.(?:{_SUFFIXES})$", re.IGNORECASE)
_NO_SECRET_HEAD = re.compile(rf"(?:^|[^A-Za-z])(?:{'|'.join(_FIRST_WORDS.split())})[_\W]?$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OF_A_KEY = re.compile(
    r"(?:api|access|secret|private|shared|preshared|account|encrypt\w*|signing|master|auth|licen[cs]e|app|service|write"
    r"|admin|deploy|ingest|client|subscription|application|integration|storage|server|session|webhook|cookie|root|jwt"
    r"|openai|anthropic|stripe|aes|hmac)[_. -]?$|(?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_$",
    re.IGNORECASE,
)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]|[&|]{2}")
_TYPE_OF_MANY = re.compile(r"\w::\w*$")
"""`AWS::IAM::AccessKey` is the name of a kind of thing."""
_ESCAPE = re.compile(r"\\+[nrt]")


@dataclass(frozen=True)
class Assigned(Rule):
    """A name that says secret, and the value that it is given in whatever language.

    `password`: people choose such values too, so 8 characters with a digit or a mark will do; any other value has to
    look as if a machine had made it.
    """

    password: bool = False
    NESTED: ClassVar[int] = 64
    """A query may have that many names before the one that counts; a match is short."""

    def of(self, match: re.Match[str]) -> Iterator[str]:
        """The value, unless the name or the value says that it is none."""
        if (value := self._quoted(match) if match["quoted"] else self._bare(match)) and self._is_named(match):
            yield value

    def _is_named(self, match: re.Match[str]) -> bool:
        """Whether the whole name is a secret's: no `next_token`, `token_type`, `passed`."""
        head, word = _ESCAPE.sub(" ", _head(match)), match["word"]
        words = _CAMEL.sub("_", head + word)[: -len(word)]
        if _NO_SECRET_TAIL.search(_CAMEL.sub("_", word[-1] + match["tail"])) or _TYPE_OF_MANY.search(head):
            return False
        if word.lower() in ("key", "token") and _NO_SECRET_HEAD.search(words):
            return False
        if word.lower() == "key":
            return bool(_OF_A_KEY.search(head)) and not match["tail"].startswith(("s", "w", "b", "e"))
        return word.lower() not in ("pass", "pwd", "psk") or self._is_a_word(head[-1:], word, match["tail"][:1])

    def _is_a_word(self, before: str, word: str, after: str) -> bool:
        """Whether a short word is one of the name's own: no `bypass`, no `passenger`."""
        begins = not before.isalpha() or (word[0].isupper() and before.islower())
        return begins and not (after.isalpha() and after.islower() == word[-1].islower())

    def _quoted(self, match: re.Match[str]) -> str | None:
        value: str = match["quoted"]
        if match["comma"] and not (match["close"] and (is_scrambled(value) or (self.password and is_marked(value)))):
            return None
        if match["space"] and not ("-" in _head(match)[-30:] or match["word"].lower() == "password"):
            return None
        return value if not match["tag"] and self._is_secret(value) else None

    def _is_secret(self, value: str) -> bool:
        return is_password(value) if self.password else is_token(value)

    def _bare(self, match: re.Match[str]) -> str | None:
        """A value without quotes: to the end of the line where the line is a variable's, to a mark elsewhere."""
        if match["comma"] or (match["close"] and not match["assign"]):
            return None
        bare: str = match["bare"]
        after = match.string[match.end() : match.end() + 1]
        if (match["tag"] and after != "<") or (match["space"] and not self._is_option(match, bare)):
            return None
        if not self._is_whole_line(match, after):
            if not (narrow := _NARROW.match(bare)) or bare[narrow.end() :].startswith(("(", "[", "{")):
                return None
            bare = narrow.group().rstrip(".:")
        bare = bare.rstrip(";,")
        return bare if self._is_secret(bare) and not is_code(bare) else None

    def _is_whole_line(self, match: re.Match[str], after: str) -> bool:
        """Whether all up to the next space is the value, marks too: of a variable, or what no expression looks like."""
        if not match["assign"]:
            return False
        if match["assign"].strip(" \t") in ("=", ":") and match["word"][0].isupper() and _ENV_LINE.search(_head(match)):
            return not _CALL.match(match["bare"])
        return after in ("", "\n", "\r", "\\") and changes(match["bare"]) >= 0.3 and not _CALL.search(match["bare"])

    def _is_option(self, match: re.Match[str], value: str) -> bool:
        """Whether a name and a value with a space between are an option of a command: `--token abc`."""
        return bool(re.search(r"--?[\w-]*$", _head(match))) or (is_token(value) and len(value) >= 20)


def _head(match: re.Match[str]) -> str:
    """What stands before the name that was found: the rest of it and what leads to it."""
    return match.string[max(0, match.start() - 48) : match.start()]


_PASSWORDS = r"pass(?:word|wd|phrase|code)?|pwd|psk"


def _assigned(name: str, *words: str, password: bool = False) -> Assigned:
    pattern = re.compile(f"(?P<word>(?i:{_PASSWORDS if password else '|'.join(words)}))" + _AFTER.pattern, re.ASCII)
    return Assigned(name, pattern, words, leading=True, view="lower", password=password)


def assigned() -> list[Rule]:
    """All rules of this module."""
    return [
        _assigned("api-key", "key"),
        _assigned("token", "token"),
        _assigned("secret", "secret", "credential"),
        _assigned("password", "pass", "pwd", "psk", password=True),
    ]
