import torch

from machine.engine.models.attention import attention
from machine.engine.training.packing import SegmentAttention

ROW = [5, 6, 7, 8, 9, 10]


def hidden(model, row, **options):
    """Hidden states [n, d] of one row."""
    return model.forward(torch.tensor(row), torch.arange(len(row)), SegmentAttention([len(row)]), **options)


def logprobs(model, hidden_states, adapter=None):
    return model.logits(hidden_states, adapter).log_softmax(-1)


def test_logprobs_equal_transformers(each, each_folder):
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(each_folder, dtype=torch.float32)
    row = torch.randint(3, each.config.vocabulary, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    with torch.inference_mode():
        ours = logprobs(each, hidden(each, row))
        theirs = reference(torch.tensor([row])).logits[0].log_softmax(-1)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_decoding_with_a_cache_is_the_whole_sequence_anew(each):
    def attend(layer, q, k, v):
        cache[layer] = k, v = tuple(torch.cat(pair) for pair in zip(cache[layer], (k, v), strict=True))
        return attention(q, k, v, torch.ones(1, len(k), dtype=torch.bool))

    row, config = [5, 6, 7, 8, 9, 10], each.config
    nothing = torch.empty(0, config.kv_heads, config.head_size)
    cache = [(nothing, nothing)] * config.layers
    with torch.no_grad():
        steps = [each.forward(torch.tensor([t]), torch.tensor([i]), attend) for i, t in enumerate(row)]
        ours, whole = torch.cat(steps), hidden(each, row)
    torch.testing.assert_close(logprobs(each, ours), logprobs(each, whole), rtol=1e-4, atol=1e-4)
