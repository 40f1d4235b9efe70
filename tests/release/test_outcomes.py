import hashlib
import json
import math
import threading

import msgspec
import pytest

from machine.capture.reader import read
from machine.capture.session import live
from machine.errors import StoreError
from machine.release.outcomes import Outcome, arm_of, collect, latest, note, take_back, tallied, tally
from machine.store.project import Project
from machine.tinker.served import Trial
from sessions import Script

SECRET = "the user's own words"
RELEASE = "BR-001"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return Project.at(folder)


class Chat(Script):
    """A session with the student, whose turns are drawn."""

    def __init__(self):
        super().__init__()
        self.choose("machine", "student")

    def choose(self, provider, model):
        return self.entry("model_change", provider=provider, modelId=model)

    def drawn(self, arm="candidate", turn=None, **more):
        state = {"release": RELEASE, "arm": arm, "session": self.header["id"], "turn": turn or self.leaf} | more
        return self.entry(
            "custom",
            customType="pi.virtual-model-state",
            data={"provider": "machine", "modelId": "student", "state": state},
        )

    def ask(self, arm="candidate", text=SECRET, **more):
        """The user's message, and its draw."""
        asked = self.user(text)
        self.drawn(arm, **more)
        return asked

    def turn(self, arm="candidate", unavailable=False, **answer):
        """A turn: what was asked, and an answer."""
        asked = self.ask(arm, unavailable=unavailable)
        self.assistant(SECRET, **answer)
        return asked

    def at(self, clock):
        """When the last entry was written."""
        self.entries[-1]["timestamp"] = f"2026-01-01T{clock}Z"

    def session(self):
        return live(self.header["id"], self.header["cwd"], None, json.loads(json.dumps(self.entries)))


def came(project, chat):
    """What came of each turn, after all that is new was taken in."""
    collect(project, chat.session(), RELEASE)
    return [each.what for each in latest(project, RELEASE)]


def lines(project):
    return (project.releases / RELEASE / "outcomes.jsonl").read_bytes().splitlines()


def test_an_answer_and_what_it_took(project, tmp_path):
    chat = Chat()
    chat.user(SECRET)
    chat.at("10:00:00.000")
    asked = chat.leaf
    chat.drawn()
    chat.assistant(calls=[("c1", {})], provider="tinker", model="br-001", usage={"output": 7})
    chat.result("c1", SECRET)
    chat.user("a steering message, which draws nothing")
    chat.assistant(SECRET, provider="tinker", model="br-001", usage={"output": 5.0})
    chat.at("10:00:12.500")
    chat.turn("work", provider="p", model="work", stopReason="length")
    chat.user("not drawn: another model was asked")
    chat.assistant()
    session = read(chat.save(tmp_path / "session.jsonl"))
    [one, two] = collect(project, session, RELEASE)
    assert (one.turn, one.arm, one.model, one.what) == (asked, "candidate", "tinker/br-001", "answered")
    assert (one.session, one.release, one.seconds, one.tokens) == ("session-1", RELEASE, 12.5, 12)
    assert (two.arm, two.model, two.what, two.tokens) == ("work", "p/work", "answered", None)
    assert latest(project, RELEASE) == [one, two]


def test_no_text_is_kept_and_the_file_is_private(project):
    chat = Chat()
    chat.turn(errorMessage=SECRET, stopReason="error")
    collect(project, chat.session(), RELEASE)
    file = project.releases / RELEASE / "outcomes.jsonl"
    assert SECRET.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_collecting_again_adds_nothing(project):
    chat = Chat()
    chat.turn()
    assert len(collect(project, chat.session(), RELEASE)) == 1
    before = lines(project)
    assert collect(project, chat.session(), RELEASE) == []
    chat.turn()
    assert len(collect(project, chat.session(), RELEASE)) == 1
    assert lines(project)[:1] == before


@pytest.mark.parametrize(("reason", "what"), [("error", "failed"), ("aborted", "aborted"), ("stop", "answered")])
def test_how_a_turn_ended(project, reason, what):
    chat = Chat()
    chat.turn(stopReason=reason)
    assert came(project, chat) == [what]


def test_an_attempt_that_was_tried_again_counts_for_nothing(project):
    chat = Chat()
    chat.ask()
    failed = chat.assistant(stopReason="error", usage={"output": 9})
    chat.entry("context_edit", targetId=failed, replacement=None)
    chat.assistant(usage={"output": 2})
    [outcome] = collect(project, chat.session(), RELEASE)
    assert (outcome.what, outcome.tokens) == ("answered", 2)


def test_a_turn_that_goes_on_has_no_outcome_yet(project):
    chat = Chat()
    chat.ask()
    assert came(project, chat) == []
    chat.assistant(calls=[("c1", {})])
    assert came(project, chat) == []
    chat.result("c1", "done")
    assert came(project, chat) == []
    chat.assistant()
    assert came(project, chat) == ["answered"]


