"""Audit: are these rows fit to train on? Renders every one of them, before anything is spent.

READY: train. SMOKE ONLY: it will run, but on too little to learn from or measure. FIX FIRST: training would fail,
or would teach something else than what was tagged.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from machine.dataset.merge import Pack, merged
from machine.dataset.render import Example, render
from machine.dataset.targets import Target, expand, text_of
from machine.errors import Refused
from machine.renderers import to_conversation
from machine.tinker.students import Student
from machine.trace import Row, canonical

ENOUGH = 16
"""Targets below which a run can only show that it runs."""

Verdict = Literal["READY", "SMOKE ONLY", "FIX FIRST"]
_BUCKETS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


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

    def histogram(self) -> list[tuple[str, int]]:
        """Examples by length: (`up to N`, count) for every bucket up to the longest one."""
        sizes = Counter(next((b for b in _BUCKETS if len(e.tokens) <= b), 0) for e in self.examples)
        last = max((_BUCKETS.index(b) if b else len(_BUCKETS) for b in sizes), default=-1)
        return [
            (f"up to {_BUCKETS[i]}" if i < len(_BUCKETS) else f"over {_BUCKETS[-1]}",
             sizes[_BUCKETS[i] if i < len(_BUCKETS) else 0])
            for i in range(last + 1)
        ]  # fmt: skip


def audit(rows: Sequence[Row], student: Student, max_length: int) -> Audit:
    """Renders every target of `rows` and checks it. `max_length` is in tokens, prompt and answer together."""
    targets = expand(rows)
    found = Audit(len(rows), len({r.source.session for r in rows}), len(targets), [])
    found.faults += [f"{row.id}: no target" for row in rows if not row.target]
    found.notes += [f"{row.id}: rows of this tag are not good rows" for row in rows if row.tag != "good"]
    for target in targets:
        try:
            example = render(student, target)
        except Refused as error:
            found.faults.append(error.message)
            continue
        found.examples.append(example)
        found.faults += _bad_arguments(target)
        found.faults += _empty(target)
        found.faults += _length(example, max_length)
        found.faults += _control_tokens(student, target, example)
    found.faults += _contradictions(targets)
    found.notes += _duplicates(targets)
    return found


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


def _bad_arguments(target: Target) -> Iterator[str]:
    known = {tool.get("function", tool).get("name") for tool in target.tools}
    for call in target.answer.get("tool_calls") or ():
        function = call.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments") or ""
        try:
            parsed = json.loads(arguments)
        except (TypeError, ValueError):
            yield f"{target.id}: the arguments of its call to {name} are not JSON"
            continue
        if not isinstance(parsed, dict):
            yield f"{target.id}: the arguments of its call to {name} are not a JSON object"
        if target.tools and name not in known:
            yield f"{target.id}: it calls {name}, which is not among the tools that the model was given"


def _empty(target: Target) -> Iterator[str]:
    if not text_of(target.answer).strip() and not target.answer.get("tool_calls"):
        yield f"{target.id}: its answer is empty; the student would learn to say nothing"


def _contradictions(targets: Sequence[Target]) -> Iterator[str]:
    for same in _by_context(targets):
        answers = {canonical(t.answer) for t in same}
        if len(answers) > 1:
            yield f"{', '.join(t.id for t in same)}: the same context, {len(answers)} different answers"


def _duplicates(targets: Sequence[Target]) -> Iterator[str]:
    for same in _by_context(targets):
        if len(same) > 1 and len({canonical(t.answer) for t in same}) == 1:
            yield f"{', '.join(t.id for t in same)}: the same example {len(same)} times"


def _by_context(targets: Sequence[Target]) -> list[list[Target]]:
    groups: defaultdict[bytes, list[Target]] = defaultdict(list)
    for target in targets:
        groups[canonical([list(target.context), list(target.tools)])].append(target)
    return list(groups.values())


def _control_tokens(student: Student, target: Target, example: Example) -> Iterator[str]:
    """Text that spells a control token is harmless where the renderer keeps it text: counted, not guessed."""
    text = json.dumps([target.messages, target.tools], ensure_ascii=False)
    spelled = [token for token in _controls(student) if token in text]
    if not spelled:
        return
    ids = set(student.tokenizer.all_special_ids)
    quiet = _without(target, spelled)
    model_input, _ = student.renderer.build_supervised_example(
        to_conversation(student.renderer, quiet.messages, quiet.tools)
    )
    if sum(t in ids for t in example.tokens) != sum(t in ids for t in model_input.to_ints()):
        yield f"{target.id}: its text spells {' '.join(spelled)} and would be read as the renderer's own markup"


def _controls(student: Student) -> list[str]:
    return [str(token) for token in getattr(student.tokenizer, "all_special_tokens", ())]


def _without(target: Target, spelled: Sequence[str]) -> Target:
    def quiet(value: Any) -> Any:
        match value:
            case str():
                for token in spelled:
                    value = value.replace(token, "-")
                return value
            case list() | tuple():
                return [quiet(item) for item in value]
            case dict():
                return {key: quiet(item) for key, item in value.items()}
            case _:
                return value

    return Target(target.id, target.row, target.session, tuple(quiet(target.messages)), tuple(quiet(target.tools)))
