"""Handover: what `train run` rendered for its summary, given to the training page, so that nothing is rendered twice.

It goes through the pipe that also tells the page to run (see `gate`), never through a file. A page that is run by hand
is given nothing and renders for itself; so it does with a target that is not, to the byte, the one that was rendered.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from machine.dataset.render import Example, render
from machine.dataset.targets import Target
from machine.tinker.students import Student
from machine.trace import canonical


class _Given(msgspec.Struct, array_like=True):
    """An example; `shared` tokens are those that the one before it begins with, weights are those after the prompt."""

    key: bytes
    id: str
    session: str
    shared: int
    tokens: list[int]
    prompt: int
    weights: list[float]


_given: dict[bytes, Example] = {}


def packed(student: Student, targets: Iterable[Target], examples: Iterable[Example]) -> bytes:
    """The examples of `targets`, one of each, as bytes for `receive`."""
    found, before = [], list[int]()
    for target, example in zip(targets, examples, strict=True):
        shared = sum(1 for _ in itertools.takewhile(_same, zip(before, example.tokens, strict=False)))
        weights, tokens = example.weights[example.prompt :], example.tokens[shared:]
        found.append(
            _Given(_key(student, target), example.id, example.session, shared, tokens, example.prompt, weights)
        )
        before = example.tokens
    return msgspec.msgpack.encode(found)


def receive(data: bytes) -> None:
    """Takes what `packed` made; `rendered` looks there first.

    Raises:
        msgspec.DecodeError: it is not whole.
    """
    before = list[int]()
    for each in msgspec.msgpack.decode(data, type=list[_Given]):
        before = before[: each.shared] + each.tokens
        weights = [0.0] * each.prompt + each.weights
        _given[each.key] = Example(each.id, each.session, before, weights, each.prompt)


def rendered(student: Student, targets: Sequence[Target]) -> list[Example]:
    """Every target rendered, as `render` does it; what was received is not rendered again.

    Raises:
        Refused: as `render` says.
    """
    return list(_rendered(student, targets))


def _rendered(student: Student, targets: Sequence[Target]) -> Iterator[Example]:
    for target in targets:
        example = _given.get(_key(student, target)) if _given else None
        yield example or render(student, target)


def _key(student: Student, target: Target) -> bytes:
    """SHA-256 of all that the tokens depend on."""
    about = [student.model, student.renderer_name, target.id, target.session, target.messages, target.tools]
    return hashlib.sha256(canonical(about)).digest()


def _same(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]
