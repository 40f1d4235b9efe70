"""Structure: what placeholders may not change of a value: the words that a row and a tool's schema are built of, and
that JSON text is JSON.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby

FIXED = frozenset(
    """
    system user assistant tool text thinking image function role content tool_calls tool_call_id arguments mime_type
    name description parameters messages tools note source edits models entries correction created_at digest target
    session host_version properties required additionalProperties patternProperties propertyNames minProperties
    maxProperties dependentRequired dependentSchemas dependencies definitions minLength maxLength minItems maxItems
    uniqueItems prefixItems additionalItems contains minContains maxContains exclusiveMinimum exclusiveMaximum
    multipleOf unevaluatedProperties unevaluatedItems examples deprecated readOnly writeOnly nullable
    contentEncoding contentMediaType
    """.split()  # noqa: SIM905 (a list of words is read as one)
)
"""Keys and values that stay as they are where they are the whole of a text, whatever the user calls a secret."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
"""A character as a string of JSON spells it."""
_BARE = re.compile(r"[\w.+-]")


def is_json(text: str) -> bool:
    """Whether a text is a JSON object or list."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def distinct(keys: dict[str, str]) -> dict[str, str]:
    """The new names of an object's keys, by the old ones; none is given twice, so that no value is lost."""
    taken, found = {new for old, new in keys.items() if old == new}, dict[str, str]()
    for old, new in keys.items():
        name, number = new, 1
        while old != new and name in taken:
            number += 1
            name = f"{new}-{number}"
        taken.add(name)
        found[old] = name
    return found


Span = tuple[int, int, str]
"""From where to where in a text, and what stands for it."""


def still_json(text: str, spans: Iterable[Span]) -> str:
    """JSON text with placeholders for the spans (in order, apart), and JSON still, as is all JSON text in its strings.

    What is inside a string stays so; whatever else a span touches, a number or a whole object, becomes a string. Where
    a span takes a piece of the syntax away that the rest needs, nothing is left but the placeholders.
    """
    strings = [match.span() for match in _STRING.finditer(text)]
    spans = list(_mended(text, strings, spans))
    parts, end = list[str](), 0
    plain = _replaced(text, spans)
    if is_json(plain):
        return plain
    for start, stop, placeholder in spans:
        begin, over, quoted = _whole(text, strings, start, stop)
        if begin >= end:
            parts += [text[end:begin], f'"{placeholder}"' if quoted else placeholder]
        end = max(end, over)
    clean = "".join([*parts, text[end:]])
    if is_json(clean):
        return clean
    left = list(dict.fromkeys(placeholder for _, _, placeholder in spans))
    return json.dumps(dict.fromkeys(left, True) if text.lstrip().startswith("{") else left)


def _replaced(text: str, spans: Iterable[Span]) -> str:
    parts, end = list[str](), 0
    for start, stop, placeholder in spans:
        parts += [text[end:start], placeholder]
        end = stop
    return "".join([*parts, text[end:]])


def _mended(text: str, strings: list[tuple[int, int]], spans: Iterable[Span]) -> Iterator[Span]:
    """The spans, but one for all of a string whose JSON text would be none with the placeholders in it."""
    for string, group in groupby(spans, lambda span: _around(strings, span)):
        inside = list(group)
        clean = _inner(text, string, inside) if string else None
        yield from [(string[0] + 1, string[1] - 1, clean)] if string and clean is not None else inside


def _around(strings: list[tuple[int, int]], span: Span) -> tuple[int, int] | None:
    """The string that a span is inside of."""
    at = bisect_right(strings, (span[0], -1)) - 1
    return strings[at] if at >= 0 and strings[at][0] < span[0] and span[1] < strings[at][1] else None


def _inner(text: str, string: tuple[int, int], spans: list[Span]) -> str | None:
    """What a string holds, spelt for it, with JSON text still JSON; none: the placeholders alone do no harm."""
    begin, end = string
    meant, places = list[str](), dict[int, int]()
    for match in _CHARACTER.finditer(text, begin + 1, end - 1):
        places[match.start()] = len(meant)
        meant += json.loads(f'"{match[0]}"', strict=False)
    places[end - 1] = len(meant)
    inner = "".join(meant)
    if not is_json(inner):
        return None
    if any(start not in places or stop not in places for start, stop, _ in spans):
        return None
    within = [(places[start], places[stop], _unspelt(stand_in)) for start, stop, stand_in in spans]
    clean = still_json(inner, within)
    if clean == _replaced(inner, within):
        return None
    return json.dumps(clean, ensure_ascii=text.isascii())[1:-1]


def _unspelt(placeholder: str) -> str:
    """A placeholder as a string of JSON holds it, its line ends no longer spelt."""
    meant: str = json.loads(f'"{placeholder}"', strict=False)
    return meant


def _whole(text: str, strings: list[tuple[int, int]], start: int, stop: int) -> tuple[int, int, bool]:
    """From where to where a span's JSON values go, and whether what stands for them needs quotes."""
    near = strings[max(0, bisect_right(strings, (start, len(text))) - 1) : bisect_right(strings, (stop, 0)) + 1]
    if any(begin < start and stop < end for begin, end in near):
        return start, stop, False
    for begin, end in near:
        start = begin if begin < start < end else start
        stop = end if begin < stop < end else stop
    while start > 0 and _BARE.match(text[start - 1]):
        start -= 1
    while stop < len(text) and _BARE.match(text[stop]):
        stop += 1
    return start, stop, True
