import json

import pytest

from machine.dataset.targets import expand
from machine.errors import Refused, UsageError
from machine.evals.case import Call, Case, Scorer, parse_scorer
from machine.evals.suite import read_suite, refuse_trained, suite_hash, suite_text, trained_on
from students import assistant, call, questions, result, row, system, user, weather_row


@pytest.fixture
def written(tmp_path):
    """Writes lines as a suite, and returns its path."""

    def write(*lines):
        path = tmp_path / "suite.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return write


def case_of(**fields):
    return {"id": "a", "messages": [user("b")], "scorer": {"kind": "exact", "value": "x"}} | fields


def test_a_suite_reads_back(tmp_path):
    (tmp_path / "style.py").write_text("def good(text, case, message):\n    return True\n")
    cases = [
        Case("a", (user("b"),), Scorer("exact"), "c"),
        Case("b", (system("s"), user("b")), Scorer("tool_call"), expected_calls=(Call("f", {"x": 1}),), weight=2.5),
        Case("c", (user("b"),), Scorer("tool_call", [{"name": "f", "arguments": {}}]), tags=("x", "y")),
        Case("d", (user("b"),), Scorer("json_schema", {"type": "object"})),
        Case("e", (user("b"),), Scorer("python", "style.py:good")),
        Case("f", (user("b"),), Scorer("judge", "Is it kind?", "m")),
    ]
    path = tmp_path / "suite.jsonl"
    path.write_bytes(suite_text(cases))
    assert read_suite(path) == cases
    assert suite_hash(read_suite(path)) == suite_hash(cases) != suite_hash(cases[:2])


def test_a_suite_of_an_older_machine_has_the_hash_that_it_had():
    case = Case("a", (user("b"),), Scorer("exact"), "c")
    assert suite_text([case]) == (
        b'{"expected":"c","id":"a","messages":[{"content":"b","role":"user"}],"scorer":{"kind":"exact"}}\n'
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nope", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"id": ' + "[" * 100_000, "not a JSON object"),
        ({"id": "a"}, "not a case"),
        (case_of(weights=2), "weights"),
        (case_of(weight=0), "weight"),
        (case_of(weight=1e300), "weight"),
        (case_of(id=""), "id"),
        (case_of(messages=[{"role": "user"}]), "case 'a': message 1 has no content"),
        (case_of(messages=[user(5)]), "message 1 has a content that is not a text"),
        (case_of(messages=[user(["b"])]), "message 1 has a part of its content without a type"),
        (case_of(messages=[user([{"type": "text", "text": 5}])]), "message 1 has a content that is not a text"),
        (case_of(messages=[user("b"), {"role": "human", "content": "c"}, user("d")]), "message 2 has the role 'human'"),
        (case_of(tools=[{"type": "function", "function": {"name": "f"}}]), "case 'a': tool 1 is not {name"),
        (case_of(tools=[{"name": "f", "parameters": 5}]), "case 'a': tool 1 is not {name"),
        (case_of(scorer={"kind": "json_schema", "value": {"$schema": 5}}), "schema is not valid"),
        (case_of(scorer={"kind": "json_schema", "value": {"$schema": [1]}}), "schema is not valid"),
        (case_of(scorer={"kind": "python", "value": "\0.py:f"}), "FILE.py:FUNCTION"),
        (case_of(messages=[assistant("b")]), "does not end with"),
        (case_of(scorer={"kind": "exact"}), "nothing to compare with"),
        (case_of(scorer={"kind": "exact", "value": ["x"]}), "not a text"),
        (case_of(scorer={"kind": "regex"}), "needs its pattern"),
        (case_of(scorer={"kind": "regex", "value": "("}), "does not compile"),
        (case_of(scorer={"kind": "regex", "value": "a", "model": "m"}), "a model is named"),
        (case_of(scorer={"kind": "json_schema", "value": "file.json"}), "needs its schema"),
        (case_of(scorer={"kind": "json_schema", "value": {"type": "objekt"}}), "'objekt'"),
        (case_of(scorer={"kind": "tool_call"}), "nothing to compare with"),
        (case_of(scorer={"kind": "tool_call", "value": {"nome": "f"}}), "not calls"),
        (case_of(scorer={"kind": "tool_call", "value": []}), "nothing to compare with"),
        (case_of(scorer={"kind": "python", "value": "absent.py:f"}), "absent.py: No such file"),
        (case_of(scorer={"kind": "python", "value": "absent.py"}), "FILE.py:FUNCTION"),
        (case_of(scorer={"kind": "python", "value": "../outside.py:f"}), "lies outside"),
        (case_of(scorer={"kind": "python", "value": "broken.py:f"}), "is not Python"),
        (case_of(scorer={"kind": "python", "value": "empty.py:f"}), "has no function f"),
        (case_of(scorer={"kind": "judge"}), "needs its rubric"),
        (case_of(scorer={"kind": "similar", "value": "x"}), "similar"),
    ],
)
def test_a_bad_line_is_named(written, tmp_path, line, said):
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "empty.py").write_text("raise SystemExit('run while it was read')\n")
    with pytest.raises(Refused, match=r"line 2.*") as refused:
        read_suite(written(case_of(id="ok"), line))
    assert said in refused.value.message


