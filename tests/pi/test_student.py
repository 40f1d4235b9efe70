"""The loop in the real Pi with the real engine: ask the base model, tag, train, chat with the checkpoint."""

import json
import subprocess
import sys

import pytest

from machine.tinker.provider import register
from machine.tinker.service import Endpoint
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


@pytest.fixture
def base(tuned, engine, monkeypatch):
    """The world, in which the engine's model is `tinker/base`, greedy, with short answers."""
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tuned.machine))
    where = Endpoint(engine.url, engine.key.strip(), "$TINKER_API_KEY")
    register(where, engine.model, "base", 8192, temperature=0.0, max_tokens=16)
    return tuned


def answers(pi):
    return [r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"]


def deltas(pi):
    updates = [r["assistantMessageEvent"] for r in pi.records if r["type"] == "message_update"]
    return [update["delta"] for update in updates if update["type"] == "text_delta"]


def text(message):
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def test_an_answer_streams_and_can_be_stopped(base, engine):
    register(Endpoint(engine.url, "", "$TINKER_API_KEY"), engine.model, "long", 8192, temperature=0.0, max_tokens=4000)
    with Pi(base, "--model", "tinker/long", *OPTIONS) as pi:
        pi.send("prompt", message="Count from one to one thousand, in words.")
        pi.wait(lambda _: len(deltas(pi)) > 3, timeout=60)
        pi.request("abort")
        pi.wait(lambda r: r["type"] == "agent_settled", timeout=10)
        [stopped], streamed = answers(pi), deltas(pi)
        pi.request("set_model", provider="tinker", modelId="base")
        pi.prompt("Capital of France?", timeout=60)
        assert answers(pi)[-1]["stopReason"] in ("stop", "length")
    assert stopped["stopReason"] == "aborted"
    assert text(stopped) == "".join(streamed)


def test_a_resumed_session_and_a_new_one_have_the_model_still(base):
    base.configure(defaultProvider="tinker", defaultModel="base")
    assert base.headless("--model", "tinker/base", *OPTIONS, "Capital of France?", timeout=60).returncode == 0
    with Pi(base, "--continue", *OPTIONS) as pi:
        pi.prompt("And of Italy?", timeout=60)
        resumed = len(pi.request("get_messages")["data"]["messages"])
        pi.request("new_session")
        pi.prompt("Capital of France?", timeout=60)
        both = answers(pi)
        assert len(pi.request("get_messages")["data"]["messages"]) < resumed
    assert [(m["provider"], m["model"], m["stopReason"] in ("stop", "length")) for m in both] == [
        ("tinker", "base", True)
    ] * 2
    assert both[0]["usage"]["input"] > both[1]["usage"]["input"]


def test_a_prompt_that_is_too_long_is_compacted_and_else_said(base):
    base.configure(compaction={"enabled": True, "reserveTokens": 256, "keepRecentTokens": 100})
    with Pi(base, "--model", "tinker/base", *OPTIONS) as pi:
        pi.prompt("Capital of France?", timeout=60)
        start = len(pi.records)
        pi.prompt("7" * 9000, timeout=120)  # a token each, which Pi takes for a quarter as many
        compacted = [r for r in pi.records[start:] if r["type"] == "compaction_start"]
        last = answers(pi)[-1]
        pi.request("new_session")
        pi.prompt("Capital of France?", timeout=60)
        assert answers(pi)[-1]["stopReason"] in ("stop", "length")
    assert [r["reason"] for r in compacted][:1] == ["overflow"]
    assert "maximum context length is 8192 tokens" in last["errorMessage"]


def test_a_tool_call_that_was_trained_runs_in_pi(base, engine, server):
    from machine.dataset.render import datum, render
    from machine.dataset.targets import expand
    from machine.store.project import Project
    from machine.tinker.students import load_student
    from tinker import AdamParams, ServiceClient

    tools = ("--tools", "bash", *OPTIONS[1:])
    (base.agent / "models.json").write_text(json.dumps(server.pi_models()))
    done = base.headless("--model", "scripted/scripted-1", *tools, "run: echo 4711", "/good", timeout=60)
    assert "Saved as good" in done.stderr, done.stderr
    [pool] = base.machine.glob("*/traces.jsonl")
    call = expand(list(Project(base.project, pool.parent).pool.rows()))[0]
    taught = datum(render(load_student(str(engine.model_path)), call))
    client = ServiceClient(base_url=engine.url, api_key=engine.key.strip())
    trainer = client.create_lora_training_client(engine.model, rank=8, seed=0).result()
    for _ in range(6):
        trainer.forward_backward([taught], "cross_entropy")
        trainer.optim_step(AdamParams(learning_rate=3e-3)).result()
    path = trainer.save_weights_for_sampler("tools").result().path
    client.close("success").result()
    where = Endpoint(engine.url, engine.key.strip(), "$TINKER_API_KEY")
    register(where, path, "student", 8192, base=engine.model, temperature=0.0, max_tokens=64)
    with Pi(base, "--model", "tinker/student", *tools) as pi:
        pi.send("prompt", message="run: echo 4711")
        ended = pi.wait(lambda r: r["type"] == "tool_execution_end", timeout=60)
        [call] = [part for part in answers(pi)[0]["content"] if part["type"] == "toolCall"]
    assert (call["name"], call["arguments"]) == ("bash", {"command": "echo 4711"})
    assert "4711" in json.dumps(ended["result"])
