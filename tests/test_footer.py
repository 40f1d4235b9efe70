import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.errors import StoreError
from machine.footer import UNTAGGED, footer
from machine.release import log
from machine.store.project import Project
from machine.tinker.served import BASE, Served, Trial, serve, students_file, try_out
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


def test_a_trial_is_said_with_how_far_it_is_and_where_it_is_paused(tmp_path):
    project = Project.at(tmp_path)
    try_out(tmp_path, Trial("BR-001", "tinker/br", "tinker://x", 0.5, "turn", "00"))
    assert footer(tmp_path, "s1", None, student=True) == "student: trial BR-001 0"  # no log says how long it is
    log.append(project.releases, "BR-001", 1, "trial", {"turns": 20})
    assert footer(tmp_path, "s1", None, student=True) == "student: trial BR-001 0/20"
    assert footer(tmp_path, "s1", "a1") == f"trial BR-001 0/20, paused · machine: {UNTAGGED}"
    try_out(tmp_path, None)
    assert footer(tmp_path, "s1", None) == ""
    assert footer(tmp_path, "s1", None, student=True) == "student: none yet"


def test_a_release_that_was_forced_is_said_for_ever(tmp_path):
    project = Project.at(tmp_path)
    serve(tmp_path, Served("tinker/br", "tinker://x", "BR-001"))
    log.append(project.releases, "BR-001", 1, "activated", {"forced": "in a hurry"})
    log.append(project.releases, "BR-001", 2, "activated", {"forced": ""})
    assert footer(tmp_path, "s1", None, student=True) == "student: tinker/br (BR-001, FORCED)"
    serve(tmp_path, Served("tinker/br-2", "tinker://y", "BR-002"))
    log.append(project.releases, "BR-002", 1, "activated", {"forced": ""})
    assert footer(tmp_path, "s1", None, student=True) == "student: tinker/br-2 (BR-002)"


def test_a_list_of_students_that_is_damaged_is_told_to_who_asks_the_student(tmp_path):
    serve(tmp_path, Served("tinker/one", "one", BASE))
    students_file().write_text("{")
    assert footer(tmp_path, "s1", "a1") == f"machine: {UNTAGGED}"
    with pytest.raises(StoreError):
        footer(tmp_path, "s1", "a1", student=True)
