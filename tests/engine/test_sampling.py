import pytest
import torch

from machine.engine.models.lora import ALL, UNEMBED, Lora
from machine.engine.sampling import decoding
from machine.engine.sampling.decoding import Decoder
from machine.engine.sampling.lookup import Lookup
from machine.engine.sampling.passes import Compiled, Pass, for_decoding
from machine.engine.sampling.prefixes import PrefixCache
from machine.engine.sampling.requests import SampleRequest, SamplingParams, choose
from machine.engine.training.losses import Loss
from machine.engine.training.optimizer import AdamParams
from machine.engine.training.trainer import Datum, Trainee, forward_backward

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
    decoder = Decoder(model if isinstance(model, Pass) else Pass(model), "base", cache or PrefixCache(), text)
    return finish(decoder, *[SampleRequest(prompt, params, **fields) for prompt in prompts])


def greedy(n=12, **fields):
    return SamplingParams(max_tokens=n, temperature=0.0, **fields)


def reference(model, prompt, n):
    """Greedy decoding by the book: the whole sequence anew for every token."""
    from test_model import hidden

    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(n):
            tokens.append(int(model.logits(hidden(model, tokens)[-1]).argmax()))
    return tokens[len(prompt) :]


def test_greedy_in_a_batch_is_greedy_alone(tiny):
    batch = sample(tiny, PROMPTS, greedy())
    for prompt, request in zip(PROMPTS, batch, strict=True):
        assert request.draws[0].tokens == reference(tiny, prompt, 12)
        assert request.draws[0].finished == "length"


def test_a_request_may_join_while_others_run(tiny):
    decoder = Decoder(Pass(tiny), "base", PrefixCache(), text)
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


def test_compiled_operations_decode_the_same(each):
    """For every family: alone, beside others, and with guesses to check."""
    prompts = [[5, 6, 7, 8] * 5, *PROMPTS[1:3]]
    model = for_decoding(each)
    assert isinstance(model, Compiled)
    expected = [reference(each, prompt, 4) for prompt in prompts]
    together = sample(model, prompts, greedy(4))
    assert [request.draws[0].tokens for request in together] == expected
    assert [sample(model, [prompt], greedy(4))[0].draws[0].tokens for prompt in prompts] == expected


@pytest.mark.parametrize("steps", [0, 2])
def test_the_samplers_logprobs_are_the_trainers(small, steps):
    """Those of the prompt, which is read by torch, and those of the answer, drawn by compiled passes."""
    prompt, run = [*range(100, 140)], for_decoding(small)
    trainee = Trainee("model", Lora.new(small.config, 32, 0))
    if steps:
        before = trainers_logprobs(small, trainee.lora, prompt)
        for _ in range(steps):
            trainers_logprobs(small, trainee.lora, prompt, backward=True)
            trainee.step(AdamParams(learning_rate=1e-3))
        assert float((trainers_logprobs(small, trainee.lora, prompt) - before).mean()) > 1.0
        assert float(trainee.lora.parameters["unembed.B"].detach().abs().mean()) > 1e-4
        run = run.adapted(trainee.lora)
    [request] = sample(run, [prompt], SamplingParams(24, 1.0, seed=0), score_from=1)
    trainers = trainers_logprobs(small, trainee.lora, prompt + request.draws[0].tokens)
    samplers = torch.cat([request.scores, torch.tensor(request.draws[0].logprobs)])
    assert float((samplers - trainers).abs().mean()) < 1e-5


def trainers_logprobs(model, lora, tokens, *, backward=False):
    datum = Datum(tokens[:-1], torch.tensor(tokens[1:]), {"weights": torch.ones(len(tokens) - 1)})
    return forward_backward(model, lora, [datum], Loss("cross_entropy", {}), backward=backward).logprobs[0]


