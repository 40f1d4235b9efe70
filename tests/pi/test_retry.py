"""A message of the user answered anew in the real Pi: what the model is sent, what stays, whose model it is afterwards."""

import json
import os
import time
from pathlib import Path

import pytest

from pi.harness import Pi, Terminal
from pi.teacher import HINT, TEACHER, answer, ask, write

OWN = "scripted/scripted-1"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Now:
    """Pi's session and model as they are now."""

    def __init__(self, pi):
        state = pi.request("get_state")["data"]
        file = Path(state["sessionFile"])
        self.text = file.read_text() if file.exists() else ""
        self.entries = [json.loads(line) for line in self.text.split("\n")[1:] if line]
        self.model = f"{state['model']['provider']}/{state['model']['id']}"
        self.level = state["thinkingLevel"]

    def of(self, role):
        return [e for e in self.entries if e["type"] == "message" and e["message"]["role"] == role]

    @property
    def asked(self):
        """The user's last message: its entry."""
        return self.of("user")[-1]["id"]


def texts(body):
    """What a request holds, from the first message of the user on: (role, text)."""
    shown = [(m["role"], said(m)) for m in body["messages"]]
    return shown[next(i for i, (role, _) in enumerate(shown) if role == "user") :]


def said(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def begin(pi, world, hint=HINT, model=None):
    """Starts a retry of the user's last message without waiting for it; the record from which its answer is to come."""
    entry, start = Now(pi).asked, len(pi.records)
    pi.send("prompt", message=write(world, "retry", entry=entry, hint=hint, model=model))
    return start


def ticking(pi, start):
    pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r), start=start)


def test_the_hint_is_in_every_request_of_the_run_and_nowhere_else(asking, teacher):
    hint = "run: echo new"  # the server does what the last user message says: here, the hint
    with Pi(asking) as pi:
        pi.prompt("before")
        pi.prompt("the question")
        old = Now(pi)
        teacher.requests.clear()
        got = ask(pi, asking, "retry", entry=old.asked, hint=hint)
        first, second = teacher.requests
        pi.prompt("next")
        new = Now(pi)
        assert pi.broken == []
    assert (got["outcome"], got["model"], got["detail"]) == ("answered", OWN, "")
    context = [("user", "before"), ("assistant", "You said: before"), ("user", "the question")]
    assert texts(first) == [*context, ("user", hint)]
    assert texts(second)[:4] == [*context, ("user", hint)]
    assert [role for role, _ in texts(second)[4:]] == ["assistant", "tool"]
    assert hint not in new.text
    assert hint not in [text for _, text in texts(teacher.requests[-1])]
    assert ("assistant", "The tool said: new") in texts(teacher.requests[-1])
    assert ("assistant", "You said: the question") not in texts(teacher.requests[-1])
    assert new.entries[: len(old.entries)] == old.entries
    again = new.of("user")[2]
    assert (again["parentId"], again["message"]["content"]) == tuple(
        {e["id"]: (e["parentId"], e["message"]["content"]) for e in old.of("user")}[old.asked]
    )
    assert got["leaf"] == new.of("assistant")[-2]["id"]
    assert [e["type"] for e in new.entries].count("model_change") == 1  # Pi's own, at the start
    assert "machine.loan" not in new.text


def test_a_teacher_answers_and_the_users_model_and_thinking_are_as_before(asking, teacher):
    asking.configure(defaultThinkingLevel="low")
    settings = (asking.agent / "settings.json").read_text()
    with Pi(asking) as pi:
        pi.request("set_thinking_level", level="high")
        pi.prompt("the question")
        teacher.requests.clear()
        got = ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT, model=TEACHER)
        now = Now(pi)
        pi.prompt("next")
    assert (got["outcome"], got["model"]) == ("answered", TEACHER)
    assert [body["model"] for body in teacher.requests] == ["org/teacher", "scripted-1"]
    assert (now.model, now.level) == (OWN, "high")
    assert now.of("assistant")[-1]["message"]["model"] == "org/teacher"
    assert got["leaf"] == now.entries[-1]["id"]
    assert (asking.agent / "settings.json").read_text() == settings


def test_the_users_own_model_is_no_change(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        assert ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT, model=OWN)["outcome"] == "answered"
        assert "machine.loan" not in Now(pi).text


