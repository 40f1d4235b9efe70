import numpy as np
import pytest
import torch
from test_lora import filled

from machine.engine.models.lora import ALL, ATTENTION, MLP, UNEMBED
from machine.engine.sampling.caches import Batch, Cache
from machine.engine.sampling.passes import FEW, Compiled, Pass, for_decoding, prepare

pytest.importorskip("numba")
from machine.engine.sampling import kernels

NOTHING = np.empty(0, np.float32)
NO_UPDATE = np.empty((0, 0), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int64)


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, FEW])
@pytest.mark.parametrize("exact", [True, False])
def test_a_product_with_weights_in_bfloat16_and_in_float32(tokens, exact):
    """An odd number of rows, with and without a bias and the update of two adapters with 63 and 32 rows."""
    weight, bias, x = torch.randn(95, 72).bfloat16(), torch.randn(95), torch.randn(tokens, 72)
    a, b, first = torch.randn(10, 72), torch.randn(95, 5), np.array([0] * 63 + [5] * 32)
    given = weight.view(torch.uint16).numpy() if exact else weight.float().numpy()
    y, plain = torch.empty(tokens, 95), x @ weight.float().T
    kernels.product(x.numpy(), given, bias.numpy(), NO_UPDATE, y.numpy())
    torch.testing.assert_close(y, plain + bias, rtol=1e-4, atol=1e-5)
    kernels.product(x.numpy(), given, NOTHING, NO_UPDATE, y.numpy())
    torch.testing.assert_close(y, plain, rtol=1e-4, atol=1e-5)
    kernels.product(x.numpy(), given, bias.numpy(), (a.numpy(), b.numpy(), first), y.numpy())
    updates = torch.cat([x @ a[:5].T @ b[:63].T, x @ a[5:].T @ b[63:].T], dim=1)
    torch.testing.assert_close(y, plain + bias + updates, rtol=1e-4, atol=1e-4)


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


def adapter_bytes(adapter):
    return sum(factor.nbytes for factor in adapter.parameters.values())


def difference(a, b):
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("modules", [(), ATTENTION, MLP, (UNEMBED,), ALL])
@torch.inference_mode()
def test_a_compiled_pass_computes_what_torchs_does(each, modules):
    """Scores, keys and values, for every family and adapter, over caches of several lengths.

    Both are up to 1e-4 away from torch in float64, with these random keys and values.
    """
    counts, tokens = [1, 4, 2], torch.tensor([5, 6, 7, 8, 9, 10, 11])
    plain, compiled = Batch(caches(each.config), counts), Batch(caches(each.config), counts)
    assert plain.positions.tolist() == [5, 64, 65, 66, 67, 57, 58]
    slow, fast = Pass(each), for_decoding(each)
    assert isinstance(fast, Compiled)
    if modules:
        adapter = filled(each.config, modules=modules)
        slow, base, fast = slow.adapted(adapter), fast, fast.adapted(adapter)
        assert fast.weight_bytes - base.weight_bytes == adapter_bytes(adapter)
        assert (base.adapter_bytes, fast.adapter_bytes > 2 * adapter_bytes(adapter)) == (0, True)
    expected = slow(tokens, plain)
    assert difference(fast(tokens, compiled), expected) < 3e-4
    for one, other, count in zip(compiled.caches, plain.caches, counts, strict=True):
        end = one.length + count
        assert difference(one.own[:, :, :, :end], other.own[:, :, :, :end]) < 3e-4


def test_an_adapter_changes_a_pass_and_leaves_the_bases_as_it_was(tiny):
    """The base's weights are the same arrays in both."""
    base = for_decoding(tiny)
    adapted = base.adapted(filled(tiny.config))

    def scores(run):
        return run(torch.tensor([5, 6]), Batch(caches(tiny.config), [1, 1, 0]))

    with torch.inference_mode():
        before = scores(base)
        assert difference(scores(adapted), before) > 1e-2
        assert torch.equal(scores(base), before)
    assert all(one is other for one, other in zip(base._weights[0], adapted._weights[0], strict=True))
    assert (base.adapter_bytes, Pass(tiny).adapter_bytes) == (0, 0)


def test_what_is_prepared_is_all_that_passes_call(tiny, small):
    """A pass with another type than those prepared would compile a third block."""
    prepare()
    with torch.inference_mode():
        for model in (tiny, small):
            run = for_decoding(model)
            for each in (run, run.adapted(filled(model.config))):
                for counts in ([1, 0, 0], [1, 4, 2]):
                    each(torch.arange(sum(counts)) + 5, Batch(caches(model.config), counts))
    assert [len(f.signatures) for f in (kernels.block, kernels.product, kernels.normed)] == [2, 2, 1]


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