@pytest.mark.parametrize("modules", [(), ALL, (UNEMBED,)])
def test_logprobs_are_the_models_own(tiny, modules):
    """Those of the base and of adapters: the prompt's, the first draw's, the others', and the top-k of all."""
    from test_lora import filled
    from test_model import hidden

    lora = filled(tiny.config, modules=modules) if modules else None
    run = for_decoding(tiny) if lora is None else for_decoding(tiny).adapted(lora)
    [request] = sample(run, [PROMPTS[1]], SamplingParams(5, 0.7, seed=1), topk=3, score_from=1, score_topk=2)
    draw, whole = request.draws[0], PROMPTS[1] + request.draws[0].tokens
    with torch.no_grad():
        logp = tiny.logits(hidden(tiny, whole, adapter=lora), lora).log_softmax(-1)
    picked = logp[:-1].gather(1, torch.tensor(whole[1:])[:, None])[:, 0]
    n = len(PROMPTS[1])
    torch.testing.assert_close(torch.tensor(draw.logprobs), picked[n - 1 :], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(request.scores, picked[: n - 1], rtol=1e-4, atol=1e-5)
    for top, expected in zip(draw.tops, logp[n - 1 :], strict=False):
        torch.testing.assert_close(top[0], expected.topk(3).values, rtol=1e-4, atol=1e-5)
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

    def counts(params, n=2000):
        drawn = torch.tensor([choose(logp, params, generator) for _ in range(n)])
        return torch.bincount(drawn, minlength=4).numpy()

    assert chisquare(counts(SamplingParams(1)), [1000, 500, 300, 200]).pvalue > 1e-3
    warm = (logp / 2).softmax(-1).numpy() * 2000
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
    decoder = Decoder(Pass(tiny), "base", PrefixCache(), text)
    heard = []
    gone = SampleRequest(PROMPTS[0], greedy(100), on_token=heard.append, cancelled=lambda: len(heard) >= 3)
    stays = SampleRequest(PROMPTS[1], greedy(8))
    finish(decoder, gone, stays)
    assert (len(heard), len(gone.draws[0].tokens)) == (3, 3)
    assert stays.draws[0].tokens == reference(tiny, PROMPTS[1], 8)


def test_a_cancelled_request_is_given_up_between_the_chunks_of_its_prompt(tiny, monkeypatch):
    monkeypatch.setattr(decoding, "CHUNK", 4)
    decoder = Decoder(Pass(tiny), "base", PrefixCache(), text)
    asked = []
    gone = SampleRequest([7] * 100, greedy(5), count=2, cancelled=lambda: asked.append(0) or len(asked) > 3)
    stays = SampleRequest(PROMPTS[1], greedy(8))
    decoder.admit(gone)
    decoder.admit(stays)
    for _ in range(4):
        decoder.step()
    assert gone.done
    assert [(draw.tokens, draw.finished) for draw in gone.draws] == [([], "length")] * 2
    finish(decoder)
    assert stays.draws[0].tokens == reference(tiny, PROMPTS[1], 8)


def test_others_go_on_while_a_long_prompt_is_read(tiny, monkeypatch):
    monkeypatch.setattr(decoding, "CHUNK", 8)
    decoder = Decoder(Pass(tiny), "base", PrefixCache(), text)
    first, long = (
        SampleRequest(PROMPTS[0], greedy(30)),
        SampleRequest([*range(3, 90)], greedy(4), score_from=1, score_topk=2),
    )
    decoder.admit(first)
    decoder.step()
    decoder.admit(long)
    before = len(first.draws[0].tokens)
    for _ in range(5):
        decoder.step()
    assert not long.draws
    assert len(first.draws[0].tokens) == before + 5
    finish(decoder)
    assert first.draws[0].tokens == reference(tiny, PROMPTS[0], 30)
    assert long.draws[0].tokens == reference(tiny, long.prompt, 4)
    from test_model import hidden

    with torch.no_grad():
        logp = tiny.logits(hidden(tiny, long.prompt)).log_softmax(-1)
    torch.testing.assert_close(long.scores, logp[:-1].gather(1, torch.tensor(long.prompt[1:])[:, None])[:, 0])
    torch.testing.assert_close(long.score_tops[0], logp[:-1].topk(2).values)


def test_a_prompt_that_fails_fails_alone(tiny):
    decoder = Decoder(Pass(tiny), "base", PrefixCache(), text)

    def broken(start, logp):
        raise MemoryError("no room")

    bad, good = SampleRequest(PROMPTS[0], greedy(), score_from=1, probes=(broken,)), SampleRequest(PROMPTS[1], greedy())
    finish(decoder, bad, good)
    assert bad.done
    assert isinstance(bad.error, MemoryError)
    assert good.draws[0].tokens == reference(tiny, PROMPTS[1], 12)


def passes(decoder, request):
    decoder.admit(request)
    count = 0
    while decoder.active:
        decoder.step()
        count += 1
    return count


def same(one, other):
    assert other.tokens == one.tokens
    assert other.finished == one.finished
    torch.testing.assert_close(other.logprobs, one.logprobs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close([v for v, _ in other.tops], [v for v, _ in one.tops], rtol=1e-4, atol=1e-5)


def test_guesses_change_nothing_but_the_number_of_passes(tiny):
    """Of a prompt that repeats itself, which the tiny model goes on with."""
    plain, guessed = (SampleRequest([5, 6, 7, 8, 9, 10] * 6, greedy(60), count=3, topk=2) for _ in range(2))
    assert passes(Decoder(Pass(tiny), "base", PrefixCache(), text, guessing=False), plain) == 59
    assert passes(Decoder(Pass(tiny), "base", PrefixCache(), text), guessed) < 45
    for one, other in zip(plain.draws, guessed.draws, strict=True):
        same(one, other)


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_right_and_wrong_guesses_leave_every_draw_as_it_is(tiny, monkeypatch, temperature, compiled):
    """The guesses are what the same seed draws without them, but for some that are wrong."""
    run = for_decoding(tiny) if compiled else Pass(tiny)
    params = SamplingParams(60, temperature, seed=3, top_p=0.95)
    plain, guessed = (SampleRequest(PROMPTS[0], params, topk=2) for _ in range(2))
    assert passes(Decoder(run, "base", PrefixCache(), text, guessing=False), plain) == 59
    whole = plain.draws[0].tokens

    class Oracle(Lookup):
        def guess(self, most):
            drawn = len(self._tokens) - len(PROMPTS[0])
            return [(token + (i % 7 == 6)) % 97 for i, token in enumerate(whole)][drawn : drawn + min(most, 5)]

    monkeypatch.setattr(decoding, "Lookup", Oracle)
    assert passes(Decoder(run, "base", PrefixCache(), text), guessed) < 25
    same(plain.draws[0], guessed.draws[0])


def test_guesses_stop_where_the_answer_does(tiny):
    whole = reference(tiny, [5, 6, 7] * 8, 40)
    stop = frozenset({whole[25]})
    expected = whole[: whole.index(whole[25]) + 1]
    [request] = sample(tiny, [[5, 6, 7] * 8], greedy(40, stop_tokens=stop))
    assert (request.draws[0].tokens, request.draws[0].finished) == (expected, "stop")
    [request] = sample(tiny, [[5, 6, 7] * 8], greedy(31))
    assert (request.draws[0].tokens, request.draws[0].finished) == (whole[:31], "length")


@pytest.mark.parametrize("temperature", [1e-320, 1e-300, 1e-45, 1e-9])
def test_a_temperature_next_to_nothing_takes_the_likeliest_token(temperature):
    logp = torch.randn(50, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    assert choose(logp, SamplingParams(1, temperature), torch.Generator().manual_seed(2)) == int(logp.argmax())


def test_weights_that_give_no_numbers_fail_their_request_alone(tiny):
    class Sometimes(Pass):
        """A pass whose logits are not finite for one sequence of two."""

        def logits(self, hidden):
            scores = super().logits(hidden)
            return scores * float("nan") if broken[0] else scores

    broken = [False]
    decoder = Decoder(Sometimes(tiny), "base", PrefixCache(), text)
    whole, failed = (SampleRequest(PROMPTS[0], greedy()) for _ in range(2))
    decoder.admit(whole)
    decoder.step()
    broken[0] = True
    decoder.admit(failed)
    with torch.inference_mode():
        decoder._read(decoder._reading[0])
    broken[0] = False
    while decoder.active:
        decoder.step()
    assert "not finite" in str(failed.error)
    assert failed.done
    assert whole.error is None
    assert len(whole.draws[0].tokens) == 12
