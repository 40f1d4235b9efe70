"""The boxes that work on this machine, and a look at what they leave."""

import tempfile
import threading

import pytest
from boxed import chosen, groups, running

from machine.sandbox.bare import Bare


@pytest.fixture(scope="session", params=["bubblewrap", "docker"])
def box(request):
    """Each box with walls."""
    return chosen(request.param)


@pytest.fixture(scope="session", params=["bubblewrap", "docker", "none"])
def any_box(request):
    """Each box, and no box."""
    return Bare() if request.param == "none" else chosen(request.param)


@pytest.fixture
def tidy(monkeypatch, tmp_path_factory):
    """Seconds to sleep that mark a test's processes; it fails if one, a thread, a file or a control group is left."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    mark = f"20.{folder.stat().st_ino:012d}"
    before = threading.active_count()
    yield mark
    assert list(folder.iterdir()) == []
    assert running(mark) == []
    assert groups() == []
    assert threading.active_count() <= before
