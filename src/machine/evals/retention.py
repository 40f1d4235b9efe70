"""Retention: what a student still does of everything that it was not trained on, measured by change against its base.

The suite ships with the package, in `data/` (whose README says where it comes from): cases of general chat, cases that
call for a tool, unrelated questions, and short passages of prose, programs and data. Three things are measured:

- Language: the NLL of each passage, in nats a token. Each is scored as plain text, with neither the chat format nor a
  special token before it; its first token is not counted. `lost` where the mean rise over the passages is above `RISE`
  and its 95 % t-interval lies above 0; `kept` where the whole interval lies under `RISE`.
- Answers: the cases pass or fail by plain patterns, a tool case by one well-formed call of the right tool whose
  arguments fit its schema. How many a small model passes says little; they are paired with the base's as every
  comparison is (see `compare`). `lost` where they are worse.
- Opening: the word that most of the answers to cases without tools begin with. A style that was learnt everywhere shows
  here: `spread` where more than half begin with one word, and significantly more than the base's (McNemar). It is said,
  but is no loss by itself: some styles are meant for every answer.

Every answer is greedy and short, so that the suite takes seconds. A student that thinks before it answers may be cut
off within its thoughts: its answers then pass with neither weights, and the passages decide.
"""

import hashlib
import importlib.resources
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any, Literal

import msgspec

from machine.errors import Refused, ServiceError
from machine.evals.case import Case
from machine.evals.compare import ALPHA, Comparison, Interval, compare, paired_test
from machine.evals.proof import finite
from machine.evals.record import Retention
from machine.evals.sample import Asker, Parameters, Sample, ask
from machine.evals.score import score
from machine.evals.suite import suite_text
from machine.trace import canonical

RISE = 0.1
"""Nats a token that the passages' mean NLL may rise by: a perplexity 10 % higher."""
SPREAD = 0.5
"""The share of answers that begin with one word above which a style is said to be everywhere."""
TOKENS, TOOL_TOKENS = 16, 40
"""Tokens that an answer may have: of a case without tools, of one with them."""

Word = Literal["kept", "lost", "too little to say"]


@dataclass(frozen=True)
class Language:
    """The passages: (name, NLL of the base, NLL of the checkpoint) in nats a token; the mean rise and its interval.

    `interval` is None where there are too few passages for one.
    """

    passages: tuple[tuple[str, float, float], ...]
    rise: float
    interval: Interval | None

    @property
    def verdict(self) -> Word:
        """The word for it."""
        if self.interval is None:
            return "too little to say"
        low, high = self.interval
        if self.rise > RISE and low > 0:
            return "lost"
        return "kept" if high <= RISE else "too little to say"


@dataclass(frozen=True)
class Opening:
    """The word that most answers of the checkpoint begin with: how many do, how many of the base's do, of how many."""

    word: str
    before: int
    after: int
    answers: int
    p: float

    @property
    def spread(self) -> bool:
        """Whether it stands before most answers, and did not before."""
        return self.after > SPREAD * self.answers and self.p <= ALPHA


