"""Kernels for decoding on a processor, compiled by numba: few tokens against all weights, bound by reading memory.

Weights are float32, or bfloat16 given as its bits (uint16); activations and sums are float32 in any case. Each weight
is read once, in the order in which it lies in memory, for all tokens. Importing this module imports numba; the first
call of a kernel compiles it (seconds), later processes find it in numba's cache, which is kept beside the models.

Letters in shapes as in `llama`; n tokens, B sequences, P prompt tokens, C slots for what follows the prompt.
"""

import math
from typing import Any

import numpy as np
from numba import config, njit, prange, types
from numba.extending import intrinsic, overload, register_jitable
from numba.np.numpy_support import carray

from machine.home import models_dir
from machine.store.files import private_folder

_settings: Any = config
_settings.CACHE_DIR = _settings.CACHE_DIR or str(private_folder(models_dir() / ".kernels"))

_FAST = {"reassoc", "contract", "nsz"}  # sums may be taken in any order, which is what lets them use vector registers
_ZERO = np.float32(0.0)


def _widened(weight: Any) -> Any:
    """A weight as float32."""
    raise NotImplementedError


@overload(_widened)
def _widened_overload(weight: Any) -> Any:
    def of_bfloat16(weight: Any) -> Any:
        return np.uint32(np.uint32(weight) << np.uint32(16)).view(np.float32)

    def of_float32(weight: Any) -> Any:
        return weight

    return of_bfloat16 if weight.name == "uint16" else of_float32


@njit(parallel=True, fastmath=_FAST, nogil=True, cache=True)
def linear_one(x: Any, weight: Any, ax: Any, b: Any, first: Any, y: Any) -> None:
    """y [o] = weight [o, i] times x [i], plus the update that `product` describes: ax [k * r], b [o, r], first [o]."""
    for row in prange(len(weight)):
        weights, total = weight[row], _ZERO
        for k in range(len(x)):
            total += _widened(weights[k]) * x[k]
        start = first[row] if len(first) > 0 else 0
        for j in range(b.shape[1]):
            total += b[row, j] * ax[start + j]
        y[row] = total


