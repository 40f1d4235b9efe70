"""Automatic capture in the real Pi: what is kept unasked, when, and what it may not cost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from filelock import FileLock

from pi.harness import Pi, Terminal, command
from pi.test_bridge import gone, python_of


def questions(world):
    """What each row of the pool answers, in order."""
    rows = [[m["content"] for m in row["messages"] if m["role"] == "user"][-1] for row in world.rows()]
    return [said if isinstance(said, str) else said[0]["text"] for said in rows]


def kept(world, count, within=10.0):
    """The same, once there are `count` rows: Python works on when Pi has gone. One too many would be seen too."""
    deadline = time.monotonic() + within
    while len(world.rows()) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    return questions(world)


def noted(world, count, within=10.0):
    """Why something was not kept, as `/machine data` tells it, once there are `count` reasons."""
    deadline = time.monotonic() + within
    while len(reasons := world.shell("data")["data"]["refused"]) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    assert {each["command"] for each in reasons} <= {"auto"}
    return [each["reason"] for each in reasons]


@pytest.fixture
def auto(world):
    world.shell("auto", "on")
    return world


def interpreter(world, script):
    """Has Pi's side run a shell script as Python."""
    python = world.base / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o700)
    world.extra["MACHINE_PYTHON"] = str(python)


@contextlib.contextmanager
def writer_elsewhere(world):
    """Another process writes to the pool: who wants to, waits."""
    [folder] = world.machine.glob("project-*")
    with FileLock(folder / "traces.lock"):
        yield


def test_off_keeps_nothing_and_starts_nothing(world):
    started = world.base / "started"
    interpreter(world, f'touch "{started}"; exec "{sys.executable}" "$@"')
    world.headless("Capital of France?")
    assert not world.machine.exists()
    world.shell("auto", "on")
    world.shell("auto", "off")
    world.headless("Capital of France?")
    assert not started.exists()
    with Pi(world) as pi:
        pi.prompt("Capital of Italy?")
    assert started.exists()
    assert world.rows() == []


def test_a_headless_run_is_kept_once_and_the_next_one_adds_its_own_turn(auto):
    first = auto.headless("Capital of France?")
    assert (first.returncode, first.stdout, first.stderr) == (0, "You said: Capital of France?\n", "")
    assert kept(auto, 1) == ["Capital of France?"]
    auto.headless("--continue", "Capital of Italy?")
    assert kept(auto, 2) == ["Capital of France?", "Capital of Italy?"]
    assert [row["tag"] for row in auto.rows()] == ["observed", "observed"]
    assert auto.rows()[0]["source"]["host_version"][0].isdigit()


def test_what_a_session_held_before_the_run_is_not_the_run_s(world):
    world.headless("Capital of France?")
    world.shell("auto", "on")
    world.headless("--continue", "Capital of Italy?")
    assert kept(world, 1) == ["Capital of Italy?"]
    assert len(world.rows()[0]["messages"]) == 5  # the earlier turn is its context


def test_json_mode_stays_json(auto):
    done = auto.headless("--mode", "json", "Capital of France?")
    assert {json.loads(line)["type"] for line in done.stdout.splitlines()} >= {"session", "agent_settled"}
    assert done.stderr == ""
    assert kept(auto, 1) == ["Capital of France?"]


def test_a_session_that_is_not_kept(auto):
    auto.headless("--no-session", "Capital of France?", "Capital of Italy?")
    assert kept(auto, 2) == ["Capital of France?", "Capital of Italy?"]
    assert [len(row["messages"]) for row in auto.rows()] == [3, 5]
    assert all(row["source"].get("file") is None for row in auto.rows())


def test_rpc_mode_keeps_each_turn_when_it_ends(auto):
    with Pi(auto) as pi:
        pi.prompt("run: echo one")
        assert kept(auto, 1) == ["run: echo one"]
        pi.prompt("Capital of France?")
        assert kept(auto, 2) == ["run: echo one", "Capital of France?"]
        pi.request("new_session")
        pi.prompt("Capital of Italy?")
        assert kept(auto, 3)[2] == "Capital of Italy?"
        assert pi.messages() == []
        assert pi.broken == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_turns_before_a_signal_to_the_whole_group_are_kept(auto, server, how):
    server.requests.clear()
    words = command("-p", "Capital of France?", "slow please")
    with writer_elsewhere(auto):
        pi = subprocess.Popen(words, cwd=auto.project, env=auto.env(), stdin=subprocess.DEVNULL, process_group=0)
        while len(server.requests) < 2:
            time.sleep(0.02)
        os.killpg(pi.pid, how)  # as `timeout` does, and a terminal that is closed
        assert pi.wait(10) == 128 + how
    assert kept(auto, 1) == ["Capital of France?"]


def test_pi_does_not_wait_for_the_pool_and_the_turn_is_kept_when_it_is_free(auto):
    with writer_elsewhere(auto):
        done = auto.headless("Capital of France?")
        assert done.returncode == 0
        assert auto.rows() == []
    assert kept(auto, 1) == ["Capital of France?"]


