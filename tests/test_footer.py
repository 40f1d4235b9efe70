from machine.cli import ShellHost
from machine.commands import run
from machine.footer import UNTAGGED, footer
from machine.store.project import Project
from sessions import Script


def test_a_project_that_holds_nothing_has_nothing_to_say(tmp_path, home):
    assert footer(tmp_path, "s1", None) == ""
    assert list(home.iterdir()) == []


def test_a_turn_without_a_row_is_said(tmp_path):
    assert footer(tmp_path, "s1", "a1") == f"machine: {UNTAGGED}"


def test_counts_and_whether_the_last_turn_has_its_row(tmp_path):
    session = Script(cwd=str(tmp_path))
    session.user("Capital of France?")
    tagged = session.assistant("Paris.")
    run(["good", "--session", str(session.save(tmp_path / "s.jsonl"))], ShellHost())
    assert footer(tmp_path, "session-1", tagged) == "machine: 1 good"
    assert footer(tmp_path, "session-1", None) == "machine: 1 good"
    assert footer(tmp_path, "session-1", "later") == f"machine: 1 good · {UNTAGGED}"


def test_capture_that_is_on_is_said_and_a_footer_that_is_off_says_nothing(tmp_path):
    project = Project.at(tmp_path)
    project.set(auto=True)
    assert footer(tmp_path, "s1", None) == "machine: auto"
    assert footer(tmp_path, "s1", "a1") == f"machine: auto · {UNTAGGED}"
    project.set(footer=False)
    assert footer(tmp_path, "s1", "a1") == ""