def test_a_model_that_could_not_be_asked(project):
    chat = Chat()
    chat.turn(unavailable=True, provider="p", model="work")
    [outcome] = collect(project, chat.session(), RELEASE)
    assert (outcome.arm, outcome.what, outcome.model) == ("candidate", "unavailable", "p/work")


def test_a_model_that_went_away_in_the_middle(project):
    chat = Chat()
    asked = chat.ask()
    chat.assistant(calls=[("c1", {})])
    chat.result("c1", "done")
    chat.drawn(turn=asked, unavailable=True)
    chat.assistant()
    assert came(project, chat) == ["unavailable"]


def test_going_back_and_asking_again(project):
    chat = Chat()
    chat.turn()
    place = chat.leaf
    chat.turn()
    assert came(project, chat) == ["answered", "answered"]
    chat.leaf = place
    chat.entry("branch_summary", fromId="x", summary="left")
    chat.turn("work")
    assert came(project, chat) == ["answered", "retried", "answered"]
    chat.leaf = place  # to see, then on with it
    chat.entry("label", targetId=place, label="here")
    assert came(project, chat) == ["answered", "retried", "answered"]


def test_a_turn_that_failed_and_was_asked_again_has_failed(project):
    chat = Chat()
    place = chat.leaf
    chat.turn(stopReason="error")
    chat.leaf = place
    chat.turn()
    assert came(project, chat) == ["failed", "answered"]


def test_switching_back(project):
    chat = Chat()
    chat.turn()
    chat.choose("p", "work")
    assert came(project, chat) == ["switched_back"]
    chat.user("with the work model")
    chat.assistant()
    chat.choose("machine", "student")
    chat.turn()
    assert came(project, chat) == ["switched_back", "answered"]


def test_there_and_back_again_before_anything_is_asked_is_no_switch(project):
    chat = Chat()
    chat.turn()
    chat.choose("p", "work")
    assert came(project, chat) == ["switched_back"]
    chat.choose("machine", "student")
    chat.turn()
    assert came(project, chat) == ["answered", "answered"]


def test_a_model_on_loan_is_nobodys_choice(project):
    chat = Chat()
    chat.turn()
    chat.entry("custom", customType="machine.loan", data={"model": "machine/student", "level": "off"})
    chat.choose("p", "teacher")
    assert came(project, chat) == ["answered"]


def test_what_the_user_says_stays(project):
    chat = Chat()
    good, bad = chat.turn(), chat.turn()
    [*_, said] = note(project, chat.session(), RELEASE, good, "good")
    assert (said.turn, said.what) == (good, "good")
    note(project, chat.session(), RELEASE, bad, "good")
    note(project, chat.session(), RELEASE, bad, "corrected")
    chat.choose("p", "work")
    assert came(project, chat) == ["good", "corrected"]
    before = lines(project)
    assert note(project, chat.session(), RELEASE, bad, "corrected") == []
    assert lines(project) == before
    [*_, last] = note(project, chat.session(), RELEASE, bad, "good")
    assert last.what == "good"


def test_a_correction_that_is_taken_back(project):
    chat = Chat()
    assert take_back(project, RELEASE, "nothing") == []
    good, bad = chat.turn(), chat.turn()
    note(project, chat.session(), RELEASE, good, "good")
    note(project, chat.session(), RELEASE, bad, "corrected")
    assert take_back(project, RELEASE, good) == []
    [back] = take_back(project, RELEASE, bad)
    assert (back.turn, back.what) == (bad, "answered")
    assert came(project, chat) == ["good", "answered"]
    assert take_back(project, RELEASE, bad) == []
    note(project, chat.session(), RELEASE, bad, "corrected")
    chat.leaf = chat.entries[[e["id"] for e in chat.entries].index(bad)]["parentId"]
    chat.turn()  # the same was asked again meanwhile: that is what the session tells
    take_back(project, RELEASE, bad)
    assert came(project, chat) == ["good", "retried", "answered"]


def test_what_the_user_says_of_another_turn_is_not_noted(project):
    chat = Chat()
    undrawn = chat.user("with another model")
    chat.assistant()
    unasked = chat.turn(unavailable=True)
    assert [each.turn for each in note(project, chat.session(), RELEASE, undrawn, "good")] == [unasked]
    assert note(project, chat.session(), RELEASE, unasked, "corrected") == []
    assert came(project, chat) == ["unavailable"]


def test_a_fork_keeps_the_turn_and_does_not_count_it_twice(project):
    chat = Chat()
    asked = chat.turn()
    collect(project, chat.session(), RELEASE)
    chat.header["id"] = "session-2"
    assert collect(project, chat.session(), RELEASE) == []
    [said] = note(project, chat.session(), RELEASE, asked, "good")
    assert (said.session, said.what) == ("session-1", "good")
    chat.turn()
    assert [each.session for each in collect(project, chat.session(), RELEASE)] == ["session-2"]


def test_another_release_and_another_router(project):
    chat = Chat()
    chat.ask(release="BR-000")
    chat.assistant()
    chat.user("asked")
    state = {"release": RELEASE, "arm": "candidate", "session": "session-1", "turn": chat.leaf}
    data = {"provider": "other", "modelId": "student", "state": state}
    chat.entry("custom", customType="pi.virtual-model-state", data=data)
    chat.assistant()
    assert collect(project, chat.session(), RELEASE) == []
    assert not project.releases.exists()


