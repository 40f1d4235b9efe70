"""Which correction a good turn answers, what it learns, and which pairs there are."""

import pytest
from msgspec import structs

from correction.conftest import QUESTION
from machine.capture.reader import read
from machine.capture.rows import capture
from machine.correction.ledger import Approved, Dropped, Retry
from machine.correction.link import answered, linked, rows_of, same_context, unlinked
from machine.correction.pairs import LeftOut, pairs
from machine.correction.reasoning import with_answer, with_correction
from machine.errors import Refused

FIT = "The user asks for the test runner, which pyproject.toml configures, so I read pyproject.toml before I answer."


def approve(rejected, correction):
    rejected.ledger.append(Approved(correction=correction.id, reasoning=FIT, origin="written"))


def again(rejected, question=QUESTION):
    """The user goes back to before the question and asks it again; the answer is right."""
    rejected.script.leaf = rejected.script.entries[0]["id"]
    rejected.script.user(question)
    rejected.script.assistant(calls=[("c2", {"path": "pyproject.toml"})])
    rejected.script.result("c2", "[tool.pytest]")
    return rejected.script.assistant("It uses pytest.")


def keep(rejected, link=None):
    """What `/good` does with the last turn."""
    rows = rejected.good()
    answer = answered(rejected.ledger, rows, link)
    if answer is None:
        return None, list(rows)
    kept = rejected.project.pool.append_all(answer.rows)
    rows = [structs.replace(row, id=each.id) for row, each in zip(answer.rows, kept.rows, strict=True)]
    linked(rejected.ledger, answer.correction, answer.how, rows)
    return answer, list(answer.rows)


def paired(rejected):
    """What `/corrections export` makes of the ledger."""
    good = {row.id for row in rejected.project.pool.rows("good")}
    return list(pairs(rejected.ledger.read().corrections, lambda ids: rows_of(rejected.ledger, ids), good))


