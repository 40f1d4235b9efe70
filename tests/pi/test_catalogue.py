"""The models of a Tinker service in the real Pi: its list, effort, prices, errors, and another package's /tinker.

Against `tests/hosted.py`, a fake whose shapes are those of public documentation and of the SDK's source.
"""

import json
import time

import pytest

from hosted import ANSWER, KEY, SAMPLER, Fault, Hosted
from machine.tinker.card import Entry, card
from machine.tinker.service import Endpoint
from pi.harness import Pi, World

INKLING = "tinker/thinkingmachines/Inkling-Small"
LONG = f"{INKLING}:peft:262144"
OPTIONS = ("--no-tools", "--no-skills", "--no-context-files", "--system-prompt", "Be brief.")
OTHER = """export default function (pi) {
	pi.registerCommand("tinker", { description: "another one", handler: async () => {} });
}
"""


@pytest.fixture
def hosted():
    pytest.importorskip("tinker")
    with Hosted() as running:
        yield running


@pytest.fixture
def account(tmp_path, hosted, server):
    """A user with a key for the fake service."""
    world = World(tmp_path, server.pi_models())
    world.extra |= {"TINKER_API_KEY": KEY, "TINKER_BASE_URL": hosted.url}
    return world


def known(pi):
    models = pi.request("get_available_models")["data"]["models"]
    return {f"{m['provider']}/{m['id']}": m for m in models if m["provider"] == "tinker"}


def eventually(happens, timeout=40):
    """Waits until what is wanted `happens`."""
    end = time.monotonic() + timeout
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.2)


def answers(pi):
    return [r["message"] for r in pi.records if r["type"] == "message_end" and r["message"]["role"] == "assistant"]


def test_a_base_model_needs_no_use_and_is_sent_its_effort(account, hosted):
    assert account.shell("tinker", "models")["exit_code"] == 0
    for level, effort in (("off", "none"), ("high", "high"), ("xhigh", "xhigh")):
        done = account.headless("--model", LONG, "--thinking", level, *OPTIONS, "Hello?")
        assert done.stdout.strip() == ANSWER, done.stderr
        assert hosted.chats[-1]["model"] == LONG.removeprefix("tinker/")
        assert hosted.chats[-1]["reasoning_effort"] == effort
        assert hosted.chats[-1]["max_tokens"] == 16384
    account.headless("--model", "tinker/Qwen/Qwen3.5-4B", "--thinking", "high", *OPTIONS, "Hello?")
    assert hosted.chats[-1]["model"] == "Qwen/Qwen3.5-4B"
    assert "reasoning_effort" not in hosted.chats[-1]


def registered(world, hosted, *entries):
    """Gives Pi models of hosted Tinker, prices and images and all, that the fake answers for."""
    far = Endpoint(None, KEY, "$TINKER_API_KEY")
    config = {"baseUrl": f"{hosted.url}/oai/api/v1", "api": "openai-completions", "apiKey": far.key_source}
    config |= {"authHeader": True, "models": [card(far, entry) for entry in entries]}
    world.machine.mkdir(0o700)
    document = {"version": 1, "providers": [{"name": "tinker", "config": config}]}
    (world.machine / "providers.json").write_text(json.dumps(document))


def test_what_pi_knows_of_a_model_and_what_an_answer_costs(account, hosted):
    name = INKLING.removeprefix("tinker/")
    registered(account, hosted, Entry(name, name, name, 65536))
    with Pi(account, "--model", INKLING, *OPTIONS) as pi:
        models = known(pi)
        pi.prompt("Hello?")
        [answer] = answers(pi)
    assert models[INKLING]["contextWindow"] == 65536
    assert models[INKLING]["input"] == ["text", "image"]
    # a million tokens read, a tenth of a million written
    assert answer["usage"]["cost"]["total"] == pytest.approx(1.16 + 0.288)
    assert [part["type"] for part in answer["content"]] == ["thinking", "text"]


def test_the_list_comes_while_pi_runs_and_outlives_the_service(account, hosted):
    with Pi(account, *OPTIONS) as pi:
        started = len(pi.records)
        eventually(lambda: INKLING in known(pi))
        pi.request("new_session")
        assert INKLING in known(pi)
        assert pi.messages(started) == []
    hosted.fault = Fault(503)
    file = account.machine / "providers.json"
    document = json.loads(file.read_text())
    document["providers"][0]["asked_at"] = "2026-01-01T00:00:00+00:00"
    file.write_text(json.dumps(document))
    asked = len(hosted.paths)
    with Pi(account, "--model", INKLING, *OPTIONS) as pi:
        eventually(lambda: len(hosted.paths) > asked)
        assert pi.messages() == []
        assert INKLING in known(pi)
    assert json.loads(file.read_text()) == document