def test_a_link_out_of_the_folder_is_outside(written, tmp_path_factory, tmp_path):
    away = tmp_path_factory.mktemp("away") / "style.py"
    away.write_text("def f(text, case, message):\n    return True\n")
    (tmp_path / "link.py").symlink_to(away)
    with pytest.raises(Refused, match="lies outside"):
        read_suite(written(case_of(scorer={"kind": "python", "value": "link.py:f"})))
    with pytest.raises(Refused, match="lies outside"):
        read_suite(written(case_of(scorer={"kind": "python", "value": f"{away}:f"})))


def test_two_cases_of_one_name_are_refused(written):
    with pytest.raises(Refused, match="two cases"):
        read_suite(written(case_of(), case_of()))


@pytest.mark.parametrize(
    "text", ["judge", "similar", "regex", "regex:(", "", "json_schema:absent.json", "python:absent.py:f", "json_schema"]
)
def test_a_wrong_scorer_is_bad_usage(text, tmp_path):
    with pytest.raises(UsageError):
        parse_scorer(text, tmp_path)


def test_scorers_of_the_command_line(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    (tmp_path / "style.py").write_text("def good(text, case, message):\n    return True\n")
    assert parse_scorer(f"json_schema:{schema}", tmp_path) == Scorer("json_schema", {"type": "object"})
    assert parse_scorer("python:style.py:good", tmp_path) == Scorer("python", "style.py:good")
    assert parse_scorer("judge:Kind: yes or no?", tmp_path) == Scorer("judge", "Kind: yes or no?")
    assert parse_scorer("tool_call", tmp_path) == Scorer("tool_call")


@pytest.mark.parametrize("question", ["What is 3 plus one?", "  what IS 3\n plus one? "])
def test_a_case_that_was_trained_on_is_refused_by_name(question):
    case = Case("leak", (user(question),), Scorer("exact"), "x")
    with pytest.raises(Refused, match="leak"):
        refuse_trained([case], expand(questions(5)))
    refuse_trained([case], expand(questions(3)))


def asked(*messages):
    return Case("c", messages, Scorer("exact", "x"))


def test_a_tool_result_is_part_of_the_question():
    trained = expand([weather_row()])
    turn = (user("Is it cold in Oslo?"), assistant("", call("weather", "{}")))
    assert trained_on([asked(*turn, result("-5  degrees"))], trained)
    assert not trained_on([asked(*turn, result("20 degrees"))], trained)
    assert trained_on([asked(turn[0])], trained)


def test_a_short_follow_up_is_the_same_only_after_the_same():
    talk = (user("Write a poem about rain."), assistant("Drip."), user("Go on."), assistant("Drop."))
    trained = expand([row(*talk)])
    assert trained_on([asked(*talk[:3])], trained)
    assert not trained_on([asked(user("Write a story about snow."), assistant("Once."), user("go on."))], trained)
    assert trained_on([asked(user("go on."))], trained)
    long = user("Now translate all of it into French.")
    assert trained_on([asked(user("Hello."), assistant("Hi."), long)], expand([row(*talk, long, assistant("Oui."))]))


def test_a_long_pattern_does_not_fill_the_screen(written):
    with pytest.raises(Refused) as refused:
        read_suite(written(case_of(scorer={"kind": "regex", "value": "(" * 5000})))
    assert len(refused.value.message) < 400


def test_an_editor_s_byte_order_mark_is_no_part_of_the_first_line(written):
    path = written(case_of())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert [case.id for case in read_suite(path)] == ["a"]