def test_the_question_asked_again_answers_and_learns_the_reasoning(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    again(rejected)
    answer, [row] = keep(rejected)
    assert (answer.how, row.correction) == ("the same question again", correction.id)
    first = row.messages[row.target[0]]
    assert first["content"] == [{"type": "thinking", "thinking": FIT}]
    assert first["tool_calls"][0]["function"]["arguments"] == '{"path":"pyproject.toml"}'
    assert [m["content"] for m in row.messages if m["role"] == "user"] == [QUESTION]
    assert [e.kind for e in row.edits] == ["reasoning_added"]
    assert rejected.ledger.find(correction.id).state == "linked"


def test_a_retry_with_the_hint_is_told_from_one_without(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    leaf = again(rejected)
    rejected.ledger.append(Retry(correction=correction.id, outcome="answered", model="p/t", leaf=leaf))
    _, [row] = keep(rejected)
    assert [e.kind for e in row.edits] == ["reasoning_added", "hinted"]


def test_the_next_turn_answers_and_a_later_one_does_not(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    rejected.script.user("No: look at pyproject.toml.")
    rejected.script.assistant("It uses pytest.")
    held = rejected.good()
    assert answered(rejected.ledger, held).how == "the next turn"
    rejected.script.user("And the linter?")
    rejected.script.assistant("ruff")
    assert answered(rejected.ledger, rejected.good()) is None
    chosen = answered(rejected.ledger, rejected.good(), correction.id[:20])
    assert (chosen.how, chosen.correction.id) == ("chosen", correction.id)


def test_another_question_or_session_answers_nothing(rejected):
    approve(rejected, rejected.opened())
    again(rejected, "Which linter?")
    assert answered(rejected.ledger, rejected.good()) is None
    again(rejected)
    rejected.script.header["id"] = "session-2"
    assert answered(rejected.ledger, rejected.good()) is None


def test_without_an_approved_reasoning_it_is_linked_all_the_same(rejected):
    correction = rejected.opened()
    again(rejected)
    answer, [row] = keep(rejected)
    assert row.correction == correction.id
    assert all(isinstance(m["content"], str) for m in row.messages)
    assert "no reasoning was approved" in answer.said


def test_the_linked_turn_tagged_again_keeps_its_reasoning(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    again(rejected)
    _, [first] = keep(rejected)
    answer, [second] = keep(rejected)
    assert answer.how == "the same turn"
    assert second.digest == first.digest
    assert rejected.project.pool.counts() == {"bad": 1, "good": 1}
    assert len(rejected.ledger.find(correction.id).events) == 3


def test_of_several_the_newest_that_fits_is_answered(rejected):
    old, new = rejected.opened("old"), rejected.opened("new")
    again(rejected)
    assert answered(rejected.ledger, rejected.good()).correction.id == new.id
    rejected.ledger.append(Dropped(correction=new.id))
    assert answered(rejected.ledger, rejected.good()).correction.id == old.id
    with pytest.raises(Refused, match="is dropped"):
        answered(rejected.ledger, rejected.good(), new.id)


def test_the_rejected_turn_itself_is_no_answer(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    assert answered(rejected.ledger, rejected.good()) is None
    with pytest.raises(Refused, match="is the one that correction c_"):
        answered(rejected.ledger, rejected.good(), correction.id)
    replaced = capture(read(rejected.file), tag="good", answer="It uses pytest.").rows
    assert answered(rejected.ledger, replaced) is None  # the call that was wrong would be learnt too


def test_the_rejected_turn_answers_where_nothing_of_it_is_learnt_but_the_users_answer(rejected):
    rejected.script.user("And the linter?")
    rejected.script.assistant("flake8")
    correction = rejected.opened()
    approve(rejected, correction)
    assert answered(rejected.ledger, rejected.good()) is None
    replaced = capture(read(rejected.file), tag="good", answer="ruff").rows
    answer = answered(rejected.ledger, replaced)
    assert (answer.how, answer.correction.id) == ("its answer was given", correction.id)
    assert answer.rows[0].messages[-1]["content"][0] == {"type": "thinking", "thinking": FIT}
    chosen = answered(rejected.ledger, replaced, correction.id)
    assert chosen.how == "chosen"


def test_a_turn_that_goes_on_with_what_was_rejected_is_no_answer(rejected):
    approve(rejected, rejected.opened())
    rejected.script.leaf = rejected.script.entries[3]["id"]  # the wrong call and its result stand
    rejected.script.user("No: look at pyproject.toml.")
    rejected.script.assistant("It uses pytest.")
    [row] = rejected.good()
    assert len(row.target) == 2
    assert answered(rejected.ledger, [row]) is None


def test_a_fork_of_the_session_answers_too(rejected):
    before = rejected.script.leaf
    rejected.script.user("And the linter?")
    rejected.script.assistant("flake8")
    correction = rejected.opened()
    rejected.script.leaf = before
    rejected.script.header["id"] = "session-2"
    rejected.script.user("And the linter?")
    rejected.script.assistant("ruff")
    assert answered(rejected.ledger, rejected.good()).correction.id == correction.id


def test_a_link_is_taken_back_when_its_turn_is_tagged_otherwise(rejected):
    correction = rejected.opened()
    approve(rejected, correction)
    again(rejected)
    keep(rejected)
    [row] = rejected.good()
    assert unlinked(rejected.ledger, row, correction) == []
    assert rejected.ledger.find(correction.id).state == "linked"
    [loose] = unlinked(rejected.ledger, row)
    assert (loose.id, loose.state) == (correction.id, "approved")
    assert unlinked(rejected.ledger, row) == []
    keep(rejected)
    assert rejected.ledger.find(correction.id).state == "linked"


def test_pairs_leave_out_what_the_pool_no_longer_holds_as_it_was(rejected):
    correction = rejected.opened()
    again(rejected)
    keep(rejected)
    rows = {row.id: row for row in rejected.project.pool.rows()}

    def why(gone, good):
        find = lambda ids: [rows[id] for id in ids if id not in gone]  # noqa: E731
        [left] = pairs(rejected.ledger.read().corrections, find, good)
        return left.why if isinstance(left, LeftOut) else None

    [bad], [good] = correction.opened.rows, rejected.ledger.find(correction.id).link.rows
    assert why([], {good}) is None
    assert why([bad], {good}) == "its rejected turn is no longer in the pool"
    assert why([], set()) == "its good turn is no longer in the pool, or was tagged otherwise since"
    rejected.project.pool.append_all(rejected.good(tag="bad"))
    assert isinstance(paired(rejected)[0], LeftOut)


def test_the_users_own_answer_is_learnt_alone(rejected):
    correction = rejected.opened(answer="It uses pytest, with ghp_" + "a1B2" * 9)
    bad = rejected.project.pool.get(correction.opened.rows[0])
    [row] = with_correction([with_answer([bad], correction.opened.answer)], correction.id, FIT)
    assert (row.tag, row.target) == ("good", (4,))
    thought, said = row.messages[4]["content"]
    assert thought == {"type": "thinking", "thinking": FIT}
    assert said["text"].startswith("It uses pytest, with <secret:")
    assert row.messages[:4] == bad.messages[:4]
    assert row.id != bad.id
    assert row.digest != bad.digest
    assert {"answer_replaced", "not_a_target", "reasoning_added"} <= {e.kind for e in row.edits}
    assert same_context([bad], [row])


def test_pairs_begin_in_one_context_and_what_is_left_out_is_named(rejected):
    pool = rejected.project.pool
    retried = rejected.opened("retried")
    approve(rejected, retried)
    again(rejected)
    keep(rejected)
    rejected.script.user("And the linter?")
    rejected.script.assistant("flake8")
    follow = rejected.opened("followed")
    rejected.script.user("Look again.")
    rejected.script.assistant("ruff")
    keep(rejected)
    rejected.script.user("And the formatter?")
    rejected.script.assistant("black")
    still = rejected.opened("still open")
    dropped = rejected.opened("dropped")
    rejected.ledger.append(Dropped(correction=dropped.id))
    pair, *left = paired(rejected)
    assert pair.correction == retried.id
    assert [m["role"] for m in pair.prompt] == ["system", "user"]
    assert pair.chosen[0]["content"][0] == {"type": "thinking", "thinking": FIT}
    assert pair.chosen[-1]["content"] == "It uses pytest."
    assert pair.rejected[-1]["content"] == "It uses unittest."
    assert pool.get(pair.rows[0]).messages == (*pair.prompt, *pair.chosen)
    assert pool.get(pair.rows[1]).messages == (*pair.prompt, *pair.rejected)
    assert pair.targets == ((0, 2), (0, 2))
    assert left == [
        LeftOut(follow.id, "the good turn began in another context"),
        LeftOut(still.id, "no good turn answers it yet (open)"),
        LeftOut(dropped.id, "it was dropped"),
    ]


def test_a_turn_that_the_user_stopped_can_be_rejected(rejected):
    rejected.script.user("Do it.")
    rejected.script.assistant(calls=[("c9", {"path": "wrong"})])
    rejected.script.result("c9", "Operation aborted")
    rejected.script.assistant(stopReason="aborted")
    with pytest.raises(Refused, match="aborted"):
        rejected.good()
    [row] = rejected.good(tag="bad")
    assert row.messages[-1]["tool_calls"][0]["function"]["arguments"] == '{"path":"wrong"}'
    assert row.target == (len(row.messages) - 1,)
    rejected.script.user("Do it.")
    rejected.script.assistant(stopReason="aborted")
    with pytest.raises(Refused, match="has no answer"):
        rejected.good(tag="bad")
