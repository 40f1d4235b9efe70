"""Played: the groups of scenarios, and what came of each when it was played."""

import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import adapters
import agents
import clocks
import disks
import trainings
import unread
from ground import Ground, Shared
from survived import Scenario, Survived, of


@dataclass(frozen=True)
class Group:
    """The scenarios of a module; where they `share` a ground, one follows the other on it."""

    module: ModuleType
    shares: bool

    @property
    def name(self) -> str:
        """The module's name."""
        return self.module.__name__

    @property
    def scenarios(self) -> list[Scenario]:
        """In their order."""
        return of(self.module)


GROUPS = [
    Group(module, getattr(module, "SHARED", False)) for module in (agents, trainings, adapters, disks, unread, clocks)
]


@dataclass(frozen=True)
class Played:
    """A scenario, what it found (None where it failed: `raised` says how), and how long it took."""

    scenario: Scenario
    survived: Survived | None
    raised: str
    seconds: float

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return self.survived is not None and not self.survived.faults


def play(group: Group, scenarios: Sequence[Scenario]) -> Iterator[Played]:
    """Plays them one after another."""
    with Shared() as shared:
        while scenarios:
            with Ground(Path(tempfile.mkdtemp(dir=shared.base)), shared) as ground:
                several, scenarios = (scenarios, []) if group.shares else (scenarios[:1], scenarios[1:])
                for each in several:
                    yield _one(each, ground)


def _one(scenario: Scenario, ground: Ground) -> Played:
    began = time.monotonic()
    try:
        survived, raised = scenario.play(ground), ""
    except Exception as error:  # the table goes on with the next one
        survived, raised = None, "".join(traceback.format_exception_only(error)).strip()[-300:]
    return Played(scenario, survived, raised, time.monotonic() - began)
