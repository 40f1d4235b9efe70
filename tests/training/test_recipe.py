import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine.errors import Refused
from machine.training.config import Config
from machine.training.recipe import (
    BATCH,
    CAREFUL_RATE,
    ENOUGH_STEPS,
    HIGHEST_RATE,
    MOST_EPOCHS,
    defaults,
    learning_rate,
    plan,
)


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


def test_what_the_user_chose_stays_and_the_rest_fits_it():
    made, reasons = defaults("m", "machine/chatml", 24, 24, 300, {"batch_size": 4, "seed": 7, "steps": 40})
    assert (made.batch_size, made.seed, made.steps) == (4, 7, 40)
    assert made.save_every == 10
    assert reasons["batch_size"] == reasons["seed"] == "you chose it"
    assert plan(made, 24).steps == 40
    fitted, reasons = defaults("m", "machine/chatml", 24, 24, 300, {"batch_size": 4})
    assert fitted.epochs < defaults("m", "machine/chatml", 24, 24, 300)[0].epochs
    assert reasons["epochs"] != "you chose it"


def test_a_tenth_of_many_conversations_is_held_out():
    assert [defaults("m", "r", n, n, 300)[0].test_size for n in (1, 29, 30, 100)] == [0, 0, 3, 10]


def local(folder, **config):
    (folder / "tokenizer.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("config", "rate"),
    [
        ({"model_type": "llama", "hidden_size": 576}, HIGHEST_RATE),
        ({"model_type": "llama", "hidden_size": 4096}, 2.9e-4),  # as the cookbook has Llama-3.1-8B
        ({"model_type": "qwen3", "hidden_size": 4096}, 4.7e-4),  # as the cookbook has Qwen3-8B
        ({"model_type": "qwen3_5", "text_config": {"hidden_size": 4096}}, 4.7e-4),
    ],
)
def test_the_rate_of_a_local_model_goes_by_its_hidden_size_and_never_by_its_renderer(tmp_path, config, rate):
    model = local(tmp_path, **config)
    found, why = learning_rate(model)
    assert found == pytest.approx(rate, rel=0.02)
    assert "config.json" in why
    assert defaults(model, "machine/template", 8, 8, 100)[0].learning_rate == found
    assert defaults(model, "machine/chatml", 8, 8, 100)[0].learning_rate == found


def test_the_formula_for_local_models_is_the_cookbook_s(tmp_path):
    from tinker_cookbook.hyperparam_utils import get_lr

    for model, kind, hidden in (("meta-llama/Llama-3.1-8B", "llama", 4096), ("Qwen/Qwen3-8B", "qwen3", 4096)):
        assert learning_rate(local(tmp_path, model_type=kind, hidden_size=hidden))[0] == pytest.approx(
            get_lr(model), rel=0.02
        )


@pytest.mark.parametrize("model", ["Qwen/Qwen3.5-9B", "Qwen/Qwen3.5-9B:peft:262144"])
def test_the_rate_of_a_hosted_model_is_the_cookbook_s(model):
    assert learning_rate(model)[0] == pytest.approx(4.7e-4, rel=0.02)


@pytest.mark.parametrize(
    ("model", "said"), [("thinkingmachines/Inkling-Small", "not calibrated"), ("no/such", "nothing")]
)
def test_a_model_that_nobody_calibrated_is_trained_carefully(model, said):
    rate, why = learning_rate(model)
    assert rate == CAREFUL_RATE
    assert said in why
