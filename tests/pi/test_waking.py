"""The engine sleeps when nobody asks it anything, and comes back with whoever needs it: Pi's chat, or a command."""

import json
import os
import signal

import pytest

from machine.engine import life
from machine.engine.models.convert import ensure_model
from pi.harness import Pi, World

OPTIONS = ("--no-tools", "--no-skills", "--no-context-files", "--system-prompt", "You are helpful.")


@pytest.fixture
def slept(tmp_path, monkeypatch):
    """A world whose engine has run once, with a model of it in Pi, and sleeps."""
    world = World(tmp_path, {"providers": {}})
    folder = ensure_model()
    world.extra["MACHINE_MODELS_DIR"] = str(folder.parent)
    state = world.machine / "engine"
    info = life.start(folder, state=state)
    assert world.shell("tinker", "use", info.model, "base", "--max-tokens", "8")["exit_code"] == 0
    assert life.stop(state=state)
    yield world, info
    life.stop(state=state)


def test_a_chat_with_its_model_wakes_it_and_a_command_too(slept):
    world, info = slept
    state = world.machine / "engine"
    with Pi(world, "--model", "tinker/base", *OPTIONS) as pi:
        pi.prompt("Hello?", timeout=120)
        [said] = [
            r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"
        ]
        assert said["stopReason"] in ("stop", "length"), said
        awake = life.status(state=state)
        assert (awake.url, awake.model) == (info.url, info.model)
        assert any("starting the engine" in (r.get("statusText") or "") for r in pi.said("setStatus"))
    assert life.status(state=state) == awake  # it outlives Pi
    os.kill(awake.pid, signal.SIGKILL)
    assert json.loads((state / "engine.json").read_bytes())["pid"] == awake.pid
    assert world.shell("tinker", "models")["exit_code"] == 0
    assert life.status(state=state).pid != awake.pid


def test_an_engine_that_the_user_never_started_is_not_started_unasked(tmp_path):
    world = World(tmp_path, {"providers": {}})
    report = world.shell("tinker", "models")
    assert (report["exit_code"], report["next_step"].startswith("machine engine start")) == (1, True)
    assert not (world.machine / "engine" / "engine.json").exists()
