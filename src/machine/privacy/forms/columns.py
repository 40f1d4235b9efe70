"""Columns: secrets in tables, known by the head of their column or by the name at the beginning of their row.

CSV with commas, semicolons or tabs; tables of Markdown, psql, mysql and terminals; columns that spaces align. Line ends
and quotes may be spelt as in JSON text, lines may have numbers or a diff's signs before them.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from machine.privacy.forms.shapes import CONSTANT
from machine.privacy.forms.values import is_chosen, is_entry, is_made

_LINE_END = re.compile(r"\r?\n|(?:\\+r)?\\+n|\r")
_END_BEGUN = re.compile(r"(?:\\+r)?\\*\Z|\r\Z|\Z")
_Cells = list[tuple[int, str]]
"""Of one line, each with its place in it."""
_FAR = 1200
"""Characters of the longest line of a table."""
_ROWS = 2000
_VAIN = 12
"""So many cells one after the other that are no secrets end a column that holds none."""
_CELL_ENDS = re.compile(
    r"(?:[ _-]?(?:hash|digest|value|plain(?:text)?|\d)|[ ]?\([\w ]{1,24}\))?(?:\\*\"|[`*]{1,2})?"
    r"(?::?[ ]{2,}|[ ]?=[ ]{2,}|[ ]*(?:[,;:\t|│┃]|\\+t|\r?\n|\\+[rn]|$))",
    re.IGNORECASE,
)
"""What may stand between a word that says secret and its cell's end: `password_hash`, `Password (prod)`."""
_BAR = re.compile(r"[|│┃]")
_GAP = re.compile(r"[ ]{2,}|\t+|(?:\\+t)+")
_OPENED = re.compile(r'[ ]*(\\*")')
_COMMA, _SEMICOLON, _COLON = re.compile(","), re.compile(";"), re.compile(":")
_PARTED = re.compile(r"[\w-]+(?::[\w-]+)+")
_TAB = re.compile(r"\t|\\+t")
_RULE = re.compile(r"[\s|+:=\u2500-\u257f-]+|")
_WORD_LAST = re.compile(r"(?:^|[\s=:(>])[^\W\d_]\w{0,30}\Z")
_HEAD = re.compile(r"[^\W\d_](?:[^\W_]|[ _.:/#-]){0,48}(?:\([\w ]{1,24}\))?[*]{0,2}|#|")
_NUMBER = re.compile(
    r"[ \t]*\d{1,6}(?:\t|→|\\+t)|(?:>[ ]?){1,4}"
    r"|(?:(?:\x1b|\\+u001b)\[[0-9;]{0,8}m){1,3}[│┃|](?:(?:\x1b|\\+u001b)\[[0-9;]{0,8}m){1,3}[ ]?"
)
"""What lists of lines put before each: its number, a mail's mark, a terminal's edge."""
_SIGN = re.compile(r"[+-](?![+-])")
_QUOTED = re.compile(r"""(?P<quote>\\*["'`]|\*\*)(?P<inside>.*)(?P=quote)""")


def read_cells(match: re.Match[str], made: bool) -> Iterator[str]:
    """The secrets of the column that a word heads, or of the row that it begins.

    `made`: only those that a machine made count.
    """
    text = match.string
    if not _CELL_ENDS.match(text, match.end()):
        return
    begin, end, stop = line_around(text, match.start())
    line = text[begin:end]
    numbered = _NUMBER.match(line)
    start = numbered.end() if numbered else 0
    line, at = line[start:], match.start() - begin - start
    if _BAR.search(line):
        yield from _in_bars(text, line, at, end, stop, made)
        return
    if _SIGN.match(line):
        line, at, start = line[1:], at - 1, start + 1
    for mark in (_TAB, _COMMA, _SEMICOLON, *([_COLON] if _PARTED.fullmatch(line) else [])):
        heads = _split(line, mark)
        if len(heads) > 1 and _are_heads(heads):
            column = _column(heads, at)
            yield from _below(text, end, stop, mark, heads, column, made, bool(numbered))
            if mark is not _TAB:
                return
    yield from _aligned(text, line, at, end, stop, made, bool(numbered))


@lru_cache(maxsize=1)
def line_around(text: str, at: int) -> tuple[int, int, int]:
    """From where to where the line goes that a place is in, and where its text ends.

    Inside a string of JSON's that spells its line ends, the string is the text. A line that is too long goes nowhere.
    """
    low = max(0, at - _FAR)
    real, spelt = text.rfind("\n", low, at) + 1, text.rfind("\\n", low, at) + 2
    begin = max(low, real, spelt if spelt > 1 else 0)
    if begin == low and low:
        return at, at, at
    ends = [each for each in (text.find("\n", at, at + _FAR), text.find("\\n", at, at + _FAR)) if each >= 0]
    if not ends and at + _FAR < len(text):
        return at, at, at
    over = min(ends, default=len(text))
    begun = _END_BEGUN.search(text[max(at, over - 24) : over]) if ends else None
    end = over - len(begun[0]) if begun else over
    depth = max(_depth(text, begin), _depth(text, over + 2 if ends else 0))
    if not depth:
        return begin, end, len(text)
    quote = _end_of_string(depth)
    opened = [each.end() for each in quote.finditer(text, begin, at)]
    closed = quote.search(text, at)
    stop = closed.start() if closed else len(text)
    return (opened[-1] if opened else begin), min(end, stop), stop


