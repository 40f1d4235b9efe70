"""What a contributor is told, and what it must answer."""

import json

import pytest
from msgspec import structs

from contributions import answer
from machine.correction.contract import CONTRACT, MOST_TEXT, ContractFault, ask_for, digest_of, read_answer, spelt
from machine.correction.ledger import Proposed
from machine.correction.link import rows_of
from machine.correction.moment import moment_of


def ask(rejected, wish="", **fields):
    correction = rejected.opened(**fields)
    return ask_for(correction, rows_of(rejected.ledger, correction.opened.rows), wish)


def test_it_is_told_what_was_visible_what_was_done_and_what_was_wrong(rejected):
    told = json.loads(spelt(ask(rejected, answer="pytest", wish="shorter")))
    assert [(m["role"], m["text"]) for m in told["context"]] == [
        ("system", "You are Pi."),
        ("user", "Which test runner does this repository use?"),
    ]
    assert [(m["index"], m["role"]) for m in told["turn"]] == [(2, "assistant"), (3, "tool"), (4, "assistant")]
    assert told["turn"][0]["calls"] == ['read {"path":"setup.py"}']
    assert told["tools"] == ["read: Read a file"]
    assert (told["correction"], told["wanted"], told["wish"]) == ("look at pyproject.toml first", "pytest", "shorter")
    assert told["contract"] == CONTRACT


def test_hidden_reasoning_is_not_in_it(rejected):
    assert "comes to mind" not in spelt(ask(rejected))


def test_long_texts_are_cut_and_say_so(rejected):
    rejected.script.user("again, with " + "x" * 3 * MOST_TEXT)
    rejected.script.assistant("y" * 3 * MOST_TEXT)
    told = ask(rejected)
    assert all(len(m.text) < MOST_TEXT + 100 for m in (*told.context, *told.turn))
    assert f"{2 * MOST_TEXT} characters left out" in told.turn[-1].text


def test_of_a_long_context_the_system_prompt_and_the_newest_are_told(rejected):
    for number in range(30):
        rejected.script.user(f"question {number} " + "x" * 3000)
        rejected.script.assistant("fine")
    told = ask(rejected)
    assert told.context[-1].text.startswith("question 29")
    assert told.context[0].text == "You are Pi."
    assert told.context[1].text.startswith(("question 2", "fine"))
    assert [m.index for m in told.context] == sorted(m.index for m in told.context)


def test_of_a_long_turn_its_first_decision_and_its_end_are_told(rejected):
    for number in range(40):
        rejected.script.user("more")  # steers the run: it comes right after a result of a tool
        rejected.script.assistant("x" * 3000, calls=[(f"d{number}", {"path": "f"})])
        rejected.script.result(f"d{number}", "y")
    rejected.script.assistant("Done.")
    told = ask(rejected)
    agents = [m for m in told.turn if m.role == "assistant"]
    assert agents[0].text.startswith("x")
    assert agents[0].index == 6
    assert agents[-1].text == "Done."
    assert len(told.turn) < 100


def test_what_a_reasoning_may_not_know_is_all_of_the_turn(rejected):
    correction = rejected.opened()
    [row] = rows_of(rejected.ledger, correction.opened.rows)
    said = [{"role": "assistant", "content": f"part {number}"} for number in range(3)]
    parts = [structs.replace(row, messages=(*row.messages[:2], one), target=(2,)) for one in said]
    assert {"part 0", "part 1", "part 2"} <= set(moment_of(parts, correction.opened, []).later)
    alone = structs.replace(correction.opened, answer="pytest")
    assert "part 1" not in moment_of(parts, alone, []).later


def test_earlier_proposals_are_told_with_what_was_wrong_with_them(rejected):
    correction = rejected.opened()
    rows = rows_of(rejected.ledger, correction.opened.rows)
    said = json.loads(answer("I train."))
    correction.events.append(
        Proposed(
            correction=correction.id,
            proposal=1,
            reasoning=said["reasoning"],
            diagnosis=read_answer(answer("x"), ask_for(correction, rows)).diagnosis,
            evidence=None,
            caught=(),
        )
    )
    assert [each.reasoning for each in ask_for(correction, rows).earlier] == ["I train."]


@pytest.mark.parametrize("form", ["{}", "\n```json\n{}\n```\n", "```\n{}\n```", "  {}  "])
def test_an_answer_of_the_contract(rejected, form):
    read = read_answer(form.replace("{}", answer(" I look at pyproject.toml. ")), ask(rejected))
    assert read.reasoning == "I look at pyproject.toml."
    assert read.diagnosis.message == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not one JSON object"),
        ("Sure! Here it is.", "not one JSON object"),
        ("[]", "not one JSON object"),
        ("[" * 100_000, "not one JSON object"),
        (answer("x") + answer("x"), "not one JSON object"),
        (answer("x").replace("reasoning/1", "reasoning/2"), "contract"),
        (answer("x").replace('"did"', '"done"'), "did"),
        (answer("x")[:-1] + ', "more": 1}', "more"),
        (answer("x").replace('"message": 2', '"message": "2"'), "int"),
        (
            answer("x").replace('"message": 2', '"message": 3'),
            r"'message' is 3; the agent's messages in 'turn' are \[2, 4\]",
        ),
        (answer("   "), "'reasoning' is empty"),
        ("\ud800", "not one JSON object"),
        (answer("x" * 1_000_000), "'reasoning' has 1000000 characters"),
        (answer("x").replace("It read setup.py.", "x" * 2_000), "'did' has 2000 characters"),
        (answer("x").replace("reasoning/1", "x" * 1_000_000), "^.{1,400}$"),
    ],
)
def test_an_answer_that_is_not_of_the_contract(rejected, text, why):
    with pytest.raises(ContractFault, match=why):
        read_answer(text, ask(rejected))


def test_the_prompt_has_a_digest(rejected):
    one, two = ask(rejected), ask(rejected, wish="shorter")
    assert digest_of(spelt(one)) == digest_of(spelt(one)) != digest_of(spelt(two))
