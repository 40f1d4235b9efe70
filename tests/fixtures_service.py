"""The session's engine as the Tinker service that everything above the API finds in its environment."""

from pathlib import Path

import pytest

from fixtures_engine import RunningEngine
from machine import discovery
from machine.evals import retention
from machine.store.files import private_folder, write_private
from machine.tinker.service import Endpoint, endpoint


def own(engine: RunningEngine, home: Path) -> None:
    """Makes the session's engine that of a home."""
    folder = private_folder(home / "engine")
    for name in (discovery.FILE, discovery.KEY):
        write_private(folder / name, (engine.home / name).read_bytes())


@pytest.fixture
def service(engine: RunningEngine, home: Path, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The service, named by key and address: this home's own engine, so that what it is sent stays here."""
    own(engine, home)
    monkeypatch.setenv("TINKER_API_KEY", engine.key.strip())
    monkeypatch.setenv("TINKER_BASE_URL", engine.url)
    return endpoint()


@pytest.fixture
def brief_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the built-in retention suite some cases and two passages, for tests that are about something else."""
    cases, passages = retention.built_in_cases(), retention.built_in_passages()
    few = [next(case for case in cases if case.tools), *[case for case in cases if not case.tools][:3]]
    monkeypatch.setattr(retention, "built_in_cases", lambda: few)
    monkeypatch.setattr(retention, "built_in_passages", lambda: dict(list(passages.items())[:2]))
