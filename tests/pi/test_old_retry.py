"""Completions and retries in Pi 0.73.1, which has no `streamSimple` and makes any model that is set the default."""

import json

import pytest

from pi.harness import World
from pi.teacher import TEACHER, Teacher, install, write
from pi.test_old_pi import FOLDER, old_pi

__all__ = ["old_pi"]
pytestmark = pytest.mark.skipif(FOLDER is None, reason="make nightly installs Pi 0.73.1")


@pytest.fixture
def teacher():
    with Teacher() as running:
        yield running


@pytest.fixture
def asking(tmp_path, teacher, old_pi, monkeypatch):
    monkeypatch.setenv("PI_BIN", str(old_pi))
    return install(World(tmp_path, teacher.pi_models()))


def test_a_completion(asking):
    words = {"system": "Be brief.", "said": [["user", "think of it"]], "model": TEACHER}
    done = asking.headless(write(asking, "complete", **words), timeout=60)
    assert '"text": "the answer"' in done.stderr, done.stderr


def test_a_retry_with_the_users_model_and_none_with_another(asking, teacher):
    asking.headless("the question", timeout=60)
    [file] = asking.agent.rglob("sessions/*/*.jsonl")
    entries = [json.loads(line) for line in file.read_text().split("\n") if line]
    [entry] = [e["id"] for e in entries if e.get("message", {}).get("role") == "user"]
    settings = (asking.agent / "settings.json").read_text()
    words = {"entry": entry, "hint": "run: echo new"}
    refused = asking.headless("--continue", write(asking, "retry", **words, model=TEACHER), timeout=60)
    assert "makes any model that is set the default" in refused.stderr
    done = asking.headless("--continue", write(asking, "retry", **words), "next", timeout=60)
    assert '"outcome": "answered"' in done.stderr
    hinted = ["run: echo new" in json.dumps(body["messages"]) for body in teacher.requests]
    assert hinted == [False, True, True, False]
    assert "run: echo new" not in file.read_text()
    assert (asking.agent / "settings.json").read_text() == settings