@pytest.mark.parametrize(
    "data",
    [None, 3, {"provider": "machine"}, {"provider": "machine", "modelId": "student", "state": {"release": RELEASE}}],
)
def test_a_session_that_was_meddled_with(project, data):
    chat = Chat()
    chat.turn()
    chat.entry("custom", customType="pi.virtual-model-state", data=data)
    chat.message(role=7, content=3)
    chat.message(role="assistant", usage="much", stopReason="stop", content="\ud800")
    chat.turn(content="\ud800")
    assert came(project, chat) == ["answered", "answered"]


def test_a_line_that_a_crash_tore(project):
    chat = Chat()
    chat.turn()
    collect(project, chat.session(), RELEASE)
    file = project.releases / RELEASE / "outcomes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:20])
    assert len(latest(project, RELEASE)) == 1
    chat.turn()
    assert came(project, chat) == ["answered", "answered"]
    assert whole[:20] in file.with_suffix(".torn").read_bytes()
    file.write_bytes(whole.removesuffix(b"\n"))  # whole, but for its LF
    assert came(project, chat) == ["answered", "answered"]


def test_a_damaged_line_is_named(project):
    chat = Chat()
    chat.turn()
    collect(project, chat.session(), RELEASE)
    file = project.releases / RELEASE / "outcomes.jsonl"
    file.write_bytes(b'{"at": 1}\n' + file.read_bytes())
    with pytest.raises(StoreError, match=r"outcomes\.jsonl:1") as error:
        latest(project, RELEASE)
    assert str(file) in error.value.next_step


def test_many_at_once_write_each_turn_once(project):
    chat = Chat()
    for _ in range(5):
        chat.turn()
    session = chat.session()
    threads = [threading.Thread(target=collect, args=(project, session, RELEASE)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(project)) == 5


def test_the_draw_is_the_share_and_can_be_done_again():
    trial = Trial(RELEASE, "tinker/br-001", "tinker://x", 0.3, "turn", "00ff")
    drawn = [arm_of(trial, "session-1", f"{number:08x}") for number in range(2000)]
    assert 520 < drawn.count("candidate") < 680
    exact = int(hashlib.sha256(b"00ff/session-1/00000000").hexdigest()[:13], 16) / 2**52
    for share, arm in ((exact, "work"), (math.nextafter(exact, 1), "candidate")):
        assert arm_of(msgspec.structs.replace(trial, share=share), "session-1", "00000000") == arm
    by_session = Trial(RELEASE, "tinker/br-001", "tinker://x", 0.3, "session", "00ff")
    assert len({arm_of(by_session, "session-1", f"{number:08x}") for number in range(50)}) == 1
    assert {arm_of(by_session, f"session-{number}", "x") for number in range(50)} == {"candidate", "work"}


def outcome(arm, what, number, **more):
    return Outcome("", f"s{number % 3}", f"t{number}", RELEASE, arm, "p/m", what, **more)


def test_the_tally():
    kinds = ["answered", "good", "corrected", "retried", "aborted", "failed", "switched_back", "unavailable"]
    mine = [outcome("candidate", what, number, seconds=float(number)) for number, what in enumerate(kinds)]
    theirs = [outcome("work", "answered", number, tokens=number) for number in range(10, 20)]
    found = tallied([*mine, *theirs])
    assert (found.candidate.turns, found.candidate.judged, found.candidate.bad) == (8, 7, 5)
    assert (found.candidate.sessions, found.work.sessions) == (3, 3)
    assert found.candidate.counts == dict.fromkeys(kinds, 1)
    assert found.candidate.rate == pytest.approx(5 / 7)
    assert found.candidate.interval == pytest.approx((0.3589, 0.9178), abs=1e-4)
    assert found.work.interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert (found.candidate.seconds, found.candidate.tokens) == (2, None)  # of those that went to their end
    assert (found.work.seconds, found.work.tokens) == (None, 14.5)
    assert found.difference == pytest.approx(5 / 7)
    assert found.difference_interval == pytest.approx((0.2634, 0.9178), abs=1e-4)


def test_newcombes_example():
    """Table II (a) of the paper that `Tally` names: 56 of 70 and 48 of 80, 0.0524 to 0.3339 by method 10."""
    mine = [outcome("candidate", "failed" if number < 56 else "answered", number) for number in range(70)]
    theirs = [outcome("work", "failed" if number < 48 else "answered", 100 + number) for number in range(80)]
    assert tallied([*mine, *theirs]).difference_interval == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_nothing_to_tally(project):
    found = tally(project, RELEASE)
    assert (found.candidate.turns, found.candidate.rate, found.candidate.interval) == (0, None, (0.0, 1.0))
    assert (found.difference, found.difference_interval) == (None, (-1.0, 1.0))
    assert not project.folder.exists()
