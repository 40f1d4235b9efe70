import pytest

from machine.tinker import prices
from machine.tinker.card import Entry, card
from machine.tinker.service import Endpoint

HOSTED = Endpoint(None, "tml-hosted", "$TINKER_API_KEY")
HERE = Endpoint("http://127.0.0.1:1", "tml-secret", "!cat '/home/key'")
INKLING = "thinkingmachines/Inkling-Small"
PATH = "tinker://run:train:0/sampler_weights/final"


def base(name, context=65536, where=HOSTED):
    return card(where, Entry(name, name, name, context))


def test_a_price_is_dollars_per_million_tokens():
    price, cost = prices.of(INKLING), base(INKLING)["cost"]
    assert cost == {"input": price.prefill, "output": price.sample, "cacheRead": price.prefill, "cacheWrite": 0}
    assert prices.dollars(INKLING, prefill=1_000_000) == cost["input"]
    assert base(f"{INKLING}:peft:262144")["cost"]["input"] == pytest.approx(2 * cost["input"], rel=0.01)


def test_a_checkpoint_costs_what_its_base_costs():
    mine = card(HOSTED, Entry("mine", PATH, INKLING, 65536))
    assert mine["cost"] == base(INKLING)["cost"]
    assert (mine["reasoning"], mine["input"]) == (True, ["text", "image"])


@pytest.mark.parametrize(
    "made", [base(INKLING, where=HERE), base("nobody/knows-it"), card(HOSTED, Entry("mine", PATH))]
)
def test_this_machine_is_free_and_what_is_not_known_is_not_guessed(made):
    assert set(made["cost"].values()) == {0}
    assert made["input"] == ["text"]


def test_inkling_s_effort_goes_by_name_and_off_is_none():
    made = base(f"{INKLING}:peft:262144")
    assert made["thinkingLevelMap"] == {
        "off": "none", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": None,
    }  # fmt: skip
    assert made["compat"]["supportsReasoningEffort"]


def test_no_other_model_is_sent_an_effort():
    made = base("Qwen/Qwen3.5-4B")
    assert not made["reasoning"]
    assert not made["compat"]["supportsReasoningEffort"]
    assert "thinkingLevelMap" not in made


def test_images_where_the_model_sees_them():
    assert base("Qwen/Qwen3.5-4B")["input"] == ["text", "image"]
    assert base("Qwen/Qwen3-8B")["input"] == ["text"]


@pytest.mark.parametrize(
    ("context", "given", "answer"),
    [(None, None, 2048), (4, None, 1), (8192, None, 2048), (262144, None, 16384), (8192, 5, 5)],
)
def test_an_answer_leaves_room_for_the_question(context, given, answer):
    assert card(HERE, Entry("m", "m", "m", context, max_tokens=given))["maxTokens"] == answer
