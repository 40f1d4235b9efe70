"""Which Python runs Machine: the ones that the README names, in their order, in the paths of either system."""

import json
import os
import shutil
import subprocess

import pytest

from pi.harness import PACKAGE, node_and_pi

ASK = """
Object.defineProperty(process, "platform", { value: process.argv[1] });
const { interpreters } = await import(process.argv[2]);
console.log(JSON.stringify(interpreters()));
"""
INSIDE = {"linux": "bin/python", "darwin": "bin/python", "win32": "Scripts/python.exe"}
SYSTEMS = pytest.mark.parametrize("system", INSIDE)


@pytest.fixture
def found(tmp_path):
    """Asks `extension/python.ts`, in a package, a home and a project of its own, what it would run."""
    package, home, project = (tmp_path / name for name in ("package", "home", "project"))
    (package / "extension").mkdir(parents=True)
    shutil.copy(PACKAGE / "extension" / "python.ts", package / "extension")
    project.mkdir()

    def ask(system, *venvs, **environment):
        for venv in venvs:
            python = tmp_path / venv / INSIDE[system]
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        node, _ = node_and_pi()
        module = (package / "extension" / "python.ts").as_uri()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MACHINE_")}
        done = subprocess.run(
            [node, "--input-type=module", "--eval", ASK, system, module],
            cwd=project,
            env=kept | {"HOME": str(home), "USERPROFILE": str(home)} | environment,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return [os.path.relpath(path, tmp_path) for path in json.loads(done.stdout)]

    return ask


@SYSTEMS
def test_the_package_s_own_goes_before_the_user_s(found, system):
    assert found(system, "package/.venv", "home/.machine/venv") == [
        f"package/.venv/{INSIDE[system]}",
        f"home/.machine/venv/{INSIDE[system]}",
    ]


@SYSTEMS
def test_the_user_s_alone_and_none(found, system):
    assert found(system) == []
    assert found(system, "home/.machine/venv") == [f"home/.machine/venv/{INSIDE[system]}"]


@SYSTEMS
def test_the_project_s_own_is_never_run(found, system):
    assert found(system, "project/.venv", "home/.machine/venv") == [f"home/.machine/venv/{INSIDE[system]}"]


@SYSTEMS
def test_the_one_that_is_named_is_the_only_one(found, system, tmp_path):
    named = str(tmp_path / "mine" / "python")
    assert found(system, "package/.venv", "home/.machine/venv", MACHINE_PYTHON=named) == ["mine/python"]


@SYSTEMS
def test_machine_s_folder_can_be_elsewhere(found, system, tmp_path):
    moved = str(tmp_path / "moved")
    assert found(system, "moved/venv", "home/.machine/venv", MACHINE_DATA_DIR=moved) == [f"moved/venv/{INSIDE[system]}"]


def test_the_paths_of_the_other_system_are_not_taken(found):
    assert found("win32", "package/.venv")
    assert found("linux") == []
