import pytest

from machine.training.progress import duration, line, sparkline


def metrics(count, seconds=0.5, tokens=100):
    return [{"step": i, "loss": 4 / i, "tokens": tokens, "seconds": seconds * i} for i in range(1, count + 1)]


def test_a_line_says_where_it_stands_how_fast_and_how_long():
    assert line(metrics(4), 9, 80) == "step 4/9 ████████░░░░░░░░░░░░ loss 1.000  200 tok/s  2 s left"
    assert line(metrics(9), 9, 80).startswith("step 9/9 " + "█" * 20 + " loss")


@pytest.mark.parametrize("columns", [60, 72, 80, 120, 300])
def test_a_line_fits_its_terminal(columns):
    long = [{"step": 99999, "loss": 12.3456, "tokens": 10**6, "seconds": 99999 * 3.0}]
    assert len(line(long, 100000, columns)) <= max(columns, 68)
    assert 8 <= line(metrics(4), 9, columns).count("█") + line(metrics(4), 9, columns).count("░") <= 40


def test_speed_is_that_of_the_last_steps():
    slow = [{"step": 1, "loss": 1.0, "tokens": 100, "seconds": 60.0}]
    quick = [{"step": 1 + i, "loss": 1.0, "tokens": 100, "seconds": 60.0 + i} for i in range(1, 8)]
    assert "100 tok/s  2 s left" in line(slow + quick, 10, 80)


def test_the_first_step_has_a_speed_too():
    assert "25 tok/s  12 s left" in line(metrics(1, seconds=4.0), 4, 80)


def test_a_curve_falls_where_the_loss_falls():
    assert sparkline([4, 3, 2, 1]) == "█▆▃▁"
    assert sparkline([]) == ""
    assert sparkline([2, 2]) == "▁▁"
    curve = sparkline([1 / (1 + i) for i in range(1000)], 20)
    assert len(curve) == 20
    assert list(curve) == sorted(curve, reverse=True)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (99, "99 s"), (200, "3 min"), (3900, "1 h 05 min"), (7170, "2 h 00 min")]
)
def test_a_time_in_words(seconds, said):
    assert duration(seconds) == said
