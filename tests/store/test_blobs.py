import hashlib
import stat

import pytest

from machine.errors import StoreError
from machine.store.project import Project

IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
NAME = hashlib.sha256(IMAGE).hexdigest()


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, tmp_path / "store")


def test_an_image_is_kept_once_under_its_hash_and_in_private(project):
    blobs = project.blobs
    assert blobs.keep([IMAGE]) == [NAME]
    path = project.folder / "blobs" / NAME[:2] / NAME
    before = path.stat()
    assert blobs.keep([IMAGE]) == [NAME]
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert blobs.get(NAME) == IMAGE
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)] == [0o600, 0o700, 0o700]
    assert [p for p in blobs.folder.rglob("*") if p.is_file()] == [path]


def test_one_that_a_crash_cut_short_is_written_anew(project):
    project.blobs.keep([IMAGE])
    path = project.folder / "blobs" / NAME[:2] / NAME
    path.write_bytes(IMAGE[:9])
    with pytest.raises(StoreError, match="hash"):
        project.blobs.get(NAME)
    project.blobs.keep([IMAGE])
    assert project.blobs.get(NAME) == IMAGE


def test_changed_bytes_are_never_given_out(project):
    project.blobs.keep([IMAGE])
    (project.folder / "blobs" / NAME[:2] / NAME).write_bytes(IMAGE[::-1])
    with pytest.raises(StoreError, match="changed") as fault:
        project.blobs.get(NAME)
    assert fault.value.next_step


@pytest.mark.parametrize("name", ["0" * 64, "", "../../etc/passwd", NAME.upper(), NAME + "\n"])
def test_what_is_not_there_or_no_hash_is_a_store_error(project, name):
    with pytest.raises(StoreError):
        project.blobs.get(name)


def test_a_link_in_the_way_is_not_written_through(project, tmp_path):
    (project.folder / "blobs" / NAME[:2]).mkdir(parents=True, mode=0o700)
    (project.folder / "blobs" / NAME[:2] / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        project.blobs.keep([IMAGE])
    assert not (tmp_path / "elsewhere").exists()


def test_an_image_that_goes_while_a_row_that_names_it_is_written_is_there_again(project):
    project.blobs.keep([IMAGE])
    with project.blobs.holding([IMAGE]):
        assert project.blobs.get(NAME) == IMAGE
        project.blobs.erase([NAME])
    assert project.blobs.get(NAME) == IMAGE
