"""Words: what is said of a release wherever it is shown, in the terminal, in Pi and on its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from machine.release.candidate import Candidate
from machine.release.gates.result import Result
from machine.release.gates.wording import percent
from machine.release.log import Entry
from machine.release.preregistration import (
    Cases,
    Control,
    Drift,
    Gate,
    Improvement,
    Kept,
    NonInferiority,
    Preregistration,
    Sanity,
    Suite,
)
from machine.release.standing import Stage, Standing
from machine.release.summary import Summary

Verdict = Literal["passed", "FAILED", "not run"]

CHAIN: tuple[Stage, ...] = ("draft", "frozen", "candidate", "gated", "trial", "eligible", "active")
"""The way of a release that goes well; every other stage is an end of it."""
_REACHED: dict[str, Stage] = {
    "drafted": "draft", "amended": "draft", "frozen": "frozen", "candidate": "candidate", "trial": "trial",
    "eligible": "eligible", "activated": "active",
}  # fmt: skip
_MEANS: dict[Stage, str] = {
    "draft": "still being written; nothing is frozen yet",
    "frozen": "what counts is written down; no run is its candidate yet",
    "candidate": "its run kept to the bounds; the gates were not run yet",
    "gated": "it passed every gate; the trial in real use comes next",
    "trial": "it answers a part of the real turns, and what comes of them is counted",
    "eligible": "it did what was written down, and may be activated",
    "active": "it is what machine/student answers with",
    "superseded": "another release took its place",
    "rolled back": "it was active, and was taken back",
    "rejected": "it will not be activated",
}
_LIMITS = ("WARNING", "cannot", "not rule", "possible", "may be up to", "is approximate", "no 95 % interval")
"""What the words of a gate have in them that say what its suite leaves open."""


@dataclass(frozen=True)
class GateLine:
    """One gate: what it came to, what it had to, and why. `result` is None where it was not run, or nobody knows."""

    name: str
    verdict: Verdict
    figure: str
    threshold: str
    words: tuple[str, ...] = ()
    result: Result | None = None

    @property
    def limits(self) -> tuple[str, ...]:
        """What a reader has to know even where it passed."""
        return tuple(word for word in self.words if any(part in word for part in _LIMITS) and "no drop" not in word)


def title(summary: Summary) -> str:
    """The headline: `BR-001 v1 Reliable file repair: gated`."""
    standing, found = summary.standing, summary.preregistration
    named = f" {found.title}" if found else ""
    return f"{standing.release} v{standing.version}{named}: {standing.stage}" + (", FORCED" if standing.forced else "")


def meaning(standing: Standing) -> str:
    """What the stage means, and why the release came to it where the log says so."""
    means = _MEANS[standing.stage]
    if standing.stage == "candidate" and standing.gating is not None:
        means = "its gates were begun and have not come to an end"
    return f"{means} ({standing.why})" if standing.why else means


def warnings(summary: Summary) -> list[str]:
    """What must not be overlooked, the worst first."""
    standing = summary.standing
    found = [f"THE LOG IS BROKEN: {each}. What stands here may not be what happened." for each in summary.broken]
    found += _forced(standing)
    lead = "CHANGED SINCE IT WAS FROZEN" if standing.seal else "CANNOT BE READ"
    found += [f"{lead}: {each}" for each in summary.changed]
    if before := failed_before(standing):
        many = "1 candidate" if before == 1 else f"{before} candidates"
        found.append(
            f"{many} of this version failed these gates before: no p-value here counts those tries, and with each one "
            "luck gets likelier."
        )
    return found


def _forced(standing: Standing) -> list[str]:
    """Every time that it was activated against the rules, whichever version that was; it is never forgotten."""
    found = [
        f"FORCED: v{entry.version} was activated against the rules on {utc(entry.at)} by {entry.by}, who gave this "
        f"reason: {entry.data['forced']}"
        for entry in standing.entries
        if entry.step == "activated" and entry.data.get("forced")
    ]
    if standing.forced and not found:
        found.append(f"FORCED: it was activated against the rules, and the reason given was: {standing.forced}")
    return found


def failed_before(standing: Standing) -> int:
    """How many candidates of this version failed its gates before the one that is told of."""
    return standing.failed - (standing.verdicts is not None and not standing.verdicts.passed)


def gate_lines(summary: Summary) -> list[GateLine]:
    """Every gate that was preregistered, in that order, after what was found wrong besides.

    A gate whose record cannot be read has the verdict that the log kept of it.
    """
    found, standing = summary.preregistration, summary.standing
    results = {each.gate: each for each in summary.gates.results} if summary.gates else {}
    logged = standing.verdicts.gates if standing.verdicts else {}
    gates: dict[str, Gate] = dict(found.gates) if found else {}
    names = [name for name in {**results, **logged} if name not in gates] + list(gates)
    return [_gate_line(name, gates.get(name), results.get(name), logged.get(name)) for name in names]


def _gate_line(name: str, gate: Gate | None, result: Result | None, logged: bool | None) -> GateLine:
    threshold = threshold_of(gate) if gate else ""
    if result:
        verdict: Verdict = "passed" if result.passed else "FAILED"
        return GateLine(name, verdict, result.figure, result.threshold or threshold, result.words, result)
    if logged is not None:
        return GateLine(name, "passed" if logged else "FAILED", "its record cannot be read", threshold)
    return GateLine(name, "not run", "", threshold)


def threshold_of(gate: Gate) -> str:
    """What a gate asks for, in words."""
    match gate:
        case Improvement(suite=suite, alpha=alpha, gain=gain):
            more = f", by at least {percent(gain)}" if gain else ""
            return f"better than the base on {suite}{more} (paired, one-sided, p at most {alpha:g})"
        case Control(suite=suite, margin=margin, confidence=confidence):
            return (
                f"at most {percent(margin)} worse than the prompted base on {suite} ({percent(confidence)} confidence)"
            )
        case NonInferiority(suite=suite, margin=margin, confidence=confidence):
            return f"at most {percent(margin)} worse than the base on {suite} ({percent(confidence)} confidence)"
        case Kept(rise=rise):
            return f"unseen texts at most {rise:+g} nats a token, other answers not shown to be worse"
        case Drift(suite=suite, length=length, latency=latency):
            return f"at most {length:g} times as long and {latency:g} times as slow as the base on {suite}"
        case Sanity(more=more_often):
            return f"refusals, empty and endless answers at most {percent(more_often)} more often; no control token"


def suite_words(suite: Suite) -> str:
    """Where a suite comes from and how large it is."""
    what = "cases" if isinstance(suite, Cases) else "repositories to mend"
    if isinstance(suite, Cases):
        source = f"frozen in {suite.file}" if suite.file else "from outside, given when the gates are run"
        return f"at least {suite.least} {what}, {source}"
    source = f"frozen in {suite.file}" if suite.file else "drawn when the gates are run"
    return f"at least {suite.least} {what}, {source}, {suite.seconds:g} s each"


def bounds(found: Preregistration, candidate: Candidate | None) -> list[tuple[str, str, str]]:
    """(what, what the run did, what was preregistered) of the training; the second is empty without a candidate."""
    allowed = found.training
    between = [
        (name, getattr(candidate, name.replace(" ", "_"), None), getattr(allowed, name.replace(" ", "_")))
        for name in ("rows", "steps", "rank", "learning rate")
    ]
    rows = [(name, _number(value), f"{_number(least)} to {_number(most)}") for name, value, (least, most) in between]
    cost = "" if candidate is None else "not known" if candidate.cost is None else f"${candidate.cost:.2f}"
    tokens = _number(candidate.tokens if candidate else None)
    return [*rows, ("tokens", tokens, f"at most {allowed.tokens:,}"), ("cost", cost, f"at most ${allowed.cost:.2f}")]


def decides(found: Preregistration) -> str:
    """Who may activate it."""
    return ", ".join(found.decides) or "whoever works in this project"


def student(summary: Summary) -> str:
    """Whether this is what the user is answered with."""
    if summary.is_active:
        return "yes, machine/student is this release"
    if summary.active is None:
        return "no release is active: machine/student is the default base model"
    other = summary.active
    return f"no, machine/student is {other.release} v{other.version}" + (" (FORCED)" if other.forced else "")


def next_step(summary: Summary) -> str:
    """What to type next; with a file for each suite that comes from outside."""
    if summary.broken:
        return "machine release verify"
    step, found = summary.standing.next_step, summary.preregistration
    if summary.standing.stage == "candidate" and summary.standing.gating is None and found:
        step += "".join(f" --holdout {_word(name)}=FILE" for name in found.external)
    return step


def reached(standing: Standing) -> dict[Stage, str]:
    """When the way to where it stands came to each stage of the chain (UTC); a new start forgets what came after."""
    found: dict[Stage, str] = {}
    for entry in standing.entries:
        stage = _REACHED.get(entry.step)
        if entry.step == "gated" and entry.data.get("passed") is True:
            stage = "gated"
        if entry.version == standing.version and stage:
            found = {each: at for each, at in found.items() if CHAIN.index(each) < CHAIN.index(stage)}
            found[stage] = entry.at
    return found


def told(entry: Entry) -> str:
    """What an entry of the log says besides its step, on one line."""
    data = entry.data
    match entry.step:
        case "candidate":
            held = data.get("candidate")
            return f"run {held.get('run')}" if isinstance(held, dict) else ""
        case "gated":
            gates = data.get("gates")
            lost = [name for name, ok in gates.items() if not ok] if isinstance(gates, dict) else []
            return "passed" if data.get("passed") is True else "FAILED" + (f": {', '.join(lost)}" if lost else "")
        case "gating":
            given = data.get("given")
            with_files = f", from outside: {', '.join(given)}" if isinstance(given, dict) and given else ""
            return f"run {data.get('run')}{with_files}"
        case "activated":
            forced = data.get("forced")
            return f"FORCED: {forced}" if forced else ""
        case "restarted":
            return f"{data.get('reason', '')} (the old one is {data.get('set_aside', 'set aside')})"
        case _:
            return str(data.get("reason") or data.get("why") or data.get("run") or "")


def utc(time: str) -> str:
    """A time of the log to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC" if time else ""


def plural(number: int, one: str, many: str = "") -> str:
    """`1 case`, `2 cases`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def counted(lines: Sequence[GateLine]) -> str:
    """How many gates passed, in words."""
    passed = sum(line.verdict == "passed" for line in lines)
    if lines and all(line.verdict == "not run" for line in lines):
        return f"{len(lines)}, not run yet"
    return f"{passed} of {len(lines)} passed"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _word(name: str) -> str:
    """A suite's name as the shell takes it."""
    import shlex

    return shlex.quote(name)
