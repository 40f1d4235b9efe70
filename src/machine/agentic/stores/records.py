"""Stores of records, one a thing: a JSON catalogue, a CSV list."""

import json
from typing import NamedTuple

from machine.agentic.chance import Chance
from machine.agentic.piece import Piece
from machine.agentic.theme import Theme


class Record(NamedTuple):
    """A thing: its name and group, how many of it there are, its price in cents."""

    name: str
    group: str
    count: int  # type: ignore[assignment]  # the field stands before the method of tuples
    cents: int


def drawn(chance: Chance, theme: Theme) -> list[Record]:
    """Five to nine records with different names."""
    names = chance.some(theme.items, chance.between(5, 9))
    groups = chance.some(theme.groups, 3)
    return [Record(name, chance.pick(groups), chance.between(1, 60), chance.between(20, 700) * 5) for name in names]


JSON_MODULE = '''"""The {things}, from {path}."""

import json
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "{path}"


def {all}():
    """The {things} by name, as they stand in the file."""
    with FILE.open(encoding="utf-8") as file:
        return {{each["name"]: each for each in json.load(file)["{things}"]}}


def {held}(group):
    """How many pieces of a group there are."""
    return sum(each["count"] for each in {all}().values() if each["group"] == group)
'''


def catalogue(chance: Chance, theme: Theme) -> Piece:
    """A JSON file with one object a thing, two of which the visible tests name."""
    rows = drawn(chance, theme)
    every, held = (
        chance.pick(("catalogue", "all_entries", "by_name")),
        chance.pick(("held_in", "pieces_in", "group_count")),
    )
    path = f"data/{chance.pick((theme.things, 'catalogue', 'inventory'))}.json"
    whole = {"unit": "cents", "updated_by": chance.pick(theme.groups), theme.things: [row._asdict() for row in rows]}
    known = {row.name: row._asdict() for row in rows}
    shown = chance.some(rows, 2)
    groups = sorted({row.group for row in rows})
    sums = {group: sum(row.count for row in rows if row.group == group) for group in groups}
    return Piece(
        module=chance.pick(("catalogue", "inventory", "entries")),
        source=JSON_MODULE.format(things=theme.things, path=path, all=every, held=held),
        names=(every, held),
        tests={
            every: [
                f"self.assertEqual(sorted({every}()), {sorted(known)})",
                *(f"self.assertEqual({every}()[{row.name!r}], {row._asdict()})" for row in shown),
            ],
            held: [f"self.assertEqual({held}({group!r}), {sums[group]})" for group in groups],
        },
        hidden={every: [f"self.assertEqual({every}(), {known})"]},
        says=f"`{path}` holds the {theme.things} as plain JSON. `{every}()`: all by name. "
        f"`{held}(group)`: pieces of a group.",
        files={path: json.dumps(whole, indent=chance.pick((2, 4))) + "\n"},
    )


CSV_MODULE = '''"""The {things}, from {path}: fields are parted by "{mark}"."""

import csv
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "{path}"
FIELDS = ["name", "group", "count", "cents"]


def {all}():
    """The lines of the file as tuples; a line that does not fit raises ValueError with its number."""
    with FILE.open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file, delimiter="{mark}", strict=True)
    if head != FIELDS:
        raise ValueError(f"the header is {{head}}")
    found = []
    for number, line in enumerate(lines, 2):
        if len(line) != len(FIELDS):
            raise ValueError(f"line {{number}} has {{len(line)}} fields, not {{len(FIELDS)}}")
        name, group, count, cents = line
        found.append((name, group, int(count), int(cents)))
    return found


def {worth}():
    """What all pieces cost together, in cents."""
    return sum(count * cents for _, _, count, cents in {all}())
'''


def listed(chance: Chance, theme: Theme) -> Piece:
    """A CSV file with one line a thing, all named by the visible tests; every third name has the delimiter in it."""
    mark = chance.pick((",", ";", "|"))
    rows = drawn(chance, theme)
    rows = [row._replace(name=f"{row.name}{mark} {row.group}") if not at % 3 else row for at, row in enumerate(rows)]
    every, worth = (
        chance.pick(("listed", "all_lines", "read_rows")),
        chance.pick(("worth", "total_cents", "grand_total")),
    )
    path = f"data/{chance.pick((theme.things, 'list', 'prices'))}.csv"
    lines = [f'"{row.name}"' if mark in row.name else row.name for row in rows]
    text = "".join(
        mark.join((line, row.group, str(row.count), str(row.cents))) + "\n"
        for line, row in zip(lines, rows, strict=True)
    )
    total = sum(row.count * row.cents for row in rows)
    return Piece(
        module=chance.pick(("lists", "readlist", "importer")),
        source=CSV_MODULE.format(things=theme.things, path=path, all=every, worth=worth, mark=mark),
        names=(every, worth),
        tests={
            every: [f"self.assertIn({tuple(row)}, {every}())" for row in rows],
            worth: [f"self.assertEqual({worth}(), {total})"],
        },
        hidden={every: [f"self.assertEqual({every}(), {[tuple(row) for row in rows]})"]},
        says=f'`{path}` has the fields name, group, count, cents, parted by "{mark}"; a name with that in it stands in '
        f"double quotes; counts and cents are plain digits. `{every}()`: all lines. `{worth}()`: the sum.",
        files={path: mark.join(Record._fields) + "\n" + text},
    )
