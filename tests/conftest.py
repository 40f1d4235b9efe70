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
# Else each of the processes that tests start would compile Machine anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.path.insert(0, str(Path(__file__).parent))

# The files that take longest, longest first: two workers that begin with these end together.
SLOW = (
    "release/test_lifecycle.py", "commands/test_train.py", "engine/test_life.py", "commands/test_evaluate.py", "engine/test_cookbook.py", "pi/test_auto.py",
    "training/test_loop.py", "pi/test_student.py", "test_style.py", "engine/test_hub.py", "store/test_fire.py", "engine/test_chat.py",
    "evals/test_evaluation.py", "engine/test_sampling.py", "pi/test_bridge.py", "engine/test_sdk_sampling.py", "capture/test_oracle.py",
)  # fmt: skip

pytest_plugins = ["fixtures_browser", "fixtures_engine", "fixtures_service"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the slow files first; the others, and the tests of a file, keep their order."""
    here = Path(__file__).parent
    rank = {here / name: number for number, name in enumerate(SLOW)}
    items.sort(key=lambda item: rank.get(item.path, len(SLOW)))


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and no account."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("MACHINE_DATA_DIR", str(folder))
    for name in ("TINKER_API_KEY", "TINKER_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder
