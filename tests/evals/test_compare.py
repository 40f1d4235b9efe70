"""The paired comparison, against published values, closed forms and scipy."""

import itertools

import pytest

from machine.evals.case import Case, Scorer
from machine.evals.compare import compare, difference_interval, interval, of_records, paired_test, upper_bound
from machine.evals.proof import Proof
from machine.evals.record import Record
from machine.evals.sample import Parameters, Sample
from students import user


def results(passed: int, cases: int) -> dict[str, bool]:
    return {str(i): i < passed for i in range(cases)}


def table(a: int, b: int, c: int, d: int) -> tuple[list[float], list[float], list[float]]:
    """(before, after, weights) of a paired table: both pass, only `after`, only `before`, neither."""
    pairs = [(1.0, 1.0)] * a + [(0.0, 1.0)] * b + [(1.0, 0.0)] * c + [(0.0, 0.0)] * d
    return [x for x, _ in pairs], [y for _, y in pairs], [1.0] * len(pairs)


def test_a_paired_gain():
    found = compare(results(0, 24), results(23, 24))
    assert (found.baseline, found.candidate, len(found.wins), found.losses) == (0, 23, 23, ())
    assert found.p_better == pytest.approx(0.5**23)
    assert (found.verdict, found.test) == ("better", "exact McNemar")
    assert found.difference == pytest.approx(23 / 24)


def test_pairs_count_not_totals():
    before = {"a": True, "b": False, "c": True, "d": False, "e": True, "f": False}
    found = compare(before, {case: not passed for case, passed in before.items()})
    assert (len(found.wins), len(found.losses)) == (3, 3)
    assert found.p_better == pytest.approx(42 / 64)
    assert found.verdict == "too few cases"


@pytest.mark.parametrize(
    ("before", "after", "cases", "verdict"),
    [
        (0, 4, 4, "too few cases"),
        (4, 0, 8, "too few cases"),
        (5, 5, 9, "no difference shown"),
        (0, 5, 5, "better"),
        (5, 0, 5, "worse"),
        (3, 3, 20, "no difference shown"),
        (0, 4, 20, "no difference shown"),
        (0, 5, 20, "better"),
    ],
)
def test_verdicts(before, after, cases, verdict):
    assert compare(results(before, cases), results(after, cases)).verdict == verdict


def test_what_cases_cannot_show_is_said():
    assert "room on 2 of 20" in compare(results(18, 20), results(20, 20)).limits[0]
    assert "scores on 1 of 20" in compare(results(1, 20), results(0, 20)).limits[0]
    assert compare(results(10, 20), results(10, 20)).limits == []


@pytest.mark.parametrize("after", [results(1, 4), {}])
def test_other_cases_cannot_be_paired(after):
    with pytest.raises(ValueError):
        compare(results(1, 3) if after else {}, after)


def test_wilson_intervals_are_scipy_s():
    from scipy.stats import binomtest

    for passed, cases in [(0, 24), (23, 24), (24, 24), (1, 29), (15, 148), (81, 263)]:
        ours = binomtest(passed, cases).proportion_ci(0.95, method="wilson")
        assert interval(passed, cases) == pytest.approx((ours.low, ours.high), abs=1e-12)
    assert interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("counts", "ends"),
    [
        ((20, 12, 2, 16), (0.0562, 0.3292)),  # Newcombe 1998, method 10
        ((1, 1, 7, 12), (-0.507, -0.026)),  # Fagerland, Lydersen and Laake 2014: airway hyper-responsiveness
        ((8, 3, 1, 2), (-0.1574, 0.4136)),  # Tang, Li and Tang 2010
        ((7, 25, 2, 68), (0.133, 0.318)),  # Chang 2024
    ],
)
def test_the_interval_of_the_difference_is_the_published_one(counts, ends):
    digits = 4 if counts[0] in (20, 8) else 3
    assert tuple(round(end, digits) for end in difference_interval(*table(*counts))) == ends


def test_the_interval_of_the_difference_has_width_and_bounds():
    low, high = difference_interval(*table(24, 0, 0, 0))
    assert low == pytest.approx(-high)
    assert high == pytest.approx(0.138, abs=1e-3)
    assert difference_interval(*table(0, 24, 0, 0))[1] == 1.0


def test_the_interval_covers_as_often_as_it_says():
    """Exactly, over all tables of 12 pairs, at some true probabilities: near 95 % on average, nowhere far below."""
    from scipy.stats import multinomial

    n, covered = 12, []
    ends = {
        (a, b, c): difference_interval(*table(a, b, c, n - a - b - c))
        for a, b, c in itertools.product(range(n + 1), repeat=3)
        if a + b + c <= n
    }
    for both, won, lost in [(0.4, 0.1, 0.1), (0.2, 0.4, 0.1), (0.6, 0.05, 0.2), (0.1, 0.3, 0.3), (0.7, 0.1, 0.05)]:
        true = multinomial(n, [both, won, lost, 1 - both - won - lost])
        inside = [k for k, (low, high) in ends.items() if low <= won - lost <= high]
        covered.append(sum(true.pmf([*k, n - sum(k)]) for k in inside))
    assert min(covered) > 0.91
    assert sum(covered) / len(covered) > 0.945


