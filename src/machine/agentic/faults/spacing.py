"""Spacing: tabs among spaces, blanks that only look like blanks, line ends of another system."""

from machine.agentic.chance import Chance
from machine.agentic.damage import Break, Damage, Lines, broken, swapped
from machine.agentic.faults.syntax import unparsable
from machine.agentic.project import Project

TOLD = (
    "{path} looks right to me, and still the check fails because of it.",
    "Since I pasted something into {path}, it does not work any more, and I see no difference.",
    "My new editor has changed something in {path} that I cannot see.",
)


def damaged(chance: Chance, project: Project) -> Damage:
    """One module with mixed indents or odd blanks; or one text file with odd line ends or blanks for tabs."""
    if chance.odds(40):
        path = chance.pick([*(project.module(piece) for piece in (*project.parts, project.store)), project.report])
        _, text = broken(chance, project.files[path].decode(), SOURCE, unparsable)
    else:
        path = chance.pick(sorted(project.store.files))
        text = project.store.files[path]
        if project.kind == "recipes" and chance.odds(60):
            text = _blanks_for_tabs(chance, text)
        else:
            text = text.replace("\n", "\r\n")
    return Damage({path: text.encode()}, chance.pick(TOLD).format(path=path))


def _tab(chance: Chance, lines: Lines) -> list[Lines]:
    return [
        swapped(lines, at, line.replace("    ", "\t", 1)) for at, line in enumerate(lines) if line.startswith("    ")
    ]


def _hard_blank(chance: Chance, lines: Lines) -> list[Lines]:
    """A no-break space, or another wide one, in place of one blank."""
    odd = chance.pick(("\u00a0", "\u2003", "\u202f", "\u3000"))
    return [
        swapped(lines, at, line[:place] + odd + line[place + 1 :])
        for at, line in enumerate(lines)
        for place, letter in enumerate(line)
        if letter == " "
    ]


SOURCE: dict[str, Break] = {"tab": _tab, "blank": _hard_blank}


def _blanks_for_tabs(chance: Chance, text: str) -> str:
    """Blanks for the tab of one step, or of all."""
    blanks = " " * chance.pick((2, 4, 8))
    lines = text.splitlines(keepends=True)
    steps = [at for at, line in enumerate(lines) if line.startswith("\t")]
    for at in steps if chance.odds(40) else [chance.pick(steps)]:
        lines[at] = blanks + lines[at][1:]
    return "".join(lines)
