import pytest

from machine.evals.case import Call, Case, Scorer, parse_scorer
from machine.evals.score import passes, same_json
from students import call, user

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


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
def test_texts(scorer, expected, answer, passed, tmp_path):
    case = Case("a", (user("b"),), parse_scorer(scorer, tmp_path), expected)
    assert passes(case, answer) is passed


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ('{"n": 1}', True),
        ('```json\n{"n": 1}\n```', True),
        ('```\n{"n": 1}\n```', True),
        ('{"n": "1"}', False),
        ("{}", False),
        ('Here: {"n": 1}', False),
        ('```json\n{"n": 1}\n```\nDone.', False),
        ("", False),
        ("NaN", False),
    ],
)
def test_json_by_a_schema(answer, passed):
    assert passes(Case("a", (user("b"),), Scorer("json_schema", SCHEMA)), answer) is passed


WANTED = Call("move", {"to": {"x": 1, "y": [True, None]}, "fast": True})


@pytest.mark.parametrize(
    ("calls", "passed"),
    [
        ([call("move", '{"fast": true, "to": {"y": [true, null], "x": 1.0}}', "other-id")], True),
        ([call("move", '{"fast": 1, "to": {"y": [true, null], "x": 1}}')], False),
        ([call("move", '{"fast": true, "to": {"y": [true], "x": 1}}')], False),
        ([call("move", '{"fast": true, "to": {"y": [null, true], "x": 1}}')], False),
        ([call("go", '{"fast": true, "to": {"y": [true, null], "x": 1}}')], False),
        ([call("move", '{"fast": true')], False),
        ([], False),
    ],
)
def test_a_call_equals_by_name_and_by_value(calls, passed):
    case = Case("a", (user("b"),), Scorer("tool_call"), expected_calls=(WANTED,))
    assert passes(case, "text does not count", {"tool_calls": calls}) is passed


def test_calls_are_made_in_order_and_no_others():
    one, two = call("a", "{}"), call("b", "{}")
    case = Case("a", (user("b"),), Scorer("tool_call", [{"name": "a"}, {"name": "b"}]))
    assert passes(case, "", {"tool_calls": [one, two]})
    assert not passes(case, "", {"tool_calls": [two, one]})
    assert not passes(case, "", {"tool_calls": [one, two, two]})
    malformed = [{"raw_text": "{", "error": "no JSON"}]
    assert not passes(case, "", {"tool_calls": [one, two], "unparsed_tool_calls": malformed})


def test_the_scorer_s_own_value_comes_first():
    case = Case("a", (user("b"),), Scorer("tool_call", {"name": "b"}), expected_calls=(Call("a"),))
    assert passes(case, "", {"tool_calls": [call("b", "{}")]})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1, 1.0, True), (1, True, False), (0, False, False), (None, False, False), ("1", 1, False), ([], {}, False)],
)
def test_json_values(one, other, same):
    assert same_json(one, other) is same
    assert same_json({"k": [one]}, {"k": [other]}) is same


def test_arguments_nested_too_deep_are_wrong_ones():
    case = Case("a", (user("b"),), Scorer("tool_call"), expected_calls=(Call("f", {"x": 1}),))
    for text in ("[" * 5000, '{"x":' * 5000 + "1" + "}" * 5000):
        assert not passes(case, "", {"tool_calls": [call("f", text)]})
