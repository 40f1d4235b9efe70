import math

import pytest
import torch

from machine.engine.wire.probes import Alternatives, Targets


def distributions(rows=7, vocabulary=5):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(0)).log_softmax(-1)


def hear_in_chunks(probe, logp, sizes=(3, 1, 3)):
    start = 0
    for size in sizes:
        probe.hear(start + 1, logp[start : start + size])
        start += size


def test_targets_are_scored_where_they_are_asked_for():
    logp = distributions()
    rows, tokens = torch.tensor([0, 0, 2, 3, 6]), torch.tensor([4, 1, -1, 2, 0])
    targets = Targets(rows, tokens)
    hear_in_chunks(targets, logp)
    expected = [logp[0, 4], logp[0, 1], 0.0, logp[3, 2], logp[6, 0]]
    assert targets.logprobs.tolist() == pytest.approx([float(x) for x in expected])


def test_alternatives_follow_the_distribution_and_the_seed():
    logp = distributions(rows=2)
    alternatives = Alternatives(20_000, 0.7, seed=3)
    hear_in_chunks(alternatives, logp, (1, 1))
    tokens, logprobs = alternatives.drawn()
    assert torch.equal(logprobs, logp.gather(1, tokens))
    for row in range(2):
        expected = (logp[row] / 0.7).softmax(-1) * 20_000
        seen = tokens[row].bincount(minlength=5)
        chi_square = float(((seen - expected) ** 2 / expected).sum())
        assert chi_square < 18.5  # 4 degrees of freedom: one in a thousand is above
    again = Alternatives(20_000, 0.7, seed=3)
    hear_in_chunks(again, logp, (1, 1))
    assert torch.equal(again.drawn()[0], tokens)


def test_no_temperature_takes_the_likeliest_and_a_single_token_has_no_rows():
    logp = distributions(rows=3)
    alternatives = Alternatives(2, 0.0, seed=None)
    hear_in_chunks(alternatives, logp, (3,))
    assert torch.equal(alternatives.drawn()[0], logp.argmax(-1, keepdim=True).expand(3, 2))
    assert [part.shape for part in Alternatives(2, 1.0, None).drawn()] == [(0, 2), (0, 2)]
    assert math.isfinite(float(alternatives.drawn()[1].sum()))


def test_a_temperature_next_to_nothing_takes_the_likeliest():
    logp = distributions(rows=3)
    alternatives = Alternatives(2, 1e-320, seed=None)
    hear_in_chunks(alternatives, logp, (3,))
    assert torch.equal(alternatives.drawn()[0], logp.argmax(-1, keepdim=True).expand(3, 2))
