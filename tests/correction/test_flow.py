"""The dialogs of a correction: every branch, and what the ledger holds when one is left."""

import subprocess

import pytest
from msgspec import structs

from contributions import answer
from hosts import ScriptedHost
from machine.correction.flow import Flow, uncommitted
from machine.correction.gates import RULES
from machine.correction.ledger import Approved, Declined, NotProposed, Proposed
from machine.correction.link import rows_of
from machine.correction.moment import moment_of
from machine.errors import Refused, ServiceError
from machine.host import LiveSession, Retried

FIT = "The user asks for the test runner, which pyproject.toml configures, so I read pyproject.toml before I answer."
OTHER = "Test runners are configured in pyproject.toml, so I look there and not in setup.py."
UNFIT = "I was trained on such turns, so I read pyproject.toml before I answer a question about test runners."


def flow(rejected, answers=(), completions=(), retries=(), live=False, **fields):
    correction = rejected.opened()
    session = LiveSession("pi", "1", "session-1", rejected.folder, None, None, True)
    host = ScriptedHost(rejected.folder, answers, completions, retries, live=(lambda: session) if live else None)
    rows = rows_of(rejected.ledger, correction.opened.rows)
    moment = moment_of(rows, correction.opened, fields.pop("observed", []))
    return Flow(host, rejected.ledger, correction, rows, moment, **fields), host


def ledger_of(rejected):
    [correction] = rejected.ledger.read().corrections
    return correction


def test_a_proposal_is_approved(rejected):
    going, host = flow(rejected, [("select", "Approve")], [answer(FIT)])
    going.ask()
    approved = ledger_of(rejected).approved
    assert (approved.reasoning, approved.origin, approved.proposal) == (FIT, "proposed", 1)
    [(_, title, options)] = host.asked
    assert FIT in title
    assert "Did: It read setup.py." in title
    assert options == ["Approve", "Edit", "Write my own", "Ask again", "Reject", "Leave it open"]


def test_a_proposal_is_edited(rejected):
    going, _ = flow(rejected, [("select", "Edit"), ("editor", OTHER)], [answer(FIT)])
    going.ask()
    approved = ledger_of(rejected).approved
    assert (approved.reasoning, approved.origin, approved.proposal) == (OTHER, "edited", 1)


def test_an_edit_that_changes_nothing_is_the_proposal(rejected):
    going, _ = flow(rejected, [("select", "Edit"), ("editor", lambda text: text)], [answer(FIT)])
    going.ask()
    assert ledger_of(rejected).approved.origin == "proposed"


def test_an_own_reasoning_is_written(rejected):
    going, _ = flow(rejected, [("select", "Write"), ("editor", OTHER)], [answer(FIT)])
    going.ask()
    approved = ledger_of(rejected).approved
    assert (approved.reasoning, approved.origin, approved.proposal) == (OTHER, "written", None)


def test_proposals_are_rejected(rejected):
    going, _ = flow(rejected, [("select", "Reject")], [answer(FIT)])
    going.ask()
    correction = ledger_of(rejected)
    assert correction.state == "open"
    assert isinstance(correction.events[-1], Declined)


def test_after_a_rejection_it_is_asked_for_anew_and_the_old_ones_are_off_the_table(rejected):
    going, host = flow(rejected, [("select", "Reject"), ("select", "Approve")], [answer(FIT), answer(OTHER)])
    going.ask()
    going.ask()
    assert ledger_of(rejected).approved.reasoning == OTHER
    assert FIT not in host.asked[-1][1]
    assert FIT in host.prompts[-1][1][0][1]  # the model is told what was not taken


def test_it_is_asked_again_with_what_should_be_different(rejected):
    going, host = flow(
        rejected,
        [("select", "Ask again"), ("input", "name the file"), ("select", "Approve")],
        [answer(FIT), answer(OTHER)],
    )
    going.ask()
    correction = ledger_of(rejected)
    assert correction.approved.reasoning == OTHER
    assert "name the file" in host.prompts[1][1][0][1]
    assert [each.proposal for each in correction.of(Proposed)] == [1, 2]


def test_of_several_models_the_user_picks(rejected):
    going, host = flow(rejected, [("select", "Approve 2")], [answer(FIT), answer(OTHER)], models=("q/a", "q/b"))
    going.ask()
    approved = ledger_of(rejected).approved
    assert (approved.reasoning, approved.proposal) == (OTHER, 2)
    assert "by q/a" in host.asked[0][1]


def test_a_gate_that_fails_stands_in_the_way_until_the_text_is_mended(rejected):
    going, host = flow(rejected, [("select", "Approve"), ("select", "Edit"), ("editor", FIT)], [answer(UNFIT)])
    going.ask()
    approved = ledger_of(rejected).approved
    assert (approved.reasoning, approved.origin, approved.overridden) == (FIT, "edited", ())
    assert "Fails meta" in host.asked[0][1]