def test_python_finishes_what_pi_began_and_then_ends(probed):
    probed.shell("auto", "on")
    with Pi(probed) as pi:
        python = python_of(pi)
        with writer_elsewhere(probed):
            pi.prompt("Capital of France?")
            time.sleep(0.5)  # until it waits for the pool
            os.kill(python, signal.SIGTERM)
            assert pi.close() < 1
            assert not gone(python, within=0.5)
        assert kept(probed, 1) == ["Capital of France?"]
        assert gone(python)


def test_python_with_nothing_to_finish_ends_at_once(probed):
    probed.shell("auto", "on")
    with Pi(probed) as pi:
        python = python_of(pi)
        pi.send("prompt", message="/machine probe ask")
        pi.dialog("select")
        assert pi.close() < 1
        assert gone(python)
    with Pi(probed) as pi:
        python = python_of(pi)
        os.kill(python, signal.SIGTERM)
        assert gone(python)


def test_a_good_turn_is_good_and_no_longer_observed(auto):
    auto.headless("Capital of France?", "/good --as Paris.")
    with Pi(auto) as pi:
        pi.prompt("Capital of Italy?")
        kept(auto, 2)
        pi.prompt("/good")
        assert pi.status().startswith("machine: 2 good · auto")
    assert auto.shell("data")["data"]["counts"] == {"good": 2}


def test_what_goes_wrong_is_a_line_once_and_nobody_is_disturbed(auto):
    [folder] = auto.machine.glob("project-*")
    (folder / "traces.jsonl").symlink_to(auto.base / "elsewhere.jsonl")
    done = auto.headless("Capital of France?")
    assert (done.returncode, done.stderr) == (0, "")
    with Pi(auto) as pi:
        pi.prompt("Capital of Italy?")
        pi.prompt("Capital of Spain?")
        time.sleep(0.5)
        assert pi.messages() == []
    [reason] = noted(auto, 1)
    assert "traces.jsonl" in reason


def test_pi_does_not_wait_for_a_python_that_starts_slowly(auto):
    interpreter(auto, f'sleep 1.5; exec "{sys.executable}" "$@"')
    done = auto.headless("Capital of France?")
    assert (done.returncode, done.stderr) == (0, "")
    assert auto.rows() == []
    assert kept(auto, 1) == ["Capital of France?"]


def test_a_python_that_does_not_start_is_not_told(auto):
    interpreter(auto, "exit 3")
    done = auto.headless("Capital of France?")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_crash_of_a_python_that_nobody_asked_is_not_told_and_another_one_keeps_the_turn(auto):
    killer = "sleep 0.5; kill -9 $(pgrep -P $PPID -f machine.[s]idecar)"
    done = auto.headless(f"run: {killer}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The tool said: (no output)" in done.stdout
    assert kept(auto, 1) == [f"run: {killer}"]


def test_a_session_that_is_not_kept_outlives_a_crash_of_python(probed):
    probed.shell("auto", "on")
    with Pi(probed, "--no-session") as pi:
        pi.prompt("Capital of France?")
        kept(probed, 1)
        pi.prompt("/machine probe exit")
        pi.prompt("Capital of Italy?")
        assert kept(probed, 2) == ["Capital of France?", "Capital of Italy?"]


@pytest.mark.parametrize("how", ["manual", "threshold"])
def test_in_a_terminal_the_turns_that_a_compaction_summarised_are_kept(auto, how):
    reserved = 32760 if how == "threshold" else 16384  # of 32768: so that any turn fills the context
    auto.configure(compaction={"keepRecentTokens": 1, "reserveTokens": reserved})
    with Terminal(auto) as pi:
        pi.wait("machine: auto")
        for question in ("Capital of France?", "Capital of Italy?"):
            pi.type(question)
            pi.wait(f"You said: {question}")
        if how == "manual":
            time.sleep(0.3)
            assert auto.rows() == []
            pi.type("/compact")
        pi.wait("1 observed")
        pi.quit()
    assert kept(auto, 1) == ["Capital of France?"]


def test_the_footer_says_that_capture_is_on_and_says_nothing_twice(auto):
    with Pi(auto) as pi:
        pi.wait(lambda r: r.get("statusText") == "machine: auto")
        pi.prompt("Capital of France?")
        pi.wait(lambda r: (r.get("statusText") or "").startswith("machine: 1 observed · auto"))
        for _ in range(3):
            pi.prompt("/machine data")
        shown = [record.get("statusText") for record in pi.said("setStatus")]
        assert all(one != next for one, next in pairwise(shown))
        start = len(pi.records)
        pi.request("new_session")
        new = pi.wait(lambda r: r.get("method") == "setStatus", start=start)
        assert new["statusText"] == "machine: 1 observed · auto"
        pi.prompt("/machine footer off")
        assert pi.status() is None
        pi.prompt("/machine footer on")
        assert pi.status() == "machine: 1 observed · auto"


def test_the_footer_comes_back_after_a_job_without_a_gap(probed):
    probed.shell("auto", "on")
    with Pi(probed) as pi:
        pi.wait(lambda r: r.get("statusText") == "machine: auto")
        start = len(pi.records)
        pi.prompt("/machine probe progress")
        shown = [record.get("statusText") for record in pi.said("setStatus", start)]
    assert shown == ["step 1", "machine: auto"]
