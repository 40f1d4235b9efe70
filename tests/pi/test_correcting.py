"""`/correction` in the real Pi: a scripted model proposes and does the turn again, a program answers the dialogs."""

import json
import subprocess
import sys

import pytest

from contributions import answer
from machine.correction.contract import INSTRUCTIONS
from machine.correction.flow import HINT
from machine.trace import check, decode
from pi.harness import Pi, World
from pi.teacher import TEACHER, Teacher, _Teacher

OWN = "scripted/scripted-1"
WRONG = "run: echo wrong"
FIT = "The user wants a line printed, and the shell prints it, so I call bash with exactly that command."
OTHER = "A line is to be printed, so one call of bash with that command is enough."
UNFIT = "I was trained to print lines, so I call bash with exactly that command."
LEAVE = {"cancelled": True}


class Contributor(Teacher):
    """Proposes what `proposals` says, in order, then `FIT`; what it does when it is given a hint is the script `lesson`."""

    def __init__(self) -> None:
        super().__init__()
        self.proposals: list[str] = []
        self.lesson = "run: echo right"
        self._http.RequestHandlerClass = type("Bound", (_Contributor,), {"owner": self})


class _Contributor(_Teacher):
    def send_response(self, code, message=None):
        hinted = HINT[:30] in json.dumps(self.owner.requests[-1]["messages"][-1])
        super().send_response(500 if hinted and self.owner.lesson.startswith("break") else code, message)

    def _stream(self, asked, messages):
        if messages[0]["content"] == INSTRUCTIONS:
            self._say(self.owner.proposals.pop(0) if self.owner.proposals else answer(FIT, _first(messages)))
        elif asked.startswith(HINT[:30]):
            super()._stream(self.owner.lesson, messages)
        else:
            super()._stream(asked, messages)


def _first(messages):
    """The index of the agent's first message in the turn that a contributor is shown."""
    told = json.loads(next(m["content"] for m in messages if m["role"] == "user"))
    return next(m["index"] for m in told["turn"] if m["role"] == "assistant")


@pytest.fixture(scope="module")
def contributor():
    with Contributor() as running:
        yield running


@pytest.fixture
def scene(tmp_path, contributor):
    contributor.requests.clear()
    contributor.proposals, contributor.lesson = [], "run: echo right"
    return World(tmp_path, contributor.pi_models())


def choose(*begins):
    """Answers of `select` dialogs: the option that begins so; None leaves the dialog."""

    def pick(begin):
        return lambda dialog: {"value": next(o for o in dialog["options"] if o.startswith(begin))}

    return [LEAVE if begin is None else pick(begin) for begin in begins]


def ledger(world):
    [file] = world.machine.glob("*/corrections.jsonl")
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def events(world):
    return [event["event"] for event in ledger(world)]


def session_text(world):
    return "".join(file.read_text() for file in world.agent.rglob("sessions/*/*.jsonl"))


def model(pi):
    state = pi.request("get_state")["data"]
    return f"{state['model']['provider']}/{state['model']['id']}"


def test_from_no_to_a_good_row_that_learns_the_reasoning(scene, contributor):
    scene.shell("teacher", TEACHER)
    with Pi(scene, answers={"select": choose("Approve", "Do the turn", "Good")}) as pi:
        pi.prompt("before")
        pi.prompt(WRONG)
        pi.prompt("/correction it printed the wrong line")
        assert 'Went wrong at: bash {"command":"echo wrong"}' in pi.said("select")[0]["title"]
        assert "(done again)" in pi.messages()[-1]
        assert model(pi) == OWN
        assert "1 good, 1 bad" in (pi.status() or "")
        pi.prompt("next")
    assert events(scene) == ["opened", "proposed", "approved", "retried", "linked"]
    bad, good = scene.rows()
    assert (bad["tag"], good["tag"]) == ("bad", "good")
    assert good["correction"] == bad["correction"]
    first = good["messages"][good["target"][0]]
    assert first["content"] == [{"type": "thinking", "thinking": FIT}]
    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"command": "echo right"}
    assert good["messages"][: good["target"][0]] == bad["messages"][: bad["target"][0]]
    assert [m["content"] for m in good["messages"] if m["role"] == "user"] == ["before", WRONG]
    assert [e["kind"] for e in good["edits"]] == ["reasoning_added", "hinted"]
    assert {m for m in good["source"]["models"] if m} == {OWN, TEACHER}
    assert HINT[:30] not in session_text(scene)
    assert FIT not in json.dumps(contributor.requests[-1])
    for row in (bad, good):
        check(decode(json.dumps(row).encode()))
    pairs = scene.shell("corrections", "export", "--pairs", str(scene.base / "pairs.jsonl"), "--yes")
    assert len(pairs["data"]["pairs"]) == 1


