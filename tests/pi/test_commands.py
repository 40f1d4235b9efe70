"""The daily loop, in the real Pi: a turn, then a slash command."""

import json

from machine.slash import OWN
from pi.harness import Pi


def test_a_tool_turn_then_good_then_tagged(world):
    with Pi(world) as pi:
        assert pi.status() is None
        pi.prompt("run: echo one && echo two")
        pi.wait(lambda r: r.get("statusText") == "machine: last turn untagged")
        pi.prompt("/good it's great")
        assert pi.status() == "machine: 1 good"
        pi.prompt("/tagged")
        pi.prompt("a second question")
        pi.wait(lambda r: r.get("statusText") == "machine: 1 good · last turn untagged")
    saved, listed = pi.messages()
    assert saved.startswith("Saved as good")
    assert "it's great" in listed
    [row] = world.rows()
    assert row["note"] == "it's great"
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert row["target"] == [2, 5]
    assert row["source"]["host"] == "pi"
    assert row["source"]["host_version"][0].isdigit()
    assert {tool["name"] for tool in row["tools"]} >= {"bash", "read"}
    assert pi.broken == []


def test_good_in_a_session_that_is_not_kept(world):
    with Pi(world, "--no-session") as pi:
        pi.prompt("Capital of France?")
        pi.prompt("/good --as Paris.")
    [row] = world.rows()
    assert row["messages"][-1]["content"] == "Paris."
    assert row["source"].get("file") is None


def test_good_while_the_agent_works_is_refused(world):
    with Pi(world) as pi:
        pi.send("prompt", message="slow please")
        pi.wait(lambda r: r["type"] == "message_update")
        pi.prompt("/good")
        pi.request("abort")
        pi.wait(lambda r: r["type"] == "agent_settled")
        [refusal] = pi.said()
        assert refusal["notifyType"] == "warning"
        assert "still working" in refusal["message"]
        assert world.rows() == []
        assert pi.status() is None  # an aborted turn is nothing to tag


def test_help_and_bad_words_are_said_in_pi(world):
    with Pi(world) as pi:
        for command in ("/machine", "/good --help", "/good --bogus"):
            pi.prompt(command)
        overview, help_of_good, refusal = pi.said()
        commands = pi.request("get_commands")["data"]["commands"]
    assert "doctor" in overview["message"]
    assert "--as" in help_of_good["message"]
    assert refusal["notifyType"] == "warning"
    assert refusal["message"].endswith("Next: /good --help")
    mine = {c["name"] for c in commands if c["source"] == "extension"} & {*OWN, "machine"}
    assert mine == {*OWN, "machine"}


def test_headless_says_on_stderr_and_keeps_stdout_for_the_model(world):
    done = world.headless("Capital of France?", "/good --as Paris.")
    assert (done.returncode, done.stdout) == (0, "You said: Capital of France?\n")
    assert "Saved as good" in done.stderr
    assert [row["messages"][-1]["content"] for row in world.rows()] == ["Paris."]


def test_headless_refusal_is_an_exit_code(world):
    done = world.headless("/good")
    assert (done.returncode, done.stdout.strip()) == (2, "")
    assert "there is no turn to tag" in done.stderr
    assert "Next: " in done.stderr


def test_json_mode_stays_json(world):
    done = world.headless("--mode", "json", "hello", "/good")
    assert {json.loads(line)["type"] for line in done.stdout.splitlines()} >= {"session", "agent_settled"}
    assert "Saved as good" in done.stderr
