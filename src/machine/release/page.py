"""Page: all of a release for a person to look at: `releases/<id>/report.html`.

Where it stands, what was written down before, each gate with what it came to, what base, candidate and control answered
side by side, the trial, and its history. A record that is missing or damaged is said on it. It is bounded: long texts
are cut, cases that there is no room for are left out, and how many is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from machine.errors import MachineError
from machine.evals.page import FOLD
from machine.evals.record import Retention, read_record
from machine.evals.retention import built_in_cases
from machine.page import page
from machine.release import tried, words
from machine.release.gates.wording import percent
from machine.release.log import Entry
from machine.release.plot import Plot, plots
from machine.release.preregistration import Cases, Control, Preregistration, Repair
from machine.release.repairs import of_repairs
from machine.release.sides import GROUPS, Room, Shown, Sides, fill_cases, of_cases
from machine.release.standing import Stage, Standing
from machine.release.summary import Summary
from machine.release.words import GateLine
from machine.store.files import write_private
from machine.store.project import Project

FILE = "report.html"
ROOM = 3_500_000
"""Bytes that all answers may take on the page together."""
_CLIPPED = 2_000
"""Characters of a reason, a warning, a word of a gate."""
_ENDS: tuple[Stage, ...] = ("superseded", "rolled back", "rejected")
_ARMS = {"base": "base", "candidate": "candidate", "control": "control (prompted base)"}
_DAMAGED = (MachineError, msgspec.MsgspecError, OSError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a record may raise, whoever has written it."""


@dataclass(frozen=True)
class Step:
    """A stage of the chain: `state` is `done`, `now`, `ahead`, `skipped` or `end`; `remark` is when, or why not."""

    stage: str
    state: str
    remark: str
    now: bool = False


@dataclass(frozen=True)
class GateView:
    """A gate as it is drawn; `texts` are what it can be opened for."""

    line: GateLine
    test: str
    words: Sequence[str]
    plots: Sequence[Plot]
    texts: Sequence[tuple[str, Shown]]


@dataclass(frozen=True)
class Written:
    """The preregistration as tables."""

    behaviour: str
    rows: Sequence[tuple[str, str]]
    bounds: Sequence[tuple[str, str, str]]
    suites: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TrialView:
    """The trial as tables: (label, words), and its arms with a line of heads."""

    rows: Sequence[tuple[str, str]]
    arms: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Happened:
    """An entry of the log as it is shown; `loud` where it has to be seen."""

    number: int
    when: str
    step: str
    told: str
    by: str
    digest: str
    loud: bool


def write_report(project: Project, summary: Summary) -> Path:
    """Writes the page of a release anew and returns where it is.

    Raises:
        StoreError: it cannot be written.
        MissingDependency: jinja2 is not installed.
    """
    path = project.releases / summary.standing.release / FILE
    write_private(path, html(summary).encode())
    return path