@dataclass(frozen=True)
class Change:
    """What a checkpoint kept and lost of everything else. `changed` counts answers that are other than the base's.

    `unasked` names the cases of the suite that were not asked of both, because the student's renderer writes no tools.
    """

    language: Language
    answers: Comparison
    opening: Opening
    changed: int
    unasked: tuple[str, ...] = ()

    @property
    def verdict(self) -> Word:
        """`lost` where language or answers are; `kept` where language is and no case got significantly worse."""
        if self.language.verdict == "lost" or self.answers.verdict == "worse":
            return "lost"
        if self.language.verdict == "kept" and self.answers.verdict != "too few cases":
            return "kept"
        return "too little to say"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What was measured, as (label, words)."""
        found, of, ends = self.answers, self.answers.cases, self.language.interval
        within = f"95 % interval {ends[0]:+.3f} to {ends[1]:+.3f}" if ends else "too few texts for an interval"
        return [
            (
                "Texts that nobody trained on",
                f"NLL {self.language.rise:+.3f} nats a token ({within}; lost above {RISE:+g}): {self.language.verdict}",
            ),
            (
                "Answers to other things",
                f"{found.baseline} → {found.candidate} of {of} pass ({len(found.wins)} won, {len(found.losses)} lost, "
                f"p = {found.p_worse:.2g} for worse, one-sided), {self.changed} of {of} changed",
            ),
            (
                "They begin with",
                f"{self.opening.word!r}: {self.opening.before} → {self.opening.after} of {self.opening.answers}"
                + (" (a style that is everywhere)" if self.opening.spread else ""),
            ),
        ]

    @property
    def notes(self) -> list[str]:
        """What its reader should know besides, in words."""
        found = []
        if self.opening.spread:
            found.append(
                f"{self.opening.after} of {self.opening.answers} answers to unrelated questions begin with "
                f"{self.opening.word!r} (base: {self.opening.before}): if that is not meant for every answer, add rows "
                "that show where not"
            )
        if self.unasked:
            found.append(f"{len(self.unasked)} retention cases were not asked, because no tools can be written for "
                         f"this student: {', '.join(self.unasked)}")  # fmt: skip
        return found


def built_in_cases() -> list[Case]:
    """The cases that ship with the package."""
    lines = _data().joinpath("cases.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Case) for line in lines]


def built_in_passages() -> dict[str, str]:
    """The passages that ship with the package, by name."""
    files = sorted(_data().joinpath("passages").iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".txt"): file.read_text("utf-8").strip() for file in files}


def retention_hash(cases: Sequence[Case], passages: Mapping[str, str]) -> str:
    """SHA-256 (hex) of what is asked and scored, and how: two measures with the same one can be paired."""
    hashed = hashlib.sha256(suite_text(cases))
    hashed.update(canonical([dict(passages), TOKENS, TOOL_TOKENS]))
    return hashed.hexdigest()


def measure(
    asker: Asker,
    progress: Callable[[str], None] = lambda line: None,
    cases: Sequence[Case] | None = None,
    passages: Mapping[str, str] | None = None,
    *,
    before: Retention | None = None,
    came: Callable[[Retention], None] = lambda piece: None,
) -> Retention:
    """Asks a model the built-in suite, or other `cases` and `passages`.

    Cases with tools are left out where the student's renderer writes none; `judge` names them.

    Args:
        asker: the model.
        progress: told how far it is.
        cases: what it is asked.
        passages: what it scores.
        before: what an earlier attempt was given; of the same suite, none of it is asked again.
        came: given each answer and each passage's NLL as soon as it is there.

    Raises:
        ServiceError: the service failed or went away; what came before was given to `came`.
        Refused: a case without tools cannot be rendered.
    """
    from tinker import ModelInput

    cases = built_in_cases() if cases is None else cases
    passages = built_in_passages() if passages is None else passages
    suite = retention_hash(cases, passages)
    there = before if before and before.suite == suite else Retention(suite, (), {})
    asked, nll = {sample.case: sample for sample in there.samples}, dict(there.nll)
    pending = {
        name: asker.client.compute_logprobs(ModelInput.from_ints(asker.student.encode(text)))
        for name, text in passages.items()
        if name not in nll
    }

    def tell(line: str) -> None:
        progress(f"retention: {line}")

    def keep(samples: Sequence[Sample]) -> None:
        asked.update((sample.case, sample) for sample in samples)
        came(Retention(suite, tuple(samples), {}))

    missing = [case for case in cases if case.id not in asked and (not case.tools or _renders(asker, case))]
    ask(asker, [case for case in missing if not case.tools], Parameters(max_tokens=TOKENS), tell, keep)
    ask(asker, [case for case in missing if case.tools], Parameters(max_tokens=TOOL_TOKENS), tell, keep)
    for name, waiting in pending.items():
        nll[name] = _nll(asker.service.wait(waiting, f"scoring the passage {name}"), name)
        came(Retention(suite, (), {name: nll[name]}))
    samples = tuple(_scored(case, asked[case.id]) for case in cases if case.id in asked)
    return Retention(suite, samples, {name: nll[name] for name in passages})


def judge(before: Retention, after: Retention) -> Change:
    """What the checkpoint (`after`) kept of what the base does.

    Raises:
        Refused: they were not asked the same suite.
    """
    if before.suite != after.suite or before.nll.keys() != after.nll.keys():
        raise Refused(
            "baseline and checkpoint were asked different retention suites",
            next_step="machine train eval baseline --yes, then machine train eval checkpoint --yes",
        )
    old, new = ({sample.case: sample for sample in each.samples} for each in (before, after))
    both = [case for case in old if case in new]
    tags = {case.id: case.tags for case in built_in_cases()}
    changed = sum(_said(old[case]) != _said(new[case]) for case in both)
    answers = compare(
        {case: old[case].score for case in both},
        {case: new[case].score for case in both},
        tags=tags,
        identical=not changed,
    )
    plain = [case for case in both if "tool" not in tags.get(case, ())]
    asked = tags if before.suite == retention_hash(built_in_cases(), built_in_passages()) else {**old, **new}
    return Change(
        _language(before.nll, after.nll),
        answers,
        _opening([old[case].text for case in plain], [new[case].text for case in plain]),
        changed,
        tuple(case for case in asked if case not in both),
    )


def well_called(case: Case, message: Mapping[str, Any]) -> bool:
    """Whether a message is one well-formed call of the tool that the case expects, its arguments as the schema says."""
    from jsonschema.validators import validator_for

    match message:
        case {"unparsed_tool_calls": [_, *_]}:
            return False
        case {"tool_calls": [{"function": {"name": str(name), "arguments": str(text)}}]}:
            schemas = {tool["name"]: tool["parameters"] for tool in case.tools}
        case _:
            return False
    if name not in {call.name for call in case.expected_calls} & schemas.keys():
        return False
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bool(validator_for(schemas[name])(schemas[name]).is_valid(arguments))


def _data() -> Traversable:
    return importlib.resources.files("machine.evals").joinpath("data")


def _renders(asker: Asker, case: Case) -> bool:
    try:
        asker.prompt(case)
    except Refused:
        return False
    return True


def _scored(case: Case, sample: Sample) -> Sample:
    message = sample.message or {}
    found = float(well_called(case, message)) if case.tools else score(case, sample.text, message)
    return msgspec.structs.replace(sample, score=found, passed=bool(found))


def _nll(logprobs: list[float | None], name: str) -> float:
    """Nats a token over all tokens that have something before them.

    Raises:
        ServiceError: the service gave no log-probability.
        TrainingError: it gave one that is not finite.
    """
    found = [float(each) for each in logprobs if each is not None]
    if not found:
        raise ServiceError(
            f"the service scored the passage {name} with no log-probability", next_step="machine tinker status"
        )
    return round(-finite(sum(found), f"the passage {name}") / len(found), 6)


def _language(before: Mapping[str, float], after: Mapping[str, float]) -> Language:
    rises = [after[name] - before[name] for name in before]
    rise = sum(rises) / len(rises) if rises else 0.0
    return Language(tuple((name, before[name], after[name]) for name in before), rise, _t_interval(rises))


def _t_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of a mean (Student's t); None where fewer than two values are there."""
    if len(values) < 2:
        return None
    if max(values) == min(values):
        return values[0], values[0]
    from scipy.stats import ttest_1samp

    found = ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(found.low), float(found.high)


def _opening(before: Sequence[str], after: Sequence[str]) -> Opening:
    old, new = [_first_word(text) for text in before], [_first_word(text) for text in after]
    word, count = Counter(word for word in new if word).most_common(1)[0] if any(new) else ("", 0)
    now, then = [float(each == word) for each in new], [float(each == word) for each in old]
    _, p, _ = paired_test([y - x for x, y in zip(then, now, strict=True)])
    return Opening(word, int(sum(then)) if word else 0, count, len(new), p)


def _first_word(text: str) -> str:
    return next(iter(text.split()), "")


def _said(sample: Sample) -> object:
    """The answer, to the token where the tokens were kept."""
    return sample.ids or sample.text
