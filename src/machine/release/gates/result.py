"""Result: the verdict of one gate, with the figure and the threshold it came from."""

import msgspec


class Result(msgspec.Struct, frozen=True):
    """`figure` and `threshold` are words with their numbers; `words` say why, and what the suite cannot rule out.

    `numbers` are the same for programs. `samples` name the files, relative to the gate run's folder, that hold every
    answer it was reckoned from.
    """

    gate: str
    test: str
    passed: bool
    figure: str
    threshold: str
    words: tuple[str, ...] = ()
    numbers: dict[str, float] = {}
    samples: tuple[str, ...] = ()
