import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine.cli import ShellHost
from machine.commands import COMMANDS, help_text, run
from machine.host import LiveSession
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


def test_bytes_that_are_no_text_are_saved_without_them(session, monkeypatch):
    project, file = session
    done = machine("good", b"caf\xe9", "--session", str(file))
    assert done.returncode == 0, done.stderr
    [row] = Project.at(project).pool.rows()
    assert row.note == "caf"


def test_what_a_session_holds_neither_steers_the_terminal_nor_stops_the_report(tmp_path):
    s = Script(cwd=str(tmp_path))
    s.user("\x1b[2J :rocket: [bold]é\ud800")
    s.assistant("ok")
    file = str(s.save(tmp_path / "s.jsonl"))
    env = os.environ | {"PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(
        [sys.executable, "-m", "machine.cli", "good", "--session", file], capture_output=True, env=env
    )
    assert done.returncode == 0, done.stderr
    assert b"\\x1b[2J :rocket: [bold]\\xe9" in done.stdout


def test_a_reader_that_stops_reading_is_no_fault(session, tmp_path):
    for words in (["tagged", "--json"], ["tagged"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "machine.cli", *words]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
        os.close(writer)
        assert done.stderr == ""


def test_a_folder_that_is_gone_is_said(tmp_path):
    gone = tmp_path / "gone"
    code = "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\nfrom machine.cli import main; main()"
    for word in ("tagged", "data"):
        done = subprocess.run([sys.executable, "-c", code, word], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1, gone
        assert "Traceback" not in done.stderr
        assert "Next: " in done.stderr


@pytest.mark.parametrize("count", ["0", "9" * 30, "9" * 5000, "-1", "\u0663"])
def test_a_number_of_rows_that_cannot_be_is_bad_usage(count):
    assert run(["tagged", count], ShellHost()).exit_code == 2


def test_out_to_what_is_no_file_is_refused_and_names_it(session, tmp_path):
    _, file = session
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for out in (tmp_path, tmp_path / "link", file / "x", tmp_path / "no where" / "x", Path("/dev/null")):
        report = run(["good", "--session", str(file), "--out", str(out)], ShellHost())
        assert report.exit_code == 1
        assert report.next_step
    assert not (tmp_path / "target").exists()


def test_a_refusal_is_told_also_where_it_cannot_be_noted(tmp_path, home, monkeypatch):
    (home / "file").write_bytes(b"")
    monkeypatch.setenv("MACHINE_DATA_DIR", str(home / "file"))
    s = Script(cwd=str(tmp_path))
    s.user("Hi")
    assert "no answer" in run(["good", "--session", str(s.save(tmp_path / "s.jsonl"))], ShellHost()).title


def test_a_session_without_a_folder_belongs_to_the_shells_and_its_file_is_kept_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s = Script(cwd="")
    s.user("Hi")
    s.assistant("Hello.")
    s.save(tmp_path / "s.jsonl")
    assert run(["good", "--session", "s.jsonl"], ShellHost()).exit_code == 0
    [row] = Project.at(tmp_path).pool.rows()
    assert row.source.file == str(tmp_path / "s.jsonl")


def test_going_back_to_before_the_first_message_leaves_no_turn_to_tag(session):
    project, file = session

    class Pi(ShellHost):
        def session(self):
            return LiveSession("pi", "1", "s", project, file, leaf=None, idle=True)

    assert "no turn to tag" in run(["good"], Pi()).title
