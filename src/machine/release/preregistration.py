"""Preregistration: what a behavior release is to show, written down before its checkpoint exists.

`releases/<id>/v<version>/preregistration.yaml`, a file for a person to write: the behaviour, the base model, the bounds
of the training, its data by digest, the suites and the least that they hold, the gates with their thresholds and tests,
the trial and what ends it early, and who decides. Once frozen it does not change; an amendment is another version.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from machine.errors import Refused
from machine.plain import values
from machine.release.stops import Stops

FILE = "preregistration.yaml"
ID = re.compile(r"[A-Z]{2,8}-[0-9]{3,6}")
"""What a release is called: `BR-001`."""
_FILE = re.compile(r"suites/[A-Za-z0-9_-][A-Za-z0-9._ -]*")

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
_Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,39}\Z")]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file; an unknown entry is a fault, not a wish."""


class Bounds(_Strict, frozen=True, kw_only=True):
    """What a run may be: [least, most] of rows, steps, rank and peak learning rate; at most so many tokens and USD."""

    rows: tuple[_Positive, _Positive]
    steps: tuple[_Positive, _Positive]
    rank: tuple[_Positive, _Positive]
    learning_rate: tuple[Annotated[float, msgspec.Meta(gt=0, le=1)], Annotated[float, msgspec.Meta(gt=0, le=1)]]
    tokens: _Positive
    cost: Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Data(_Strict, frozen=True, kw_only=True):
    """The rows that are trained on: how many, and their digest (see `seal.rows_digest`)."""

    rows: _Positive
    sha256: _Digest


class Sampling(_Strict, frozen=True, kw_only=True):
    """How suites of cases are asked; temperature 0 is greedy."""

    max_tokens: _Positive = 128
    temperature: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.0
    samples: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0


class Cases(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="cases"):
    """Questions with scorers (see `evals.case`), at least `least` of them, in a file of `suites/` beside this one.

    Without a `file` they are external: a file that is given when the gates are run, and was never in the store before.
    Its cases may not repeat what was trained on, nor be nearer to it than `near` (Jaccard similarity of word triples).
    """

    file: _Text | None = None
    least: _Positive
    near: _Share = 0.5


class Repair(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="repair"):
    """Small repositories that the real Pi has to mend (see `agentic`), in a sandbox, `seconds` for each at most.

    With a `file` their seeds are frozen; without one they are drawn when the gates are run.
    """

    file: _Text | None = None
    least: _Positive
    seconds: Annotated[float, msgspec.Meta(ge=5, le=3600)] = 300.0


Suite = Cases | Repair


class Improvement(_Strict, frozen=True, kw_only=True, tag_field="test", tag="improvement"):
    """The candidate is better than the base on `suite`: one-sided paired test at `alpha`, gain of at least `gain`."""

    suite: _Text
    alpha: Annotated[float, msgspec.Meta(gt=0, le=0.2)] = 0.05
    gain: _Part = 0.0


class NonInferiority(_Strict, frozen=True, kw_only=True, tag_field="test", tag="non-inferiority"):
    """The candidate is not worse than the base on `suite` by more than `margin`, shown with `confidence`.

    Shown means: the lower bound of the difference in the share of cases passed lies above -margin (Tango's score).
    """

    suite: _Text
    margin: _Share
    confidence: Annotated[float, msgspec.Meta(ge=0.8, le=0.999)] = 0.95


class Control(_Strict, frozen=True, kw_only=True, tag_field="test", tag="control"):
    """The candidate is not worse than the untrained base that is asked for the behaviour in its system prompt."""

    suite: _Text
    instruction: _Text
    margin: _Share
    confidence: Annotated[float, msgspec.Meta(ge=0.8, le=0.999)] = 0.95


class Kept(_Strict, frozen=True, kw_only=True, tag_field="test", tag="retention"):
    """What the base does of everything else is kept (see `evals.retention`).

    The NLL of unseen texts rises by at most `rise` nats a token (upper end of the 95 % interval), and the answers to
    unrelated questions are not shown to be worse.
    """

    rise: Annotated[float, msgspec.Meta(gt=0, le=2)] = 0.1


class Drift(_Strict, frozen=True, kw_only=True, tag_field="test", tag="drift"):
    """Answers to `suite` are at most `length` times as long as the base's, and take at most `latency` times as long."""

    suite: _Text
    length: Annotated[float, msgspec.Meta(gt=0, le=100)] = 2.0
    latency: Annotated[float, msgspec.Meta(gt=0, le=100)] = 1.5


class Sanity(_Strict, frozen=True, kw_only=True, tag_field="test", tag="sanity"):
    """Over all suites of cases: refusals, empty answers and answers that never end are no more than the base's.

    Each of the three may be more frequent than the base's by at most `more` of all answers; an answer that writes a
    control token of the chat format is one too many.
    """

    more: _Part = 0.05


Gate = Improvement | NonInferiority | Control | Kept | Drift | Sanity


