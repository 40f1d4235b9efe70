"""Syntax: a module that Python cannot parse for one character, one word or one indent."""

from machine.agentic.chance import Chance
from machine.agentic.damage import Break, Damage, Lines, broken, swapped
from machine.agentic.project import Project

MISSPELT = {"return ": "retrun ", "def ": "dfe ", "for ": "fro ", "import ": "imprt ", " in ": " im ", " = ": " == = "}
TOLD = (
    "Python does not even load one module of {package} any more.",
    "I edited {package} in a hurry and now the check stops before it has run all tests.",
    "Something is wrong in the sources of {package}: importing it ends in a traceback.",
)


def damaged(chance: Chance, project: Project) -> Damage:
    """One module with one error of syntax."""
    path = chance.pick([*(project.module(piece) for piece in (*project.parts, project.store)), project.report])
    _, text = broken(chance, project.files[path].decode(), BREAKS, unparsable)
    return Damage({path: text.encode()}, chance.pick(TOLD).format(package=project.package))


def unparsable(source: str) -> bool:
    """Whether Python refuses the source."""
    try:
        compile(source, "module.py", "exec", dont_inherit=True)
    except SyntaxError:
        return True
    return False


def _without_last(mark: str) -> Break:
    def ways(chance: Chance, lines: Lines) -> list[Lines]:
        return [
            swapped(lines, at, mark.join(line.rsplit(mark, 1)[:1]) + line.rsplit(mark, 1)[1])
            for at, line in enumerate(lines)
            if mark in line
        ]

    return ways


def _colon(chance: Chance, lines: Lines) -> list[Lines]:
    return [swapped(lines, at, line[:-1]) for at, line in enumerate(lines) if line.endswith(":")]


def _bracket(chance: Chance, lines: Lines) -> list[Lines]:
    return [swapped(lines, at, line.replace(")", "]", 1)) for at, line in enumerate(lines) if ")" in line]


def _word(chance: Chance, lines: Lines) -> list[Lines]:
    return [
        swapped(lines, at, line.replace(right, wrong, 1))
        for at, line in enumerate(lines)
        for right, wrong in MISSPELT.items()
        if right in line
    ]


def _less_indent(chance: Chance, lines: Lines) -> list[Lines]:
    return [swapped(lines, at, line[4:]) for at, line in enumerate(lines) if line.startswith("    ")]


def _more_indent(chance: Chance, lines: Lines) -> list[Lines]:
    return [
        swapped(lines, at, " " * chance.pick((1, 2, 4)) + line)
        for at, line in enumerate(lines)
        if line.startswith("    ")
    ]


BREAKS: dict[str, Break] = {
    "colon": _colon,
    "bracket": _bracket,
    "word": _word,
    "parenthesis": _without_last(")"),
    "quote": _without_last('"'),
    "less": _less_indent,
    "more": _more_indent,
}
