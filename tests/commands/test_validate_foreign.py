"""`train validate FILE --show ID` of a file that anyone may have written."""

import msgspec
import pytest

from hosts import ScriptedHost
from machine.commands import run
from machine.home import machine_home
from students import assistant, byte_student, row, user


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Shows the row of that id, out of a file of one row."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setattr("machine.commands.validate._student", lambda *_: (byte_student(tmp_path), None, "a test's"))

    def shown(id):
        file = tmp_path / "rows.jsonl"
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(row(user("q"), assistant("a")), id=id)) + b"\n")
        return run(["train", "validate", str(file), "--show", id[:3]], ScriptedHost(project))

    return shown


@pytest.mark.parametrize("id", ["t_x/../../../../../evil", "/t_x", "..", "t_x\0", "t_x\n", "t_" + "x" * 300, ""])
def test_an_id_that_is_a_path_names_no_page(show, id, tmp_path):
    report = show(id)
    assert report.exit_code == 2
    assert "cannot be the name of a page" in report.title
    assert list(tmp_path.rglob("*.html")) == []


def test_an_id_that_is_a_name_does(show):
    report = show("t_x:1")
    assert report.exit_code == 0, report.title
    [page] = machine_home().rglob("*.html")
    assert (page.name, page.parent.name) == ("t_x:1.html", "shown")
