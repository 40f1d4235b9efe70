import json
import subprocess
import sys
from pathlib import Path

import pytest

from machine import bootstrap


def test_a_second_run_sets_up_nothing():
    if not (Path(sys.prefix) / bootstrap.STAMP).exists():
        pytest.skip("this environment was not made by set-up")
    command = [sys.executable, bootstrap.__file__, "--venv", sys.prefix, "--dev", "--pi"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_step_that_fails_is_not_stamped_and_the_next_run_goes_on_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "_still_there", lambda venv, name: True)
    ran = []

    def fail():
        raise bootstrap.SetupError("no network")

    bootstrap._once(tmp_path, "one", "First", "k", lambda: ran.append("one"))
    with pytest.raises(bootstrap.SetupError, match="no network"):
        bootstrap._once(tmp_path, "two", "Second", "k", fail)
    assert json.loads((tmp_path / bootstrap.STAMP).read_text()) == {"one": "k"}
    for name in ("one", "two"):
        bootstrap._once(tmp_path, name, name, "k", lambda name=name: ran.append(name))
    bootstrap._once(tmp_path, "one", "First", "changed", lambda: ran.append("one"))
    assert ran == ["one", "two", "one"]
    assert "• First" in capsys.readouterr().out


def test_a_command_that_fails_says_what_it_printed_and_what_to_do(monkeypatch):
    command = [sys.executable, "-c", "print('ERROR: no such package'); raise SystemExit(3)"]
    with pytest.raises(bootstrap.SetupError, match=r"ended with 3; check the index\nERROR: no such package"):
        bootstrap._run(command, "check the index", quiet_unless=("ERROR",))


def test_an_old_python_is_told_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "OLDEST_PYTHON", (99, 0))
    assert bootstrap.main(["--venv", str(tmp_path / "venv")]) == 1
    assert "run it with Python 99.0 or newer" in capsys.readouterr().err
    assert not (tmp_path / "venv").exists()


def test_an_old_node_is_not_taken(tmp_path, monkeypatch):
    for version, fits in (
        ("v20.20.2", False),
        ("v22.18.0", False),
        ("v22.19.0", True),
        ("v24.1.0", True),
        ("x", False),
    ):
        node = tmp_path / "node"
        node.write_text(f"#!/bin/sh\necho {version}\n")
        node.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert (bootstrap._system_node() is not None) == fits, version


def test_it_needs_nothing_but_the_standard_library():
    done = subprocess.run([sys.executable, "-S", "-I", bootstrap.__file__, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--venv" in done.stdout
