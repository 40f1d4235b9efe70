"""The verdicts: improvement, non-inferiority, the control arm, drift, retention, and what their suites cannot show."""

import itertools
import math
from dataclasses import dataclass
from statistics import median

import msgspec
import pytest
from gate_arms import arm, pair

from machine.errors import Refused
from machine.evals.proof import Proof
from machine.evals.record import Record, Retention
from machine.evals.retention import built_in_cases
from machine.evals.sample import Parameters, Sample
from machine.release.gates.arms import from_attempts, from_record
from machine.release.gates.drift import drift, median_interval
from machine.release.gates.improvement import improvement
from machine.release.gates.noninferiority import control, non_inferiority
from machine.release.gates.paired import lower_bound
from machine.release.gates.power import cannot, least_cases, wins_needed
from machine.release.gates.retention import retention
from machine.release.gates.wording import percent, probability, signed
from machine.release.preregistration import Control, Drift, Improvement, Kept, NonInferiority, Sanity

BETTER = Improvement(suite="target", alpha=0.05, gain=0.1)
SAFE = NonInferiority(suite="target", margin=0.1)
PROMPT = Control(suite="target", instruction="Mend it.", margin=0.1)


def of(result) -> str:
    return " | ".join(result.words)


# Arms


def sample(case, number=0, **rest):
    return Sample(case=case, number=number, **{"text": "x", "tokens": 4, "stopped": "stop", "score": 1.0, **rest})


def record(*samples):
    return Record("r", "2026", "s", "m", "plain", Parameters(), Proof(None, (), ()), samples, 1.0, version=2)


def test_an_arm_of_a_record():
    called = {"tool_calls": [{"function": {"name": "read", "arguments": '{"path": "a"}'}}]}
    found = from_record(
        "target",
        "base",
        record(
            sample("a", score=1.0, tokens=3),
            sample("a", 1, score=0.5, tokens=6, stopped="length"),
            sample("a", 2, score=0.0, tokens=9, stopped="length"),
            sample("b", text="", score=0.4, message=called),
            sample("c", text=" ", message={"unparsed_tool_calls": [{"raw_text": "{"}]}),
            sample("d", text="", message={"content": [{"type": "thinking", "thinking": "hm"}]}),
        ),
        "samples/base.json",
    )
    assert found.scores == {"a": 0.5, "b": 0.4, "c": 1.0, "d": 1.0}
    assert found.passed == {"a": True, "b": False, "c": True, "d": True}
    assert found.tokens["a"] == 6
    assert found.cut == {"a": 2}
    assert found.texts["b"] == ('read {"path": "a"}',)
    assert found.texts["c"] == ("(a tool call that cannot be read)",)
    assert found.texts["d"] == ("",)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


@dataclass
class Try:
    task: str
    passed: bool
    completion_tokens: int
    why: str = ""


def test_an_arm_of_attempts():
    tries = [Try("t", True, 10), Try("t", False, 30, "check failed"), Try("u", False, 5, "no diff"), Try("v", True, 1)]
    found = from_attempts("repairs", "candidate", tries, "samples/x")
    assert found.scores == {"t": 0.5, "u": 0.0, "v": 1.0}
    assert found.passed == {"t": True, "u": False, "v": True}
    assert found.tokens == {"t": 20, "u": 5, "v": 1}
    assert found.why == {"t": "check failed", "u": "no diff"}


# Improvement


def test_a_gain_is_shown():
    found = improvement("target", BETTER, *pair(3, 14, 0, 7))
    assert found.passed
    assert found.numbers["p"] == pytest.approx(0.5**14)
    assert (found.numbers["base_passed"], found.numbers["candidate_passed"]) == (3, 17)
    assert found.figure.startswith("3 → 17 of 24 passed, +58.3 % (95 % interval +3")
    assert found.figure.endswith("p = 0.000061")
    assert found.threshold == "p ≤ 0.05 and a gain of ≥ 10 %"
    assert found.samples == ("samples/target-base.json", "samples/target-candidate.json")
    assert "it takes 5 wins without a loss" in of(found)


