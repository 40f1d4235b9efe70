"""Fixtures for tests that drive the real Pi."""

import shutil
import stat
import sys
from pathlib import Path

import pytest

from pi.harness import PACKAGE, World, node_and_pi
from pi.scripted import Server
from pi.teacher import Teacher, install


@pytest.fixture(scope="session", autouse=True)
def _pi_is_there():
    if node_and_pi() is None:
        pytest.fail("no Pi to test against: set up the development environment, or name one with NODE_BIN and PI_BIN")


@pytest.fixture(scope="session")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def world(tmp_path, server):
    return World(tmp_path, server.pi_models())


@pytest.fixture(scope="module")
def teacher():
    """A model server with a teacher beside the user's own model."""
    with Teacher() as running:
        yield running


@pytest.fixture
def asking(tmp_path, teacher):
    """A world whose `/machine ask` calls a method of the host."""
    teacher.requests.clear()
    return install(World(tmp_path, teacher.pi_models()))


@pytest.fixture
def probed(world):
    """A world whose Python knows one more command, `/machine probe`, which does what a test asks for."""
    python = world.base / "python"
    probe = Path(__file__).parent / "probe.py"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{probe}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    world.extra["MACHINE_PYTHON"] = str(python)
    return world


@pytest.fixture
def bare(tmp_path, server):
    """A world with a copy of the package that has no Python environment."""
    package = tmp_path / "package"
    skip = shutil.ignore_patterns("__pycache__")
    for part in ("extension", "src"):
        shutil.copytree(PACKAGE / part, package / part, ignore=skip)
    shutil.copy(PACKAGE / "package.json", package)
    world = World(tmp_path, server.pi_models(), package=package)
    world.extra |= {"MACHINE_PYTHON": "", "PATH": f"{Path(sys.executable).parent}:{world.env()['PATH']}"}
    return world