def html(summary: Summary) -> str:
    """The page of a release as text."""
    standing, found = summary.standing, summary.preregistration
    lines = words.gate_lines(summary)
    room, text = Room(ROOM), Room(ROOM // 8)
    sides = list(_sides(summary, room))
    return page(
        "release.html.j2",
        title=words.title(summary),
        meaning=_clip(_sentence(words.meaning(standing))),
        since=words.utc(standing.since),
        next_step=words.next_step(summary),
        warnings=[_clip(each) for each in words.warnings(summary)],
        chain=chain(standing),
        figures=_figures(summary, lines),
        written=_written(found, summary) if found else None,
        file=text.take(_file(summary)),
        counted=words.counted(lines),
        gate_notes=_gate_notes(summary),
        gates=[_gate(line, found, text) for line in lines],
        sides=sides,
        groups=GROUPS,
        arms=_ARMS,
        trial=_trial(summary),
        history=[_happened(entry) for entry in standing.entries],
        cut=_cut(room),
        fold=FOLD,
    )


def chain(standing: Standing) -> list[Step]:
    """The stages in order: those on the way to where it stands, where it stands, and what would come next."""
    at, ended = words.reached(standing), standing.stage in _ENDS
    here = len(words.CHAIN) if ended else words.CHAIN.index(standing.stage)
    steps = []
    for index, stage in enumerate(words.CHAIN):
        when = words.utc(at.get(stage, ""))
        if index == here:
            steps.append(Step(stage, "now", when, now=True))
        elif stage in at and index < here:
            steps.append(Step(stage, "done", when))
        elif index < here and not ended:
            steps.append(Step(stage, "skipped", "skipped"))
        elif not ended:
            steps.append(Step(stage, "ahead", ""))
    if ended:
        steps.append(Step(standing.stage, "end", words.utc(standing.since), now=True))
    return steps


def _figures(summary: Summary, lines: Sequence[GateLine]) -> Iterator[tuple[str, str, str]]:
    """(label, value, remark) of what one looks for first."""
    candidate, found, tally = summary.standing.candidate, summary.preregistration, summary.tally
    if lines:
        passed, failed = (sum(line.verdict == verdict for line in lines) for verdict in ("passed", "FAILED"))
        remark = "not run yet" if not passed + failed else f"{failed} failed" if failed else "none failed"
        yield "Gates passed", f"{passed} of {len(lines)}", remark
    for line in lines:
        numbers = line.result.numbers if line.result else {}
        if line.result and line.result.test == "improvement" and {"base_passed", "candidate_passed"} <= numbers.keys():
            value = f"{numbers['base_passed']:g} → {numbers['candidate_passed']:g}"
            yield line.name, value, f"of {numbers.get('cases', 0):g} passed, base → candidate"
    if candidate:
        yield "Trained on", f"{candidate.rows:,} rows", f"{candidate.steps:,} steps, {candidate.tokens:,} tokens"
        yield "Cost", "not known" if candidate.cost is None else f"${candidate.cost:.2f}", "of the training"
    if tally and found:
        bad = "" if tally.candidate.rate is None else f", {percent(tally.candidate.rate)} of them bad"
        yield "Trial", f"{tally.candidate.turns} of {found.trial.turns}", f"turns{bad}"
    other = f"{summary.active.release} v{summary.active.version}" if summary.active else "base model"
    yield "Student", "this release" if summary.is_active else other, words.student(summary)


def _written(found: Preregistration, summary: Summary) -> Written:
    how = found.sampling
    several = f", {how.samples} answers a case" if how.samples > 1 else ""
    sampling = f"temperature {how.temperature:g}, at most {how.max_tokens:,} tokens, seed {how.seed}{several}"
    seal, candidate = summary.standing.seal, summary.standing.candidate
    rows = [
        ("Base model", found.model),
        ("Candidate", f"run {candidate.run}, {candidate.weights}" if candidate else "none yet"),
        ("Data", f"{found.data.rows:,} rows, SHA-256 {found.data.sha256}"),
        ("Who decides", words.decides(found)),
        ("Trial", tried.length(found.trial, None).removesuffix(tried.NOT_BEGUN)),
        ("It stops early at", "; ".join(tried.stops(found.trial, None)) or "nothing"),
        ("Frozen", f"{words.utc(summary.standing.frozen)}, SHA-256 {seal.preregistration}" if seal else "not yet"),
    ]
    suites = [(name, words.suite_words(suite)) for name, suite in found.suites.items()]
    if any(isinstance(suite, Cases) for suite in found.suites.values()):
        suites.append(("Cases are asked with", sampling))
    return Written(
        _clip(found.behaviour.strip(), 20_000),
        [(name, _clip(value)) for name, value in rows],
        words.bounds(found, candidate),
        [(name, _clip(value)) for name, value in suites],
    )


def _file(summary: Summary) -> str:
    try:
        return summary.place.file.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _gate_notes(summary: Summary) -> Iterator[str]:
    """How and when the gates were run."""
    gates = summary.gates
    if gates is None:
        return
    box = f", repositories in {gates.box}" if gates.box else ""
    yield f"Run {words.utc(gates.at)} on {_clip(gates.run)}, in {gates.seconds:.0f} s{box}."
    if not gates.asked:
        yield "Nothing was asked, since something frozen had changed."
    for name, given in gates.given.items():
        yield _clip(f"{name} is from outside: {given}")


def _gate(line: GateLine, found: Preregistration | None, room: Room) -> GateView:
    gate, result = found.gates.get(line.name) if found else None, line.result
    texts = []
    if isinstance(gate, Control):
        texts.append(("what the control was told", room.take(gate.instruction)))
    if result:
        numbers = [f"{name} {value:g}" for name, value in result.numbers.items()]
        texts += [("its numbers", room.take("\n".join(numbers)))] if numbers else []
        texts += [("the files with every answer", room.take("\n".join(result.samples)))] if result.samples else []
    test = result.test if result else ""
    return GateView(line, "" if test == line.name else test, [_clip(word) for word in line.words], plots(result), texts)


def _sides(summary: Summary, room: Room) -> Iterator[Sides]:
    """What was answered to each suite; nothing where the gates were not run."""
    candidate, place = summary.standing.candidate, summary.place
    if candidate is None or (summary.standing.verdicts is None and summary.standing.gating is None):
        return
    if summary.gates is not None and not summary.gates.asked:
        return
    gates = place.gates(candidate.run)
    suites = summary.preregistration.suites if summary.preregistration else {}
    left = len(suites) + 1
    for name, suite in suites.items():
        with room.part(left) as part:
            found = Sides(name)
            try:
                if isinstance(suite, Repair):
                    found = of_repairs(name, gates, part)
                else:
                    files = [gates / f"{name}.jsonl"] + ([place.folder / suite.file] if suite.file else [])
                    found = of_cases(name, gates, files, part)
            except _DAMAGED as error:
                found.faults.append(f"What was answered cannot be shown: {_clip(str(error))}")
            yield found
        left -= 1
    with room.part(1) as part:
        yield from _kept(summary, gates, part)


def _kept(summary: Summary, gates: Path, room: Room) -> Iterator[Sides]:
    """What retention asked, where a gate did."""
    files = [each.samples for each in summary.gates.results if each.test == "retention"] if summary.gates else []
    if not files:
        return
    found = Sides("retention (everything else)")
    arms: dict[str, Retention] = {}
    for arm in ("base", "candidate"):
        name = next((name for each in files for name in each if name.endswith(f"-{arm}.json")), f"retention-{arm}.json")
        try:
            arms[arm] = _retention(gates, name)
        except _DAMAGED as error:
            found.faults.append(f"What the {arm} kept cannot be shown: {_clip(str(error))}")
    try:
        found.facts = [(arm, _retained(each)) for arm, each in arms.items()]
        cases = {case.id: case for case in built_in_cases()}
        fill_cases(found, {arm: each.samples for arm, each in arms.items()}, cases, {}, room)
    except _DAMAGED as error:
        found.faults.append(f"What was kept cannot be shown: {_clip(str(error))}")
    yield found


def _retained(found: Retention) -> str:
    """What an arm kept, in words; how the two differ is the gate's to say."""
    passed = sum(sample.passed for sample in found.samples)
    said = f"{passed} of {words.plural(len(found.samples), 'answer')} pass"
    if not found.nll:
        return said
    return f"{said}; NLL {fmean(found.nll.values()):.3f} nats a token over {words.plural(len(found.nll), 'text')}"


def _retention(gates: Path, name: str) -> Retention:
    """What retention measured of one arm: in the record of a suite, or in a file of its own.

    Raises:
        MachineError, OSError, ValueError: it cannot be read, or holds none.
    """
    if Path(name).name != name:
        raise ValueError(f"{name} is not the name of a file")
    if name == f"retention-{name.removesuffix('.json').rpartition('-')[2]}.json":
        return msgspec.json.decode((gates / name).read_bytes(), type=Retention)
    record = read_record(gates, name.removesuffix(".json"))
    if record.retention is None:
        raise ValueError(f"{name} has no answers of it")
    return record.retention


def _trial(summary: Summary) -> TrialView | None:
    tally, found = summary.tally, summary.preregistration
    if tally is None:
        return None
    rows = []
    if found:
        rows.append(("Length", tried.length(found.trial, tally)))
        rows.append(("It stops early at", "; ".join(tried.stops(found.trial, tally)) or "nothing"))
    rows.append(("Difference", tried.compared(tally)))
    if note := tried.explained(tally):
        rows.append(("Bad turns", note))
    return TrialView(rows, tried.arms(tally))


def _happened(entry: Entry) -> Happened:
    told = _clip(words.told(entry))
    return Happened(
        entry.number,
        words.utc(entry.at),
        f"{entry.step} v{entry.version}" if entry.step in ("drafted", "amended") else entry.step,
        told,
        _clip(entry.by),
        entry.digest[:12],
        told.startswith("FORCED") or told.startswith("FAILED"),
    )


def _cut(room: Room) -> str:
    """How much is not on the page, in words; empty where all is."""
    found = []
    if room.cut:
        found.append(f"{words.plural(room.cut, 'text')} cut short")
    if room.skipped:
        found.append(f"{words.plural(room.skipped, 'case')} left out")
    return f"To keep this page small: {' and '.join(found)}. The files have all of it." if found else ""


def _clip(text: str, most: int = _CLIPPED) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