class Trial(_Strict, frozen=True, kw_only=True):
    """Real use before activation: so many `turns` of the candidate, out of a `share` of the user's turns or sessions.

    0 turns: no trial.
    """

    turns: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 20
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.2
    unit: Literal["turn", "session"] = "turn"
    stops: Stops = Stops()


class Preregistration(_Strict, frozen=True, kw_only=True):
    """The whole of it. `decides` names those who may activate; empty: whoever works in the project."""

    id: Annotated[str, msgspec.Meta(pattern=rf"^{ID.pattern}\Z")]
    title: _Text
    behaviour: _Text
    model: _Text
    training: Bounds
    data: Data
    sampling: Sampling = Sampling()
    suites: dict[_Name, Suite]
    gates: dict[_Name, Gate]
    trial: Trial = Trial()
    decides: tuple[_Text, ...] = ()

    @property
    def external(self) -> list[str]:
        """The suites that are given from outside when the gates are run."""
        return [name for name, suite in self.suites.items() if isinstance(suite, Cases) and suite.file is None]

    def unwritten(self) -> list[str]:
        """The entries that are still a template's `<words>` about what belongs there."""
        texts = {"title": self.title, "behaviour": self.behaviour}
        texts |= {f"gates.{n}.instruction": g.instruction for n, g in self.gates.items() if isinstance(g, Control)}
        return [entry for entry, text in texts.items() if text.strip().startswith("<") and text.strip().endswith(">")]

    def files(self) -> dict[str, str]:
        """The file of each suite that has one, relative to the preregistration."""
        return {name: suite.file for name, suite in self.suites.items() if suite.file is not None}


def read_preregistration(path: Path) -> Preregistration:
    """The preregistration in a YAML file.

    Raises:
        Refused: it is not there, is not YAML, has a wrong, missing or unknown entry, or contradicts itself (the message
            names the entry).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}", next_step="machine release new") from error
    plain = values(path, data, f"mend {path}")
    try:
        found = msgspec.convert(plain, Preregistration, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"{path}: {_wrong(plain, error)}", next_step=f"mend {path}") from error
    if fault := _fault(found):
        raise Refused(f"{path}: {fault}", next_step=f"mend {path}")
    return found


def _wrong(plain: Any, error: msgspec.ValidationError) -> str:
    """What is wrong with the plain values, and at which entry: msgspec does not say which of several by a name."""
    for section, kind in (("suites", Suite), ("gates", Gate)):
        each = plain.get(section) if isinstance(plain, dict) and f"`$.{section}" in str(error) else None
        for name, value in each.items() if isinstance(each, dict) else ():
            try:
                msgspec.convert({name: value}, dict[_Name, kind], strict=False)  # type: ignore[valid-type]
            except msgspec.ValidationError as found:
                return _words(found, f"{section}.{name}")
    return _words(error, "")


def _words(error: msgspec.ValidationError, entry: str) -> str:
    what, _, where = str(error).partition(" - at ")
    if where.startswith("`key`"):
        return f"{entry}: the name is not fit: {what}"
    path = where.strip("`").removeprefix("$")
    entry = (entry + (path.removeprefix("[...]") if entry else path)).strip(".")
    return f"{entry}: {what}" if entry else what


def _fault(found: Preregistration) -> str:
    """What contradicts itself, in words."""
    return next(iter((*_bad_bounds(found), *_bad_suites(found), *_bad_gates(found))), "")


def _bad_bounds(found: Preregistration) -> Iterator[str]:
    for name in ("rows", "steps", "rank", "learning_rate"):
        least, most = getattr(found.training, name)
        if least > most:
            yield f"training.{name}: the least, {least:.12g}, is more than the most, {most:.12g}"
    least, most = found.training.rows
    if not least <= found.data.rows <= most:
        yield f"training.rows: the {found.data.rows} rows of data.rows are not within {least} to {most}"


def _bad_suites(found: Preregistration) -> Iterator[str]:
    for name, file in found.files().items():
        if not _FILE.fullmatch(file):
            yield f"suites.{name}.file: {file!r} does not lie beside the preregistration as suites/NAME.jsonl"


def _bad_gates(found: Preregistration) -> Iterator[str]:
    cases = [name for name, suite in found.suites.items() if isinstance(suite, Cases)]
    for name, gate in found.gates.items():
        suite = getattr(gate, "suite", None)
        if suite is not None and suite not in found.suites:
            yield f"gates.{name}.suite: there is no suite called {suite!r} (there are {', '.join(found.suites)})"
        elif isinstance(gate, Drift) and suite not in cases:
            yield f"gates.{name}.suite: latency and length are measured on cases, {suite!r} are repositories"
        elif isinstance(gate, Sanity) and not cases:
            yield f"gates.{name}: it looks at the answers to suites of cases, and there is none"
    if not any(isinstance(gate, Improvement) for gate in found.gates.values()):
        yield "gates: none tests an improvement, so nothing would have to get better"