def test_good_after_it_keeps_the_real_message(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT, model=TEACHER)
        pi.prompt("/good")
        assert pi.messages()[-1].startswith("Saved as good")
    [row] = asking.rows()
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant"]
    assert row["messages"][1]["content"] == "the question"
    assert row["source"]["models"][-1] == TEACHER


def test_images_are_sent_again(asking, teacher):
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    with Pi(asking) as pi:
        pi.request("prompt", message="what is this?", images=[image])
        pi.wait(lambda r: r["type"] == "agent_settled")
        ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)
        first, again = Now(pi).of("user")
    assert [part["type"] for part in first["message"]["content"]] == ["text", "image"]
    assert again["message"]["content"] == first["message"]["content"]
    pictures = [PIXEL in json.dumps(body) for body in teacher.requests]
    assert pictures == [True, True]


def test_a_message_that_looks_like_a_command_or_a_template_is_sent_as_it_is(asking, teacher):
    with Pi(asking) as pi:
        pi.prompt("/shout it")
        session = pi.request("get_state")["data"]["sessionFile"]
    prompts = asking.agent / "prompts"
    prompts.mkdir()
    (prompts / "shout.md").write_text("SHOUTED: $@")
    with Pi(asking, "--session", session) as pi:
        ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)
        pi.prompt("/shout it")
    assert texts(teacher.requests[-2])[0] == ("user", "/shout it")
    assert texts(teacher.requests[-1])[-1] == ("user", "SHOUTED: it")


def test_what_an_extension_said_before_the_message_stays_before_it(asking, teacher):
    other = asking.base / "other.ts"
    message = '{ customType: "other", content: "mind the gap", display: false }'
    other.write_text(f'export default (pi) => {{ pi.on("agent_settled", () => pi.sendMessage({message})); }};\n')
    with Pi(asking, "-e", str(other)) as pi:
        pi.prompt("before")
        pi.prompt("the question")
        ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)
    assert texts(teacher.requests[-1])[2:] == [("user", "mind the gap"), ("user", "the question"), ("user", HINT)]


def test_steering_leaves_the_hint_where_it_was(asking, teacher):
    with Pi(asking) as pi:
        pi.prompt("the question")
        start = begin(pi, asking, "run: sleep 0.7")
        pi.wait(lambda r: r["type"] == "tool_execution_start", start=start)
        pi.request("steer", message="and be quick")
        assert answer(pi, start)["outcome"] == "answered"
    assert texts(teacher.requests[-1])[:2] == [("user", "the question"), ("user", "run: sleep 0.7")]
    assert texts(teacher.requests[-1])[-1] == ("user", "and be quick")


def test_a_compaction_that_takes_the_message_leaves_the_hint(asking, teacher):
    asking.configure(compaction={"enabled": True, "reserveTokens": 4000, "keepRecentTokens": 10})
    with Pi(asking) as pi:
        pi.prompt("the question")
        start = begin(pi, asking, "run: sleep 0.7")
        pi.wait(lambda r: r["type"] == "tool_execution_start", start=start)
        pi.request("steer", message="run: crowd echo new")
        assert answer(pi, start)["outcome"] == "answered"
        assert "compaction_end" in [r["type"] for r in pi.records[start:]]
        assert "sleep 0.7" not in json.dumps([e for e in Now(pi).of("user")])
    summary, hint, *rest = texts(teacher.requests[-1])
    assert "the question" not in [text for _, text in rest]
    assert summary[0] == "user"
    assert hint == ("user", "run: sleep 0.7")
    assert ("tool", "new") in [(role, text.strip()) for role, text in rest]