@pytest.mark.parametrize(("cases", "bound"), [(24, 0.1173), (1, 0.95), (59, 0.0495), (300, 0.00994)])
def test_no_loss_rules_out_what_the_closed_form_says(cases, bound):
    assert upper_bound(0, cases) == pytest.approx(1 - 0.05 ** (1 / cases))
    assert upper_bound(0, cases) == pytest.approx(bound, abs=1e-4)


def test_the_bound_after_losses_is_where_so_few_have_five_percent():
    from scipy.stats import binom

    assert binom.cdf(2, 20, upper_bound(2, 20)) == pytest.approx(0.05)
    assert upper_bound(20, 20) == 1.0


def test_regressions_in_words():
    assert "0 regressions in the 24 cases" in compare(results(24, 24), results(24, 24)).regressions
    assert "above 11.7 % (95 %), not a lower one" in compare(results(24, 24), results(24, 24)).regressions
    assert "rule no regression out" in compare(results(0, 24), results(24, 24)).regressions
    assert "2 of the 20 cases that could get worse did; the rate may be up to 28.3 %" in (
        compare(results(20, 24), results(18, 24)).regressions
    )


def test_a_sign_flip_test_counts_every_sign():
    name, better, worse = paired_test([0.5, 0.25, 1.0, -0.25, 0.0, 0.75])
    sums = [sum(s) for s in itertools.product(*((d, -d) for d in (0.5, 0.25, 1.0, -0.25, 0.75)))]
    assert name == "exact sign-flip"
    assert better == pytest.approx(sum(s >= 2.25 for s in sums) / len(sums))
    assert worse == pytest.approx(sum(s <= 2.25 for s in sums) / len(sums))


@pytest.mark.parametrize(("wins", "losses"), [(6, 1), (4, 4), (0, 7), (9, 2)])
def test_mcnemar_is_the_sign_flip_test_of_passes(wins, losses):
    passes = [1.0] * wins + [-1.0] * losses
    sums = [sum(signs) for signs in itertools.product(*((d, -d) for d in passes))]
    assert paired_test(passes) == (
        "exact McNemar",
        pytest.approx(sum(s >= wins - losses for s in sums) / len(sums)),
        pytest.approx(sum(s <= wins - losses for s in sums) / len(sums)),
    )


def test_many_graded_differences_are_drawn_the_same_each_time():
    graded = [0.1 * (i % 7 - 2) for i in range(40)]
    assert paired_test(graded) == paired_test(graded)
    assert "draws" in paired_test(graded)[0]
    assert paired_test(graded)[1] < 0.05 < paired_test(graded)[2]


def test_graded_scores_win_and_lose_by_degrees():
    found = compare({"a": 0.0, "b": 0.75, "c": 1.0, "d": 0.5}, {"a": 0.25, "b": 0.5, "c": 1.0, "d": 1.0})
    assert (found.wins, found.losses) == (("a", "d"), ("b",))
    assert (found.baseline, found.candidate) == (3, 3)
    assert found.baseline_rate == pytest.approx(0.5625)
    assert (found.could_win, found.could_lose) == (3, 3)


def test_weights_count_in_rates_difference_and_test():
    before, after = results(0, 6), results(6, 6) | {"0": False}
    even, heavy = compare(before, after), compare(before, after, {"0": 10.0})
    assert heavy.candidate_rate == pytest.approx(5 / 15)
    assert (even.weighted, heavy.weighted) == (False, True)
    assert heavy.difference_interval[0] < even.difference_interval[0]
    lost = compare(results(6, 6), results(6, 6) | {"0": False, "1": False}, {"0": 3.0})
    assert lost.test == "exact sign-flip"


def test_tags_are_broken_down_regressions_first():
    tags = {"0": ("chat",), "1": ("chat", "regression"), "2": ("regression",), "3": ()}
    found = compare(results(3, 4), {"0": False, "1": True, "2": False, "3": True}, tags=tags)
    assert found.losses == ("2", "0")
    assert [(t.tag, t.cases, t.baseline, t.candidate, t.losses) for t in found.tags] == [
        ("regression", 2, 2, 1, ("2",)),
        ("chat", 2, 2, 1, ("0",)),
    ]


def record(*texts: str) -> Record:
    samples = tuple(
        Sample(f"c{i}", text, 1, "stop", score=float(text == "yes"), passed=text == "yes", ids=(len(text),))
        for i, text in enumerate(texts)
    )
    return Record("r", "now", "hash", "m", "bytes", Parameters(), Proof("m", None, (0.0,)), samples, 1.0, version=2)


def test_records_are_paired_with_their_weights_and_tags():
    cases = [Case(f"c{i}", (user("?"),), Scorer("exact", "yes"), weight=i + 1.0, tags=("t",)) for i in range(2)]
    found = of_records(record("yes", "no"), record("no", "yes"), cases)
    assert (found.wins, found.losses, found.identical) == (("c1",), ("c0",), False)
    assert found.candidate_rate == pytest.approx(2 / 3)
    assert found.tags[0].cases == 2
    assert of_records(record("yes", "no"), record("yes", "no")).identical