@pytest.mark.parametrize(
    ("alpha", "gain", "table", "passed"),
    [
        (0.05, 0.0, (0, 5, 0, 0), True),
        (0.05, 0.0, (0, 4, 0, 0), False),
        (0.0625, 0.0, (0, 4, 0, 0), True),  # p is 1/16, as exactly as asked for
        (0.03, 0.0, (0, 5, 0, 0), False),
        (0.05, 0.1, (0, 5, 0, 45), True),  # the gain is the 10 % asked for
        (0.05, 0.1, (0, 5, 0, 46), False),
        (0.05, 0.0, (0, 7, 1, 0), True),  # 9/256
        (0.05, 0.0, (0, 6, 1, 0), False),  # 8/128
        (0.05, 0.0, (20, 0, 0, 0), False),
        (0.05, 0.0, (0, 0, 0, 20), False),
        (0.05, 0.0, (0, 0, 20, 0), False),
        (0.05, 0.0, (0, 1, 0, 0), False),
    ],
)
def test_when_an_improvement_is_one(alpha, gain, table, passed):
    gate = Improvement(suite="target", alpha=alpha, gain=gain)
    assert improvement("target", gate, *pair(*table)).passed is passed


def test_why_there_is_no_improvement():
    few = of(improvement("target", BETTER, *pair(20, 3, 0, 0)))
    assert "p = 0.125, above 0.05" in few
    assert "room on 3 of 23 cases" in few
    assert "no candidate could pass" in few
    small = improvement("target", BETTER, *pair(0, 6, 1, 93))
    assert "the gain, +5 %, is less than 10 %" in of(small)
    assert "lost: c6" in of(small)
    same = arm("base", [0, 1], ["x", "y"]), arm("candidate", [0, 1], ["x", "y"])
    assert "WARNING: the candidate gave the very answers" in of(improvement("target", BETTER, *same))


def test_scores_between_0_and_1():
    base, candidate = arm("base", [0.25] * 8), arm("candidate", [0.5, 0.75, 1, 0.5, 0.75, 1, 0.5, 0.25])
    found = improvement("target", BETTER, base, candidate)
    assert found.passed
    assert found.numbers["p"] == pytest.approx(1 / 2**7)  # all seven that differ are up: one of 2^7 signs
    assert found.numbers["difference"] == pytest.approx(3.25 / 8)
    assert "mean score 25 % → 65.6 %" in found.figure


def test_arms_of_other_cases_are_a_bug():
    one, other, elsewhere = arm("base", [1, 0]), arm("candidate", [1, 0, 1]), arm("candidate", [1, 0], suite="other")
    for gate, test in ((BETTER, improvement), (SAFE, non_inferiority), (PROMPT, control)):
        for wrong in (other, elsewhere):
            with pytest.raises(ValueError, match="same cases"):
                test("g", gate, one, wrong)
    with pytest.raises(ValueError, match="same cases"):
        improvement("g", BETTER, arm("base", []), arm("candidate", []))


# Non-inferiority and control


@pytest.mark.parametrize(
    ("margin", "table", "passed"),
    [
        (0.1, (25, 0, 0, 0), True),
        (0.1, (24, 0, 0, 0), False),
        (0.1, (0, 0, 0, 25), False),
        (0.1, (0, 25, 0, 0), True),
        (0.1, (0, 0, 25, 0), False),
        (0.1, (60, 1, 1, 2), True),
        (0.1, (55, 0, 5, 0), False),
        (0.1, (0, 0, 1, 0), False),
        (0.1, (1, 0, 0, 0), False),
    ],
)
def test_when_a_drop_is_ruled_out(margin, table, passed):
    found = non_inferiority("kept", NonInferiority(suite="target", margin=margin), *pair(*table))
    assert found.passed is passed
    assert found.numbers["difference_low"] == lower_bound(table[1], table[2], sum(table), 0.95)


def test_no_difference_is_not_enough():
    found = non_inferiority("kept", SAFE, *pair(12, 0, 0, 0))
    assert not found.passed
    assert "12 cases are too few for it" in of(found)
    assert "about 25" in of(found)
    assert "it takes 25 cases" in of(found)
    assert found.figure == "12 → 12 of 12 passed, 0 % (at least -18.4 % with 95 % confidence)"
    assert found.threshold == "above -10 % with 95 % confidence"


def test_what_is_said_of_a_drop():
    found = non_inferiority("kept", SAFE, *pair(40, 0, 10, 0))
    assert "the drop, -20 %, is itself as large as the 10 % allowed" in of(found)
    assert "lost: c40, c41, c42, c43, c44 and 5 more" in of(found)
    passed = non_inferiority("kept", SAFE, *pair(40, 2, 0, 0))
    assert passed.passed
    assert "these answers leave a drop of up to" in of(passed)
    assert "these answers leave no drop possible" in of(non_inferiority("kept", SAFE, *pair(20, 30, 0, 0)))
    assert "passes with a probability of up to 7.2 %, not 5 %" in of(non_inferiority("kept", SAFE, *pair(25, 0, 0, 0)))