def test_an_error_of_the_teacher_is_a_failure_and_the_model_is_the_users(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        got = ask(pi, asking, "retry", entry=Now(pi).asked, hint="break it", model=TEACHER)
        assert (got["outcome"], "500" in got["detail"]) == ("failed", True)
        assert Now(pi).model == OWN
        cut = ask(pi, asking, "retry", entry=Now(pi).asked, hint="cut it", model=TEACHER)
        assert (cut["outcome"], "cut off" in cut["detail"]) == ("answered", True)


def test_an_abort_is_told_and_the_model_is_the_users(asking):
    asking.configure(retry={"baseDelayMs": 20_000})
    with Pi(asking) as pi:
        pi.prompt("the question")
        start = begin(pi, asking, "slow", TEACHER)
        ticking(pi, start)
        assert Now(pi).model == TEACHER
        pi.request("abort")
        assert answer(pi, start)["outcome"] == "aborted"
        assert Now(pi).model == OWN
        start = begin(pi, asking, "run: sleep 20", TEACHER)
        pi.wait(lambda r: r["type"] == "tool_execution_start", start=start)
        pi.request("abort")
        assert answer(pi, start)["outcome"] == "aborted"
        start = begin(pi, asking, "break it", TEACHER)
        pi.wait(lambda r: r["type"] == "auto_retry_start", start=start)
        pi.request("abort")
        assert answer(pi, start)["outcome"] == "aborted"
        assert Now(pi).model == OWN
        assert ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)["outcome"] == "answered"


def test_a_model_that_the_user_chooses_meanwhile_is_kept(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        start = begin(pi, asking, "slow", TEACHER)
        ticking(pi, start)
        pi.request("set_model", provider="other", modelId="scripted-1")
        pi.request("abort")
        assert answer(pi, start)["outcome"] == "aborted"
        assert Now(pi).model == "other/scripted-1"


@pytest.mark.parametrize("how", ["new_session", "fork"])
def test_a_session_that_is_replaced_meanwhile(asking, how):
    asking.configure(defaultThinkingLevel="low")
    with Pi(asking) as pi:
        pi.request("set_thinking_level", level="high")
        pi.prompt("the question")
        left = pi.request("get_state")["data"]["sessionFile"]
        start = begin(pi, asking, "slow", TEACHER)
        ticking(pi, start)
        again = Now(pi).asked
        pi.request(how, **({"entryId": again} if how == "fork" else {}))
        got = answer(pi, start)
        assert got.get("outcome") == "aborted" or "the session was replaced" in got["error"]
        now = Now(pi)
        assert pi.request("get_state")["data"]["sessionFile"] != left
        assert now.model == OWN
        if how == "fork":
            assert now.level == "high"
        assert pi.request("switch_session", sessionPath=left)["success"]
        assert (Now(pi).model, Now(pi).level) == (OWN, "high")
        assert ask(pi, asking, "retry", entry=again, hint=HINT)["outcome"] == "answered"


def test_a_fork_of_what_the_teacher_answered_has_the_users_model(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT, model=TEACHER)
        assert pi.request("fork", entryId=Now(pi).asked)["success"]
        assert Now(pi).model == OWN


def test_python_that_is_killed_meanwhile_leaves_a_run_that_ends_well(asking, teacher):
    with Pi(asking) as pi:
        pi.prompt("the question")
        pid = ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)["pid"]
        start = begin(pi, asking, "run: sleep 0.5", TEACHER)
        pi.wait(lambda r: r["type"] == "tool_execution_start", start=start)
        os.kill(pid, 9)
        pi.wait(lambda r: "process ended" in r.get("message", ""), start=start)
        pi.wait(lambda r: r["type"] == "agent_settled", start=start)
        assert texts(teacher.requests[-1])[1] == ("user", "run: sleep 0.5")
        deadline = time.monotonic() + 5
        while Now(pi).model != OWN and time.monotonic() < deadline:
            time.sleep(0.05)
        assert Now(pi).model == OWN
        assert ask(pi, asking, "retry", entry=Now(pi).asked, hint=HINT)["outcome"] == "answered"


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_pi_that_ends_meanwhile_gives_the_model_back(asking, how):
    asking.configure(defaultThinkingLevel="low")
    with Pi(asking) as pi:
        pi.request("set_thinking_level", level="high")
        pi.prompt("the question")
        start = begin(pi, asking, "run: sleep 20" if how == "killed" else "slow", TEACHER)
        pi.wait(lambda r: r["type"] in ("tool_execution_start", "message_update"), start=start)
        if how == "killed":
            pi.process.kill()
    with Pi(asking, "--continue") as pi:
        now = Now(pi)
        assert (now.model, now.level) == (OWN, "high")
        assert any("Your model is" in message for message in pi.messages()) == (how == "killed")
    with Pi(asking, "--continue") as pi:
        assert Now(pi).model == OWN
        assert pi.messages() == []


