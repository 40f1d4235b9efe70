"""`machine auto` and `machine footer`: what is switched, for which project, and what Pi's side is told."""

import json
import stat

import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.store.project import Project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project.at(tmp_path)


def told(home):
    """The projects of which Pi's side asks Python."""
    return json.loads((home / "auto.json").read_text())["projects"]


def test_capture_is_off_at_first_and_asking_makes_nothing(project, home):
    report = run(["auto"], ShellHost())
    assert (report.exit_code, report.data["auto"], report.next_step) == (0, False, "machine auto on")
    assert run(["data"], ShellHost()).data["auto"] is False
    assert list(home.iterdir()) == []


def test_on_says_what_is_kept_and_where_and_stays_on(project, home):
    report = run(["auto", "on"], ShellHost())
    said = " ".join([report.title, *map(str, report.rows), *report.notes])
    for words in ("compaction", "headless" if "headless" in said else "print", "observed", "never as good", "leaves"):
        assert words in said
    assert str(project.folder) in said
    assert project.settings().auto
    assert run(["auto"], ShellHost()).data["auto"]
    rows = dict(run(["data"], ShellHost()).rows)
    assert rows["Auto"].startswith("on")
    assert told(home) == [str(project.root)]
    assert stat.S_IMODE((home / "auto.json").stat().st_mode) == 0o600


def test_off_is_off_for_this_project_alone(project, home, tmp_path, monkeypatch):
    run(["auto", "on"], ShellHost())
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    monkeypatch.chdir(other)
    run(["auto", "on"], ShellHost())
    assert told(home) == [str(tmp_path), str(other)]
    monkeypatch.chdir(tmp_path)
    run(["auto", "off"], ShellHost())
    assert told(home) == [str(other)]
    assert not project.settings().auto
    assert Project.at(other).settings().auto


@pytest.mark.parametrize("damage", [b"{", b"[]", None])
def test_a_damaged_list_is_made_anew_and_a_damaged_project_is_left_out(project, home, damage):
    run(["auto", "on"], ShellHost())
    (home / "auto.json").unlink()
    if damage is not None:
        (home / "auto.json").write_bytes(damage)
    for name, about in (("a", b"["), ("b", b"[]"), ("c", b'{"path": 1}')):
        (home / name).mkdir()
        (home / name / "project.json").write_bytes(about)
    run(["auto", "on"], ShellHost())
    assert told(home) == [str(project.root)]


def test_the_footer_is_on_at_first(project):
    assert run(["footer"], ShellHost()).data["footer"] is True
    assert run(["footer", "off"], ShellHost()).data["footer"] is False
    assert not project.settings().footer
    assert run(["footer", "on"], ShellHost()).data["footer"] is True


def test_other_words_are_bad_usage(project):
    for words in (["auto", "yes"], ["footer", "on", "off"]):
        assert run(words, ShellHost()).exit_code == 2
