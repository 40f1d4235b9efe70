import json

import pytest

from machine.dataset.targets import expand
from machine.errors import Refused
from machine.evals.case import Call, Scorer, parse_scorer
from machine.evals.proposal import from_file, from_pool, shared_frame
from students import WEATHER, assistant, call, questions, row, system, user, weather_row


def prompts(tmp_path, *lines):
    path = tmp_path / "held.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_prompts_are_asked_as_the_agent_asks(tmp_path):
    frame = shared_frame([weather_row(), weather_row(number=101), row(system("Other."), user("a"), assistant("b"))])
    assert frame.share == pytest.approx(2 / 3)
    path = prompts(tmp_path, {"prompt": "And in Rome?", "weight": 3, "tags": ["rome"]})
    (case,) = from_file(path, frame, parse_scorer("regex:^Yes", tmp_path), tmp_path)
    assert case.messages == (system("You are brief."), user("And in Rome?"))
    assert (case.tools, case.weight, case.tags) == ((WEATHER,), 3, ("rome",))


@pytest.mark.parametrize(
    ("line", "said"), [({"prompt": "a"}, "nothing to compare with"), ({"prompt": "a", "expect": "b"}, "expect")]
)
def test_a_bad_prompt_is_named(tmp_path, line, said):
    with pytest.raises(Refused, match=r"line 2.*") as refused:
        from_file(prompts(tmp_path, {"prompt": "?", "expected": "y"}, line), shared_frame(questions(1)), None, tmp_path)
    assert said in refused.value.message


def test_the_tagged_answer_decides_the_scorer(tmp_path):
    held = [weather_row(), row(user("Tell all."), assistant("x" * 201), number=1), row(user("Two?"), assistant("a\nb"))]
    found = from_pool(held, [], [], None, tmp_path)
    called, said = found.cases
    assert (called.scorer, called.expected_calls) == (Scorer("tool_call"), (Call("weather", {"city": "Oslo"}),))
    assert (said.scorer, said.expected) == (Scorer("exact"), "Yes, -5 degrees.")
    assert found.long == (f"{held[1].id}#1", f"{held[2].id}#1")
    assert found.tags == {"held-out": 2}
    assert held[1].id in found.notes()[0]


def test_a_named_scorer_judges_all_that_it_can(tmp_path):
    held = [weather_row(), row(user("Tell all."), assistant("x" * 201), number=1)]
    found = from_pool(held, [], [], Scorer("judge", "Kind?"), tmp_path)
    assert len(found.cases) == 3
    found = from_pool(held, [], [], Scorer("tool_call"), tmp_path)
    assert len(found.cases) == 1
    assert len(found.unfit) == 2


def test_calls_with_long_arguments_are_left_out(tmp_path):
    arguments = json.dumps({"city": "x" * 200})
    assert from_pool([weather_row(arguments)], [], [], None, tmp_path).long == ("t_" + "100".zfill(26) + "#2",)


def test_regression_cases_are_of_conversations_that_nothing_trains_on(tmp_path):
    good = questions(3)
    observed = [
        row(
            user("New one?"), assistant("Yes."), user("More?"), assistant("No."), number=9, session="o", tag="observed"
        ),
        row(user("Old one?"), assistant("Yes."), number=8, session="o", tag="observed"),
        row(user("In training?"), assistant("Yes."), number=7, session="session-0", tag="observed"),
        row(user("Held out too?"), assistant("Yes."), number=6, session="session-2", tag="observed"),
        row(user("what is 1 plus one?"), assistant("2"), number=5, session="p", tag="observed"),
        row(user("Call?"), assistant("", call("f", "{}")), number=4, session="q", tag="observed"),
    ]
    found = from_pool(good[2:], observed, expand(good[:2]), None, tmp_path)
    questions_of = {case.question: case.tags for case in found.cases}
    assert questions_of == {
        "What is 2 plus one?": ("held-out",),
        "New one?": ("regression",),
        "Call?": ("regression",),
    }
    assert len(found.trained) == 1
    assert "trained on too" in " ".join(found.notes())