def _depth(text: str, at: int) -> int:
    """How many backslashes spell the line end that ends there."""
    if text[max(0, at - 2) : at] != "\\n":
        return 0
    before = text[max(0, at - 17) : at - 1]
    return len(before) - len(before.rstrip("\\"))


@cache
def _end_of_string(depth: int) -> re.Pattern[str]:
    """A quote that has fewer backslashes before it than the line ends of its string."""
    return re.compile(rf'(?<!\\)\\{{0,{min(depth, 16) - 1}}}"')


def _split(line: str, mark: re.Pattern[str]) -> _Cells:
    """The cells of a line, each with its place; a mark inside quotes parts no cells."""
    cells, start, place = _Cells(), 0, 0
    while True:
        opened = _OPENED.match(line, start)
        if opened and (closed := line.find(opened[1], opened.end())) >= 0:
            place = closed + len(opened[1])
        found = mark.search(line, max(place, start))
        cells.append((start, line[start : found.start() if found else len(line)]))
        if not found or len(cells) > 48:
            return cells
        start = place = found.end()


def _bare(cell: str) -> str:
    """What a cell holds, without the quotes and marks around it."""
    cell = cell.strip()
    for _ in range(2):
        if (quoted := _QUOTED.fullmatch(cell)) and quoted["inside"]:
            cell = quoted["inside"].strip()
    return cell


def _is_head(cell: str) -> bool:
    return _HEAD.fullmatch(_bare(cell)) is not None and bool(cell.strip())


def _are_heads(cells: _Cells) -> bool:
    """Whether cells name columns; of three and more, the first may follow other words on its line: `Rows: user,...`."""
    first = cells[0][1]
    begun = _is_head(first) or (len(cells) > 2 and _WORD_LAST.search(first) is not None)
    return begun and all(_is_head(head) for _, head in cells[1:])


def _column(cells: _Cells, at: int) -> int:
    return max(number for number, (place, _) in enumerate(cells) if place <= max(at, 0))


def _rows(text: str, end: int, stop: int) -> Iterator[str]:
    """The lines after the one that ends there."""
    for _ in range(_ROWS):
        begun = _LINE_END.match(text, end)
        if not begun or begun.end() >= stop:
            return
        over = _LINE_END.search(text, begun.end(), min(stop, begun.end() + 8 * _FAR))
        end = over.start() if over else min(stop, begun.end() + 8 * _FAR)
        yield text[begun.end() : end]


def _below(
    text: str, end: int, stop: int, mark: re.Pattern[str], heads: _Cells, column: int, made: bool, numbered: bool
) -> Iterator[str]:
    """The secrets in one column of the rows after a head of so many cells."""
    vain, count, head = 0, len(heads), _bare(heads[column][1]).lower()
    for row in _rows(text, end, stop):
        if numbered and (number := _NUMBER.match(row)):
            row = row[number.end() :]
        cells = _split(row[1:] if column == 0 and _SIGN.match(row) else row, mark)
        if vain > _VAIN or not row.strip():
            return
        if len(cells) != count and not (len(cells) > column and mark is _GAP):
            vain += 8
            continue
        value = _bare(cells[column][1])
        if value.lower() == head:
            return
        if _is_secret(value, made):
            vain = 0
            yield value
        elif value:
            vain += 1


def _is_secret(value: str, made: bool) -> bool:
    return is_made(value) if made else is_entry(value)


def _is_beside(name: str, value: str, made: bool) -> bool:
    """Whether the cell after a name holds its secret; a variable's name is surer than a word."""
    if made:
        return is_made(value)
    return is_entry(value) if CONSTANT.fullmatch(name) else is_chosen(value)


def _in_bars(text: str, line: str, at: int, end: int, stop: int, made: bool) -> Iterator[str]:
    """Of a table whose cells bars part: the cell beside the name, or those below it."""
    heads = _split_bars(line.replace("||", " |"))
    column = _column(heads, at)
    for distance, (_, cell) in enumerate(heads[column + 1 : column + 4]):
        value = _bare(cell)
        if _is_beside("" if distance else _bare(heads[column][1]), value, made) and not (distance and value.isalnum()):
            yield value
            break
    if not all(_is_head(head) or not head.strip() for _, head in heads):
        return
    vain = 0
    for row in _rows(text, end, stop):
        if number := _NUMBER.match(row):
            row = row[number.end() :]
        if not _BAR.search(row) and not _RULE.fullmatch(row):
            return
        cells = _split_bars(row)
        if _RULE.fullmatch(row) or len(cells) <= column:
            vain += 1
            continue
        value = _bare(cells[column][1])
        if value.lower() == _bare(heads[column][1]).lower():
            return
        if _is_secret(value, made):
            vain = 0
            yield value
        elif (vain := vain + 1) > _VAIN:
            return


def _split_bars(line: str) -> _Cells:
    return _split(line, _BAR)


def _aligned(text: str, line: str, at: int, end: int, stop: int, made: bool, numbered: bool) -> Iterator[str]:
    """Of columns that spaces align: what follows the name that begins its line, or what is below it."""
    indent = len(line) - len(line.lstrip(" "))
    cells = [(place + indent, cell) for place, cell in _split(line[indent:], _GAP)]
    column = _column(cells, at)
    if column == 0 and len(cells) > 1 and _is_head(name := cells[0][1].rstrip(" :=")):
        value = _bare(cells[1][1].removeprefix("= "))
        if _is_beside(name, value, made):
            yield value
    if len(cells) > 1 and all(_is_head(cell) for _, cell in cells):
        yield from _below(text, end, stop, _GAP, cells, column, made, numbered)