def test_why_a_repair_was_lost_is_said():
    base = arm("base", [1.0] * 30)
    candidate = arm("candidate", [0.0] + [1.0] * 29, why={"c0": "check failed"})
    assert "lost: c0 (check failed)" in of(non_inferiority("kept", SAFE, base, candidate))


def test_a_prompt_that_does_as_well():
    prompted, candidate = arm("control", [1.0] * 30), arm("candidate", [1.0] * 30)
    found = control("prompt", PROMPT, prompted, candidate)
    assert found.passed
    assert found.test == "control"
    assert found.words[0].startswith("a system prompt reaches as much: the untrained base passes 30 of 30")
    assert found.numbers["control_passed"] == 30
    assert found.samples == ("samples/target-control.json", "samples/target-candidate.json")
    worse = control("prompt", PROMPT, prompted, arm("candidate", [0.0] * 10 + [1.0] * 20))
    assert not worse.passed
    assert "a system prompt reaches as much" in of(worse)


def test_a_prompt_that_does_not():
    base, candidate = pair(10, 15, 0, 5)
    found = control("prompt", PROMPT, msgspec.structs.replace(base, arm="control"), candidate)
    assert found.passed
    assert "passes 10 of 30; the candidate passes 25" in found.words[0]
    assert "and that is shown" in found.words[0]
    assert "may be chance" in control("prompt", PROMPT, *pair(10, 2, 0, 18)).words[0]


# Power


@pytest.mark.parametrize("alpha", [0.2, 0.125, 0.0625, 0.05, 0.01, 1e-6])
def test_the_fewest_cases_for_an_improvement(alpha):
    gate = Improvement(suite="s", alpha=alpha)
    least = least_cases(gate)
    assert least == wins_needed(alpha) == math.ceil(round(math.log(alpha, 0.5), 9))
    assert improvement("g", gate, *pair(0, least, 0, 0)).passed
    assert not improvement("g", gate, *pair(0, least - 1, 0, 1)).passed


