import json
import subprocess
import sys

import pytest

from machine.cli import ShellHost
from machine.commands import COMMANDS, help_text, run
from machine.store.project import Project
from sessions import Script


@pytest.fixture
def session(tmp_path):
    project = tmp_path / "app"
    project.mkdir()
    s = Script(cwd=str(project))
    s.user("Capital of France?")
    s.assistant("Paris.")
    return project, s.save(tmp_path / "s.jsonl")


def machine(*words):
    return subprocess.run([sys.executable, "-m", "machine.cli", *words], capture_output=True, text=True)


def test_good_from_a_file_lands_in_the_pool_of_the_sessions_project(session):
    project, file = session
    report = run(["good", "short", "and", "right", "--session", str(file)], ShellHost())
    assert report.exit_code == 0
    [row] = Project.at(project).pool.rows()
    assert row.note == "short and right"
    assert row.id == report.data["id"]


def test_good_twice_is_told(session):
    _, file = session
    run(["good", "--session", str(file)], ShellHost())
    assert "Already tagged" in run(["good", "--session", str(file)], ShellHost()).title


def test_good_out_writes_elsewhere_only(session, tmp_path):
    project, file = session
    run(["good", "--session", str(file), "--out", str(tmp_path / "rows.jsonl")], ShellHost())
    assert len((tmp_path / "rows.jsonl").read_bytes().splitlines()) == 1
    assert Project.at(project).pool.counts() == {}


def test_tagged_and_data_tell_what_is_there(session, monkeypatch):
    project, file = session
    monkeypatch.chdir(project)
    assert run(["tagged"], ShellHost()).title == "Nothing tagged yet"
    row = run(["good", "--session", str(file)], ShellHost()).data["id"]
    assert run(["tagged"], ShellHost()).data["rows"][0]["id"] == row
    assert run(["tagged", row[:14]], ShellHost()).data["messages"][-1]["content"] == "Paris."
    assert run(["data"], ShellHost()).data["counts"] == {"good": 1}


def test_a_refusal_is_noted_and_shown_by_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s = Script(cwd=str(tmp_path))
    s.user("Hi")
    report = run(["good", "--session", str(s.save(tmp_path / "s.jsonl"))], ShellHost())
    assert report.exit_code == 2
    assert "no answer" in run(["data"], ShellHost()).data["refused"][0]["reason"]


def test_the_shell_prints_json_and_exit_codes(session):
    _, file = session
    done = machine("good", "--json", "--session", str(file))
    assert done.returncode == 0
    assert json.loads(done.stdout)["data"]["target"] == [2]
    done = machine("good")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("Next: machine good --session FILE")


@pytest.mark.parametrize("words", [["nope"], ["tagged", "x"], ["good", "--nope"], ["good", "--session", "/nowhere"]])
def test_bad_usage_is_two_with_a_next_step_and_no_traceback(words):
    done = machine(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Next: " in done.stderr


def test_every_word_has_help():
    for word in COMMANDS:
        text = help_text([word, "--help"])
        assert text
        assert text.startswith("Usage: machine")
    assert help_text(["good"]) is None


def test_core_commands_import_nothing_heavy(session):
    _, file = session
    code = (
        "import sys; from machine.commands import run; from machine.cli import ShellHost\n"
        f"run(['good', '--session', {str(file)!r}], ShellHost()); run(['tagged'], ShellHost()); run(['data'], ShellHost())\n"
        "print([m for m in ('torch', 'tinker', 'transformers', 'numpy', 'yaml') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
