import torch

from machine.engine.sampling import Decoder, PrefixCache, SampleRequest, SamplingParams, choose

PROMPTS = [[5, 6, 7, 8], [5, 6, 7, 9, 10, 11], [20, 21], [5, 6, 7, 8, 30, 31, 32]]


def text(tokens):
    return "".join(chr(32 + token) for token in tokens)


def finish(decoder, *requests):
    for request in requests:
        decoder.admit(request)
    while decoder.active:
        decoder.step()
    return requests


def sample(model, prompts, params, cache=None, **fields):
    decoder = Decoder(model, "base", cache or PrefixCache(), text)
    return finish(decoder, *[SampleRequest(prompt, params, **fields) for prompt in prompts])


def greedy(n=12, **fields):
    return SamplingParams(max_tokens=n, temperature=0.0, **fields)


def reference(model, prompt, n):
    """Greedy decoding by the book: the whole sequence anew for every token."""
    from test_model import hidden

    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(n):
            tokens.append(int(model.logits(hidden(model, [tokens], 0)[0][-1]).argmax()))
    return tokens[len(prompt) :]


def test_greedy_in_a_batch_is_greedy_alone(tiny):
    batch = sample(tiny, PROMPTS, greedy())
    for prompt, request in zip(PROMPTS, batch, strict=True):
        assert request.draws[0].tokens == reference(tiny, prompt, 12)
        assert request.draws[0].finished == "length"


def test_a_request_may_join_while_others_run(tiny):
    decoder = Decoder(tiny, "base", PrefixCache(), text)
    first, second = SampleRequest(PROMPTS[0], greedy(100)), SampleRequest(PROMPTS[1], greedy(90))
    decoder.admit(first)
    for _ in range(70):  # past the first growth of the cache
        decoder.step()
    finish(decoder, second)
    assert first.draws[0].tokens == reference(tiny, PROMPTS[0], 100)
    assert second.draws[0].tokens == reference(tiny, PROMPTS[1], 90)


def test_cached_prefixes_change_nothing(tiny):
    cache = PrefixCache()
    sample(tiny, [PROMPTS[2], [5, 6], PROMPTS[0], [40, 41]], greedy(), cache)
    again = sample(tiny, [PROMPTS[3], PROMPTS[0]], greedy(), cache)
    assert [request.cached_tokens for request in again] == [4, 3]
    assert again[0].draws[0].tokens == reference(tiny, PROMPTS[3], 12)


def test_the_prefix_cache_is_bounded_and_apart_by_weights(tiny):
    cache = PrefixCache(capacity=8)
    for prompt in PROMPTS:
        sample(tiny, [prompt], greedy(1), cache)
    assert sum(len(entry.tokens) for entry in cache._entries) <= 8
    assert cache.longest("other", torch.tensor(PROMPTS[3])) is None


def test_logprobs_are_the_models_own(tiny):
    from test_model import hidden

    [request] = sample(tiny, [PROMPTS[1]], SamplingParams(5, 0.7, seed=1), topk=3, score_from=1, score_topk=2)
    draw, whole = request.draws[0], PROMPTS[1] + request.draws[0].tokens
    with torch.no_grad():
        logp = tiny.logits(hidden(tiny, [whole], 0)[0]).log_softmax(-1)
    picked = logp[:-1].gather(1, torch.tensor(whole[1:])[:, None])[:, 0]
    n = len(PROMPTS[1])
    torch.testing.assert_close(torch.tensor(draw.logprobs), picked[n - 1 :], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(request.scores, picked[: n - 1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(draw.tops[0][0], logp[n - 1].topk(3).values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(request.score_tops[0], logp[: n - 1].topk(2).values, rtol=1e-4, atol=1e-5)


def test_same_seed_same_tokens_in_any_company(tiny):
    params = SamplingParams(10, 1.0, seed=5)
    [alone] = sample(tiny, [PROMPTS[0]], params, count=3)
    beside = sample(tiny, [PROMPTS[2], PROMPTS[0]], params, count=3)[1]
    assert [draw.tokens for draw in alone.draws] == [draw.tokens for draw in beside.draws]
    assert alone.draws[0].tokens != alone.draws[1].tokens
    [other] = sample(tiny, [PROMPTS[0]], SamplingParams(10, 1.0, seed=6), count=3)
    assert other.draws[0].tokens != alone.draws[0].tokens


def test_draws_follow_the_distribution():
    from scipy.stats import chisquare

    logp = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    generator = torch.Generator().manual_seed(0)

    def counts(params, n=4000):
        drawn = torch.tensor([choose(logp, params, generator) for _ in range(n)])
        return torch.bincount(drawn, minlength=4).numpy()

    assert chisquare(counts(SamplingParams(1)), [2000, 1000, 600, 400]).pvalue > 1e-3
    warm = (logp / 2).softmax(-1).numpy() * 4000
    assert chisquare(counts(SamplingParams(1, temperature=2.0)), warm, sum_check=False).pvalue > 1e-3
    assert counts(SamplingParams(1, top_k=2))[2:].sum() == 0
    assert counts(SamplingParams(1, top_p=0.6))[2:].sum() == 0
    assert counts(SamplingParams(1, top_p=0.76))[2] > 0


def test_stops(tiny):
    whole = reference(tiny, PROMPTS[0], 12)
    third = whole[2]
    first = whole.index(third) + 1
    [by_token] = sample(tiny, [PROMPTS[0]], greedy(stop_tokens=frozenset({third})))
    assert (by_token.draws[0].tokens, by_token.draws[0].finished) == (whole[:first], "stop")
    [by_text] = sample(tiny, [PROMPTS[0]], greedy(stop_texts=(text(whole[1:3]),)))
    assert (by_text.draws[0].tokens[-2:], by_text.draws[0].finished) == (whole[1:3], "stop")
    [none] = sample(tiny, [PROMPTS[0]], greedy(0))
    assert (none.draws[0].tokens, none.draws[0].finished) == ([], "length")


def test_a_cancelled_request_frees_its_slot(tiny):
    decoder = Decoder(tiny, "base", PrefixCache(), text)
    heard = []
    gone = SampleRequest(PROMPTS[0], greedy(100), on_token=heard.append, cancelled=lambda: len(heard) >= 3)
    stays = SampleRequest(PROMPTS[1], greedy(8))
    finish(decoder, gone, stays)
    assert (len(heard), len(gone.draws[0].tokens)) == (3, 3)
    assert stays.draws[0].tokens == reference(tiny, PROMPTS[1], 8)