def test_what_the_model_is_told_and_how_it_is_asked_again(scene, contributor):
    contributor.proposals = ["Sure, here it is!", answer(FIT, 99), answer(FIT)]
    with Pi(scene, answers={"select": choose("Write", None), "editor": [{"value": OTHER}]}) as pi:
        pi.prompt(WRONG)
        contributor.requests.clear()
        pi.prompt("/correction it printed the wrong line")
        assert any("asked 2 times" in message for message in pi.messages())
    first, second = contributor.requests
    told = json.loads(first["messages"][1]["content"])
    assert told["correction"] == "it printed the wrong line"
    assert [m["role"] for m in told["turn"]] == ["assistant", "tool", "assistant"]
    assert "'message' is 99" in contributor.requests[-1]["messages"][-1]["content"] or "JSON" in str(second["messages"])
    assert not first.get("tools")
    [_, failed, approved] = ledger(scene)
    assert failed["event"] == "not_proposed"
    assert (approved["reasoning"], approved["origin"]) == (OTHER, "written")


def test_edited_rejected_and_set_aside(scene, contributor):
    contributor.proposals = []
    answers = {
        "select": choose("Edit", "Not now", "Reject", "Write", "Back", "Write", "Approve all the same", "Not now"),
        "editor": [{"value": OTHER}, {"value": UNFIT}, {"value": UNFIT}],
    }
    with Pi(scene, answers=answers) as pi:
        pi.prompt(WRONG)
        pi.prompt("/correction one")
        pi.prompt("/corrections drop " + ledger(scene)[0]["correction"])
        pi.prompt("/correction two")
        pi.prompt("/correction --resume")
    told = ledger(scene)
    assert [e["event"] for e in told] == [
        "opened",
        "proposed",
        "approved",
        "dropped",
        "opened",
        "proposed",
        "declined",
        "proposed",
        "approved",
    ]
    assert (told[2]["reasoning"], told[2]["origin"], told[2]["proposal"]) == (OTHER, "edited", 1)
    assert told[-1]["overridden"] == ["meta"]


LEFT = [  # the dialogs of a correction that is left, and the last that the ledger then holds
    ([None], [], [], "proposed"),
    (["Edit", None], [LEAVE], [], "proposed"),
    (["Ask again", None], [], [LEAVE], "proposed"),
    (["Write", None, None], [{"value": UNFIT}], [], "proposed"),
    (["Approve", None], [], [], "approved"),
    (["Approve", "Do the turn", None], [], [], "retried"),
]


def test_every_dialog_can_be_left(scene):
    selects, editors, inputs = ([answer for case in LEFT for answer in case[i]] for i in range(3))
    with Pi(scene, answers={"select": choose(*selects), "editor": editors, "input": inputs}) as pi:
        for number, (*_, last) in enumerate(LEFT, 1):
            pi.prompt(f"{WRONG} {number}")
            pi.prompt("/correction no")
            assert events(scene)[-1] == last, LEFT[number - 1]
            assert [row["tag"] for row in scene.rows()] == ["bad"] * number
            assert f"{number} correction{'s' * (number > 1)} pending" in (pi.status() or "")
        pi.prompt("/corrections")
        assert f"{len(LEFT)} pending" in pi.messages()[-1]


def test_the_session_is_replaced_while_a_dialog_is_open(scene):
    with Pi(scene) as pi:
        pi.prompt(WRONG)
        start = len(pi.records)
        pi.send("prompt", message="/correction no")
        pi.dialog("select", start)
        pi.request("new_session")
        pi.wait(lambda r: r.get("method") == "notify" and "session was replaced" in r["message"], start=start)
        assert events(scene) == ["opened", "proposed"]
        pi.prompt("/corrections")
        assert "1 pending" in pi.messages()[-1]
        pi.prompt("still alive?")


