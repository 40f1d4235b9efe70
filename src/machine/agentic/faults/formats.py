"""Formats: a JSON or TOML file that its parser refuses."""

import json
import re
import tomllib
from collections.abc import Callable

from machine.agentic.chance import Chance
from machine.agentic.damage import Break, Damage, Lines, broken, swapped
from machine.agentic.project import Project

TOLD = (
    "I edited {path} by hand, and since then the check fails.",
    "{path} cannot be read any more.",
    "Reading {path} ends in a traceback. All that it says is still meant; only its form is off.",
)
NOTES = ("checked by hand", "ask again", "counted twice", "see the list", "new this year")


def json_damaged(chance: Chance, project: Project) -> Damage:
    """The JSON file with one error of form."""
    return _damaged(chance, project, JSON, lambda text: not _json(text))


def toml_damaged(chance: Chance, project: Project) -> Damage:
    """The TOML file with one error of form."""
    return _damaged(chance, project, TOML, lambda text: not _toml(text))


def _damaged(chance: Chance, project: Project, breaks: dict[str, Break], wrong: Callable[[str], bool]) -> Damage:
    ((path, text),) = project.store.files.items()
    _, text = broken(chance, text, breaks, wrong)
    return Damage({path: text.encode()}, chance.pick(TOLD).format(path=path))


def _json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _each(pattern: str, new: str) -> Break:
    """Breaks any one line that the pattern is found in, by replacing what it finds; \\n in `new` begins a line."""

    def ways(chance: Chance, lines: Lines) -> list[Lines]:
        filled = new.replace("NOTE", chance.pick(NOTES))
        return [
            swapped(lines, at, re.sub(pattern, filled, line, count=1))
            for at, line in enumerate(lines)
            if re.search(pattern, line)
        ]

    return ways


def _single_quotes(chance: Chance, lines: Lines) -> list[Lines]:
    return [swapped(lines, at, line.replace('"', "'")) for at, line in enumerate(lines) if '"' in line]


def _lost_bracket(chance: Chance, lines: Lines) -> list[Lines]:
    return [swapped(lines, at) for at, line in enumerate(lines) if re.fullmatch(r"\s*[\]}],?", line)]


def _last_comma(chance: Chance, lines: Lines) -> list[Lines]:
    ends = [at for at, line in enumerate(lines[1:]) if re.match(r"\s*[\]}]", line)]
    return [swapped(lines, at, lines[at] + ",") for at in ends]


def _twice(chance: Chance, lines: Lines) -> list[Lines]:
    """A key of a section stands there a second time, with another number or word."""
    end = next(at for at, line in enumerate(lines) if line.startswith("[["))
    pairs = [(at, re.fullmatch(r'(\w+ = )(\d+|"\w+")', line)) for at, line in enumerate(lines[:end])]
    return [
        swapped(lines, at, *chance.shuffled((lines[at], found[1] + _unlike(chance, found[2]))))
        for at, found in pairs
        if found
    ]


def _unlike(chance: Chance, value: str) -> str:
    return (
        str(int(value) + chance.between(1, 9)) if value.isdigit() else f'"{chance.pick(("other", "former", "main"))}"'
    )


def _section_twice(chance: Chance, lines: Lines) -> list[Lines]:
    heads = [at for at, line in enumerate(lines) if re.fullmatch(r"\[\w+\]", line)]
    return [swapped(lines, at + 1, lines[at + 1], lines[at]) for at in heads]


JSON: dict[str, Break] = {
    "last comma": _last_comma,
    "no comma": _each(r",$", ""),
    "quote": _each(r'"(\w+)": ', r'"\1: '),
    "first quote": _each(r'"(\w+)": ', r'\1": '),
    "note": _each(r"$", "  // NOTE"),
    "note line": _each(r"^(\s*)(?=\S)", r"\1# NOTE\n\1"),
    "single quotes": _single_quotes,
    "bracket": _lost_bracket,
    "zero": _each(r": (\d)", r": 0\1"),
    "equals": _each(r'": ', '" = '),
    "value quote": _each(r'": "(\w+)"', r'": "\1'),
}
TOML: dict[str, Break] = {
    "twice": _twice,
    "section twice": _section_twice,
    "bare word": _each(r' = "([a-zA-Z][\w :]*)"$', r" = \1"),
    "array comma": _each(r'", "', '" "'),
    "array end": _each(r'"\]$', '"'),
    "head": _each(r"^(\[\w+)\]$", r"\1"),
    "table": _each(r"^(\[\[\w+\])\]$", r"\1"),
    "colon": _each(r"^(\w+) = ", r"\1: "),
    "boolean": _each(r" = true$", " = True"),
    "note": _each(r"^(\w+ = .+)$", r"\1  // NOTE"),
    "quote": _each(r'^(\w+ = "[^"]+)"$', r"\1"),
}