@pytest.mark.parametrize("margin", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_fewest_cases_without_a_drop(margin, confidence):
    gate = NonInferiority(suite="s", margin=margin, confidence=confidence)
    least = least_cases(gate)
    assert non_inferiority("g", gate, *pair(least, 0, 0, 0)).passed
    if least > 1:
        assert not non_inferiority("g", gate, *pair(least - 1, 0, 0, 0)).passed
        assert f"it takes {least} cases" in cannot(gate, least - 1)
    assert "it takes" not in cannot(gate, least)
    assert least_cases(Control(suite="s", instruction="i", margin=margin, confidence=confidence)) == least


def test_what_suites_cannot_show_in_words():
    assert cannot(BETTER, 4) == "4 cases cannot show an improvement (at p ≤ 0.05 it takes 5 wins without a loss)"
    assert "fewer than 5 of them, 20.8 %" in cannot(BETTER, 24)
    assert cannot(SAFE, 50) == "50 cases without a loss leave a drop of up to 5.1 % possible (95 % confidence)"
    assert cannot(Drift(suite="s"), 5).startswith("5 timed pairs give no 95 % interval")
    assert cannot(Drift(suite="s"), 6) == ""
    assert "up to 11.7 % possible" in cannot(Sanity(), 24)
    assert cannot(Kept(), 3) == ""
    assert [least_cases(gate) for gate in (Kept(), Drift(suite="s"), Sanity())] == [1, 1, 1]


# Drift


def test_drift_within_limits():
    base, candidate = arm("base", [1, 1], tokens=[10, 30]), arm("candidate", [1, 1], tokens=[50, 20])
    found = drift("d", Drift(suite="target", length=1.75, latency=1.5), base, candidate, [(2.0, 3.0)] * 6)
    assert found.passed
    assert (found.numbers["length"], found.numbers["latency"]) == (1.75, 1.5)
    assert found.figure.startswith("1.75 times as long (20.0 → 35.0 tokens an answer), 1.5 times as slow (median; 95 %")
    assert not drift("d", Drift(suite="target", length=1.74), base, candidate, [(2.0, 3.0)] * 6).passed
    assert not drift("d", Drift(suite="target", latency=1.49), base, candidate, [(2.0, 3.0)] * 6).passed


def test_the_median_not_the_mean_is_the_latency():
    arms = arm("base", [1]), arm("candidate", [1])
    found = drift("d", Drift(suite="target"), *arms, [(1.0, 1.0), (1.0, 1.2), (1.0, 90.0)])
    assert found.passed
    assert found.numbers["latency"] == 1.2
    assert "3 timed pairs give no 95 % interval" in of(found)
    unsure = drift("d", Drift(suite="target"), *arms, [(1.0, 1.0)] * 4 + [(1.0, 9.0)] * 3)
    assert unsure.passed
    assert "do not rule out 9 times" in of(unsure)


def test_latency_that_was_not_measured():
    found = drift("d", Drift(suite="target"), arm("base", [1]), arm("candidate", [1]), [])
    assert not found.passed
    assert "latency not measured" in found.figure
    assert "latency" not in found.numbers
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


@pytest.mark.parametrize(("before", "after", "passed"), [(0, 0, True), (0, 1, False), (1, 0, True)])
def test_answers_of_no_token(before, after, passed):
    arms = arm("base", [1], tokens=[before]), arm("candidate", [1], tokens=[after])
    found = drift("d", Drift(suite="target"), *arms, [(1.0, 1.0)])
    assert found.passed is passed
    assert all(math.isfinite(value) for value in found.numbers.values())


def test_times_are_above_0():
    with pytest.raises(ValueError, match="time above 0"):
        drift("d", Drift(suite="target"), arm("base", [1]), arm("candidate", [1]), [(0.0, 1.0)])


@pytest.mark.parametrize("count", [6, 9, 15, 40])
def test_the_interval_of_a_median_by_counting(count):
    """The widest pair of order statistics that both tails leave: P(Bin(n, 1/2) < k) <= 0.025, over all outcomes."""
    values = [math.sqrt(i + 1) * (-1) ** i for i in range(count)]
    ordered = sorted(values)
    below = list(itertools.accumulate(math.comb(count, k) / 2**count for k in range(count + 1)))
    k = max(i for i in range(count) if below[i] <= 0.025) + 1
    assert median_interval(values) == (ordered[k - 1], ordered[count - k])
    assert ordered[k - 1] <= median(values) <= ordered[count - k]
    assert median_interval(values[:5]) is None


# Retention


def kept(rise=0.0, passing=None, texts=3, suite="s"):
    cases = [case.id for case in built_in_cases()]
    samples = tuple(
        sample(case, text=f"answer {i}", score=float(passing is None or i < passing), ids=())
        for i, case in enumerate(cases)
    )
    return Retention(suite, samples, {f"p{i}": 2.0 + rise + 0.001 * (i % 2) * bool(rise) for i in range(texts)})


def test_what_is_kept():
    found = retention("kept", Kept(rise=0.1), kept(), kept(0.05), samples=("a", "b"))
    assert found.passed
    assert found.samples == ("a", "b")
    assert found.numbers["nll_rise"] == pytest.approx(0.0503333, abs=1e-6)
    assert found.threshold == "95 % interval up to +0.1 nats a token, and answers not worse (p ≤ 0.05)"
    assert "a rise of up to 0.052 nats a token is still possible" in of(found)
    assert "rule out a rate of regressions above" in of(found)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (kept(0.2), "became harder to read"),
        (kept(0.05, passing=4), "answers to unrelated questions are worse"),
        (kept(0.0, texts=1), "fewer than two texts"),
    ],
)
def test_what_is_lost(after, words):
    before = kept(texts=len(after.nll))
    found = retention("kept", Kept(rise=0.1), before, after)
    assert not found.passed
    assert words in of(found)


def test_the_limit_is_the_gate_s():
    assert not retention("kept", Kept(rise=0.05), kept(), kept(0.05)).passed
    assert retention("kept", Kept(rise=0.3), kept(), kept(0.2)).passed


def test_a_rise_that_is_not_ruled_out():
    wide = msgspec.structs.replace(kept(), nll={"p0": 2.0, "p1": 2.09, "p2": 2.0})
    found = retention("kept", Kept(rise=0.1), kept(), wide)
    assert found.numbers["nll_rise"] < 0.1
    assert not found.passed
    assert "a rise is not ruled out" in of(found)


def test_too_few_answers_show_nothing():
    few = [msgspec.structs.replace(each, samples=each.samples[:3]) for each in (kept(), kept())]
    assert not retention("kept", Kept(), *few).passed


def test_other_suites_are_refused():
    with pytest.raises(Refused, match="different retention suites"):
        retention("kept", Kept(), kept(), kept(suite="other"))


# Words


def test_numbers_in_words():
    assert [percent(0.5833), percent(0.1), percent(0.00001)] == ["58.3 %", "10 %", "0 %"]
    assert [signed(0.1), signed(-0.0004), signed(-0.25)] == ["+10 %", "0 %", "-25 %"]
    assert probability(1.0) == "p = 1"
    assert probability(0.05021) == "p = 0.0502"
    assert probability(6.1e-5) == "p = 0.000061"
    assert probability(1e-9) == "p < 0.00001"
