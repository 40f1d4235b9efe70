"""The line between Pi and Python: what passes, what breaks, and who dies when."""

import io
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from machine.report import printable
from machine.rpc import Peer
from pi.harness import Pi

ANSWERS = {
    "select": [{"value": "two"}, {"cancelled": True}],
    "confirm": [{"confirmed": True}, {"cancelled": True}],
    "input": [{"value": "Ada"}, {"cancelled": True}],
    "editor": [{"value": "as it is\nnow"}, {"cancelled": True}],
}


def python_of(pi: Pi) -> int:
    """The process id of Pi's sidecar."""
    pi.prompt("/machine probe pid")
    return int(pi.messages()[-1])


def gone(pid: int, within: float = 2.0) -> bool:
    """Whether a process ends within some seconds; one that nobody has reaped yet has ended."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/status")
        if status.exists() and "\nState:\tZ" in status.read_text():
            return True
        time.sleep(0.02)
    return False


def test_dialogs_answered_and_cancelled(probed):
    with Pi(probed, answers=ANSWERS) as pi:
        pi.prompt("/machine probe ask")
        pi.prompt("/machine probe ask")
        assert pi.messages() == ["['two', True, 'Ada', 'as it is\\nnow']", "[None, False, None, None]"]
        assert pi.said("editor")[0]["prefill"] == "as it was"


def test_any_text_passes_and_stray_output_does_not(probed):
    texts = ["emoji \U0001f600", "\u2028 \u2029 \x85", "lone \ud83d", "nul \x00"]
    with Pi(probed) as pi:
        for text in texts:
            pi.prompt(f'/machine probe echo "{text}"')
        pi.prompt("/machine probe noise")
        assert pi.messages() == [*map(printable, texts), "noise done"]  # control characters are shown spelt out
        assert pi.broken == []


def test_notifications_are_taken_in_their_order():
    frames = b"".join(json.dumps({"method": "event", "params": {"n": n}}).encode() + b"\n" for n in range(3))
    taken = []

    def take(method, params):
        time.sleep(0.02 if params["n"] == 0 else 0)
        taken.append(params["n"])

    Peer(io.BytesIO(frames), io.BytesIO()).serve(take)
    assert taken == [0, 1, 2]


def test_progress_is_the_footer_and_ends(probed):
    with Pi(probed) as pi:
        start = len(pi.records)
        pi.prompt("/machine probe progress")
        assert "step 1" in [r.get("statusText") for r in pi.said("setStatus", start)]
        assert pi.status() is None
        assert [r["notifyType"] for r in pi.said()] == ["warning", "info"]


def widget(pi: Pi, start: int = 0) -> list[list[str] | None]:
    """What Machine's widget showed, one after the other."""
    return [r.get("widgetLines") for r in pi.said("setWidget", start) if r["widgetKey"] == "machine"]


def test_the_detail_of_progress_is_a_widget_that_ends_with_it(probed):
    with Pi(probed) as pi:
        pi.prompt("/machine probe detail")
        assert widget(pi) == [["a job", "step 1"], None, ["a job", "step 3"], None]
        pi.prompt("/machine probe progress")
        assert len(widget(pi)) == 4  # no detail, no widget


def test_a_crash_in_mid_job_leaves_neither_widget_nor_status(probed):
    with Pi(probed) as pi:
        pi.prompt("/machine probe detail crash")
        pi.wait(lambda r: "process ended" in r.get("message", ""))
        pi.wait(lambda _: len(widget(pi)) == 4)
        assert widget(pi)[-1] is None
        assert pi.status() is None


def test_headless_progress_is_a_line_on_stderr_now_and_then(probed):
    done = probed.headless("/machine probe detail")
    assert done.returncode == 0
    assert done.stdout.strip() == ""
    assert [line for line in done.stderr.splitlines() if line.startswith("step")] == ["step 1"]


def test_a_fault_of_a_command_is_told_and_python_lives(probed):
    with Pi(probed) as pi:
        before = python_of(pi)
        pi.prompt("/machine probe fault")
        fault = pi.said()[-1]
        assert python_of(pi) == before
    assert fault["notifyType"] == "error"
    assert "KeyError" in fault["message"]
    assert "Next: " in fault["message"]


def test_a_crash_of_python_is_one_message_and_the_next_command_starts_it_again(probed):
    with Pi(probed) as pi:
        pi.prompt("/machine probe exit")
        [crash] = pi.said()
        pi.prompt("/machine probe echo back again")
        assert pi.messages()[1:] == ["back again"]
        assert pi.prompt("Pi lives")["success"]
    assert crash["notifyType"] == "error"
    assert "exit 3" in crash["message"]
    assert "the last words" in crash["message"]
    assert "Next: " in crash["message"]


def test_a_python_that_is_killed_while_idle_is_told(probed):
    with Pi(probed) as pi:
        os.kill(python_of(pi), 9)
        crash = pi.wait(lambda r: r.get("method") == "notify" and "SIGKILL" in r["message"])
        assert crash["notifyType"] == "error"
        pi.prompt("/machine probe echo back again")
        assert pi.messages()[-1] == "back again"