def test_a_gate_that_fails_is_set_aside_by_name(rejected):
    going, host = flow(rejected, [("select", "Approve"), ("select", "Approve all the same")], [answer(UNFIT)])
    going.ask()
    approved = ledger_of(rejected).approved
    assert "meta" in approved.overridden
    assert [caught.rule for caught in approved.caught] == list(approved.overridden)
    assert any("set aside meta" in option for option in host.asked[-1][2])


@pytest.mark.parametrize(
    ("answers", "events"),
    [
        ([("select", None)], 2),
        ([("select", "Leave")], 2),
        ([("select", "Edit"), ("editor", None), ("select", None)], 2),
        ([("select", "Edit"), ("editor", "  "), ("select", None)], 2),
        ([("select", "Write"), ("editor", None), ("select", None)], 2),
        ([("select", "Ask again"), ("input", None), ("select", None)], 2),
        ([("select", "Edit"), ("editor", UNFIT), ("select", None), ("select", None)], 2),
        ([("select", "Edit"), ("editor", UNFIT), ("select", "Back"), ("select", None)], 2),
        ([("select", "Edit"), ("editor", UNFIT), ("select", "Edit"), ("editor", None), ("select", None)], 2),
    ],
)
def test_every_dialog_can_be_left_and_the_ledger_is_true(rejected, answers, events):
    going, host = flow(rejected, answers, [answer(FIT)])
    going.ask()
    correction = ledger_of(rejected)
    assert (correction.state, len(correction.events)) == ("open", events)
    assert host.answers == []


def test_taken_up_again_it_does_not_ask_the_model_again(rejected):
    going, host = flow(rejected, [("select", None), ("select", "Approve")], [answer(FIT)])
    going.ask()
    again = Flow(host, rejected.ledger, ledger_of(rejected), going.rows, going.moment)
    again.ask()
    assert ledger_of(rejected).approved.reasoning == FIT
    assert len(host.prompts) == 1


def test_without_a_proposal_the_user_writes(rejected):
    going, host = flow(rejected, [("select", "Write"), ("editor", FIT)], [ServiceError("no key for p/work")])
    going.ask()
    assert "no key for p/work" in host.said[0]
    assert host.asked[0][2] == ["Write my own", "Ask again", "Leave it open"]
    correction = ledger_of(rejected)
    assert correction.of(NotProposed)
    assert correction.approved.origin == "written"


def test_a_given_reasoning_is_approved_unless_a_gate_stands_in_the_way(rejected):
    going, _ = flow(rejected)
    with pytest.raises(Refused, match=r"meta: .*") as refusal:
        going.approve(UNFIT)
    assert "--override meta" in refusal.value.next_step
    assert ledger_of(rejected).state == "open"
    going.approve(UNFIT, ["meta", "hindsight"])
    assert ledger_of(rejected).approved.overridden == ("meta",)


def test_hidden_reasoning_does_not_come_back_whatever_is_set_aside(rejected):
    thought = "Perhaps I simply look at the first file that comes to mind."
    answers = [("select", "Write"), ("editor", thought), ("select", None), ("select", None)]
    going, host = flow(rejected, answers, [answer(FIT)], observed=[thought])
    with pytest.raises(Refused) as refusal:
        going.approve(thought, list(RULES))
    assert "own words" in refusal.value.next_step
    assert "--override" not in refusal.value.next_step
    going.ask()
    assert host.asked[2][2] == ["Edit", "Back"]
    assert "comes to mind" not in rejected.ledger.path.read_text()


def test_a_proposal_is_looked_at_again_before_it_is_approved(rejected):
    going, host = flow(rejected, [("select", None)], [answer(UNFIT)])
    going.ask()
    [proposed] = going.correction.of(Proposed)
    going.correction.events[-1] = structs.replace(proposed, caught=())  # of a Machine that knew no such gate
    host.answers = [("select", "Approve"), ("select", "Back"), ("select", None)]
    going.ask()
    assert "Fails meta" in host.asked[2][1]
    assert ledger_of(rejected).approved is None


def test_what_others_say_cannot_steer_the_terminal_or_show_a_secret(rejected):
    secret = "ghp_" + "a1B2" * 9
    said = [answer("\x1b[2JI look."), ServiceError(f"no access with {secret}")]
    going, host = flow(rejected, [("select", None)], said, models=("q/a", "q/b"))
    going.ask()
    assert "\x1b" not in host.asked[0][1]
    assert "\\x1b[2JI look." in host.asked[0][1]
    assert secret not in host.said[0]
    again, host = flow(rejected, [("select", "Ask"), ("input", f"like {secret}\ud800")], [answer(FIT)] * 2)
    again.ask()
    assert secret not in host.prompts[1][1][0][1]
    retried, host = flow(
        rejected, [("select", "Do"), ("select", None)], retries=[Retried("failed", None, "p/t", secret)], live=True
    )
    retried.approve(FIT)
    retried.retry()
    assert secret not in host.asked[-1][1]


