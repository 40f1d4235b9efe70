"""Page: what came of a run, for a person to look at: `runs/<id>/report.html`.

Loss curve, figures, recipe; and, where the run's checkpoint and the base were asked the same suite, what each of them
answered, side by side, the cases that the checkpoint lost first. A run that was not evaluated gets the page too, with
what to type next in that place.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from machine.errors import MachineError
from machine.evals.case import Case
from machine.evals.chart import chart
from machine.evals.compare import Comparison, of_records
from machine.evals.judge import Verdict
from machine.evals.proof import same_base
from machine.evals.record import BASELINE, CHECKPOINT, Record, differences, read_record
from machine.evals.retention import Change as Kept
from machine.evals.retention import judge
from machine.evals.sample import Sample
from machine.evals.suite import read_suite, suite_hash
from machine.page import count, page
from machine.store.files import write_private
from machine.training.progress import duration
from machine.training.run import Run, State

FILE = "report.html"
SUITE = "suite.jsonl"
FOLD = 1200
"""Characters of a text that stand open; a longer one is folded after them."""
_WORDS_COMPARED = 300
_ALIKE = 0.35
"""Answers that share less than this of their words are not marked word by word."""

Change = Literal["lost", "won", "both pass", "both fail"]
GROUPS: tuple[tuple[Change, str], ...] = (
    ("lost", "Lost: the checkpoint scores lower than the base"),
    ("won", "Won: the checkpoint scores higher than the base"),
    ("both fail", "Neither passes"),
    ("both pass", "Both pass"),
)
_VERDICTS = {
    "better": "Better than the base model",
    "worse": "Worse than the base model",
    "no difference shown": "No difference to the base model shown",
    "too few cases": "Too few cases to tell it from the base model",
}
_JUDGED = {True: "it passes", False: "it fails", None: "no verdict, so it has not passed"}
_Verdicts = Mapping[tuple[str, int], Verdict]
"""What a model judged, by case and number of the answer."""


@dataclass(frozen=True)
class Answer:
    """What a model said: `words` are (text, whether it differs from the other side's), whole.

    `judged` is who judged it and how, in words, and `reasons` what that model said; empty where no model judged.
    """

    words: list[tuple[str, bool]]
    characters: int
    passed: bool
    note: str
    judged: str = ""
    reasons: str = ""


@dataclass(frozen=True)
class Pair:
    """A case with the answers of the base (`before`) and of the checkpoint (`after`), one or more of each."""

    case: str
    question: str
    wanted: str
    before: list[Answer]
    after: list[Answer]


@dataclass(frozen=True)
class SideBySide:
    """The records of a run that can be set side by side, and what they come to.

    `questions` is false where the suite was edited since, so that nobody knows any more what was asked.
    """

    before: Record
    after: Record
    found: Comparison
    pairs: dict[Change, list[Pair]]
    questions: bool
    kept: "Kept | Missing | None"

    @property
    def headline(self) -> str:
        """The verdict in words."""
        return _VERDICTS.get(self.found.verdict, self.found.verdict.capitalize())


@dataclass(frozen=True)
class Missing:
    """Why there is no evaluation of a run, and what to type for one."""

    why: str
    next_step: str


def write_page(run: Run, evals: Path) -> Path:
    """Writes the page of `run` anew and returns where it is; `evals` is the folder of the project's evaluations.

    Raises:
        StoreError: the run's own files are damaged, or the page cannot be written.
        MissingDependency: jinja2 or scipy is not installed.
    """
    path = run.folder / FILE
    write_private(path, html(run, evals).encode())
    return path


def html(run: Run, evals: Path) -> str:
    """The page of `run` as text."""
    state, config, metrics = run.state, run.config, run.metrics()
    train = [(line["step"], line["loss"]) for line in metrics]
    held_out = [(each.step, each.loss) for each in run.held_out()]
    sampler = run.sampler()
    found = evaluation(run, evals)
    measured = found if isinstance(found, SideBySide) else None
    kept = measured.kept if measured else None
    texts = kept.language.passages if isinstance(kept, Kept) else ()
    return page(
        "run.html.j2",
        run=run.id,
        headline=measured.headline if measured else _status(state),
        status=_status(state),
        state=state,
        figures=_figures(state, config, metrics, held_out, measured),
        charts=[drawn for size in ((960, 320), (360, 260)) if (drawn := chart(train, held_out, *size))],
        evaluation=measured,
        missing=found if isinstance(found, Missing) else None,
        groups=[(change, title, measured.pairs[change]) for change, title in GROUPS] if measured else [],
        facts=_facts(measured) if measured else [],
        kept=kept if isinstance(kept, Kept) else None,
        unjudged=kept if isinstance(kept, Missing) else None,
        texts=sorted(texts, key=lambda text: text[1] - text[2]),
        made_of=_made_of(config, state, sampler.sampler if sampler else None),
        fold=FOLD,
        utc=_utc,
    )


def evaluation(run: Run, evals: Path) -> SideBySide | Missing:
    """The records of the base and of this run's checkpoint side by side, or why there is no such thing."""
    words = f"machine train eval checkpoint {run.id}"
    if run.sampler() is None:
        return Missing("The run left no checkpoint that can be asked.", "machine train runs")
    for name, step in ((BASELINE, "machine train eval baseline"), (CHECKPOINT + run.id, words)):
        if not (evals / f"{name}.json").exists():
            suite = (evals / SUITE).exists()
            return Missing("This checkpoint was not measured yet.", step if suite else "machine train eval init")
    try:
        before, after = read_record(evals, BASELINE), read_record(evals, f"{CHECKPOINT}{run.id}")
        if differ := differences(before, after):
            return Missing(
                f"The base and this checkpoint were asked with {' and '.join(differ)}, so they cannot be compared.",
                f"machine train eval baseline, then {words}",
            )
        if _asked(before) != _asked(after):
            return Missing("The base and this checkpoint did not answer the same cases.", words)
        if after.base:
            same_base(before.proof, after.base, after.proof)
    except MachineError as error:
        return Missing(f"The evaluation cannot be shown: {error.message}.", error.next_step)
    cases = _cases(evals, before)
    found = of_records(before, after, list(cases.values()))
    return SideBySide(before, after, found, _paired(before, after, cases, found), bool(cases), _kept(before, after))


def _kept(before: Record, after: Record) -> Kept | Missing | None:
    """What the checkpoint kept of everything else; None where it was not measured."""
    if before.retention is None or after.retention is None:
        return None
    try:
        return judge(before.retention, after.retention)
    except MachineError as error:
        return Missing(f"{error.message[:1].upper()}{error.message[1:]}.", error.next_step)


def _asked(record: Record) -> list[tuple[str, int]]:
    return [(sample.case, sample.number) for sample in record.samples]


def _cases(evals: Path, record: Record) -> dict[str, Case]:
    """The cases of a record by id; none where the suite was edited since, so that no case shows another's question."""
    try:
        cases = read_suite(evals / SUITE)
    except MachineError:
        return {}
    return {case.id: case for case in cases} if suite_hash(cases) == record.suite else {}


def _paired(before: Record, after: Record, cases: Mapping[str, Case], found: Comparison) -> dict[Change, list[Pair]]:
    groups: dict[Change, list[Pair]] = {change: [] for change, _ in GROUPS}
    passed = after.passed
    sides = (_by_case(before), _verdicts(before)), (_by_case(after), _verdicts(after))
    changed = {*found.losses, *found.wins}
    for id in [*found.losses, *found.wins, *(id for id in passed if id not in changed)]:
        change: Change = "both pass" if passed[id] else "both fail"
        if id in changed:
            change = "lost" if id in found.losses else "won"
        groups[change].append(_pair(id, cases.get(id), *((said[id], verdicts) for said, verdicts in sides)))
    return groups


def _by_case(record: Record) -> dict[str, list[Sample]]:
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in record.samples:
        found[sample.case].append(sample)
    return found


def _verdicts(record: Record) -> _Verdicts:
    return {(verdict.case, verdict.number): verdict for verdict in record.verdicts}


def _pair(
    id: str, case: Case | None, before: tuple[Sequence[Sample], _Verdicts], after: tuple[Sequence[Sample], _Verdicts]
) -> Pair:
    (old, judged), (new, judged_now) = before, after
    marked = [differing(said(one), said(other)) for one, other in zip(old, new, strict=True)]
    return Pair(
        id,
        case.question if case else "",
        wanted(case) if case else "",
        [_answer(sample, words, judged) for sample, (words, _) in zip(old, marked, strict=True)],
        [_answer(sample, words, judged_now) for sample, (_, words) in zip(new, marked, strict=True)],
    )


def _answer(sample: Sample, words: list[tuple[str, bool]], verdicts: _Verdicts) -> Answer:
    notes = [f"{count(sample.tokens)} tokens"]
    if 0 < sample.score < 1:
        notes.insert(0, f"score {sample.score:.2f}")
    if sample.stopped == "length":
        notes.append("cut off at the limit")
    characters, verdict = sum(len(text) for text, _ in words), verdicts.get((sample.case, sample.number))
    if verdict is None:
        return Answer(words, characters, sample.passed, ", ".join(notes))
    judged = f"{verdict.model} judged: {_JUDGED[verdict.passed]}"
    return Answer(words, characters, sample.passed, ", ".join(notes), judged, verdict.text)


def said(sample: Sample) -> str:
    """An answer as text, each tool call of it on a line of its own."""
    calls = (sample.message or {}).get("tool_calls") or []
    lines = [sample.text] if sample.text or not calls else []
    for call in calls:
        function = call.get("function", call) if isinstance(call, dict) else {"name": str(call)}
        lines.append(f"→ {function.get('name')}({function.get('arguments') or ''})")
    return "\n".join(lines)


def wanted(case: Case) -> str:
    """What a case asks for, in words."""
    value = case.scorer.value
    if case.scorer.kind == "exact":
        return case.wanted_text
    if case.scorer.kind == "contains":
        return f"contains {case.wanted_text}"
    if case.scorer.kind == "tool_call":
        calls = [f"{call.name}({msgspec.json.encode(call.arguments).decode()})" for call in case.wanted_calls]
        return "calls " + ", ".join(calls)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{case.scorer.kind} {text}" + (f" (such as {case.expected})" if case.expected else "")


def differing(one: str, other: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Both texts in runs of words, those that the other has not marked; unmarked where they have little in common."""
    words = [re.findall(r"\s+|\w+|[^\w\s]", text) for text in (one, other)]
    if one == other or max(map(len, words)) > _WORDS_COMPARED:
        return [(one, False)], [(other, False)]
    match = difflib.SequenceMatcher(a=words[0], b=words[1], autojunk=False)
    if match.ratio() < _ALIKE:
        return [(one, False)], [(other, False)]
    sides: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for kind, a, b, c, d in match.get_opcodes():
        for side, text in ((sides[0], words[0][a:b]), (sides[1], words[1][c:d])):
            if text:
                side.append(("".join(text), kind != "equal"))
    return sides


def _status(state: State) -> str:
    if state.status == "done":
        return f"Trained {count(state.steps)} steps"
    where = f"at step {count(state.step)} of {count(state.steps)}"
    return f"{state.status.capitalize()} {where}" + (f": {state.cause}" if state.cause else "")


def _figures(
    state: State,
    config: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    held_out: Sequence[tuple[int, float]],
    measured: SideBySide | None,
) -> list[tuple[str, str, str]]:
    """(label, value, remark) of what one looks for first."""
    data, figures = config.get("data", {}), []
    if measured:
        found = measured.found
        figures.append(
            ("Cases passed", f"{found.baseline} → {found.candidate}", f"of {found.cases}, base → checkpoint")
        )
    if metrics:
        first, last = metrics[0]["loss"], metrics[-1]["loss"]
        figures.append(("Training loss", f"{first:.3f} → {last:.3f}", "nats a token, first → last step"))
    if held_out:
        remark = f"nats a token, after step {held_out[0][0]} → {held_out[-1][0]}"
        figures.append(("Held-out loss", f"{held_out[0][1]:.3f} → {held_out[-1][1]:.3f}", remark))
    if "tokens" in data:
        apart = data.get("tokens_apart", data["tokens"])
        remark = f"{count(apart)} before merging" if apart != data["tokens"] else "nothing to merge"
        figures.append(("Tokens an epoch", count(data["tokens"]), remark))
    if metrics:
        tokens = sum(line["tokens"] for line in metrics)
        seconds = max(state.seconds, 1e-9)
        figures.append(("Trained on", f"{count(tokens)} tokens", f"{count(round(tokens / seconds))} a second"))
    figures.append(("Took", duration(state.seconds), f"{count(state.step)} of {count(state.steps)} steps"))
    cost = (config.get("estimate") or {}).get("usd")
    if cost:
        figures.append(("Cost", f"${cost:.2f}", "estimated from list prices"))
    return figures


def _facts(measured: SideBySide) -> list[tuple[str, str]]:
    """The figures of a comparison, in words."""
    found, how = measured.found, measured.after.parameters
    top_p = f", top-p {how.top_p:g}" if how.top_p < 1 else ""
    asked = f"temperature {how.temperature:g}{top_p}, at most {count(how.max_tokens)} tokens, seed {how.seed}"
    return [
        *found.facts,
        *(("Limits", limit) for limit in found.limits),
        *((f"Tag {each.tag}", f"{each.baseline} → {each.candidate} of {each.cases} pass") for each in found.tags),
        ("Asked with", asked + (f", {how.samples} answers a case" if how.samples > 1 else "")),
    ]


def _made_of(config: Mapping[str, Any], state: State, sampler: str | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Tables of (name, value): what the run can be repeated from."""
    data = {key.replace("_", " "): value for key, value in config.get("data", {}).items()}
    run = {
        "service": config.get("service"),
        "checkpoint": sampler,
        "began": _utc(state.started_at),
        "ended": state.ended_at and _utc(state.ended_at),
    }
    tables = (
        ("Recipe", config.get("recipe", {})),
        ("Data", data),
        ("Run", run),
        ("Versions", config.get("versions", {})),
    )
    return [
        (title, [(name.replace("_", " "), _value(value)) for name, value in table.items() if value is not None])
        for title, table in tables
    ]


def _utc(time: str) -> str:
    """A run's time (see `training.run.now`) to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC"


def _value(value: Any) -> str:
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)
