import json

import pytest

from machine.dataset.targets import expand
from machine.errors import Refused, UsageError
from machine.evals.score import passes
from machine.evals.suite import (
    Case,
    Scorer,
    from_file,
    from_held_out,
    parse_scorer,
    read_suite,
    refuse_trained,
    shared_frame,
    suite_hash,
    suite_text,
)
from students import WEATHER, assistant, questions, row, system, user, weather_row


def prompts(tmp_path, *lines):
    path = tmp_path / "held.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_prompts_are_asked_as_the_agent_asks(tmp_path):
    frame = shared_frame([weather_row(), weather_row(number=101), row(system("Other."), user("a"), assistant("b"))])
    assert frame.share == pytest.approx(2 / 3)
    (case,) = from_file(prompts(tmp_path, {"prompt": "And in Rome?"}), frame, parse_scorer("regex:^Yes"))
    assert case.messages == (system("You are brief."), user("And in Rome?"))
    assert case.tools == (WEATHER,)


def test_a_suite_reads_back(tmp_path):
    cases = from_held_out(questions(3), None)
    path = tmp_path / "suite.jsonl"
    path.write_bytes(suite_text(cases))
    assert read_suite(path) == cases
    assert suite_hash(read_suite(path)) == suite_hash(cases) != suite_hash(cases[:2])


def test_held_out_rows_are_judged_against_what_was_tagged():
    (case, *_) = from_held_out(questions(1), None)
    assert case.messages[-1]["role"] == "user"
    assert passes(case, "ANSWER: 1.")
    assert not passes(case, "1")


@pytest.mark.parametrize("question", ["What is 3 plus one?", "  what IS 3\n plus one? "])
def test_a_case_that_was_trained_on_is_refused_by_name(question):
    case = Case("leak", (user(question),), Scorer("exact"), "x")
    with pytest.raises(Refused, match="leak"):
        refuse_trained([case], expand(questions(5)))
    refuse_trained([case], expand(questions(3)))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nope", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ({"id": "a"}, "not a case"),
        ({"prompt": "a"}, "nothing to compare with"),
        ({"prompt": "a", "expect": "b"}, "expect"),
        ({"id": "a", "messages": [assistant("b")], "scorer": {"kind": "exact", "value": "x"}}, "does not end with"),
        ({"id": "a", "messages": [user("b")], "scorer": {"kind": "regex", "value": "("}}, "does not compile"),
        ({"id": "a", "messages": [user("b")], "scorer": {"kind": "judge"}}, "judge"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, said):
    good = {"prompt": "ok?", "expected": "yes"}
    with pytest.raises(Refused, match=r"line 2.*") as refused:
        from_file(prompts(tmp_path, good, line), shared_frame(questions(1)), None)
    assert said in refused.value.message


def test_two_cases_of_one_name_are_refused(tmp_path):
    case = from_held_out(questions(1), None)
    path = tmp_path / "suite.jsonl"
    path.write_bytes(suite_text(case * 2))
    with pytest.raises(Refused, match="two cases"):
        read_suite(path)
    with pytest.raises(Refused, match="two cases"):
        from_file(path, shared_frame(questions(1)), None)


@pytest.mark.parametrize("text", ["judge", "regex", "regex:(", ""])
def test_a_wrong_scorer_is_bad_usage(text):
    with pytest.raises(UsageError):
        parse_scorer(text)


@pytest.mark.parametrize(
    ("scorer", "expected", "answer", "passed"),
    [
        ("exact", "Paris", " Paris\n", True),
        ("exact", "Paris", "paris", False),
        ("exact:Rome", "Paris", "Rome", True),
        ("contains", "Par", "in Paris", True),
        ("contains:x", None, "abc", False),
        (r"regex:^ANSWER: \S+\.$", None, "ANSWER: Paris.", True),
        (r"regex:^ANSWER: \S+\.$", None, "ANSWER: Paris.\nMore", False),
    ],
)
def test_scores(scorer, expected, answer, passed):
    case = Case("a", (user("b"),), parse_scorer(scorer), expected)
    assert passes(case, answer) is passed