def test_text_that_no_file_can_hold_is_mended(rejected):
    going, _ = flow(rejected, [("select", "Write"), ("editor", FIT + "\ud800 ")], [answer(FIT)])
    going.ask()
    assert ledger_of(rejected).approved.reasoning == FIT
    going.approve(OTHER + "\ud800")
    assert ledger_of(rejected).approved.reasoning == OTHER


def test_a_program_that_answers_what_was_not_offered_leaves_the_dialog(rejected):
    going, host = flow(rejected, completions=[answer(FIT)])
    host.select = lambda title, options: "Approve 7"
    going.ask()
    assert ledger_of(rejected).state == "open"


def test_where_no_model_is_there_to_ask_it_is_said(rejected):
    going, host = flow(rejected, [("select", None)])
    going.ask()
    assert "no model" in host.said[0]


def answered(leaf="leaf"):
    return Retried("answered", leaf, "p/teacher")


@pytest.mark.parametrize(
    ("choices", "retries", "good", "outcomes"),
    [
        (["Do the turn", "Good"], [answered()], True, ["answered"]),
        (["Do the turn", "Once more", "Good"], [answered("a"), answered("b")], True, ["answered"] * 2),
        (["Do the turn", "Leave"], [answered()], False, ["answered"]),
        (["Do the turn", None], [answered()], False, ["answered"]),
        (
            ["Do the turn", "Once more", None],
            [Retried("failed", None, "p/t", "500"), answered()],
            False,
            ["failed", "answered"],
        ),
        (["Do the turn", "Leave"], [Retried("aborted", None, "p/t")], False, ["aborted"]),
        (["Do the turn", None], [Retried("not_started", None, "p/t")], False, ["not_started"]),
        (["Not now"], [], False, []),
        ([None], [], False, []),
    ],
)
def test_the_turn_is_done_again(rejected, choices, retries, good, outcomes):
    going, host = flow(rejected, [("select", c) for c in choices], retries=retries, live=True, teacher="p/teacher")
    going.approve(FIT)
    assert going.retry() is good
    correction = ledger_of(rejected)
    assert [event.outcome for event in correction.events[2:]] == outcomes
    for entry, hint, model in host.hints:
        assert (entry, model) == (correction.opened.entries[0], "p/teacher")
        assert FIT in hint


def test_a_retry_that_did_not_answer_cannot_be_good(rejected):
    going, host = flow(
        rejected, [("select", "Do"), ("select", None)], retries=[Retried("failed", None, "p/t", "no")], live=True
    )
    going.approve(FIT)
    going.retry()
    assert not any(option.startswith("Good") for option in host.asked[-1][2])
    assert "no" in host.asked[-1][1]


def test_an_answer_that_was_cut_off_says_so(rejected):
    cut = Retried("answered", "leaf", "p/t", "the answer was cut off by its length")
    going, host = flow(rejected, [("select", "Do"), ("select", None)], retries=[cut], live=True)
    going.approve(FIT)
    going.retry()
    assert "but the answer was cut off by its length" in host.asked[-1][1]


def test_nothing_is_done_again_before_a_reasoning_is_approved_or_in_another_session(rejected):
    going, host = flow(rejected, [("select", "Do")], retries=[answered()], live=True)
    assert going.retry() is False
    elsewhere, host = flow(rejected, [("select", "Do")], retries=[answered()])
    elsewhere.approve(FIT)
    assert elsewhere.retry() is False
    assert host.hints == []


def test_uncommitted_changes_are_said_before_the_tools_run_again(rejected):
    going, host = flow(rejected, [("select", None)], live=True)
    going.approve(FIT)
    going.retry()
    assert "may change files" in host.asked[-1][1]
    assert host.asked[-1][2][0].startswith("Do the turn")
    git = ["git", "-C", str(rejected.folder), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert uncommitted(rejected.folder) == 1  # s.jsonl
    host.answers = [("select", None)]
    going.retry()
    assert "1 uncommitted change(s)" in host.asked[-1][1]
    assert host.asked[-1][2][0] == "Not now"
    host.answers, host.retries = [("select", "Not now")], [answered()]
    assert going.retry(ask=False) is False
    assert "1 uncommitted change(s)" in host.asked[-1][1]
    host.interactive = False
    going.retry(ask=False)
    assert len(host.hints) == 1
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "x"], check=True)
    (rejected.folder / "s.jsonl").touch()
    index = (rejected.folder / ".git" / "index").read_bytes()
    assert uncommitted(rejected.folder) == 0
    assert (rejected.folder / ".git" / "index").read_bytes() == index
    subprocess.run([*git, "mv", "s.jsonl", "renamed.jsonl"], check=True)
    assert uncommitted(rejected.folder) == 1


def test_approved_text_is_what_is_in_the_ledger(rejected):
    going, _ = flow(rejected)
    going.approve(FIT)
    [event] = [e for e in ledger_of(rejected).events if isinstance(e, Approved)]
    assert (event.reasoning, event.origin, event.caught) == (FIT, "written", ())
