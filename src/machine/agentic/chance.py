"""Chance: numbers that follow from a text for ever, on every Python and system.

They come from SHA-256 in counter mode; the standard library's `random` only promises its raw numbers, not its choices.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Draws that depend on `seed` and on the order in which they are asked for."""

    def __init__(self, seed: str) -> None:
        self._seed = seed.encode()
        self._drawn = 0

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; `limit` is far below 2**64, so that no number is favoured."""
        self._drawn += 1
        digest = hashlib.sha256(b"%s/%d" % (self._seed, self._drawn)).digest()
        return int.from_bytes(digest[:16], "big") % limit

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def odds(self, percent: int) -> bool:
        """True in so many of a hundred draws."""
        return self.below(100) < percent

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, of which there is at least one."""
        return options[self.below(len(options))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """`count` of the options, each at most once, in the order drawn; `count` is at most their number."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in some order."""
        return self.some(options, len(options))