def test_a_session_finds_its_model_again(account, hosted):
    account.shell("tinker", "models")
    account.configure(defaultProvider="tinker", defaultModel="Qwen/Qwen3-8B")
    assert account.headless("--model", INKLING, *OPTIONS, "Hello?").returncode == 0
    with Pi(account, "--continue", *OPTIONS) as pi:
        state = pi.request("get_state")["data"]
        assert f"{state['model']['provider']}/{state['model']['id']}" == INKLING
        pi.request("new_session")
        pi.prompt("Hello again?")
        assert answers(pi)[-1]["provider"] == "tinker"
    assert [chat["model"] for chat in hosted.chats] == [INKLING.removeprefix("tinker/"), "Qwen/Qwen3-8B"]


def test_pi_takes_the_list_of_the_service_that_it_is_told_of(account, hosted):
    account.shell("tinker", "models")
    with Hosted([{"model_name": "other/model", "max_context_length": 4096}]) as other:
        account.extra["TINKER_BASE_URL"] = other.url
        account.shell("tinker", "models")
        with Pi(account, *OPTIONS) as pi:
            assert set(known(pi)) == {"tinker/other/model"}
    account.extra["TINKER_BASE_URL"] = hosted.url
    with Pi(account, *OPTIONS) as pi:
        assert INKLING in known(pi)
        assert "tinker/other/model" not in known(pi)
    account.extra["TINKER_BASE_URL"] = "http://127.0.0.1:9"  # nothing is known of it: no other gets its key
    with Pi(account, *OPTIONS) as pi:
        assert known(pi) == {}


@pytest.mark.parametrize(
    ("fault", "said", "next_step"),
    [
        (Fault(401, "invalid API key"), "401", "check TINKER_API_KEY"),
        (Fault(402, "no payment method"), "402", "set up billing"),
        (Fault(404, "no such model"), "404", "/tinker models"),
        (Fault(429, "slow down", retry_after=0.01), "429", "wait a minute"),
        (Fault(503, "down"), "503", "/tinker doctor"),
        (None, "onnection", "/tinker doctor"),
    ],
    ids=lambda value: value.status if isinstance(value, Fault) else None,
)
def test_an_answer_that_does_not_come_says_what_to_do(account, hosted, fault, said, next_step):
    account.shell("tinker", "models")
    account.configure(retry={"enabled": True, "maxRetries": 1, "baseDelayMs": 50})
    with Pi(account, "--model", INKLING, *OPTIONS) as pi:
        if fault:
            hosted.fault = fault
        else:
            hosted.close()
        pi.prompt("Hello?", timeout=60)
        pi.dialog("notify")
        [message] = pi.messages()
        answer = answers(pi)[-1]
    assert answer["stopReason"] == "error"
    assert said in answer["errorMessage"]
    assert next_step in message
    assert message.startswith("tinker did not answer.\nNext: ")
    assert KEY not in json.dumps(pi.records)


def test_a_slow_service_can_be_stopped(account, hosted):
    account.shell("tinker", "models")
    with Pi(account, "--model", INKLING, *OPTIONS) as pi:
        hosted.fault = Fault(0, seconds=30)
        pi.send("prompt", message="Hello?")
        pi.wait(lambda r: r["type"] == "agent_start")
        pi.request("abort")
        pi.wait(lambda r: r["type"] == "agent_settled", timeout=5)
        assert answers(pi)[-1]["stopReason"] == "aborted"
        assert pi.messages() == []


def test_another_package_s_tinker_is_told_once_with_its_remedy(world):
    other = world.base / "pi-tinker"
    other.mkdir()
    (other / "index.js").write_text(OTHER)
    (other / "package.json").write_text(json.dumps({"name": "pi-tinker", "pi": {"extensions": ["./index.js"]}}))
    world.configure(packages=[str(world.package), str(other)])
    with Pi(world) as pi:
        pi.prompt("Hello?")
        [message] = pi.messages()
        pi.prompt("/tinker:1 list")
        assert "models registered with Pi" in pi.messages()[-1]
    assert message.splitlines() == [
        f"{other} has a /tinker too: Machine's is /tinker:1 until that is gone.",
        f"Next: pi remove {other}",
    ]
    assert world.shell("tinker", "doctor")["data"]["checks"][-1]["mend"] == f"pi remove {other}"
    assert world.headless("/tinker:1 list").stderr.count("pi remove") == 1
    world.configure(packages=[str(world.package)])
    assert "pi remove" not in world.headless("/tinker list").stderr


def test_a_checkpoint_goes_under_its_alias(account, hosted):
    registered(account, hosted, Entry("mine", SAMPLER, INKLING.removeprefix("tinker/"), 65536, temperature=0.0))
    done = account.headless("--model", "tinker/mine", "--thinking", "off", *OPTIONS, "Hello?")
    assert done.stdout.strip() == ANSWER, done.stderr
    sent = hosted.chats[-1]
    assert (sent["model"], sent["temperature"], sent["reasoning_effort"]) == (SAMPLER, 0, "none")
