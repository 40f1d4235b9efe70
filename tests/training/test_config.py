import pytest

from machine.errors import Refused, UsageError
from machine.renderers import CHATML
from machine.training.config import Config, chosen, figures, overridden, read_config, written
from machine.training.recipe import defaults


def test_what_is_written_is_what_is_read(tmp_path):
    config, reasons = defaults("some/model", "machine/chatml", 24, 24, 100)
    path = tmp_path / "tinker.yaml"
    path.write_text(written(config, reasons))
    assert read_config(path) == config
    assert "# of the LoRA matrices" in path.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lerning_rate: 1", "lerning_rate"),
        ("rank: 0", "rank"),
        ("batch_size: many", "batch_size"),
        ("schedule: cosine", "schedule"),
        ("learning_rate: -1", "learning_rate"),
        ("learning_rate: .inf", "learning_rate"),
        ("a: [", "not YAML"),
        ("- a", "object"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path, text, said):
    path = tmp_path / "tinker.yaml"
    path.write_text(text if text.startswith(("-", "a:")) else f"model: m\nrenderer: r\n{text}\n")
    with pytest.raises(Refused, match=said) as refused:
        read_config(path)
    assert str(path) in refused.value.message


def test_a_rate_may_be_spelt_in_full(tmp_path):
    path = tmp_path / "tinker.yaml"
    path.write_text("model: m\nrenderer: r\nlearning_rate: 1e-4\n")
    assert read_config(path).learning_rate == 1e-4


def test_no_file_says_how_to_write_it(tmp_path):
    with pytest.raises(Refused) as refused:
        read_config(tmp_path / "tinker.yaml")
    assert refused.value.next_step == "machine train sft"


def test_a_model_must_be_named():
    assert Config(model="m", renderer="r").rank == 32


def test_every_figure_but_the_data_is_an_option_that_says_what_it_is():
    assert set(figures()) == set(Config.__struct_fields__) - {"data"}
    assert all(about.endswith(".") for about in figures().values())


def test_options_are_the_recipe_s_own_values():
    given = {"rank": "8", "learning_rate": "1e-4", "steps": "3", "schedule": "constant", "seed": "-1"}
    assert chosen(given) == {"rank": 8, "learning_rate": 1e-4, "steps": 3, "schedule": "constant", "seed": -1}
    assert overridden(Config(model="m", renderer="r"), chosen(given)).rank == 8


@pytest.mark.parametrize(
    ("name", "value"),
    [("rank", "0"), ("learning_rate", "2"), ("batch_size", "many"), ("schedule", "cosine"), ("max_length", "1.5"),
     ("test_size", "-1"), ("model", ""), ("epochs", "")],
)  # fmt: skip
def test_a_wrong_option_is_named(name, value):
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} ") as wrong:
        chosen({name: value})
    assert wrong.value.exit_code == 2


def test_another_model_brings_its_renderer_and_other_epochs_undo_fixed_steps():
    config = Config(model="m", renderer="r", steps=7)
    assert overridden(config, {"model": "HuggingFaceTB/SmolLM2-135M-Instruct"}).renderer == CHATML
    assert overridden(config, {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "renderer": "x"}).renderer == "x"
    assert overridden(config, {"epochs": 2}).steps is None
    assert overridden(config, {"epochs": 2, "steps": 5}).steps == 5
    assert overridden(config, {"rank": 2}).steps == 7
