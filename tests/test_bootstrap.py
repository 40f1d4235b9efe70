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


def test_a_step_that_leaves_nothing_behind_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("MACHINE_MODELS_DIR", str(tmp_path / "models"))
    with pytest.raises(bootstrap.SetupError, match="left nothing"):
        bootstrap._once(tmp_path, "model", "The model", "1", lambda: None)
    assert not (tmp_path / bootstrap.STAMP).exists()


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


def test_a_new_python_starts_the_stamps_anew_and_a_damaged_stamp_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(bootstrap, "_still_there", lambda venv, name: True)
    stamp = tmp_path / bootstrap.STAMP
    stamp.write_text("[1]")
    for name, key in (("environment", "3.11"), ("torch", "t"), ("environment", "3.12")):
        bootstrap._once(tmp_path, name, name, key, lambda: None)
    assert json.loads(stamp.read_text()) == {"environment": "3.12"}


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"bin": {"pi": "gone.js"}}', '{"bin": {"po": 1}}'])
def test_a_pi_that_is_not_whole_is_none(tmp_path, content):
    if content is not None:
        (tmp_path / "package.json").write_text(content)
    assert bootstrap._pi_script(tmp_path) is None


def test_a_folder_that_cannot_be_made_is_said(tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")
    assert bootstrap.main(["--venv", str(tmp_path / "file" / "venv")]) == 1
    assert "set-up stopped" in capsys.readouterr().err


def test_a_browser_that_does_not_start_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(bootstrap, "BROWSERS", ("chromium", "chrome"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, code in (("chromium", 1), ("chrome", 0)):
        assert bootstrap.system_browser() is None
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    assert bootstrap.system_browser() == tmp_path / "chrome"


def test_the_environment_s_own_browser_is_found_when_it_is_there(tmp_path):
    assert bootstrap.chromium(tmp_path) is None
    (tmp_path / "chromium").mkdir()
    (tmp_path / "chromium" / "chromium").touch()
    assert bootstrap.chromium(tmp_path) == tmp_path / "chromium" / "chromium"