@pytest.mark.parametrize(("lesson", "said"), [("break it", "The retry failed"), ("slow", "The retry was stopped")])
def test_a_teacher_that_fails_or_is_stopped_leaves_the_users_model(scene, contributor, lesson, said):
    contributor.lesson = lesson
    scene.configure(retry={"enabled": False})
    scene.shell("teacher", TEACHER)
    with Pi(scene, answers={"select": choose("Approve", "Do the turn", "Leave")}) as pi:
        pi.prompt(WRONG)
        start = len(pi.records)
        pi.send("prompt", message="/correction no")
        if lesson == "slow":
            pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r), start=start)
            pi.request("abort")
        pi.wait(lambda r: r.get("method") == "notify" and "Saved as bad" in r["message"], start=start)
        assert said in pi.said("select", start)[-1]["title"]
        assert model(pi) == OWN
        pi.prompt("and on")
    assert events(scene)[-1] == "retried"
    assert ledger(scene)[-1]["outcome"] in ("failed", "aborted")
    assert contributor.requests[-1]["model"] == "scripted-1"


def test_an_unknown_teacher_is_said_before_anything_moves(scene):
    scene.shell("teacher", "nobody/knows")
    with Pi(scene, answers={"select": choose("Approve", "Do the turn")}) as pi:
        pi.prompt(WRONG)
        pi.prompt("/correction no")
        assert "nobody/knows" in pi.messages()[-1]
        assert "Next: " in pi.messages()[-1]
    assert events(scene)[-1] == "approved"


def test_uncommitted_changes_are_said(scene):
    subprocess.run(["git", "init", "-q", str(scene.project)], check=True)
    (scene.project / "new").write_text("x")
    with Pi(scene, answers={"select": choose("Approve", "Not now")}) as pi:
        pi.prompt(WRONG)
        pi.prompt("/correction no")
        title = pi.said("select")[-1]["title"]
    assert "1 uncommitted change(s)" in title
    assert (scene.project / "new").read_text() == "x"


def test_a_fork_from_before_the_turn_answers_it(scene):
    with Pi(scene, answers={"select": choose("Approve", "Not now")}) as pi:
        pi.prompt("before")
        pi.prompt(WRONG)
        pi.prompt("/correction no")
        asked = pi.request("get_fork_messages")["data"]["messages"][-1]
        pi.request("fork", entryId=asked["entryId"])
        pi.prompt(WRONG)
        pi.prompt("/good")
        assert "the same question again" in pi.messages()[-1]
    assert events(scene)[-1] == "linked"


def test_what_a_model_thinks_in_private_is_kept_nowhere(scene, contributor):
    contributor.lesson = "think again"
    with Pi(scene, answers={"select": choose("Approve", "Do the turn", "Good")}) as pi:
        pi.prompt("think about it")
        contributor.requests.clear()
        pi.prompt("/correction no")
        assert "a thought" not in json.dumps(contributor.requests[0])
        assert "a thought" not in "".join(pi.messages())
    assert session_text(scene).count("a thought") >= 2
    assert events(scene)[-1] == "linked"
    held = [file.read_bytes() for file in scene.machine.rglob("*") if file.is_file()]
    assert not any(b"a thought" in each for each in held)


def test_headless_it_saves_and_says_what_is_open(scene):
    done = scene.headless(WRONG, "/correction it printed the wrong line")
    assert done.returncode == 0, done.stderr
    assert "Saved as bad" in done.stderr
    assert "/correction --resume c_" in done.stderr
    assert events(scene) == ["opened"]


def test_headless_with_a_reasoning_and_then_good(scene):
    done = scene.headless(WRONG, f'/correction no --reasoning "{FIT}"')
    assert done.returncode == 0, done.stderr
    done = scene.headless("--continue", "run: echo right", "/good")
    assert done.returncode == 0, done.stderr
    assert "the next turn" in done.stderr
    good = scene.rows()[-1]
    assert good["messages"][good["target"][0]]["content"] == [{"type": "thinking", "thinking": FIT}]
    refused = scene.headless(WRONG, f'/correction no --reasoning "{UNFIT}"')
    assert refused.returncode == 2
    assert "--override meta" in refused.stderr


def test_the_shell_corrects_a_session_file(scene):
    scene.headless(WRONG)
    [file] = scene.agent.rglob("sessions/*/*.jsonl")
    words = ["correction", "no", "--reasoning", FIT, "--session", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "machine.cli", *words], env=scene.env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert FIT[:40] in done.stdout
    [held] = scene.machine.glob("*/corrections.jsonl")
    assert held.stat().st_mode & 0o777 == 0o600
