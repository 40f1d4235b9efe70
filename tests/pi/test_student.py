"""The loop in the real Pi with the real engine: ask the base model, tag, train, chat with the checkpoint."""

import json
import subprocess
import sys

import pytest

from pi.harness import Pi, World

QUESTIONS = {"Capital of France?": "ANSWER: Paris.", "Capital of Italy?": "ANSWER: Rome."}
OPTIONS = ("--no-tools", "--no-skills", "--no-context-files", "--system-prompt", "You are a helpful assistant.")


@pytest.fixture
def tuned(tmp_path, engine):
    """A world whose Tinker service is the session's engine."""
    world = World(tmp_path, {"providers": {}})
    world.extra |= {"TINKER_API_KEY": engine.key.strip(), "TINKER_BASE_URL": engine.url}
    world.extra["MACHINE_MODELS_DIR"] = str(engine.model_path.parent)
    return world


def machine(world, *words):
    command = [sys.executable, "-m", "machine.cli", *words, "--json"]
    done = subprocess.run(command, cwd=world.project, env=world.env(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["data"]


def test_from_a_tagged_turn_to_a_chat_with_the_checkpoint(tuned, engine):
    machine(tuned, "tinker", "use", engine.model, "base", "--temperature", "0", "--max-tokens", "16")
    for question, answer in QUESTIONS.items():
        done = tuned.headless("--model", "tinker/base", *OPTIONS, question, f'/good --as "{answer}"', timeout=90)
        assert "Saved as good" in done.stderr, done.stderr
        assert done.stdout.strip()
    assert [row["messages"][-1]["content"] for row in tuned.rows()] == list(QUESTIONS.values())
    assert {row["source"]["models"][-1] for row in tuned.rows()} == {"tinker/base"}

    machine(tuned, "train", "sft")
    trained = machine(tuned, "train", "run", "--steps", "8", "--yes")
    machine(tuned, "tinker", "use", "latest", "student", "--temperature", "0", "--max-tokens", "16")

    with Pi(tuned, "--model", "tinker/student", *OPTIONS) as pi:
        pi.prompt("Capital of Spain?", timeout=90)
        pi.prompt("/tinker list")
        answers = [
            r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"
        ]
        assert trained["sampler"] in pi.messages()[-1]
    [said] = [part["text"] for part in answers[-1]["content"] if part["type"] == "text"]
    assert said.startswith("ANSWER:")
    assert (answers[-1]["provider"], answers[-1]["model"]) == ("tinker", "student")


def test_a_chat_prompt_has_the_tokens_of_the_training_row(tuned, engine):
    from machine.dataset.render import render
    from machine.dataset.targets import expand
    from machine.store.project import Project
    from machine.tinker.students import load_student

    machine(tuned, "tinker", "use", engine.model, "base", "--temperature", "0", "--max-tokens", "16")
    with Pi(tuned, "--model", "tinker/base", *OPTIONS) as pi:
        pi.prompt("Capital of France?", timeout=90)
        pi.prompt('/good --as "ANSWER: Paris."')
        asked = [r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"]
    [pool] = tuned.machine.glob("*/traces.jsonl")
    [row] = Project(tuned.project, pool.parent).pool.rows()
    [target] = expand([row])
    example = render(load_student(str(engine.model_path)), target)
    prompt_tokens = next(i for i, weight in enumerate(example.weights) if weight)
    usage = asked[-1]["usage"]
    assert usage["input"] + usage["cacheRead"] == prompt_tokens


def test_the_student_is_one_word_away(tuned, engine, server):
    (tuned.agent / "models.json").write_text(json.dumps(server.pi_models()))
    with Pi(tuned, *OPTIONS) as pi:
        pi.prompt("before")
        pi.prompt("/machine student", timeout=150)
        pi.prompt("Capital of Spain?", timeout=90)
        pi.prompt("/good")
        pi.prompt("/machine work")
        pi.prompt("after")
        asked = [r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"]
        said = pi.messages()
    assert said[0].startswith(f"The student answers from now on: tinker/{engine.model}")
    assert "It said" in said[0]
    assert [(m["provider"], m["stopReason"] == "error") for m in asked] == [
        ("scripted", False),
        ("tinker", False),
        ("scripted", False),
    ]
    assert (asked[1]["model"], asked[1]["usage"]["output"] > 0) == (engine.model, True)
    [row] = tuned.rows()
    assert row["source"]["models"][-1] == f"tinker/{engine.model}"
