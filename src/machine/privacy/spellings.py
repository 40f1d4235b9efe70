"""Spellings: the ways in which text holds a value: as it is, in JSON text of any depth and of any encoder, quoted for a
shell, in a URL, in HTML, in base64.
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus, unquote

_DEPTH = 3
"""JSON inside JSON inside JSON: the arguments of a call that writes a file of a request's body."""
_SHORTEST_BASE64 = 14
"""Characters of base64 that stand for one value alone."""
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*")
_NOT_IN_WORDS = re.compile(r"([^\w@%+=:,./-])")
_END_OF_QUOTE, _END_IN_DOUBLE = "'\\''", "'\"'\"'"
"""The two ways in which a single quote stands in single quotes."""
_IN_DOUBLE_QUOTES = re.compile(r'([\\"$`])')


_FOR_PAGES = ("&<>", "&<>='", "&<>'+`", "&<>'", "\"&<>'+`")
"""Marks that encoders of JSON spell without need: Go's and Rails'; Gson's; .NET's; PHP's; .NET's, quotes too."""
_TABLES = [str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in marks}) for marks in ("", *_FOR_PAGES)]
_HEX = re.compile(r"(?<=\\u)[0-9a-f]{4}")
_ENCODED = re.compile(r"[\"&<>=+'`/\x80-\U0010ffff]")
_SPELT = re.compile(r"(\\*)\\u(?![dD][89a-fA-F])([0-9a-fA-F]{2}(?:[2-7][0-9a-fA-F]|[89a-fA-F][0-9a-fA-F]))")


_HTML = re.compile(r"&(?:quot|#34|#39|#x27|lt);")
_QUERY = re.compile(r"%22|%27|%3[ADad]")


def readings(text: str) -> Iterator[str]:
    """A text as it is, and as it is meant where JSON, HTML or a URL spells marks in it: `\\u0026`, `&quot;`, `%3D`."""
    yield text
    if "\\u" in text and (meant := _SPELT.sub(_meant, text)) != text:
        yield meant
    if _HTML.search(text):
        yield html.unescape(text)
    if _QUERY.search(text):
        yield unquote(text)


def _meant(spelt: re.Match[str]) -> str:
    """A character; a quote stays escaped as often as it was."""
    character = chr(int(spelt[2], 16))
    return spelt[1] + character if character in "\"'`" else character


def spellings(value: str) -> set[str]:
    """All of them, the value's own first among equals; for a value of plain characters, itself and its base64."""
    found = {value, *_base64(value)}
    if _PLAIN.fullmatch(value):
        return found
    for each in {value, *_shell(value)}:
        found.update(_json(each))
    for each in set(_encoded(value)):
        found.update(_json(each))
    return found | {quote(value, safe=""), quote(value), quote_plus(value), html.escape(value)}


def _json(value: str) -> Iterator[str]:
    """The value, and how JSON text spells it, once, twice, three times."""
    for ascii_only in (True, False):
        spelt = value
        yield spelt
        for _ in range(_DEPTH):
            spelt = json.dumps(spelt, ensure_ascii=ascii_only)[1:-1]
            yield spelt


def _encoded(value: str) -> Iterator[str]:
    """A value as encoders of JSON spell it that spell more than they must, in small and in capital letters."""
    if not _ENCODED.search(value):
        return
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    for ascii_only in (True, False):
        plain = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        for table in _TABLES:
            spelt = plain.replace('\\"', '"').translate(table) if ord('"') in table else plain.translate(table)
            yield spelt
            yield _HEX.sub(lambda found: found[0].upper(), spelt)


def _shell(value: str) -> Iterator[str]:
    """Inside single quotes, once and in a command that is quoted itself; inside double quotes; without quotes."""
    for end in (_END_OF_QUOTE, _END_IN_DOUBLE):
        spelt = value
        for _ in range(2):
            spelt = spelt.replace("'", end)
            yield spelt
    yield _IN_DOUBLE_QUOTES.sub(r"\\\1", value)
    yield _NOT_IN_WORDS.sub(r"\\\1", value)


def _base64(value: str) -> Iterator[str]:
    """What base64 of any text that holds the value has in common, wherever in the text it stands."""
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        text = base64.b64encode(bytes(before) + data).decode()
        cut = (before + len(data)) % 3
        common = text[(0, 2, 3)[before] : len(text) - (4 if cut else 0) + (0, 1, 2)[cut]]
        if len(common) >= _SHORTEST_BASE64:
            yield common
            yield common.replace("+", "-").replace("/", "_")
