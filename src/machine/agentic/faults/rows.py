"""Rows: a CSV file of which one row, or the header, does not fit."""

from collections.abc import Callable

from machine.agentic.chance import Chance
from machine.agentic.damage import Damage
from machine.agentic.project import Project

TOLD = (
    "{path} came back from a spreadsheet, and now it cannot be read.",
    "Someone has edited {path}; one line of it makes the check fail.",
    "Reading {path} fails. The tests know what it should say.",
)


def damaged(chance: Chance, project: Project) -> Damage:
    """The CSV file with one row that lacks a field, has another delimiter, a field too many, and the like."""
    ((path, text),) = project.store.files.items()
    head, *rows = text.splitlines()
    mark = head[len("name")]
    at = chance.below(len(rows))
    quoted = [number for number, row in enumerate(rows) if row.startswith('"')]
    manner = chance.pick(("field", "mark", "extra", "bare", "quote", "number", "head", "split"))
    match manner:
        case "head":
            head = chance.pick(MISHEADED)(head, mark)
        case "bare" | "quote":
            at = chance.pick(quoted)
            rows[at] = rows[at].replace('"', "") if manner == "bare" else rows[at][::-1].replace('"', "", 1)[::-1]
        case _:
            rows[at] = MANNERS[manner](chance, rows[at], mark)
    return Damage({path: "".join(f"{line}\n" for line in (head, *rows)).encode()}, chance.pick(TOLD).format(path=path))


def _no_field(chance: Chance, row: str, mark: str) -> str:
    """Without its group, count or cents."""
    parts = row.rsplit(mark, 3)
    del parts[chance.between(1, 3)]
    return mark.join(parts)


def _other_mark(chance: Chance, row: str, mark: str) -> str:
    """With another delimiter before its last fields."""
    other = chance.pick([each for each in (",", ";", "|", "\t") if each != mark])
    parts = row.rsplit(mark, 3)
    return other.join(parts) if chance.odds(50) else mark.join(parts[:2]) + other + other.join(parts[2:])


def _extra(chance: Chance, row: str, mark: str) -> str:
    """With one delimiter twice."""
    parts = row.rsplit(mark, 3)
    parts.insert(chance.between(1, 4), "")
    return mark.join(parts)


def _number(chance: Chance, row: str, mark: str) -> str:
    """With a word at its count or cents."""
    parts = row.rsplit(mark, 3)
    at = chance.between(2, 3)
    parts[at] += chance.pick((" pieces", "x", " ct", " ?", ".-", " each"))
    return mark.join(parts)


def _split(chance: Chance, row: str, mark: str) -> str:
    """Broken into two lines."""
    parts = row.rsplit(mark, 3)
    cut = chance.between(1, 3)
    return mark.join(parts[:cut]) + mark + "\n" + mark.join(parts[cut:])


MANNERS: dict[str, Callable[[Chance, str, str], str]] = {
    "field": _no_field,
    "mark": _other_mark,
    "extra": _extra,
    "number": _number,
    "split": _split,
}
MISHEADED: tuple[Callable[[str, str], str], ...] = (
    lambda head, mark: head.replace("count", "counts"),
    lambda head, mark: head.replace(f"group{mark}", ""),
    lambda head, mark: head.replace("cents", "price"),
    lambda head, mark: mark.join(reversed(head.split(mark))),
    lambda head, mark: head.replace("name", "Name"),
)