def test_what_cannot_be_done_moves_nothing(asking):
    with Pi(asking) as pi:
        pi.prompt("the question")
        before = Now(pi)
        entry = before.asked
        unknown = ask(pi, asking, "retry", entry=entry, hint=HINT, model="scripted/nobody")["error"]
        keyless = ask(pi, asking, "retry", entry=entry, hint=HINT, model="keyless/scripted-1")["error"]
        not_mine = ask(pi, asking, "retry", entry=before.of("assistant")[0]["id"], hint=HINT)["error"]
        nowhere = ask(pi, asking, "retry", entry="nowhere", hint=HINT)["error"]
        assert Now(pi).text == before.text
        pi.send("prompt", message="slow please")
        ticking(pi, 0)
        busy = ask(pi, asking, "retry", entry=entry, hint=HINT)["error"]
        pi.request("abort")
    assert unknown.startswith("ServiceError: Pi has no model scripted/nobody")
    assert keyless.startswith("ServiceError: Pi has no key for keyless/scripted-1")
    assert not_mine.startswith("Refused: ")
    assert nowhere.startswith("Refused: nowhere is no message of yours")
    assert busy.startswith("Refused: the agent is still working")


@pytest.mark.parametrize(("how", "why"), [("parts", "one text with images after it"), ("open", "not been answered")])
def test_a_message_that_pi_would_not_send_again_as_it_is(asking, how, why):
    asking.headless("the question")
    [file] = asking.agent.rglob("sessions/*/*.jsonl")
    lines = [json.loads(line) for line in file.read_text().split("\n") if line]
    at = next(i for i, line in enumerate(lines) if line.get("message", {}).get("role") == "user")
    lines[at]["message"]["content"] *= 2 if how == "parts" else 1
    kept = lines if how == "parts" else lines[: at + 1]
    file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    with Pi(asking, "--continue") as pi:
        refusal = ask(pi, asking, "retry", entry=lines[at]["id"], hint=HINT)["error"]
    assert refusal.startswith("Refused: ")
    assert why in refusal


def test_another_extension_that_keeps_pi_from_going_back(asking):
    other = asking.base / "other.ts"
    other.write_text('export default (pi) => { pi.on("session_before_tree", () => ({ cancel: true })); };\n')
    with Pi(asking, "-e", str(other)) as pi:
        pi.prompt("the question")
        before = Now(pi)
        got = ask(pi, asking, "retry", entry=before.asked, hint=HINT, model=TEACHER)
        assert (got["outcome"], got["leaf"]) == ("not_started", before.entries[-1]["id"])
        assert Now(pi).text == before.text


def test_in_the_terminal_what_is_typed_stays_and_escape_aborts(asking, teacher):
    asking.headless("the question")
    [file] = asking.agent.rglob("sessions/*/*.jsonl")
    entries = [json.loads(line) for line in file.read_text().split("\n") if line]
    [entry] = [e["id"] for e in entries if e.get("message", {}).get("role") == "user"]
    with Terminal(asking, "--continue") as pi:
        pi.wait("You said: the question")
        pi.type(write(asking, "retry", entry=entry, hint=HINT, model=TEACHER))
        pi.wait(f"You said: {HINT}")
        pi.wait('"outcome": "answered"')
        pi.type("next")
        pi.wait("You said: next")
        assert texts(teacher.requests[-1])[-1] == ("user", "next")
        pi.type(write(asking, "retry", entry=entry, hint="slow"))
        pi.wait("tick 3")
        os.write(pi._master, b"\x1b")
        pi.wait('"outcome": "aborted"')


def test_headless(asking, teacher):
    asking.headless("the question")
    [file] = asking.agent.rglob("sessions/*/*.jsonl")
    entries = [json.loads(line) for line in file.read_text().split("\n") if line]
    [entry] = [e["id"] for e in entries if e.get("message", {}).get("role") == "user"]
    done = asking.headless("--continue", write(asking, "retry", entry=entry, hint=HINT, model=TEACHER), "next")
    assert '"outcome": "answered"' in done.stderr
    assert [body["model"] for body in teacher.requests] == ["scripted-1", "org/teacher", "scripted-1"]
    assert done.stdout == "You said: next\n"