def test_ctrl_c_is_for_pi(probed):
    with Pi(probed) as pi:
        before = python_of(pi)
        os.kill(before, signal.SIGINT)
        assert python_of(pi) == before


def test_a_crash_of_headless_python_is_an_exit_code(probed):
    done = probed.headless("/machine probe exit")
    assert done.returncode == 1
    assert "exit 3" in done.stderr


@pytest.mark.parametrize("how", ["kill", "close"])
@pytest.mark.parametrize("busy", [False, True])
def test_python_dies_with_pi(probed, how, busy):
    with Pi(probed) as pi:
        pid = python_of(pi)
        if busy:
            pi.send("prompt", message="/machine probe ask")
            pi.dialog("select")
        if how == "kill":
            pi.process.kill()
        else:
            assert pi.close() < 3
        assert gone(pid)


def test_a_session_replaced_while_a_dialog_is_open_fails_the_command_and_nothing_hangs(probed):
    with Pi(probed) as pi:
        before = python_of(pi)
        pi.send("prompt", message="/machine probe ask")
        pi.dialog("select")
        start = len(pi.records)
        assert pi.request("new_session")["success"]
        assert "the session was replaced" in pi.dialog("notify", start)["message"]
        assert python_of(pi) == before


def test_code_in_the_project_is_not_run(world):
    (world.project / "machine").mkdir()
    for name in ("json.py", "machine/__init__.py", "sitecustomize.py"):
        (world.project / name).write_text("raise SystemExit('the project was run')")
    venv = world.project / ".venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text("#!/bin/sh\ntouch ran\n")
    (venv / "python").chmod(0o700)
    with Pi(world) as pi:
        pi.prompt("/machine data")
        assert pi.messages()[0].startswith("Machine data")
    assert not (world.project / "ran").exists()


def test_an_interpreter_that_does_not_start_is_told_once_and_at_every_command(world):
    world.extra["MACHINE_PYTHON"] = str(world.base / "no-such-python")
    with Pi(world) as pi:
        told = pi.dialog("notify")
        pi.prompt("/good")
        assert pi.prompt("Pi lives")["success"]
        assert len(pi.said()) == 2
    assert "no-such-python" in told["message"]
    assert "MACHINE_PYTHON" in told["message"].splitlines()[-1]


BOOTSTRAP = """
import argparse, os, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--venv", type=pathlib.Path, required=True)
bin = parser.parse_args().venv / "bin"
if os.path.exists("full"):
    sys.exit("the disk is full")
print("making it", flush=True)
bin.mkdir(parents=True)
(bin / "python").write_text('#!/bin/sh\\nexec "PYTHON" "$@"\\n')
(bin / "python").chmod(0o700)
"""


def test_without_python_setup_is_offered_and_makes_one(bare):
    script = bare.package / "src" / "machine" / "bootstrap.py"
    script.write_text(BOOTSTRAP.replace("PYTHON", sys.executable))  # the real one downloads for minutes
    (bare.project / "full").touch()
    confirm = [{"confirmed": False}, {"confirmed": True}, {"confirmed": True}]
    with Pi(bare, answers={"confirm": confirm}) as pi:
        assert "/machine setup" in pi.dialog("notify")["message"]
        pi.prompt("/good")
        pi.prompt("/machine setup")
        assert len(pi.messages()) == 2  # declined: nothing happens
        pi.prompt("/machine setup")
        assert "the disk is full" in pi.messages()[-1]
        (bare.project / "full").unlink()
        pi.prompt("/machine setup")
        assert pi.messages()[-1].startswith("Machine is set up")
        assert "making it" in [r.get("statusText") for r in pi.said("setStatus")]
        pi.prompt("/machine data")
        assert pi.messages()[-1].startswith("Machine data")


def test_headless_without_python_is_an_exit_code(bare):
    done = bare.headless("/good")
    assert done.returncode == 1
    assert "/machine setup" in done.stderr


def providers_file(world, content: str) -> None:
    world.machine.mkdir(exist_ok=True)
    (world.machine / "providers.json").write_text(content)


def test_providers_of_the_file_are_models_of_pi(world, server):
    config = server.pi_models()["providers"]["scripted"]
    model = {
        "reasoning": False,
        "input": ["text"],
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
    }
    config["models"] = [{**config["models"][0], **model, "id": "student"}]
    providers_file(world, json.dumps({"version": 1, "providers": [{"name": "tinker", "config": config}]}))
    with Pi(world, "--model", "tinker/student") as pi:
        pi.prompt("hello")
        assert server.requests[-1]["model"] == "student"
        pi.request("new_session")
        models = pi.request("get_available_models")["data"]["models"]
        assert "tinker/student" in [f"{m['provider']}/{m['id']}" for m in models]


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 9, "providers": []}', '{"version": 1, "providers": [1]}'])
def test_a_broken_providers_file_is_one_warning(world, content):
    providers_file(world, content)
    with Pi(world) as pi:
        pi.prompt("/machine data")
        warning, report = pi.said()
    assert warning["notifyType"] == "warning"
    assert "providers.json" in warning["message"]
    assert report["message"].startswith("Machine data")
