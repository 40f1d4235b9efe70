"""Linters and type checkers, as tests: what `make lint` says, `make test` holds."""

import subprocess
import sys
from pathlib import Path

import pytest

from machine import bootstrap


@pytest.mark.parametrize("words", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join)
def test_python(words):
    done = subprocess.run([sys.executable, "-m", *words], cwd=bootstrap.PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_typescript():
    node = bootstrap.tools(Path(sys.prefix)).node
    assert node is not None
    compiler = bootstrap.PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([str(node), str(compiler), "-p", "."], cwd=bootstrap.PACKAGE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
