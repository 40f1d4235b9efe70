import pytest

from machine.commands import run
from machine.report import as_json


class Shell:
    """A host that nobody sits at."""

    interactive = False

    def __init__(self, cwd):
        self.cwd = cwd
        self.said = []

    def progress(self, message):
        self.said.append(message)

    def notify(self, message, level="info"):
        self.said.append(message)


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def test_start_status_stop(shell, home):
    pytest.importorskip("torch")
    assert run(["engine", "status"], shell).data == {"running": False}
    started = run(["engine", "start"], shell)
    try:
        assert (started.exit_code, started.data["running"]) == (0, True)
        assert run(["engine", "status"], shell).data == started.data
        assert started.data["url"].startswith("http://127.0.0.1:")
        assert (home / "engine" / "key").read_text() not in as_json(started)
    finally:
        stopped = run(["engine", "stop"], shell)
    assert stopped.data == {"stopped": True}
    assert run(["engine", "stop"], shell).data == {"stopped": False}


def test_a_folder_that_is_no_model_is_told(shell, tmp_path):
    pytest.importorskip("torch")
    report = run(["engine", "start", "--model", str(tmp_path)], shell)
    assert report.exit_code == 1
    assert "config.json" in report.title
    assert report.next_step
