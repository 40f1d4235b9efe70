"""A release on trial in the real Pi: who is drawn to answer, and what is known of each turn afterwards.

The candidate, the student that is served and the user's own model are models of the scripted server.
"""

import json
import time

import pytest
import yaml

from machine.correction.ledger import Ledger
from machine.release import log
from machine.release.outcomes import arm_of, latest, tally
from machine.store.project import Project
from machine.tinker.served import Served, Trial, serve, trial_of, try_out
from pi.harness import Pi
from pi.teacher import install, write
from pi.test_student_model import ONE, OTHER, OWN, STUDENT, Now, answers, choose, footer, say, service, student, taught

__all__ = ["service", "taught"]

RELEASE, CANDIDATE = "BR-001", "tinker/org/two"
PLAN = {
    "id": RELEASE,
    "title": "t",
    "behaviour": "b",
    "model": "org/one",
    "training": {
        "rows": [1, 9],
        "steps": [1, 9],
        "rank": [1, 9],
        "learning_rate": [0.1, 0.2],
        "tokens": 9,
        "cost": 1,
    },
    "data": {"rows": 1, "sha256": "0" * 64},
    "suites": {"target": {"kind": "cases", "file": "suites/t.jsonl", "least": 1}},
    "gates": {"learnt": {"test": "improvement", "suite": "target"}},
}


@pytest.fixture
def world(taught):
    taught.configure(compaction={"enabled": False, "keepRecentTokens": 1}, retry={"baseDelayMs": 20, "maxRetries": 1})
    return taught


def begin(world, share=1.0, unit="turn", turns=100, model=CANDIDATE, **stops):
    """Puts the release into trial, as `machine release trial` does once it is gated."""
    project = Project.at(world.project)
    place = project.releases / RELEASE / "v1"
    place.mkdir(parents=True, exist_ok=True)
    trial = Trial(RELEASE, model, "org/two", share, unit, "0123abcd")
    plan = PLAN | {"trial": {"turns": turns, "share": share, "unit": unit, "stops": stops}}
    (place / "preregistration.yaml").write_text(yaml.safe_dump(plan))
    log.append(project.releases, RELEASE, 1, "trial", {"turns": turns})
    try_out(world.project, trial)
    return trial


class Record:
    """What Pi's session file holds of its turns."""

    def __init__(self, pi):
        file = Now(pi).file
        self.file = file
        header, *self.entries = [json.loads(line) for line in file.read_text().splitlines()]
        self.id = header["id"]

    @property
    def asked(self):
        """The entries of the user's messages."""
        return [e["id"] for e in self.entries if e.get("message", {}).get("role") == "user"]

    @property
    def states(self):
        """What the router kept, in order."""
        return [e["data"]["state"] for e in self.entries if e.get("customType") == "pi.virtual-model-state"]

    def answered(self, turn):
        """Which models answered in a turn, by the message that began it."""
        at = next(number for number, e in enumerate(self.entries) if e["id"] == turn)
        found = []
        for e in self.entries[at + 1 :]:
            message = e.get("message", {})
            if message.get("role") == "user" and e["id"] in {state["turn"] for state in self.states}:
                break
            if message.get("role") == "assistant":
                found.append(f"{message['provider']}/{message['model']}")
        return found


