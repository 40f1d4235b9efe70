"""The session's engine as the Tinker service that everything above the API finds in its environment."""

import pytest

from fixtures_engine import RunningEngine
from machine.evals import retention
from machine.tinker.service import Endpoint, endpoint


@pytest.fixture
def service(engine: RunningEngine, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The service, named by key and address."""
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
