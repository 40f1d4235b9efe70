"""Merge: examples of which one begins another are trained as one, at a fraction of the tokens.

An example is a whole conversation up to its target. Where the renderer only ever appends, the tokens of one target's
example begin those of the next, and training each by itself computes the same prefix again and again. In their place
one datum has the tokens of the longest and the weights of all: a token's log-probability depends on what comes before
it alone, so that loss and gradient are those of the examples one by one. Where a renderer rewrites history (it strips
earlier thinking, say) nothing begins anything, and nothing is merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from machine.dataset.render import Example


@dataclass(frozen=True)
class Pack:
    """Examples that are trained as one datum: `tokens` [T] and `weights` [T], the sum of theirs at each token.

    `examples` are their places in what was merged; each of them still weighs 1.
    """

    tokens: list[int]
    weights: list[float]
    examples: tuple[int, ...]


def merged(examples: Sequence[Example]) -> list[Pack]:
    """Every example, each in one pack, in the order of each pack's first one."""
    packs: list[list[int]] = []
    for at in sorted(range(len(examples)), key=lambda i: (examples[i].tokens, i)):
        last = examples[packs[-1][-1]].tokens if packs else []
        if packs and examples[at].tokens[: len(last)] == last:  # sorted, what extends an example comes right after it
            packs[-1].append(at)
        else:
            packs.append([at])
    return [_pack(examples, sorted(held)) for held in sorted(packs, key=min)]


def _pack(examples: Sequence[Example], held: Sequence[int]) -> Pack:
    longest = max((examples[i] for i in held), key=lambda example: len(example.tokens))
    weights = [0.0] * len(longest.tokens)
    for i in held:
        for place, weight in enumerate(examples[i].weights):
            weights[place] += weight
    return Pack(longest.tokens, weights, tuple(held))
