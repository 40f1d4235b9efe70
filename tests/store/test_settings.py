import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from machine.errors import StoreError
from machine.store.project import Project
from machine.store.settings import Settings


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, tmp_path / "store")


def test_defaults_hold_until_something_is_set_and_make_nothing(project):
    assert project.settings() == Settings(auto=False, footer=True)
    assert not project.folder.exists()


def test_what_is_set_stays_and_the_rest_keeps_its_value(project):
    assert project.set(auto=True) == Settings(auto=True, footer=True)
    assert project.set(footer=False) == project.settings() == Settings(auto=True, footer=False)
    file = project.folder / "settings.json"
    assert json.loads(file.read_bytes()) == {
        "version": 1,
        "auto": True,
        "footer": False,
        "contributors": [],
        "teacher": None,
        "privacy": "redact",
        "redact_home": False,
        "redact_email": False,
        "allowed": [],
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keys_that_this_version_does_not_know_are_kept(project):
    project.make()
    file = project.folder / "settings.json"
    file.write_text('{"version": 1, "auto": true, "later": {"a": [1]}}')
    project.set(footer=False)
    kept = json.loads(file.read_bytes())
    assert (kept["version"], kept["auto"], kept["footer"], kept["later"]) == (1, True, False, {"a": [1]})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"", "damaged"),
        (b'{"version": 1, "auto"', "damaged"),
        (b"\xff", "damaged"),
        (b"[" * 99999, "damaged"),
        (b"[]", "damaged"),
        (b"{}", "no version"),
        (b'{"version": true}', "no version"),
        (b'{"version": 1, "auto": "yes"}', "auto"),
        (b'{"version": 2, "auto": "yes"}', "newer Machine"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_left_as_it_is(project, written, said):
    project.make()
    file = project.folder / "settings.json"
    file.write_bytes(written)
    for act in (project.settings, lambda: project.set(auto=True)):
        with pytest.raises(StoreError, match=said) as fault:
            act()
        assert str(file) in fault.value.message
        assert f"remove {file}" in fault.value.next_step
    assert file.read_bytes() == written


def test_a_folder_in_the_way_is_a_store_error(project):
    (project.make() / "settings.json").mkdir()
    with pytest.raises(StoreError):
        project.settings()


def test_an_unknown_setting_is_a_bug_and_writes_nothing(project):
    with pytest.raises(TypeError):
        project.set(atuo=True)
    assert not (project.folder / "settings.json").exists()


def test_two_who_set_at_once_do_not_undo_each_other(project):
    for value in (True, False) * 10:
        with ThreadPoolExecutor(2) as threads:
            for change in ({"auto": value}, {"footer": value}):
                threads.submit(project.set, **change)
        assert project.settings() == Settings(auto=value, footer=value)