def came(world, count, within=10.0):
    """What came of each turn, once that many are known."""
    deadline = time.monotonic() + within
    project = Project.at(world.project)
    while len(found := latest(project, RELEASE)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(found) == count, found
    return found


def becomes(world, wanted, within=10.0):
    """Waits until that is what came of the turns, in order."""
    deadline = time.monotonic() + within
    project = Project.at(world.project)
    while (found := [each.what for each in latest(project, RELEASE)]) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def running(pi, text):
    """Asks for a command that takes a second, and returns when it runs."""
    start = len(pi.records)
    pi.send("prompt", message=text)
    pi.wait(lambda r: r["type"] == "tool_execution_start", start=start)
    return start


def over(pi, start):
    pi.wait(lambda r: r["type"] == "agent_settled", start=start)


def test_each_turn_is_drawn_once_and_stays_where_it_is(world, service):
    trial = begin(world, share=0.5)
    arms = {"candidate": CANDIDATE, "work": OWN}
    with Pi(world) as pi:
        pi.prompt("before")
        noted = say(pi, "/machine student")
        begun = len(Record(pi).asked)
        for number in range(30):
            pi.prompt(f"run: echo {number} && echo more" if number % 2 else f"fail once: {number}")
            record = Record(pi)
            if number >= 5 and {state["arm"] for state in record.states} == set(arms):
                break
        turns = record.asked[begun:]
        assert [state["turn"] for state in record.states] == turns  # one draw a turn
        for state in record.states:
            assert state["release"] == RELEASE
            assert state["session"] == record.id
            assert state["arm"] == arm_of(trial, record.id, state["turn"])  # and the one that Python draws
            assert set(record.answered(state["turn"])) == {arms[state["arm"]]}  # calls and failures stay there
            assert len(record.answered(state["turn"])) == 2

        start = running(pi, "run: sleep 0.7")
        pi.request("steer", message="and this")
        pi.request("follow_up", message="then that")
        over(pi, start)
        record = Record(pi)
        *_, first, steered, followed = record.asked
        assert [state["turn"] for state in record.states] == [*turns, first, followed]  # steering draws nothing
        assert steered not in record.answered(first)
        assert len(record.answered(first)) == 2
        for turn in (first, followed):
            assert set(record.answered(turn)) == {arms[arm_of(trial, record.id, turn)]}

        found = came(world, len(turns) + 2)
        assert [each.turn for each in found] == [*turns, first, followed]
        assert [each.model for each in found] == [arms[each.arm] for each in found]
        assert {each.what for each in found} == {"answered"}
        assert all(each.seconds is not None and each.tokens for each in found)

        service.requests.clear()
        assert pi.request("compact")["success"]
        [asked] = {body["model"] for body in service.requests}  # a summary goes where the turn went
        assert asked == arms[arm_of(trial, record.id, followed)].partition("/")[2]
        assert len(Record(pi).states) == len(record.states)
        assert pi.broken == []
    assert noted.startswith(f"The student answers from now on: {RELEASE}, in trial, 50% of the turns")
    both = tally(Project.at(world.project), RELEASE)
    assert both.candidate.turns + both.work.turns == len(found)


def test_a_trial_that_ends_is_obeyed_by_the_next_request(world):
    trial = begin(world)
    with Pi(world) as pi:
        student(pi)
        pi.prompt("one")
        start = running(pi, "run: sleep 0.7")
        try_out(world.project, None)
        over(pi, start)
        pi.prompt("two")
        assert answers(pi) == [CANDIDATE, CANDIDATE, OWN, OWN]
        try_out(world.project, trial)
        start = running(pi, "run: sleep 0.7")
        serve(world.project, Served(CANDIDATE, "org/two", RELEASE))  # it is active now
        over(pi, start)
        assert trial_of(world.project) is None
        pi.prompt("three")
        assert answers(pi)[4:] == [CANDIDATE, OWN, CANDIDATE]
        serve(world.project, ONE)  # rolled back, to the base: who had a trial here has the work model
        pi.prompt("four")
        say(pi, "/machine work")
        student(pi)
        pi.prompt("five")
        assert answers(pi)[7:] == [OWN, ONE.model]


def test_a_trial_that_begins_in_the_middle_of_a_turn_waits_for_the_next(world):
    with Pi(world) as pi:
        student(pi)
        start = running(pi, "run: sleep 0.7")
        begin(world)
        over(pi, start)
        pi.prompt("next")
        assert answers(pi) == [ONE.model, ONE.model, CANDIDATE]
    [outcome] = came(world, 1)
    assert outcome.what == "answered"


def test_a_session_that_is_drawn_stays_whole(world):
    trial = begin(world, share=0.5, unit="session")
    arms = {"candidate": CANDIDATE, "work": OWN}
    seen = set()
    with Pi(world) as pi:
        for _ in range(20):
            start = len(answers(pi))
            student(pi)
            pi.prompt("one")
            pi.prompt("run: echo two")
            record = Record(pi)
            arm = arm_of(trial, record.id, "")
            assert set(answers(pi)[start:]) == {arms[arm]}
            assert [state["arm"] for state in record.states] == [arm, arm]
            seen.add(arm)
            if len(seen) == 2:
                break
            pi.request("new_session")
        pi.request("fork", entryId=record.asked[-1])
        pi.prompt("run: echo another")
        forked = Record(pi)
        assert forked.id != record.id
        assert forked.states[-1]["session"] == forked.id
    assert seen == {"candidate", "work"}
    sessions = [each.session for each in latest(Project.at(world.project), RELEASE)]
    assert sessions.count(forked.id) == 1  # and not the turn that came along


def test_a_candidate_that_cannot_be_asked_keeps_nobody_from_working(world):
    begin(world, model="tinker/gone")
    with Pi(world) as pi:
        student(pi)
        pi.prompt("run: echo one")
        pi.prompt("two")
        begin(world, model="keyless/scripted-1")
        pi.prompt("three")
        said = pi.dialog("notify", len(pi.records) - 8)["message"]
        assert set(answers(pi)) == {OWN}
        pi.prompt("four")
        assert answers(pi)[-1] == OWN
    found = came(world, 3)
    assert [(each.arm, each.what, each.model) for each in found] == [("candidate", "unavailable", OWN)] * 3
    assert trial_of(world.project) is None
    assert "3 turns of the candidate in a row failed or found it unavailable" in said


def test_a_conversation_that_the_candidate_cannot_hold_is_not_cut_for_it(world):
    begin(world)
    with Pi(world) as pi:
        student(pi)
        pi.prompt("one")
        pi.prompt("two " * 5000)  # of the candidate's 8192 tokens, Pi would keep half for an answer
        pi.prompt("three")
        assert answers(pi) == [CANDIDATE, OWN, CANDIDATE]
        assert [state.get("unavailable") for state in Record(pi).states] == [None, True, None]


def test_what_the_user_does_is_what_came_of_it(world):
    install(world)
    begin(world, failures=0, bad=0)
    with Pi(world) as pi:
        student(pi)
        pi.prompt("good")
        assert say(pi, "/good").startswith("Saved as good")
        pi.prompt("bad")
        becomes(world, ["good", "answered"])
        world.shell("correction", "wrong", "--session", str(Now(pi).file))
        becomes(world, ["good", "corrected"])
        [opened] = Ledger(Project.at(world.project)).pending()
        dropped = say(pi, f"/corrections drop {opened.id}")
        becomes(world, ["good", "answered"])
        world.shell("correction", "wrong", "--session", str(Now(pi).file))
        becomes(world, ["good", "corrected"])
        start = len(pi.records)
        pi.send("prompt", message="slow")
        pi.wait(lambda r: r["type"] == "message_update" and "tick" in json.dumps(r), start=start)
        pi.request("abort")
        becomes(world, ["good", "corrected", "aborted"])
        pi.prompt("break it")
        becomes(world, ["good", "corrected", "aborted", "failed"])
        pi.prompt("again")
        entry = Record(pi).asked[-1]
        start = len(pi.records)
        pi.prompt(write(world, "retry", entry=entry, hint="look"))
        pi.wait(lambda r: r.get("method") == "notify" and '"answered"' in r["message"], start=start)
        becomes(world, ["good", "corrected", "aborted", "failed", "retried"])  # an answer with a hint tries nothing
        assert answers(pi)[-1] == OWN
        pi.prompt("on")
        becomes(world, ["good", "corrected", "aborted", "failed", "retried", "answered"])
        say(pi, "/machine work")
        becomes(world, ["good", "corrected", "aborted", "failed", "retried", "switched_back"])
        pi.prompt("with the work model")
        student(pi)
        pi.prompt("once more")
        choose(pi, OTHER)
        wanted = ["good", "corrected", "aborted", "failed", "retried", "switched_back", "switched_back"]
        becomes(world, wanted)
        assert pi.broken == []
    assert f"the trial of {RELEASE} counts that turn as answered again" in dropped
    assert {each.model for each in latest(Project.at(world.project), RELEASE)} == {CANDIDATE}
    assert tally(Project.at(world.project), RELEASE).candidate.bad == 6


def test_a_trial_is_over_when_it_is_long_enough_and_the_user_is_told_once(world):
    begin(world, turns=2)
    with Pi(world) as pi:
        student(pi)
        pi.prompt("one")
        pi.prompt("two")
        told = pi.wait(lambda r: r.get("method") == "notify" and "eligible" in r.get("message", ""))
        pi.prompt("three")
        footer(pi, f"student: {ONE.model} · machine: last turn untagged")
        assert answers(pi) == [CANDIDATE, CANDIDATE, OWN]
        assert sum("eligible" in message for message in pi.messages()) == 1
    assert told["notifyType"] == "warning"
    assert trial_of(world.project) is None


def test_a_correction_that_ends_the_trial_says_so(world):
    begin(world, bad=1)
    with Pi(world) as pi:
        student(pi)
        pi.prompt("one")
        came(world, 1)
        report = world.shell("good", "--as", "better", "--session", str(Now(pi).file))
        pi.prompt("two")
        assert answers(pi) == [CANDIDATE, OWN]
    assert any("1 of 1 turns of the candidate were bad" in note for note in report["notes"])


def test_headless_and_unsaved(world):
    begin(world)
    done = world.headless("--model", STUDENT, "a question")
    assert done.returncode == 0, done.stderr
    came(world, 1)
    done = world.headless("--no-session", "--model", STUDENT, "another")
    assert (done.returncode, done.stderr) == (0, "")
    assert [each.model for each in came(world, 2)] == [CANDIDATE, CANDIDATE]
    assert world.rows() == []  # nothing is captured for it
