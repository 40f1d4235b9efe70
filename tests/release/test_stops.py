import msgspec
import pytest

from machine.release.outcomes import Outcome
from machine.release.stops import Stops, stopped

OFF = Stops(failures=0, bad=0)


def turns(candidate, work=""):
    """One outcome a letter, the candidate's first: a good turn, a bad one, a failure, one where it was unavailable."""
    what = {"g": "answered", "b": "corrected", "f": "failed", "u": "unavailable"}
    arms = [("candidate", letter) for letter in candidate] + [("work", letter) for letter in work]
    return [
        Outcome("", "s", f"t{number}", "BR-001", arm, "p/m", what[letter]) for number, (arm, letter) in enumerate(arms)
    ]


@pytest.mark.parametrize(
    ("candidate", "work", "holds"),
    [
        ("", "fff", False),
        ("ffgf", "", False),
        ("gfufg", "", True),
        ("ff", "f", False),
    ],
)
def test_failures_in_a_row_are_the_candidates_own(candidate, work, holds):
    words = stopped(Stops(bad=0), turns(candidate, work))
    assert bool(words) is holds
    assert not holds or words == "3 turns of the candidate in a row failed or found it unavailable (the rule: 3)"


def test_a_turn_of_the_work_model_does_not_break_a_row():
    one, two, three, work = turns("fff", "g")
    assert stopped(Stops(bad=0), [one, work, two, three])


def test_bad_turns_in_all():
    assert stopped(Stops(), turns("bgbgbgb", "bbbbbbb")) == ""
    assert stopped(Stops(), turns("bgbgbgbgub")) == "5 of 9 turns of the candidate were bad (the rule: 5 in all)"


def test_worse_than_the_work_model():
    rule = msgspec.structs.replace(OFF, worse=0.05)
    assert stopped(rule, turns("bbbb", "ggg")) == (
        "4 of 4 turns of the candidate were bad, 0 of 3 of the work model's: p = 0.029 (Fisher, one-sided; the rule: "
        "0.05)"
    )
    assert stopped(rule, turns("bbb", "ggb")) == ""
    assert stopped(rule, turns("gggg", "bbbb")) == ""
    assert stopped(rule, turns("bbbb", "")) == ""
    assert stopped(OFF, turns("bbbb", "ggg")) == ""


@pytest.mark.parametrize("fault", [{"failures": -1}, {"worse": 1.5}, {"worse": -0.1}, {"bad": 2.5}, {"other": 1}])
def test_rules_that_are_none(fault):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fault, Stops)
