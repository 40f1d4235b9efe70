"""The prefix cache: keys and values of recent prompts, for prompts to come that begin alike."""

from dataclasses import dataclass

from torch import Tensor

PREFIX_BYTES = 512 * 2**20
"""Memory for keys and values that are kept; SmolLM2-135M in float32 needs 45 KiB for a token."""


@dataclass(frozen=True, eq=False)
class Prefix:
    """A prompt that was read. Shapes: L layers, P tokens; other letters as in `llama`."""

    weights: str
    tokens: Tensor  # [P]
    keys_values: Tensor  # [L, 2, K, P, D]


class PrefixCache:
    """Recent prompts, least recently used first, up to `capacity` bytes of keys and values."""

    def __init__(self, capacity: int = PREFIX_BYTES) -> None:
        self.capacity = capacity
        self._entries: list[Prefix] = []

    @property
    def size(self) -> int:
        """Bytes in use."""
        return sum(entry.keys_values.nbytes for entry in self._entries)

    def longest(self, weights: str, prompt: Tensor) -> Tensor | None:
        """Keys and values of the longest cached beginning of `prompt` [n] under `weights`, at most n - 1 tokens."""
        best, found = 0, None
        for entry in self._entries:
            if entry.weights == weights and (common := _common(entry.tokens, prompt)) > best:
                best, found = common, entry
        best = min(best, len(prompt) - 1)
        if found is None or best == 0:
            return None
        self._entries.remove(found)
        self._entries.append(found)
        return found.keys_values[:, :, :, :best]

    def keep(self, weights: str, prompt: Tensor, keys_values: Tensor) -> None:
        """Adds a prompt; drops what it extends and, beyond the capacity, what was used least recently."""
        entries = [e for e in self._entries if e.weights != weights or _common(e.tokens, prompt) < len(e.tokens)]
        entries.append(Prefix(weights, prompt, keys_values))
        total = 0
        self._entries = []
        for entry in reversed(entries):
            total += entry.keys_values.nbytes
            if total > self.capacity:
                break
            self._entries.insert(0, entry)

    def drop(self, weights: str) -> None:
        """Forgets everything computed with `weights`."""
        self._entries = [entry for entry in self._entries if entry.weights != weights]


def _common(a: Tensor, b: Tensor) -> int:
    n = min(len(a), len(b))
    different = (a[:n] != b[:n]).nonzero()
    return int(different[0]) if len(different) else n
