"""The session's engine as the Tinker service that everything above the API finds in its environment."""

import pytest

from fixtures_engine import RunningEngine
from machine.tinker.service import Endpoint, endpoint


@pytest.fixture
def service(engine: RunningEngine, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """The service, named by key and address."""
    monkeypatch.setenv("TINKER_API_KEY", engine.key.strip())
    monkeypatch.setenv("TINKER_BASE_URL", engine.url)
    return endpoint()
