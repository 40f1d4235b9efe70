"""Structure: what placeholders may not change of a value: the words that a row and a tool's schema are built of, and
that JSON text is JSON.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable

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


def still_json(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """JSON text with placeholders for the spans (from, to, placeholder; in order, apart), and JSON still.

    What is inside a string stays so; whatever else a span touches, a number or a whole object, becomes a string. Where
    a span takes a piece of the syntax away that the rest needs, nothing is left but the placeholders.
    """
    spans = list(spans)
    strings = [match.span() for match in _STRING.finditer(text)]
    parts, end = list[str](), 0
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
