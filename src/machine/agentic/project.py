"""Project: a small sound repository by chance, before a fault is put into it.

It has a README, a package of three to five modules (one to three that reckon, one that reads a file, a report that
calls two of them), tests for unittest, a check, and a few files that have nothing to do with any fault.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from machine.agentic.chance import Chance
from machine.agentic.parts import PLANS
from machine.agentic.piece import Piece, Tests, made
from machine.agentic.stores import STORES
from machine.agentic.theme import ENDINGS, THEMES, Theme

CHECK = '''"""Runs all tests of this repository; ends with 0 where it is sound."""

import os
import sys
import unittest
from pathlib import Path

os.chdir(Path(__file__).resolve().parent)
tests = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
sys.exit(not unittest.TextTestRunner(verbosity=0).run(tests).wasSuccessful())
'''

TOP = """
TOP = Path(__file__).resolve().parent.parent
"""

TEST = """import unittest
from pathlib import Path

from {package}.{module} import {names}
{top}

class {title}Test(unittest.TestCase):
    maxDiff = None
{methods}

if __name__ == "__main__":
    unittest.main()
"""

REPORT = '''"""What {package} prints."""

{imports}


def {function}():
    """The lines of the report."""
    return [
{lines}
    ]


if __name__ == "__main__":
    print("\\n".join({function}()))
'''


@dataclass(frozen=True)
class Project:
    """A sound repository: `files` are the agent's to see, `hidden` are tests for the judging alone, both path -> bytes.

    `parts` reckon, `store`, of the kind `kind`, reads a file; `report` is the path of the module that calls `called`,
    two of the parts or the only one.
    """

    package: str
    theme: Theme
    parts: tuple[Piece, ...]
    store: Piece
    kind: str
    called: tuple[Piece, ...]
    report: str
    check: tuple[str, ...]
    files: dict[str, bytes]
    hidden: dict[str, bytes]

    def module(self, piece: Piece) -> str:
        """The path of a piece's module."""
        return f"{self.package}/{piece.module}.py"


def sound(chance: Chance, store: str | None = None) -> Project:
    """A project by chance, whose store is of the given kind (a key of `STORES`; None: any)."""
    theme = chance.pick(THEMES)
    stem, ending = chance.pick(theme.stems), chance.pick(ENDINGS)
    package = f"{stem}{chance.pick(('', '_'))}{ending}"
    parts = tuple(made(plan, chance, theme) for plan in chance.some(PLANS, chance.between(1, 3)))
    kind = store or chance.pick(sorted(STORES))
    kept = STORES[kind](chance, theme)
    called = tuple(chance.shuffled(parts)[:2])
    report, function = (
        chance.pick(("report", "summary", "overview")),
        chance.pick(("report_lines", "summed_up", "all_lines_of")),
    )
    check = chance.pick((("python3", "check.py"), ("python3", "-m", "unittest", "-q")))
    texts = {f"{package}/__init__.py": f'"""{package}: small tools for {theme.things}."""\n', "tests/__init__.py": ""}
    hidden = {}
    for piece in (*parts, kept):
        texts |= {f"{package}/{piece.module}.py": piece.source, **piece.files}
        texts[f"tests/test_{piece.module}.py"] = _test(package, piece, piece.tests)
        hidden[f"tests/test_judge_{piece.module}.py"] = _test(package, piece, piece.hidden).encode()
    texts[f"{package}/{report}.py"] = _report(package, function, called)
    texts[f"tests/test_{report}.py"] = _report_test(package, report, function, called)
    texts |= {"check.py": CHECK} if check[-1] == "check.py" else {}
    texts["README.md"] = _readme(package, theme, (*parts, kept), report, function, check)
    texts |= _bystanders(chance, package, theme)
    files = {path: texts[path].encode() for path in sorted(texts)}
    return Project(package, theme, parts, kept, kind, called, f"{package}/{report}.py", check, files, hidden)


def _test(package: str, piece: Piece, tests: Tests) -> str:
    methods = "".join(
        f"\n    def test_{name}(self):\n" + "".join(f"        {each}\n" for each in statements)
        for name, statements in tests.items()
    )
    title = piece.module.title().replace("_", "")
    names = ", ".join(sorted(piece.names))
    text = TEST.format(
        package=package,
        module=piece.module,
        names=names,
        title=title,
        methods=methods,
        top=TOP if "TOP" in methods else "",
    )
    return text if "TOP" in methods else text.replace("from pathlib import Path\n", "")


def _report(package: str, function: str, called: Sequence[Piece]) -> str:
    imports = sorted(f"from {package}.{piece.module} import {_function(piece)}" for piece in called)
    lines = "\n".join(f'        "{piece.module}: " + str({piece.sample[0]}),' for piece in called)
    return REPORT.format(package=package, imports="\n".join(imports), function=function, lines=lines)


def _report_test(package: str, report: str, function: str, called: Sequence[Piece]) -> str:
    lines = [f"{piece.module}: {ast.literal_eval(piece.sample[1])}" for piece in called]
    piece = Piece(report, "", (function,), {}, {}, "")
    return _test(package, piece, {function: [f"self.assertEqual({function}(), {lines})"]})


def _function(piece: Piece) -> str:
    """The function that the sample calls."""
    return piece.sample[0].split("(")[0]


def _readme(
    package: str, theme: Theme, pieces: Sequence[Piece], report: str, function: str, check: Sequence[str]
) -> str:
    modules = "\n".join(f"- `{package}/{piece.module}.py`: {piece.says}" for piece in pieces)
    return (
        f"{package}\n{'=' * len(package)}\n\nSmall tools for {theme.things}, with Python 3.11 and nothing else.\n\n"
        f"## Modules\n\n{modules}\n- `{package}/{report}.py`: `{function}()`, what the tools say together.\n\n"
        f"## Check\n\n    {' '.join(check)}\n\nIt ends with 0 where everything is as it should be.\n"
    )


def _bystanders(chance: Chance, package: str, theme: Theme) -> dict[str, str]:
    """A few files that no fault is in."""
    one, two, three = chance.some(theme.items, 3)
    pool = {
        ".gitignore": "__pycache__/\n*.pyc\n",
        ".editorconfig": "root = true\n\n[*]\ncharset = utf-8\nend_of_line = lf\ninsert_final_newline = true\n",
        "CHANGES.md": f"# Changes\n\n- {one}: counted again\n- {two}: new price\n- {three}: taken out, and put back\n",
        "docs/names.md": f"Names\n=====\n\nWe call a {theme.thing} by one word in lower case, such as {one}.\n",
        "docs/todo.txt": f"ask about {one}\nmeasure {two}\ndraw a map for {three}\n",
        "notes/meeting.md": f"# Meeting\n\n{chance.between(3, 9)} people. {one.title()} stays, {two} goes.\n",
        "tools/clean.sh": "#!/bin/sh\n# Removes what Python leaves.\nfind . -name __pycache__ -exec rm -r {} +\n",
        "data/old/README.txt": f"Nothing in here is read by {package} any more.\n",
        "AUTHORS": f"{one.title()} {chance.pick(ENDINGS).title()}\n{two.title()} {chance.pick(ENDINGS).title()}\n",
    }
    return {path: pool[path] for path in chance.some(sorted(pool), chance.between(2, 4))}
