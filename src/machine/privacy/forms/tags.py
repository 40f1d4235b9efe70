"""Tags: secrets in the tables and lists of HTML, known by the head of their column or by the cell before them."""

import re
from collections.abc import Iterator

from machine.privacy.forms.values import is_chosen, is_entry, is_made

_CLOSED = re.compile(
    r"[ ]?(?:\([\w ]{1,24}\))?:?\s*(?:</(?:b|strong|code|span)>\s*)?</(?P<tag>t[hd]|dt)>", re.IGNORECASE
)
_GAP = r"(?:\s|\\+[nrt]){0,40}"
_OPEN = r"<(?:code|b|strong|span|pre|kbd)[^<>]{0,80}>"
_VALUE = rf"(?:{_OPEN}){{0,2}}{_GAP}(?P<value>[^\s<>]{{8,400}}){_GAP}<"
_BESIDE = re.compile(rf"{_GAP}<(?:td|dd)(?:\s[^<>]{{0,200}})?>{_GAP}{_VALUE}", re.IGNORECASE)
_CELL = re.compile(r"<t[hd](?:\s[^<>]{0,200})?>", re.IGNORECASE)
_ROW = re.compile(r"<tr(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_IN_CELL = re.compile(rf"{_GAP}{_VALUE}", re.IGNORECASE)
_FAR = 2000
_ROWS = 400


def read_tags(match: re.Match[str], made: bool) -> Iterator[str]:
    """The secrets beside the cell or below the head that a word ends; `made`: only those that a machine made count."""
    text = match.string
    if not (closed := _CLOSED.match(text, match.end())):
        return
    if (beside := _BESIDE.match(text, closed.end())) and _is_secret(beside["value"], made, is_chosen(beside["value"])):
        yield beside["value"]
    if closed["tag"].lower() == "th":
        yield from _below(text, match.start(), made)


def _below(text: str, at: int, made: bool) -> Iterator[str]:
    """The secrets in the column of a head, until a row has no such cell or there are none for long."""
    begun = [row.end() for row in _ROW.finditer(text, max(0, at - _FAR), at)]
    if not begun or not (row := _ROW.search(text, at, at + _FAR)):
        return
    column, vain = len(_CELL.findall(text, begun[-1], at)), 0
    for _ in range(_ROWS):
        following = _ROW.search(text, row.end(), row.end() + 4 * _FAR)
        end = following.start() if following else min(len(text), row.end() + 4 * _FAR)
        cells = [cell.end() for cell in _CELL.finditer(text, row.end(), end)]
        if len(cells) < column or vain > 12:
            return
        value = _IN_CELL.match(text, cells[column - 1])
        if value and _is_secret(value["value"], made, is_entry(value["value"])):
            vain = 0
            yield value["value"]
        else:
            vain += 1
        if not following:
            return
        row = following


def _is_secret(value: str, made: bool, chosen: bool) -> bool:
    return is_made(value) if made else chosen