@njit(parallel=True, fastmath=_FAST, nogil=True, cache=True)
def linear(x: Any, weight: Any, ax: Any, b: Any, first: Any, y: Any) -> None:
    """y [n, o] = x [n, i] times the transpose of weight [o, i], plus the update as in `linear_one`; ax [n, k * r].

    It goes in tiles of two rows and four tokens; a tile at the edge repeats the last row or token.
    """
    n, rows = len(x), len(weight)
    for pair in prange((rows + 1) // 2):
        r0, r1 = 2 * pair, min(2 * pair + 1, rows - 1)
        w0, w1 = weight[r0], weight[r1]
        f0, f1 = (first[r0], first[r1]) if len(first) > 0 else (0, 0)
        for t in range(0, n, 4):
            t1, t2, t3 = min(t + 1, n - 1), min(t + 2, n - 1), min(t + 3, n - 1)
            x0, x1, x2, x3 = x[t], x[t1], x[t2], x[t3]
            a0, a1, a2, a3 = _ZERO, _ZERO, _ZERO, _ZERO
            b0, b1, b2, b3 = _ZERO, _ZERO, _ZERO, _ZERO
            for k in range(x.shape[1]):
                u, v = _widened(w0[k]), _widened(w1[k])
                a0 += u * x0[k]
                a1 += u * x1[k]
                a2 += u * x2[k]
                a3 += u * x3[k]
                b0 += v * x0[k]
                b1 += v * x1[k]
                b2 += v * x2[k]
                b3 += v * x3[k]
            for j in range(b.shape[1]):
                u, v = b[r0, j], b[r1, j]
                a0 += u * ax[t, f0 + j]
                a1 += u * ax[t1, f0 + j]
                a2 += u * ax[t2, f0 + j]
                a3 += u * ax[t3, f0 + j]
                b0 += v * ax[t, f1 + j]
                b1 += v * ax[t1, f1 + j]
                b2 += v * ax[t2, f1 + j]
                b3 += v * ax[t3, f1 + j]
            y[t, r0], y[t1, r0], y[t2, r0], y[t3, r0] = a0, a1, a2, a3
            y[t, r1], y[t1, r1], y[t2, r1], y[t3, r1] = b0, b1, b2, b3


@njit(fastmath=_FAST, nogil=True, cache=True)
def normed(x: Any, weight: Any, eps: float, y: Any) -> None:
    """y [n, d] = x over its root mean square, times weight [d]."""
    for t in range(len(x)):
        total = _ZERO
        for k in range(x.shape[1]):
            total += x[t, k] * x[t, k]
        scale = np.float32(1.0 / math.sqrt(total / x.shape[1] + eps))
        for k in range(x.shape[1]):
            y[t, k] = x[t, k] * scale * weight[k]


@njit(fastmath=_FAST, nogil=True, cache=True)
def rotated(x: Any, cos: Any, sin: Any, y: Any) -> None:
    """y [n, H, D]: the rotary embedding of x; cos and sin [n, 1, D] repeat their first half in the second."""
    half = x.shape[2] // 2
    for t in range(x.shape[0]):
        for h in range(x.shape[1]):
            for d in range(half):
                first, second = x[t, h, d], x[t, h, d + half]
                y[t, h, d] = first * cos[t, 0, d] - second * sin[t, 0, d]
                y[t, h, d + half] = second * cos[t, 0, d + half] + first * sin[t, 0, d + half]


@register_jitable
def _score(query: Any, keys: Any, count: int, scale: Any, scores: Any, first: int) -> None:
    """scores[first + s] = scale times query [D] times keys [s], for s < count; four keys at a time."""
    for s in range(0, count, 4):
        s1, s2, s3 = min(s + 1, count - 1), min(s + 2, count - 1), min(s + 3, count - 1)
        k0, k1, k2, k3 = keys[s], keys[s1], keys[s2], keys[s3]
        a0, a1, a2, a3 = _ZERO, _ZERO, _ZERO, _ZERO
        for d in range(len(query)):
            a0 += query[d] * k0[d]
            a1 += query[d] * k1[d]
            a2 += query[d] * k2[d]
            a3 += query[d] * k3[d]
        scores[first + s], scores[first + s1] = a0 * scale, a1 * scale
        scores[first + s2], scores[first + s3] = a2 * scale, a3 * scale


@register_jitable
def _add_weighted(shares: Any, first: int, values: Any, count: int, out: Any) -> None:
    """out [D] += shares[first + s] times values [s], for s < count; four values at a time."""
    whole = count // 4 * 4
    for s in range(0, whole, 4):
        v0, v1, v2, v3 = values[s], values[s + 1], values[s + 2], values[s + 3]
        a0, a1, a2, a3 = shares[first + s], shares[first + s + 1], shares[first + s + 2], shares[first + s + 3]
        for d in range(len(out)):
            out[d] += (a0 * v0[d] + a1 * v1[d]) + (a2 * v2[d] + a3 * v3[d])
    for s in range(whole, count):
        for d in range(len(out)):
            out[d] += shares[first + s] * values[s, d]


@intrinsic
def _pointer_intrinsic(typing_context: Any, address: Any) -> Any:
    """An address as a pointer to float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer(types.float32)  # type: ignore[no-untyped-call]
    return pointer(types.int64), generate


_pointer: Any = _pointer_intrinsic  # numba passes the first argument itself


@register_jitable
def _layer(address: Any, slots: Any, layer: Any, heads: Any, size: Any) -> Any:
    """Keys and values [2, K, slots, D] of a layer, in a tensor [L, 2, K, slots, D] that begins at `address`."""
    return carray(_pointer(address + layer * 2 * heads * slots * size * 4), (2, heads, slots, size))


@njit(fastmath=_FAST, nogil=True, cache=True)
def _attend_head(query: Any, prompt: Any, own: Any, head: int, seen: int, out: Any) -> None:
    """out [D] for query [D] over all of the prompt and `seen` own slots of a key-value head."""
    past, scale = prompt.shape[2], np.float32(1.0 / math.sqrt(len(query)))
    scores = np.empty(past + seen, np.float32)
    _score(query, prompt[0, head], past, scale, scores, 0)
    _score(query, own[0, head], seen, scale, scores, past)
    top, total = scores[0], _ZERO
    for s in range(len(scores)):
        top = max(top, scores[s])
    for s in range(len(scores)):
        scores[s] = math.exp(scores[s] - top)
        total += scores[s]
    for d in range(len(out)):
        out[d] = _ZERO
    _add_weighted(scores, 0, prompt[1, head], past, out)
    _add_weighted(scores, past, own[1, head], seen, out)
    for d in range(len(out)):
        out[d] /= total


@njit(parallel=True, fastmath=_FAST, nogil=True, cache=True)
def attend(q: Any, k: Any, v: Any, layer: int, places: Any, table: Any, out: Any) -> None:
    """Attention of n new tokens; their keys and values are written where they belong first.

    q [n, H, D]; k, v [n, K, D]; out [n, H, D]. places [n, 2] int64 is each token's row of `table` and its own slot;
    table [B, 4] int64 is each sequence's address and slots of the prompt's keys and values, and of its own.
    """
    n, heads, size = q.shape
    kv_heads = k.shape[1]
    for t in range(n):
        row, slot = places[t]
        own = _layer(table[row, 2], table[row, 3], layer, kv_heads, size)
        for h in range(kv_heads):
            for d in range(size):
                own[0, h, slot, d] = k[t, h, d]
                own[1, h, slot, d] = v[t, h, d]
    for task in prange(n * heads):
        t, head = task // heads, task % heads
        row, slot = places[t]
        prompt = _layer(table[row, 0], table[row, 1], layer, kv_heads, size)
        own = _layer(table[row, 2], table[row, 3], layer, kv_heads, size)
        _attend_head(q[t, head], prompt, own, head * kv_heads // heads, slot + 1, out[t, head])


@njit(fastmath=_FAST, nogil=True, cache=True)
def _product(x: Any, weight: Any, ax: Any, b: Any, first: Any, y: Any) -> None:
    if len(x) == 1:
        linear_one(x[0], weight, ax[0], b, first, y[0])
    else:
        linear(x, weight, ax, b, first, y)


@njit(fastmath=_FAST, nogil=True, cache=True)
def product(x: Any, weight: Any, bias: Any, update: Any, y: Any) -> None:
    """y [n, o] = x [n, i] times the transpose of weight [o, i], plus bias [o], which may be empty, plus an update.

    The update is that of k adapters of rank r: (a [k * r, i], b [o, r], first [o] int64). Row by row, b is multiplied
    with the r numbers of a x that begin at `first`. All three are empty where there is no adapter.
    """
    a, b, first = update
    ax = np.empty((len(x), len(a)), np.float32)
    if len(a) > 0:
        _product(x, a, ax, np.empty((0, 0), np.float32), first[:0], ax)
    _product(x, weight, ax, b, first, y)
    for t in range(len(x)):
        for row in range(len(bias)):
            y[t, row] += bias[row]


@register_jitable
def _gated(both: Any, width: Any, t: Any, y: Any) -> None:
    for j in range(width):
        gate = both[t, j]
        y[t, j] = gate / (np.float32(1.0) + np.float32(math.exp(-gate))) * both[t, width + j]


@njit(parallel=True, fastmath=_FAST, nogil=True, cache=True)
def gated(both: Any, y: Any) -> None:
    """y [n, f] = silu of the first half of both [n, 2f], times the second."""
    if len(y) == 1:
        _gated(both, y.shape[1], 0, y)
    else:
        for t in prange(len(y)):
            _gated(both, y.shape[1], t, y)


@njit(fastmath=_FAST, nogil=True, cache=True)
def block(
    x: Any,
    weights: Any,
    vectors: Any,
    updates: Any,
    cos: Any,
    sin: Any,
    eps: float,
    layer: int,
    places: Any,
    table: Any,
) -> None:
    """What `Llama._block` computes, in place of x [n, d]; attention as in `attend`.

    weights (qkv, o, gate_up, down) and vectors (attention_norm, qkv_bias, q_norm, k_norm, mlp_norm) are those of
    `llama.Block`; a vector that the family lacks is empty, and so is cos where the layer has no rotation. updates are
    an adapter's, one for each of the weights, as in `product`.
    """
    qkv, o, gate_up, down = weights
    for_qkv, for_o, for_gate_up, for_down = updates
    attention_norm, qkv_bias, q_norm, k_norm, mlp_norm = vectors
    n, size = len(x), sin.shape[2]
    heads = o.shape[1] // size
    kv_heads = (len(qkv) // size - heads) // 2
    h, projected = np.empty_like(x), np.empty((n, len(qkv)), np.float32)
    normed(x, attention_norm, eps, h)
    product(h, qkv, qkv_bias, for_qkv, projected)
    parts = projected.reshape(n, heads + 2 * kv_heads, size)
    q, k, v = parts[:, :heads].copy(), parts[:, heads : heads + kv_heads].copy(), parts[:, heads + kv_heads :].copy()
    if len(q_norm) > 0:
        normed(q.reshape(n * heads, size), q_norm, eps, q.reshape(n * heads, size))
        normed(k.reshape(n * kv_heads, size), k_norm, eps, k.reshape(n * kv_heads, size))
    if len(cos) > 0:
        rotated(q, cos, sin, q)
        rotated(k, cos, sin, k)
    mixed = np.empty((n, heads, size), np.float32)
    attend(q, k, v, layer, places, table, mixed)
    product(mixed.reshape(n, heads * size), o, qkv_bias[:0], for_o, h)
    x += h
    normed(x, mlp_norm, eps, h)
    both, inner = np.empty((n, len(gate_up)), np.float32), np.empty((n, len(gate_up) // 2), np.float32)
    product(h, gate_up, qkv_bias[:0], for_gate_up, both)
    gated(both, inner)
    product(inner, down, qkv_bias[:0], for_down, h)
    x += h


def prepare() -> None:
    """Compiles what a pass calls, for weights in both types, or loads it from numba's cache."""
    size = 2
    x, vector, nothing = np.zeros((1, size), np.float32), np.ones(size, np.float32), np.empty(0, np.float32)
    turn, cache = np.ones((1, 1, size), np.float32), np.zeros((1, 2, 1, 1, size), np.float32)
    places, table = np.zeros((1, 2), np.int64), np.array([[cache.ctypes.data, 1, cache.ctypes.data, 1]])
    update = np.empty((0, 0), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int64)
    for kind in (np.uint16, np.float32):
        weights = tuple(np.zeros((rows, size), kind) for rows in (3 * size, size, 2 * size, size))
        vectors = vector, nothing, nothing, nothing, vector
        block(x, weights, vectors, (update,) * 4, turn, turn, 1e-6, 0, places, table)
        normed(x, vector, 1e-6, x)
        product(x, weights[1], nothing, update, x)
