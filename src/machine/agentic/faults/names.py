"""Names: two modules that do not agree on a name: an import, a renamed function, a lost import."""

import re

from machine.agentic.chance import Chance
from machine.agentic.damage import Damage
from machine.agentic.project import Project

TOLD = (
    "I renamed a few things in {package} and now not everything is found.",
    "Since I tidied up {package}, one module does not find what it needs.",
    "Something in {package} asks for a name that is not there.",
)


def damaged(chance: Chance, project: Project) -> Damage:
    """A stale name or module in the report, an import without its package, a renamed function, a lost import."""
    manner = chance.pick((_stale_name, _stale_module, _bare_module, _renamed, _lost))
    path, text, elsewhere = manner(chance, project)
    return Damage({path: text.encode()}, chance.pick(TOLD).format(package=project.package), frozenset(elsewhere))


_Change = tuple[str, str, set[str]]
"""The path that changes, its new text, and where else the repair may lie."""


def _other(chance: Chance, name: str) -> str:
    """A name that no module of ours has."""
    return chance.pick(
        ("old_{}", "get_{}", "{}_all", "{}_of", "make_{}", "my_{}", "{}2", "the_{}", "{}_new", "do_{}")
    ).format(name)


def _stale_name(chance: Chance, project: Project) -> _Change:
    piece = chance.pick(project.called)
    name = piece.sample[0].split("(")[0]
    text = re.sub(rf"\b{name}\b", _other(chance, name), project.files[project.report].decode())
    return project.report, text, {project.module(piece)}


def _stale_module(chance: Chance, project: Project) -> _Change:
    piece = chance.pick(project.called)
    right = f"from {project.package}.{piece.module} import"
    wrong = f"from {project.package}.{_other(chance, piece.module)} import"
    return project.report, project.files[project.report].decode().replace(right, wrong), set()


def _bare_module(chance: Chance, project: Project) -> _Change:
    piece = chance.pick(project.called)
    right = f"from {project.package}.{piece.module} import"
    wrong = chance.pick((f"from {piece.module} import", f"from {project.package}.lib.{piece.module} import"))
    return project.report, project.files[project.report].decode().replace(right, wrong), set()


def _renamed(chance: Chance, project: Project) -> _Change:
    piece = chance.pick((*project.parts, project.store))
    name = chance.pick(piece.names)
    return project.module(piece), piece.source.replace(f"def {name}(", f"def {_other(chance, name)}("), set()


def _lost(chance: Chance, project: Project) -> _Change:
    path = chance.pick((project.module(project.store), project.report))
    lines = project.files[path].decode().splitlines(keepends=True)
    gone = chance.pick([line for line in lines if re.match(r"(import|from) ", line)])
    return path, "".join(line for line in lines if line != gone), set()
