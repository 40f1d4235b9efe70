"""Shared by every test: a home of its own, so that no test sees or touches the user's store."""

import os
import sys
from pathlib import Path

import pytest

# Before anything imports torch: two torch processes slow each other tenfold otherwise.
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["TINKER_TELEMETRY"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
# The converted model is shared (it is read only); everything else a test writes goes to its own home.
os.environ.setdefault("MACHINE_MODELS_DIR", str(Path.home() / ".machine" / "models"))
sys.path.insert(0, str(Path(__file__).parent))

pytest_plugins = ["fixtures_engine", "fixtures_service"]


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no account."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("MACHINE_DATA_DIR", str(folder))
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder
