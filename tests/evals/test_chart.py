import math

import pytest

from machine.evals.chart import MOST_POINTS, chart, nice


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(0, 4, [0, 1, 2, 3, 4]), (0, 0.37, [0, 0.1, 0.2, 0.3, 0.4]), (0, 1300, [0, 500, 1000, 1500]), (3, 3, [3, 4])],
)
def test_round_numbers_enclose(low, high, wanted):
    assert nice(low, high, 5) == pytest.approx(wanted)


def test_points_lie_where_their_values_are():
    drawn = chart([(1, 4.0), (2, 2.0), (3, 0.0)], [(0, 4.0)], 400, 200)
    assert [p.top for p in drawn.train] == [drawn.top, (drawn.top + drawn.bottom) / 2, drawn.bottom]
    assert (drawn.held_out[0].left, drawn.train[-1].left) == (drawn.left, drawn.right)
    assert drawn.train[1].left - drawn.train[0].left == pytest.approx(drawn.train[0].left - drawn.left, abs=0.2)
    assert [(t.at, t.label) for t in drawn.nats][-1] == (drawn.top, "4")


def test_everything_drawn_is_within_the_drawing():
    for points in ([(7, 0.0)], [(1, 1e-9), (2, 2e-9)], [(i, 1e6 / i) for i in range(1, 5000)]):
        for width in (360, 960):
            drawn = chart(points, [], width, 260)
            assert all(drawn.left <= p.left <= drawn.right for p in drawn.train)
            assert all(drawn.top <= p.top <= drawn.bottom for p in drawn.train)
            assert all(t.label == f"{float(t.label):.0f}" for t in drawn.steps)


def test_a_long_run_is_drawn_as_means():
    drawn = chart([(i, float(i % 2)) for i in range(1, 2001)], [], 960, 320)
    assert len(drawn.train) <= MOST_POINTS
    assert drawn.mean_of == math.ceil(2000 / MOST_POINTS)
    assert sum(p.y for p in drawn.train) / len(drawn.train) == pytest.approx(0.5, abs=0.01)


def test_nothing_to_draw():
    assert chart([], [], 960, 320) is None
    assert chart([(1, math.nan), (2, math.inf)], [], 960, 320) is None
    assert len(chart([(1, math.nan), (2, 3.0)], [], 960, 320).train) == 1
