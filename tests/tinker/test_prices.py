import datetime

import pytest

from machine.errors import Refused
from machine.home import machine_home
from machine.tinker import prices
from machine.tinker.students import DEFAULT_MODEL


def own(text):
    machine_home().mkdir(parents=True, exist_ok=True)
    path = machine_home() / "prices.yaml"
    path.write_text(text)
    return path


def test_every_published_line_is_dated_and_has_what_sampling_takes():
    table = prices._published()
    assert len(table) > 20
    for model, price in table.items():
        assert datetime.date(2026, 1, 1) < price.date < datetime.date(2027, 1, 1), model
        assert 0 < price.prefill < price.sample, model
        assert price.train is None or price.train > price.prefill, model


def test_the_default_student_has_a_price_and_its_long_variant_one_of_its_own():
    short, long = prices.of(DEFAULT_MODEL), prices.of(f"{DEFAULT_MODEL}:peft:262144")
    assert short.train
    assert long.prefill == pytest.approx(2 * short.prefill, rel=0.01)


def test_cost_is_tokens_times_price():
    own("m: {prefill: 1, sample: 2, train: 4}\n")
    assert prices.dollars("m", train_tokens=2_000_000, prefill=500_000, sample=250_000) == pytest.approx(9.0)
    assert prices.cost("m", train_tokens=105_000) == "about $0.42 (prices of your prices.yaml; an estimate)"
    assert prices.cost("m", train_tokens=1).startswith("less than $0.01")


def test_a_published_price_says_its_date():
    price = prices.of("Qwen/Qwen3-8B")
    assert f"about ${price.train:.2f} (prices of {price.date}" in prices.cost("Qwen/Qwen3-8B", train_tokens=1_000_000)


@pytest.mark.parametrize("model", ["no/such-model", "Qwen/Qwen3.8-27B", "Qwen/Qwen3-8B:peft:262144"])
def test_what_is_not_known_is_not_guessed(model):
    assert prices.cost(model, train_tokens=1000) == "price not known"
    assert prices.dollars(model, train_tokens=1000) is None


def test_a_price_that_is_not_needed_need_not_be_known():
    assert prices.dollars("Qwen/Qwen3.8-27B", sample=1_000_000) == prices.of("Qwen/Qwen3.8-27B").sample


def test_this_machine_costs_nothing():
    assert prices.cost("SmolLM2-135M-Instruct", train_tokens=10**9, local=True).startswith("nothing")


def test_the_user_s_line_takes_the_place_of_the_published_one():
    own("Qwen/Qwen3-8B: {train: 100, date: 2026-11-01}\n")
    assert prices.cost("Qwen/Qwen3-8B", train_tokens=10_000).startswith("about $1.00 (prices of 2026-11-01")
    assert prices.cost("Qwen/Qwen3-8B", prefill=10_000) == "price not known"
    assert prices.of("Qwen/Qwen3.5-4B")


@pytest.mark.parametrize(
    ("text", "said"),
    [("m: {tain: 1}", "tain"), ("m: 3", "m"), ("m: {train: -1}", "train"), ("m: [", "not YAML"), ("m: {train: cheap}", "train")],
)  # fmt: skip
def test_a_bad_file_is_named(text, said):
    path = own(text)
    with pytest.raises(Refused, match=said) as refused:
        prices.of("m")
    assert str(path) in refused.value.message
    assert str(path) in refused.value.next_step


def test_an_empty_file_changes_nothing():
    own("# nothing yet\n")
    assert prices.of("Qwen/Qwen3-8B").train == 0.44
