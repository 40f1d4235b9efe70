"""Slips: a wrong edit or a wrong value in a module that the tests show, or both versions of it left by a merge."""

from machine.agentic.chance import Chance
from machine.agentic.damage import Damage
from machine.agentic.piece import Kind, Piece, Slip, slipped
from machine.agentic.project import Project

EDITED = (
    "The figures of {module} have been off since my last change.",
    "A test of {module} fails, and it worked last week.",
    "Someone has touched {package}/{module}.py and now it reckons wrongly in some cases.",
)
MISVALUED = (
    "A test of {module} fails; the README still says how it ought to be.",
    "{package}/{module}.py no longer keeps to what the README says.",
    "What {module} gives does not agree with the tests any more.",
)
UNMERGED = (
    "I merged {branch} and had to leave half-way; {package} has not worked since.",
    "The merge of {branch} is not finished: one file of {package} still has both versions.",
    "After the merge of {branch} the check fails. Keep whichever version the tests ask for.",
)
WORK = ("feature", "fix", "topic", "wip")


def edited(chance: Chance, project: Project) -> Damage:
    """One module with a wrong operator, bound or order of arguments."""
    return _slipped(chance, project, "edit", EDITED)


def misvalued(chance: Chance, project: Project) -> Damage:
    """One module with a wrong constant or a wrong value returned."""
    return _slipped(chance, project, "constant", MISVALUED)


def unmerged(chance: Chance, project: Project) -> Damage:
    """One module with one or two places that hold two versions between merge markers."""
    piece = chance.pick(project.parts)
    branch = f"{chance.pick(WORK)}/{chance.pick(project.theme.items)}"
    lines = piece.source.splitlines()
    other: dict[int, str] = {}
    for slip in chance.shuffled(piece.slips)[: chance.between(1, 2)]:
        at, line = _changed(piece, slip)
        if all(abs(at - taken) > 2 for taken in other):
            other[at] = line
    for at in sorted(other, reverse=True):
        sides = chance.shuffled((lines[at], other[at]))
        lines[at : at + 1] = ["<<<<<<< HEAD", sides[0], "=======", sides[1], f">>>>>>> {branch}"]
    text = "".join(line + "\n" for line in lines)
    return Damage(
        {project.module(piece): text.encode()}, chance.pick(UNMERGED).format(branch=branch, package=project.package)
    )


def _slipped(chance: Chance, project: Project, kind: Kind, told: tuple[str, ...]) -> Damage:
    piece, slip = chance.pick([(piece, slip) for piece in project.parts for slip in piece.slips if slip.kind == kind])
    said = chance.pick(told).format(module=piece.module, package=project.package)
    return Damage({project.module(piece): slipped(piece.source, slip).encode()}, said)


def _changed(piece: Piece, slip: Slip) -> tuple[int, str]:
    """The number, from 0, of the line that the slip changes, and what it becomes."""
    pairs = zip(piece.source.splitlines(), slipped(piece.source, slip).splitlines(), strict=True)
    return next((at, wrong) for at, (right, wrong) in enumerate(pairs) if right != wrong)
