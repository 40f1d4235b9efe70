"""Standing: where each release stands, as the log says, what may come next, and which release the student is.

    draft ─► frozen ─► candidate ─► gated ─► trial ─► eligible ─► active ─► superseded
      ▲         ▲          │                   │                    │
      └ amend   └──────────┴──── rejected ◄────┘                    └─► rolled back

A version's stage is a fold over its entries; nothing else says it. The active release is the last one that was
activated and not rolled back; the ones before it are kept, in order, for a rollback to go back to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from machine.errors import Refused
from machine.release.candidate import Candidate
from machine.release.log import Entry
from machine.release.seal import Seal
from machine.tinker.served import Served

Stage = Literal[
    "draft", "frozen", "candidate", "gated", "trial", "eligible", "active", "superseded", "rolled back", "rejected"
]

_MAY: dict[str, frozenset[str]] = {
    "freeze": frozenset({"draft"}),
    "amend": frozenset({"frozen", "candidate", "gated", "eligible", "rejected", "rolled back", "superseded", "active"}),
    "candidate": frozenset({"frozen", "rejected", "candidate"}),
    "gate": frozenset({"candidate"}),
    "trial": frozenset({"gated"}),
    "reject": frozenset({"frozen", "candidate", "gated", "trial", "eligible"}),
    "activate": frozenset({"eligible"}),
}


_DOING: dict[str, str] = {
    "freeze": "be frozen",
    "amend": "be amended",
    "candidate": "get a candidate",
    "gate": "go through its gates",
    "trial": "go into trial",
    "reject": "be rejected",
    "activate": "be activated",
}
_STANDS: dict[Stage, str] = {
    "draft": "is a draft that is not frozen yet",
    "frozen": "is frozen, and has no candidate yet",
    "candidate": "has a candidate that has not passed its gates yet",
    "gated": "has passed its gates, and was not in trial yet",
    "trial": "is in trial",
    "eligible": "has earned its place, and is not active yet",
    "active": "is active already",
    "superseded": "was superseded",
    "rolled back": "was rolled back",
    "rejected": "was rejected",
}


class Verdicts(msgspec.Struct, frozen=True):
    """What the log keeps of a gate run: whether it passed, and the SHA-256 (hex) of its `result.json`."""

    passed: bool
    sha256: str
    gates: dict[str, bool] = {}


class Activation(msgspec.Struct, frozen=True):
    """A release that the alias stood on: what serves it in Pi, and the reason where it was forced.

    `before` is what was the student before, None where nothing was.
    """

    release: str
    version: int
    model: str
    weights: str
    forced: str = ""
    before: Served | None = None

    @property
    def served(self) -> Served:
        """The student that it makes."""
        return Served(self.model, self.weights, self.release)


@dataclass(frozen=True)
class Standing:
    """One release, in its newest version.

    `since` is when it came to its stage (UTC). `frozen` and `seal` are of this version, `candidate` and `verdicts` of
    its latest candidate. `failed` counts the candidates of this version that failed its gates. `forced` is the reason
    why it was ever activated against the rules, in whichever version: it stays.
    """

    release: str
    version: int = 1
    stage: Stage = "draft"
    since: str = ""
    why: str = ""
    frozen: str = ""
    seal: Seal | None = None
    candidate: Candidate | None = None
    gating: dict[str, Any] | None = None
    verdicts: Verdicts | None = None
    failed: int = 0
    forced: str = ""
    entries: tuple[Entry, ...] = ()

    def refuse_unless(self, doing: str) -> None:
        """Refuses what does not follow from where the release stands.

        Raises:
            Refused: saying where it stands, and what comes next.
        """
        if self.stage in _MAY[doing]:
            return
        step = self.next_step
        if doing == "freeze":
            what = f"{self.release} v{self.version} is frozen already, and does not change any more"
            step = step if self.stage == "frozen" else f"{step}; or, to change it, {_AMEND.format(self.release)}"
        else:
            why = f" ({self.why})" if self.why else ""
            what = f"{self.release} v{self.version} {_STANDS[self.stage]}{why}, so it cannot {_DOING[doing]}"
        if doing == "amend":  # a draft is edited as it is, a trial has to end first
            edit = f"edit its preregistration.yaml as it is, then {step}"
            step = edit if self.stage == "draft" else f"{_REJECT.format(self.release)}, then amend it"
        raise Refused(what, next_step=step)

    @property
    def next_step(self) -> str:
        """What to type next."""
        match self.stage:
            case "draft":
                return f"machine release freeze {self.release}"
            case "frozen":
                return f"machine train run --yes, then machine release candidate {self.release}"
            case "candidate":
                return f"machine release gate {self.release}"
            case "gated":
                return f"machine release trial {self.release}"
            case "trial":
                return "machine student"
            case "eligible":
                return f"machine release activate {self.release}"
            case "active":
                return "machine release rollback, should it disappoint"
            case _:
                return _AMEND.format(self.release)


_AMEND = 'machine release amend {} --reason "..."'
_REJECT = 'machine release reject {} --reason "..."'


@dataclass
class Ledger:
    """Every release of a project, by its id, and the alias: `active` ends with the release that the student is.

    `unread` are the entries that say nothing to this Machine, in words: they count for nothing.
    """

    releases: dict[str, Standing] = field(default_factory=dict)
    active: list[Activation] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def now(self) -> Activation | None:
        """The active release."""
        return self.active[-1] if self.active else None

    def of(self, release: str | None) -> Standing:
        """The standing of a release; without an id, that of the only one.

        Raises:
            Refused: there is none, or several.
        """
        if release is None and len(self.releases) == 1:
            return next(iter(self.releases.values()))
        if release is not None and release in self.releases:
            return self.releases[release]
        known = ", ".join(self.releases)
        if release is None:
            raise Refused(
                f"this project has several releases: {known}" if known else "this project has no release yet",
                next_step="name one of them" if known else "machine release new BR-001",
            )
        raise Refused(
            f"there is no release {release}" + (f" (there are {known})" if known else ""),
            next_step=f"machine release new {release}",
        )


def ledger(entries: Sequence[Entry]) -> Ledger:
    """What the log comes to."""
    found = Ledger()
    for entry in entries:
        if entry.step == "restarted" or (entry.step == "rolled back" and entry.release not in found.releases):
            continue  # of a release of a log that was set aside
        try:
            _take(found, entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            found.unread.append(f"entry {entry.number} of the log ({entry.step}) cannot be read: {error!r}")
    return found


def _take(found: Ledger, entry: Entry) -> None:
    before = found.releases.get(entry.release, Standing(entry.release))
    if entry.step == "rolled back":
        _roll_back(found, entry)
        return
    standing = replace(before, version=entry.version, since=entry.at, entries=(*before.entries, entry))
    data = entry.data
    match entry.step:
        case "drafted":
            standing = replace(standing, stage="draft", why="")
        case "amended":
            standing = Standing(
                entry.release, entry.version, "draft", entry.at, data["reason"],
                forced=before.forced, entries=standing.entries,
            )  # fmt: skip
        case "frozen":
            standing = replace(
                standing, stage="frozen", why="", frozen=entry.at, seal=msgspec.convert(data["seal"], Seal)
            )
        case "candidate":
            candidate = msgspec.convert(data["candidate"], Candidate)
            gating = _given(standing, candidate.run)
            standing = replace(standing, stage="candidate", why="", candidate=candidate, gating=gating, verdicts=None)
        case "gating":
            standing = replace(standing, gating={**data, "given": dict(data["given"])})
        case "gated":
            verdicts = msgspec.convert(data, Verdicts)
            failed = standing.failed + (not verdicts.passed)
            stage: Stage = "gated" if verdicts.passed else "rejected"
            why = "" if verdicts.passed else f"failed {', '.join(n for n, ok in verdicts.gates.items() if not ok)}"
            standing = replace(standing, stage=stage, why=why, verdicts=verdicts, failed=failed)
        case "trial":
            standing = replace(standing, stage="trial", why="")
        case "trial ended":
            standing = replace(standing, stage="rejected", why=data["why"])
        case "eligible":
            standing = replace(standing, stage="eligible", why=data.get("why", ""))
        case "rejected":
            standing = replace(standing, stage="rejected", why=data["reason"])
        case "activated":
            standing = _activated(found, standing, msgspec.convert(data, Activation), entry.at)
    found.releases[entry.release] = standing


def _given(standing: Standing, run: str) -> dict[str, Any] | None:
    """What was given to the gates of a run before, in this version: it is not taken or drawn again."""
    for entry in reversed(standing.entries):
        if entry.step == "gating" and entry.version == standing.version and entry.data.get("run") == run:
            return entry.data
    return None


def _activated(found: Ledger, standing: Standing, activation: Activation, at: str) -> Standing:
    if found.now and found.now.release != standing.release:
        _move(found, found.now, "superseded", at, f"by {standing.release}")
    found.active.append(activation)
    return replace(standing, stage="active", why="", forced=activation.forced or standing.forced)


def _roll_back(found: Ledger, entry: Entry) -> None:
    """The alias goes back to the one before; that release is active again."""
    standing = found.releases[entry.release]
    standing = replace(standing, entries=(*standing.entries, entry))
    if entry.version == standing.version:
        standing = replace(standing, stage="rolled back", since=entry.at, why=entry.data.get("reason", ""))
    found.releases[entry.release] = standing
    if found.now and (found.now.release, found.now.version) == (entry.release, entry.version):
        found.active.pop()
        if found.now and found.now.release != entry.release:
            _move(found, found.now, "active", entry.at, f"after {entry.release} was rolled back")


def _move(found: Ledger, activation: Activation, stage: Stage, at: str, why: str) -> None:
    """Moves a release that the alias came to or left, unless a newer version of it is what stands."""
    other = found.releases.get(activation.release)
    if other and other.version == activation.version:
        found.releases[other.release] = replace(other, stage=stage, since=at, why=why)
