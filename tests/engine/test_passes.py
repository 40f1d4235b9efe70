import numpy as np
import pytest
import torch

from machine.engine.sampling.caches import Batch, Cache
from machine.engine.sampling.passes import FEW, Compiled, Pass, for_decoding

pytest.importorskip("numba")
from machine.engine.sampling import kernels


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, FEW])
@pytest.mark.parametrize("exact", [True, False])
def test_a_product_with_weights_in_bfloat16_and_in_float32(tokens, exact):
    """An odd number of rows, with and without a bias."""
    weight, bias, x = torch.randn(95, 72).bfloat16(), torch.randn(95), torch.randn(tokens, 72)
    given = weight.view(torch.uint16).numpy() if exact else weight.float().numpy()
    y = torch.empty(tokens, 95)
    kernels.product(x.numpy(), given, bias.numpy(), y.numpy())
    torch.testing.assert_close(y, x @ weight.float().T + bias, rtol=1e-4, atol=1e-5)
    kernels.product(x.numpy(), given, np.empty(0, np.float32), y.numpy())
    torch.testing.assert_close(y, x @ weight.float().T, rtol=1e-4, atol=1e-5)


def caches(config):
    """Three sequences: one with nothing but its prompt, one whose slots are full, one with a long prompt."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for prompt, length in ((5, 0), (1, 63), (50, 7)):
        cache = Cache.after(
            torch.randn(config.layers, 2, config.kv_heads, prompt, config.head_size, generator=generator)
        )
        cache.own = torch.randn(cache.own.shape, generator=generator)
        cache.length = length
        cache.reserve(4)
        made.append(cache)
    return made


def difference(a, b):
    return float((a - b).abs().max() / b.abs().max())


@torch.inference_mode()
def test_a_compiled_pass_computes_what_torchs_does(each):
    """Scores, keys and values, for every family, over caches of several lengths."""
    counts, tokens = [1, 4, 2], torch.tensor([5, 6, 7, 8, 9, 10, 11])
    plain, compiled = Batch(caches(each.config), counts), Batch(caches(each.config), counts)
    assert plain.positions.tolist() == [5, 64, 65, 66, 67, 57, 58]
    expected = Pass(each)(tokens, plain)
    fast = for_decoding(each)
    assert isinstance(fast, Compiled)
    assert difference(fast(tokens, compiled), expected) < 1e-4
    for one, other, count in zip(compiled.caches, plain.caches, counts, strict=True):
        end = one.length + count
        assert difference(one.own[:, :, :, :end], other.own[:, :, :, :end]) < 1e-4


def test_a_cache_grows_and_keeps_what_it_holds():
    cache = Cache.after(torch.randn(1, 2, 3, 5, 4))
    cache.own[:] = 1.0
    cache.length = 60
    cache.reserve(4)
    assert cache.own.shape[3] == 64
    cache.reserve(5)
    assert cache.own.shape[3] == 128
    assert bool((cache.own[:, :, :, :64] == 1.0).all())
    assert cache.tokens == 65


def test_models_that_kernels_cannot_run_keep_torchs_passes(tiny_folder):
    from machine.engine.models.llama import Llama

    assert type(for_decoding(Llama.load(tiny_folder, torch.bfloat16))) is Pass


def test_weights_are_read_in_half_the_bytes_where_that_is_exact(tiny, small):
    assert for_decoding(tiny).weight_bytes == Pass(tiny).weight_bytes  # random float32
    assert 2 * for_decoding(small).weight_bytes == Pass(small).weight_bytes
