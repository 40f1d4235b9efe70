import pytest

from machine.evals.compare import compare, interval


def results(passed: int, cases: int) -> dict[str, bool]:
    return {str(i): i < passed for i in range(cases)}


def test_a_paired_gain():
    found = compare(results(0, 24), results(23, 24))
    assert (found.baseline, found.candidate, len(found.wins), found.losses) == (0, 23, 23, ())
    assert found.p_better == pytest.approx(0.5**23)
    assert found.verdict == "better"


def test_pairs_count_not_totals():
    before = {"a": True, "b": False, "c": True, "d": False, "e": True, "f": False}
    found = compare(before, {case: not passed for case, passed in before.items()})
    assert (len(found.wins), len(found.losses)) == (3, 3)
    assert found.p_better == pytest.approx(42 / 64)
    assert found.verdict == "no difference shown"


@pytest.mark.parametrize(
    ("before", "after", "cases", "verdict"),
    [
        (0, 4, 4, "too few cases"),
        (0, 5, 5, "better"),
        (5, 0, 5, "worse"),
        (3, 3, 20, "no difference shown"),
        (0, 4, 20, "no difference shown"),
        (0, 5, 20, "better"),
    ],
)
def test_verdicts(before, after, cases, verdict):
    assert compare(results(before, cases), results(after, cases)).verdict == verdict


def test_other_cases_cannot_be_paired():
    with pytest.raises(ValueError):
        compare(results(1, 3), results(1, 4))


def test_wilson_intervals():
    assert interval(0, 24) == pytest.approx((0.0, 0.1380), abs=1e-3)
    assert interval(23, 24) == pytest.approx((0.7976, 0.9926), abs=1e-3)
    assert interval(0, 0) == (0.0, 1.0)
