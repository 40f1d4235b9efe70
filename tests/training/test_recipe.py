from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.errors import Refused
from machine.training.config import Config
from machine.training.recipe import BATCH, ENOUGH_STEPS, MOST_EPOCHS, defaults, plan


def config(**figures) -> Config:
    return Config(model="m", renderer="machine/chatml", **figures)


@given(st.integers(1, 200), st.integers(1, 40), st.integers(1, 5), st.integers(0, 9))
def test_every_epoch_sees_every_example_once(examples, batch, epochs, seed):
    made = plan(config(batch_size=batch, epochs=epochs, seed=seed), examples)
    seen = Counter(i for step in range(made.steps) for i in made.batch(step))
    assert seen == {i: epochs for i in range(examples)}
    assert all(1 <= len(made.batch(step)) <= batch for step in range(made.steps))


def test_the_batch_shrinks_to_the_data():
    made = plan(config(batch_size=8, epochs=2), 5)
    assert (made.batch_size, made.steps) == (5, 2)


def test_the_order_depends_on_seed_and_epoch_alone():
    made, other = plan(config(epochs=3), 20), plan(config(epochs=3, seed=1), 20)
    assert [made.batch(s) for s in range(9)] == [plan(config(epochs=3), 20).batch(s) for s in range(9)]
    assert made.batch(0) != made.batch(3)
    assert made.batch(0) != other.batch(0)


def test_the_rate_falls_linearly():
    made = plan(config(learning_rate=1e-3, steps=4), 8)
    assert [made.rate(s) for s in range(4)] == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])
    assert plan(config(learning_rate=1e-3, steps=4, schedule="constant"), 8).rate(3) == 1e-3


def test_steps_on_the_command_line_go_first():
    assert plan(config(steps=7), 8).steps == 7
    assert plan(config(steps=7), 8, steps=2).steps == 2


@pytest.mark.parametrize(("examples", "steps"), [(0, None), (8, 0)])
def test_nothing_to_do_is_refused(examples, steps):
    with pytest.raises(Refused):
        plan(config(), examples, steps)


def test_no_steps_in_the_recipe_is_refused():
    with pytest.raises(Refused, match="0 steps"):
        plan(config(steps=0), 8)


@pytest.mark.parametrize("targets", [1, 5, 8, 24, 100, 1000])
def test_the_defaults_fit_the_data(targets):
    made, reasons = defaults("m", "machine/chatml", targets, targets, 300)
    planned = plan(made, targets)
    assert made.batch_size == min(BATCH, targets)
    assert planned.steps >= ENOUGH_STEPS or made.epochs == MOST_EPOCHS
    assert made.max_length >= 300
    assert made.test_size < targets
    assert set(reasons) < set(made.__struct_fields__)
