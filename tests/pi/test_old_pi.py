"""The same extension in Pi 0.73.1, whose sessions record neither the system prompt nor the tools: both are taken live.

`make nightly` installs that Pi into the folder that `OLD_PI` names, and runs this.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine import bootstrap
from pi.harness import Pi
from pi.test_exactness import plain, received, tools

FOLDER = os.environ.get("OLD_PI")
PACKAGE = "@mariozechner/pi-coding-agent"
pytestmark = pytest.mark.skipif(FOLDER is None, reason="make nightly installs Pi 0.73.1")


@pytest.fixture(scope="module")
def old_pi():
    folder = Path(FOLDER).absolute()
    script = folder / "node_modules" / PACKAGE / "dist" / "cli.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        venv = Path(sys.prefix)
        node = bootstrap.tools(venv).node
        command = [
            node,
            bootstrap.npm(venv),
            "install",
            "--no-fund",
            "--no-audit",
            "--ignore-scripts",
            f"{PACKAGE}@0.73.1",
        ]
        subprocess.run(
            [*command, "--prefix", folder],
            check=True,
            env={**os.environ, "PATH": f"{node.parent}:{os.environ['PATH']}"},
        )
    return script


@pytest.fixture
def old_world(world, old_pi, monkeypatch):
    monkeypatch.setenv("PI_BIN", str(old_pi))
    return world


def test_a_tool_turn_is_the_model_servers_own_with_the_live_prompt_and_tools(old_world, server):
    server.requests.clear()
    done = old_world.headless("hello", "run: echo one && echo two", "/good", timeout=60)
    assert "Saved as good" in done.stderr, done.stderr
    [row] = old_world.rows()
    assert row["source"]["host_version"] == "0.73.1"
    _, first, last = server.requests
    call, answer = row["target"]
    assert [plain(m) for m in row["messages"][:call]] == received(first)
    assert [plain(m) for m in row["messages"][:answer]] == received(last)
    assert tools(row["tools"]) == tools([tool["function"] for tool in last["tools"]])


def test_a_failed_attempt_and_an_aborted_turn(old_world, server):
    with Pi(old_world) as pi:
        ask(pi, "fail once: capital of Spain?", "You said")
        pi.request("prompt", message="/good", timeout=30)
        pi.dialog("notify")
        start = len(pi.records)
        pi.send("prompt", message="slow please")
        pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r), start=start)
        pi.request("abort")
        pi.wait(lambda r: r["type"] == "agent_end", start=start)
        pi.request("prompt", message="/good", timeout=30)
        said = [pi.dialog("notify")["message"], pi.dialog("notify", start=start)["message"]]
    assert said[0].startswith("Saved as good")
    assert "aborted" in said[1]
    [row] = old_world.rows()
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]


def ask(pi, text, answer):
    pi.send("prompt", message=text)
    pi.wait(lambda r: r["type"] == "agent_end" and answer in json.dumps(r), timeout=30)


def test_its_session_file_alone_is_not_enough_and_says_so(old_world):
    old_world.headless("hello", timeout=60)
    [file] = old_world.agent.rglob("sessions/*/*.jsonl")
    command = [sys.executable, "-m", "machine.cli", "good", "--session", str(file)]
    refused = subprocess.run(command, env=old_world.env(), capture_output=True, text=True)
    assert (refused.returncode, "system prompt" in refused.stdout + refused.stderr) == (2, True)
    kept = subprocess.run([*command, "--no-prompt", "--json"], env=old_world.env(), capture_output=True, text=True)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    [row] = old_world.rows()
    assert [m["role"] for m in row["messages"]] == ["user", "assistant"]
    assert [edit["kind"] for edit in row["edits"]] == ["prompt_missing"]


def test_a_headless_run_is_captured_unasked_with_its_live_prompt(old_world):
    assert old_world.headless("/machine auto on", timeout=60).returncode == 0
    old_world.headless("hello there", timeout=60)
    deadline = time.monotonic() + 20
    while not (rows := old_world.rows()) and time.monotonic() < deadline:
        time.sleep(0.2)
    [row] = rows
    assert (row["tag"], [m["role"] for m in row["messages"]]) == ("observed", ["system", "user", "assistant"])
