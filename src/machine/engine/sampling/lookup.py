"""Guesses at the tokens to come, for speculative decoding without a second model.

Where the last few tokens stand earlier in a sequence, what followed them there may follow again: agents quote the files
they edit. A guess costs little to check beside the token that is computed anyway, and a wrong one changes nothing.
"""

SPAN = 3
"""Tokens that must agree before what followed them is guessed."""
_SHORT, _LONG = 3, 15  # a guess and the token before it fill tiles of four, as the kernels take them
_REST = 64


class Lookup:
    """The tokens of one sequence, by what stands before them."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = list(tokens)
        self._read = SPAN  # the tokens before this one are in `_after`
        self._after: dict[tuple[int, ...], int] = {}
        self._length, self._rest, self._misses = _SHORT, 0, 0

    def add(self, token: int) -> None:
        """Takes note of the sequence's next token."""
        self._tokens.append(token)

    def guess(self, most: int) -> list[int]:
        """At most so many tokens that may come next; none while guesses have been failing."""
        if self._rest > 0:
            self._rest -= 1
            return []
        if most <= 0:
            return []
        for i in range(self._read, len(self._tokens)):
            self._after[tuple(self._tokens[i - SPAN : i])] = i
        self._read = max(SPAN, len(self._tokens))
        start = self._after.get(tuple(self._tokens[-SPAN:]))
        return [] if start is None else self._tokens[start : start + min(most, self._length)]

    def learn(self, guessed: int, right: int) -> None:
        """Hears how many tokens of a guess were right: good guesses grow, bad ones make it rest longer each time."""
        if guessed == 0:
            return
        if right == guessed:
            self._length, self._misses = min(2 * self._length + 1, _LONG), 0
        elif 2 * right >= guessed:
            self._misses = 0
        else:
            self._length, self._misses = _SHORT, self._misses + 1
            self._rest = min(2**self._misses, _REST)
