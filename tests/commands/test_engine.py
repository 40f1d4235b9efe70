import signal
import subprocess
import sys

import pytest

from machine.commands import run
from machine.report import as_json, as_text


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
        asked = run(["engine", "status"], shell)
        assert {name: value for name, value in asked.data.items() if name != "use"} == started.data
        assert asked.data["use"]["memory"] > 1e8
        assert " GB, at most " in dict(asked.rows)["Memory"]
        assert started.data["url"].startswith("http://127.0.0.1:")
        assert (home / "engine" / "key").read_text() not in as_json(started)
    finally:
        stopped = run(["engine", "stop"], shell)
    assert stopped.data == {"stopped": True}
    assert run(["engine", "stop"], shell).data == {"stopped": False}


def test_a_folder_that_is_no_model_is_told(shell, tmp_path):
    pytest.importorskip("torch")
    report = run(["engine", "start", "--model", str(tmp_path)], shell)
    assert report.exit_code == 2
    assert "config.json" in report.title
    assert report.next_step


def test_logs(shell, home):
    assert run(["engine", "logs"], shell).title == "The engine has no log yet"
    (home / "engine").mkdir(0o700)
    (home / "engine" / "engine.log.1").write_text("before\n")
    (home / "engine" / "engine.log").write_text("one\ntwo \x1b[31m\n")
    assert run(["engine", "logs"], shell).data == {"lines": ["before", "one", "two \x1b[31m"]}
    shown = run(["engine", "logs", "--lines", "1"], shell)
    assert as_text(shown).splitlines()[1].strip() == r"two \x1b[31m"
    assert run(["engine", "logs", "--lines", "0"], shell).exit_code == 2


def test_following_the_log_is_for_a_terminal(shell, monkeypatch):
    monkeypatch.setattr(Shell, "session", lambda self: object(), raising=False)
    report = run(["engine", "logs", "--follow"], shell)
    assert (report.exit_code, report.next_step) == (2, "machine engine logs")


def test_following_the_log_ends_with_ctrl_c(home):
    (home / "engine").mkdir(0o700)
    (home / "engine" / "engine.log").write_text("one\n")
    command = [sys.executable, "-m", "machine.cli", "engine", "logs", "--follow"]
    heard = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731 - a job in the background inherits a deaf one
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as process:
        try:
            assert process.stdout.readline() == "one\n"
            with (home / "engine" / "engine.log").open("a") as log:
                log.write("two\n")
            assert process.stdout.readline() == "two\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()
