"""Audit: are these rows fit to train on? Renders every one of them, before anything is spent.

READY: train. SMOKE ONLY: it will run, but on too little to learn from or measure. FIX FIRST: training would fail,
or would teach something else than what was tagged.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from machine.dataset import calls, readback, repeats
from machine.dataset.controls import Controls
from machine.dataset.merge import Pack, merged
from machine.dataset.render import Example, render
from machine.dataset.scan import secret_in
from machine.dataset.targets import Target, expand, has_images, text_of, thinking_of
from machine.errors import Refused
from machine.privacy.sources import Sources
from machine.tinker.students import Student
from machine.trace import Row

ENOUGH = 16
"""Targets below which a run can only show that it runs."""

Verdict = Literal["READY", "SMOKE ONLY", "FIX FIRST"]
_BUCKETS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_NAMED = 5
_TOLD = 50
_NO_LIMIT = 1 << 30


@dataclass
class Audit:
    """What the rows hold. `faults` stop training, `notes` do not; each names the row that it is about."""

    rows: int
    conversations: int
    targets: int
    examples: list[Example]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @cached_property
    def packs(self) -> list[Pack]:
        """What the examples are trained as, once they are all there."""
        return merged(self.examples)

    @property
    def tokens(self) -> int:
        """Tokens of one epoch."""
        return sum(len(pack.tokens) for pack in self.packs)

    @property
    def tokens_apart(self) -> int:
        """What they would be if every target were trained by itself."""
        return sum(len(e.tokens) for e in self.examples)

    @property
    def trained(self) -> int:
        """Tokens of one epoch that carry loss."""
        return sum(e.trained for e in self.examples)

    @property
    def longest(self) -> int:
        """Tokens of the longest example."""
        return max((len(e.tokens) for e in self.examples), default=0)

    @property
    def verdict(self) -> Verdict:
        """READY, SMOKE ONLY or FIX FIRST."""
        if self.faults or not self.examples:
            return "FIX FIRST"
        return "READY" if self.targets >= ENOUGH else "SMOKE ONLY"

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is not READY."""
        if self.verdict == "SMOKE ONLY":
            return [f"{self.targets} targets are enough to see that training runs; tag at least {ENOUGH} to learn from"]
        return self.faults

    def histogram(self) -> list[tuple[str, int, int]]:
        """(`up to N`, examples of so many tokens, examples of so many trained tokens) for every bucket in use."""
        whole = Counter(_bucket(len(e.tokens)) for e in self.examples)
        trained = Counter(_bucket(e.trained) for e in self.examples)
        used = sorted({*whole, *trained})
        buckets = range(used[0], used[-1] + 1) if used else ()
        return [(_bucket_name(i), whole[i], trained[i]) for i in buckets]


def audit(
    rows: Sequence[Row],
    student: Student,
    max_length: int | None = None,
    progress: Callable[[str], None] = lambda line: None,
    sources: Sources | None = None,
) -> Audit:
    """Renders every target of `rows` and checks it.

    Args:
        rows: what is to be trained on.
        student: whose tokens are meant.
        max_length: in tokens, prompt and answer together; None is no limit.
        progress: told how far it is, now and then.
        sources: what is secret in the project beside the known forms; None: what this process's environment holds.
    """
    targets = expand(rows)
    found = Audit(len(rows), len({r.source.session for r in rows}), len(targets), [])
    found.faults += [f"{row.id}: no target" for row in rows if not row.target]
    found.faults += _secrets(rows, sources)
    controls, advice, counted = Controls(student), readback.Advice(student), defaultdict[str, list[Target]](list)
    for number, target in enumerate(targets, 1):
        if number % _TOLD == 0:
            progress(f"rendered {number} of {len(targets)} targets")
        try:
            example = render(student, target)
        except Refused as error:
            found.faults.append(f"{error.message}; {_mend(advice.instead(target))}")
            continue
        found.examples.append(example)
        found.faults += calls.faults(target)
        found.faults += _empty(target)
        found.faults += _length(example, max_length or _NO_LIMIT)
        found.faults += controls.faults(target, example)
        read = readback.read_back(student, example)
        wrong = list(readback.faults(student, target, example, read))
        found.faults += [f"{target.id}: {fault}; {_mend(advice.instead(target))}" for fault in wrong]
        found.notes += calls.notes(target)
        for what in readback.notes(student, target, example, read):
            counted[what].append(target)
    found.faults += repeats.faults(targets)
    found.notes += repeats.notes(targets)
    found.notes += [f"{row.id}: rows of this tag are not good rows" for row in rows if row.tag != "good"]
    found.notes += _counted(student, counted, targets, advice)
    found.notes += _images(rows)
    return found


def _secrets(rows: Sequence[Row], sources: Sources | None) -> Iterator[str]:
    for row in rows:
        if (found := secret_in(row, sources)) is not None:
            yield f"{row.id}: it holds a secret ({found}); machine privacy redact {row.id}, or leave the row out"


def _length(example: Example, max_length: int) -> Iterator[str]:
    if not example.trained:
        yield f"{example.id}: no token of it would be trained"
    if len(example.tokens) > max_length:
        cut = len(example.tokens) - max_length
        lost = sum(weight != 0 for weight in example.weights[max_length:])
        yield (
            f"{example.id}: {len(example.tokens)} tokens, {cut} over max_length {max_length}; "
            f"{lost} of the {example.trained} trained ones would be cut away"
        )


def _empty(target: Target) -> Iterator[str]:
    if not text_of(target.answer).strip() and not target.answer.get("tool_calls"):
        yield f"{target.id}: its answer is empty; the student would learn to say nothing"


def _counted(
    student: Student, counted: dict[str, list[Target]], targets: Sequence[Target], advice: readback.Advice
) -> Iterator[str]:
    """What many targets have in common, said once."""
    name, of = student.renderer_name, len(targets)
    if bare := counted["no_thinking"]:
        reasoned = [target for target in targets if thinking_of(target.answer)][:_NAMED]
        other = advice.instead(bare[0], reasoned)
        none = "no other of the model keeps the reasoning of the others" if reasoned else "the model has no other"
        yield (
            f"{len(bare)} of {of} targets hold no reasoning, and {name} trains an empty think block there: the student "
            f"learns not to think ({_mend(other) if other else none})"
        )
    if typed := counted["arguments"]:
        yield (
            f"{len(typed)} of {of} targets make calls whose arguments {name} reads back as other JSON values: its "
            "format writes text where there were types"
        )


def _mend(renderer: str | None) -> str:
    return f"use renderer: {renderer} in tinker.yaml" if renderer else "leave the row out, or train another model"


def _images(rows: Sequence[Row]) -> Iterator[str]:
    ids = [row.id for row in rows if has_images(row.messages)]
    if ids:
        named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        yield f"{len(ids)} rows hold images; the student is given text in their place, as Pi gives it: {named}"


def _bucket(tokens: int) -> int:
    return next((i for i, most in enumerate(_BUCKETS) if tokens <= most), len(_BUCKETS))


def _bucket_name(bucket: int) -> str:
    return f"up to {_BUCKETS[bucket]}" if bucket < len(_BUCKETS) else f"over {_BUCKETS[-1]}"
