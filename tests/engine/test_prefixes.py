import torch

from machine.engine.sampling.prefixes import PrefixCache

TOKEN = 2 * 2 * 3 * 4 * 4  # bytes of a token's keys and values below


def keys_values(tokens):
    return torch.tensor(tokens, dtype=torch.float32).view(1, 1, 1, -1, 1).expand(2, 2, 3, -1, 4).contiguous()


def keep(cache, tokens, weights="base"):
    cache.keep(weights, torch.tensor(tokens), keys_values(tokens))


def longest(cache, tokens, weights="base"):
    found = cache.longest(weights, torch.tensor(tokens))
    return None if found is None else found[0, 0, 0, :, 0].tolist()


def test_the_longest_common_beginning_is_found_but_never_all_of_the_prompt():
    cache = PrefixCache()
    keep(cache, [1, 2, 3, 4])
    keep(cache, [1, 2, 9])
    assert longest(cache, [1, 2, 3, 5]) == [1, 2, 3]
    assert longest(cache, [1, 2, 9]) == [1, 2]
    assert longest(cache, [1]) is None
    assert longest(cache, [7, 2, 3]) is None


def test_the_oldest_go_when_memory_is_full():
    cache = PrefixCache(capacity=8 * TOKEN)
    keep(cache, [1, 2, 3, 4])
    keep(cache, [5, 6, 7, 8])
    assert longest(cache, [1, 2, 3, 4, 5]) == [1, 2, 3, 4]  # now used last
    keep(cache, [9, 10])
    assert cache.size == 6 * TOKEN
    assert longest(cache, [5, 6, 7, 8, 9]) is None
    keep(cache, [*range(100, 109)])  # larger than the cache
    assert cache.size == 0


def test_what_is_extended_is_not_kept_twice():
    cache = PrefixCache()
    keep(cache, [1, 2, 3])
    keep(cache, [1, 2, 3, 4])
    assert cache.size == 4 * TOKEN


def test_other_weights_have_other_prefixes():
    cache = PrefixCache()
    keep(cache, [1, 2, 3], "a")
    assert longest(cache, [1, 2, 3, 4], "b") is None
    cache.drop("a")
    assert cache.size == 0
