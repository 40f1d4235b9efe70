"""The scenarios as tests: those of a group that share a ground, and what all share, are set up once a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from ground import Ground, Shared
from survived import Scenario


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with Shared() as made:
        yield made


@pytest.fixture(scope="module")
def one_ground(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with Ground(tmp_path_factory.mktemp("ground"), shared) as made:
        yield made


@pytest.fixture
def ground(request: pytest.FixtureRequest, shared: Shared, tmp_path: Path) -> Iterator[Ground]:
    """The ground of a scenario: its own, unless its group shares one."""
    if getattr(request.module, "SHARED", False):
        yield request.getfixturevalue("one_ground")
        return
    with Ground(tmp_path, shared) as made:
        yield made


@pytest.fixture
def survives(ground: Ground):
    """Plays a scenario; every cell of its row must hold."""

    def check(scenario: Scenario) -> None:
        assert scenario.play(ground).faults == []

    return check
