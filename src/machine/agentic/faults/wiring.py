"""Wiring: a file of settings that refers to something that is not there: an INI reference, a path."""

import json
import re

from machine.agentic.chance import Chance
from machine.agentic.damage import Break, Damage, Lines, broken, swapped
from machine.agentic.project import Project

INI_TOLD = (
    "The settings in {path} do not hold together any more.",
    "Since I moved values about in {path}, the check fails.",
    "Reading {path} gives the wrong values or none at all.",
)
PATH_TOLD = (
    "One of the lists is not found any more; the files themselves are where they belong.",
    "I tidied up {path}, and now a list cannot be opened. The lists themselves have not moved.",
    "{path} does not agree with the files that there are. Leave those where they are.",
)


def ini_damaged(chance: Chance, project: Project) -> Damage:
    """The INI file with one reference, header or key that is off."""
    ((path, text),) = project.store.files.items()
    _, text = broken(chance, text, INI, lambda text: True)
    return Damage({path: text.encode()}, chance.pick(INI_TOLD).format(path=path))


def path_damaged(chance: Chance, project: Project) -> Damage:
    """The file of paths with one path at which no list lies."""
    path = next(path for path in project.store.files if path.endswith(".json"))
    paths = json.loads(project.store.files[path])
    name = chance.pick(list(paths))
    top, group, file = paths[name].split("/")
    stem, ending = file.split(".")
    wrong = [
        f"{top}/{file}",
        f"{top}/{group}/{file}.bak",
        f"{group}/{file}",
        f"{top}/{group}/{stem}",
        f"{top}/{group}/{stem[:-1]}.{ending}",
        f"{top}/{group}/{stem}s.{ending}",
        f"../{top}/{group}/{file}",
        f"{top}\\{group}\\{file}",
        f"/{top}/{group}/{file}",
        f"{top}/{group}s/{file}",
        f"{top}/{group}/{stem}.{chance.pick([each for each in ('csv', 'md', 'text') if each != ending])}",
        f"{top}/{chance.pick([each for each in project.theme.groups if each != group])}/{file}",
        f"{top[:-1]}/{group}/{file}",
    ]
    text = json.dumps(paths | {name: chance.pick(wrong)}, indent=2) + "\n"
    return Damage({path: text.encode()}, chance.pick(PATH_TOLD).format(path=path))


def _references(pattern: str, new: str) -> Break:
    """Breaks the first reference of any one line that the pattern is found in."""

    def ways(chance: Chance, lines: Lines) -> list[Lines]:
        return [
            swapped(lines, at, re.sub(pattern, new, line, count=1))
            for at, line in enumerate(lines)
            if re.search(pattern, line)
        ]

    return ways


def _twice(chance: Chance, lines: Lines) -> list[Lines]:
    """A key stands there a second time, with another value."""
    keys = [at for at, line in enumerate(lines) if " = " in line]
    other = chance.pick(("other", "former", "main", "spare"))
    return [swapped(lines, at, *chance.shuffled((lines[at], f"{lines[at].split(' = ')[0]} = {other}"))) for at in keys]


def _section_twice(chance: Chance, lines: Lines) -> list[Lines]:
    heads = [at for at, line in enumerate(lines) if line.startswith("[")]
    return [swapped(lines, at + 1, lines[at + 1], lines[at]) for at in heads]


INI: dict[str, Break] = {
    "key": _references(r"\$\{((?:\w+:)?)(\w+)\}", r"${\1the_\2}"),
    "key with a tail": _references(r"\$\{((?:\w+:)?)(\w+)\}", r"${\1\2_dir}"),
    "section": _references(r"\$\{(\w+):", r"${\1s:"),
    "first section": _references(r"\$\{(\w+):", r"${my\1:"),
    "end": _references(r"(\$\{[\w:]+)\}", r"\1"),
    "round": _references(r"\$\{([\w:]+)\}", r"$(\1)"),
    "percent": _references(r"\$\{([\w:]+)\}", r"%(\1)s"),
    "dot": _references(r"\$\{(\w+):", r"${\1."),
    "no mark": _references(r"\$\{([\w:]+)\}", r"{\1}"),
    "head": _references(r"^\[(\w+)\]", r"[\1s]"),
    "head end": _references(r"^\[(\w+)\]", r"[\1"),
    "no equals": _references(r"^(\w+) = ", r"\1 "),
    "twice": _twice,
    "section twice": _section_twice,
}
