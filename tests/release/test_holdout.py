"""Holdout: what of an external suite was trained on, against Jaccard similarities that are counted by hand."""

import random
import re
import time

import pytest

from machine.dataset.targets import Target
from machine.evals.case import Case, Scorer
from machine.release.holdout import overlap

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"]
LONG = "please rename the helper in the parser module and make sure that every caller still passes its tests today"


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


def tool(text):
    return {"role": "tool", "content": text}


def case(id, *messages, expected=None):
    return Case(id, tuple(messages), Scorer("contains", None if expected else "zz"), expected)


def row(id, *messages):
    """Its targets: every answer."""
    return [
        Target(f"{id}#{i}", id, id, messages[: i + 1], ())
        for i, message in enumerate(messages)
        if message["role"] == "assistant"
    ]


def found(cases, trained, near=0.5):
    return [(each.case, each.row, each.kind) for each in overlap(cases, trained, near)]


def words(text):
    return re.findall(r"\w+", text.lower())


def similarity(one, other, width=3):
    a, b = ({tuple(each[i : i + width]) for i in range(len(each) - width + 1)} for each in (one, other))
    return len(a & b) / len(a | b)


def test_the_same_question_is_exact():
    trained = [*row("t0", user("other"), said("a")), *row("t1", user(f"  {LONG.upper()} "), said("a"))]
    assert found([case("c", user(LONG)), case("d", user("Something quite different is asked here."))], trained) == [
        ("c", "t1", "exact")
    ]
    assert overlap([case("c", user(LONG))], trained, 0.5)[0].words == "case c is in the training row t1"


def test_a_changed_question_is_as_near_as_its_triples():
    changed = LONG.replace("parser", "lexer").replace("today", "now")
    expected = similarity(words(LONG), words(changed))
    trained = row("t1", user("first"), said("a"), user(changed), said("b"))
    (one,) = overlap([case("c", user(LONG))], trained, 0.5)
    assert (one.kind, one.row) == ("near", "t1")
    assert one.similarity == pytest.approx(expected)
    assert 0.5 < expected < 0.8
    assert found([case("c", user(LONG))], trained, near=expected) == []
    assert str(round(100 * expected, 1)) in one.words
    assert "parser" not in one.words


def test_marks_and_case_do_not_make_it_new():
    (one,) = overlap([case("c", user(LONG))], row("t1", user(LONG.title().replace(" ", ", ") + "!"), said("a")), 0.5)
    assert (one.kind, one.similarity) == ("near", 1.0)


def test_a_short_question_is_compared_by_its_characters():
    trained = row("t1", user("How do I sort a list in Python?"), said("a"))
    asked = "How can I sort a list in python"
    (one,) = overlap([case("c", user(asked))], trained, 0.5)
    expected = similarity("how can i sort a list in python", "how do i sort a list in python", 5)
    assert one.similarity == pytest.approx(expected)
    assert found([case("c", user("What is a monad?"))], trained) == []
    assert found([case("c", user("?!"))], row("t1", user("?!"), said("a"))) == [("c", "t1", "exact")]


def test_a_short_follow_up_is_what_was_asked_before_it():
    trained = row("t1", user(LONG), said("done"), user("go on"), said("more"))
    other = "explain how the tide depends on the moon and why there are two of them in one day at most coasts"
    assert found([case("c", user(other), said("x"), user("go on"))], trained) == []
    again = user(LONG.replace("today", "tonight"))
    last = row("t1", user(LONG), said("done"), user("go on"), said("more"))[-1:]
    assert found([case("c", again, said("done"), user("go on"))], last) == [("c", "t1", "near")]


def test_tool_results_are_part_of_the_question():
    body = " ".join(random.Random(1).choices(WORDS, k=200))
    asked = case("c", user("why does it fail"), said("let me see"), tool(body))
    trained = row("t1", user("why does it fail"), said("let me see"), tool(body + " and more"), said("because"))
    assert found([asked], trained) == [("c", "t1", "near")]
    other = " ".join(random.Random(2).choices(WORDS, k=200))
    assert found([asked], row("t2", user("why does it fail"), said("hm"), tool(other), said("because"))) == []
    alone = row("t3", user("see here"), said("hm"), tool(body), said("because"))
    assert found([asked], alone) == [("c", "t3", "near")]


def test_a_suite_that_was_read_in_training():
    """A quoted question is a small part of a long text: no near one, but exact where its answer is there too."""
    noise = " ".join(random.Random(3).choices(WORDS, k=500))
    quoted = f'{noise} {{"question": "{LONG}"}} {noise}'
    asked = case("c", user(LONG), expected="forty-two")
    assert found([asked], row("t1", user("see"), said("x"), tool(quoted), said("Forty two!"))) == [("c", "t1", "exact")]
    assert found([asked], row("t1", user(f"{quoted} forty-two"), said("x"))) == [("c", "t1", "exact")]
    assert found([asked], row("t1", user(quoted), said("x"))) == []
    common = case("d", user("go on please"), expected="x")
    assert found([common], row("t1", user(f"{noise} go on please {noise}"), said("x"))) == []


def test_the_nearest_row_is_named():
    trained = [
        *row("t1", user(LONG.replace("rename the helper", "rename a function")), said("a")),
        *row("t2", user(LONG.replace("today", "soon")), said("a")),
        *row("t3", user(LONG.replace("every caller", "each user")), said("a")),
    ]
    assert found([case("c", user(LONG))], trained, 0.2) == [("c", "t2", "near")]


def test_nothing_to_compare():
    assert overlap([], row("t", user("a"), said("b")), 0.5) == []
    assert overlap([case("c", user("a"))], [], 0.5) == []
    assert overlap([case("c", user(""))], row("t", user("words enough to have a triple"), said("b")), 0.5) == []


def test_against_every_pair():
    """The index finds what comparing each with each finds."""
    draw = random.Random(5)
    texts = [draw.choices(WORDS[:40], k=30) for _ in range(30)]
    trained = [target for i, text in enumerate(texts) for target in row(f"t{i}", user(" ".join(text)), said("x"))]
    cases = []
    for i in range(40):
        text = list(texts[draw.randrange(30)])
        for _ in range(draw.randint(1, 8)):
            text[draw.randrange(30)] = draw.choice(WORDS)
        cases.append((f"c{i}", text))
    expected = {}
    for id, text in cases:
        best = max((similarity(text, other), f"t{i}") for i, other in enumerate(texts))
        if best[0] > 0.4:
            expected[id] = best
    got = overlap([case(id, user(" ".join(text))) for id, text in cases], trained, 0.4)
    assert {each.case: (pytest.approx(each.similarity), each.row) for each in got} == expected
    assert 5 < len(expected) < 40


def test_much_text_takes_little_time():
    """Two megabytes and 200 cases; it grows with the text, not with the pairs."""
    draw = random.Random(7)

    def text(count):
        return " ".join(draw.choices(WORDS, k=count))

    trained = [
        target for i in range(20) for target in row(f"t{i}", user(text(40)), said("x"), tool(text(25_000)), said("y"))
    ]
    cases = [case(f"c{i}", user(text(8 if i % 2 else 60))) for i in range(200)]
    began = time.process_time()
    assert overlap([*cases, case("leak", user(trained[20].messages[0]["content"]))], trained, 0.5)[-1].case == "leak"
    assert time.process_time() - began < 5
