"""Bundled tokenizers, and the one that remembers."""

import pytest

from machine.renderers import load_tokenizer
from machine.renderers.bundled import BundledTokenizer
from machine.renderers.remembered import RememberedTokenizer

MODELS = {
    "Qwen/Qwen3-8B": "<|im_end|>",
    "deepseek-ai/DeepSeek-V3.1": "<｜end▁of▁sentence｜>",
    "deepseek-ai/DeepSeek-V4.1-Flash": "<｜end▁of▁sentence｜>",
    "openai/gpt-oss-20b": "<|endoftext|>",
    "moonshotai/Kimi-K2.6": "[EOS]",
    "zai-org/GLM-5.3": "<|endoftext|>",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "<|im_end|>",
}
TEXT = "def naïve(x): return x  # 天気 🌦️\n\n\tif x <  3: pass"


@pytest.mark.parametrize("model", MODELS)
def test_a_hosted_models_tokenizer_needs_no_hub(model, monkeypatch):
    monkeypatch.setattr("socket.create_connection", lambda *given: pytest.fail("it connected"))
    tokenizer = load_tokenizer(model)
    assert tokenizer.decode(tokenizer.encode(TEXT, add_special_tokens=False)) == TEXT
    assert tokenizer.eos_token == MODELS[model]
    assert tokenizer.encode(tokenizer.eos_token) == [tokenizer.eos_token_id]
    ids = tokenizer.encode(f"a{tokenizer.eos_token}b")
    assert ids == [*tokenizer.encode("a"), tokenizer.eos_token_id, *tokenizer.encode("b")]
    assert tokenizer.convert_tokens_to_ids(tokenizer.eos_token) == tokenizer.eos_token_id


@pytest.mark.parametrize(("model", "renderer", "theirs"), [
    ("Qwen/Qwen3-8B", "qwen3_disable_thinking", "Qwen3"),
    ("moonshotai/Kimi-K2.6", "kimi_k26", "KimiK25"),
])  # fmt: skip
def test_tokens_are_those_of_tinkers_own_renderer(model, renderer, theirs):
    from tml_renderers import chat, renderers

    from machine.renderers import get_renderer

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TEXT}]
    ours = get_renderer(renderer, load_tokenizer(model)).build_generation_prompt(messages).to_ints()
    spans, _ = getattr(renderers, theirs)().render_for_completion(chat.OpenAIMessage.from_oss_messages(messages))
    whole = [token for span in spans for token in span.span.int_tokens]
    common = next((i for i, (a, b) in enumerate(zip(ours, whole, strict=False)) if a != b), min(len(ours), len(whole)))
    assert common >= len(whole) - 8  # they may open the answer in another way
    assert len(whole) > 30


def test_a_model_that_is_not_bundled():
    with pytest.raises(KeyError):
        BundledTokenizer("meta-llama/Llama-3.1-8B")
    with pytest.raises(ValueError, match="special"):
        BundledTokenizer("Qwen/Qwen3-8B").encode("a", add_special_tokens=True)


class Counting:
    eos_token = "."

    def __init__(self):
        self.calls = 0

    def encode(self, text, add_special_tokens=False):
        self.calls += 1
        return [len(text), int(add_special_tokens)]


def test_what_was_encoded_is_not_encoded_again(monkeypatch):
    inner = Counting()
    tokenizer = RememberedTokenizer(inner)
    assert tokenizer.eos_token == "."
    first = tokenizer.encode("abc")
    first.append(0)
    assert tokenizer.encode("abc") == [3, 0]
    assert tokenizer.encode("abc", add_special_tokens=True) == [3, 1]
    assert inner.calls == 2
    monkeypatch.setattr("machine.renderers.remembered.MOST", 4)
    tokenizer.encode("defg")
    tokenizer.encode("abc")
    assert inner.calls == 4
