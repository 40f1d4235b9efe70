"""What is not this user's alone is refused, with its path and what to do, and never followed, changed or written to."""

import contextlib
import grp
import os
import pwd
import stat
import sys
from functools import partial
from pathlib import Path

import pytest
from underfire import row

from machine.errors import StoreError
from machine.store import owners
from machine.store.files import is_private, open_private, private_folder, read_private, whole_lines, write_private
from machine.store.pool import Pool
from machine.store.project import Project

NOBODY = 65534
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no owners and modes of this kind")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users")


@pytest.fixture(autouse=True)
def asked_anew():
    """What was asked of a folder once is not asked again in a process: each test is to ask for itself."""
    for cached in (owners.safe_parents, owners._group_of_one, owners._trusted):
        cached.cache_clear()


@pytest.fixture
def base(tmp_path, monkeypatch):
    """Machine's home, two folders below what a test may change."""
    base = tmp_path / "above" / "home"
    monkeypatch.setenv("MACHINE_DATA_DIR", str(base))
    (tmp_path / "above").mkdir()
    return base


def refused(act, path, *hints):
    with pytest.raises(StoreError) as fault:
        act()
    assert f"{path} " in fault.value.message or f"{path}," in fault.value.message
    assert all(hint in fault.value.next_step for hint in hints), fault.value.next_step
    return fault.value


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize(("bits", "hint"), [(0o777, "chmod go-w"), (0o775, "chmod g-w"), (0o757, "chmod o-w"), (0o2770, "chmod g-w")])  # fmt: skip
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_above_that_others_may_write_to_is_refused(base, bits, hint, there, monkeypatch):
    monkeypatch.setattr(owners, "_group_of_one", lambda gid: False)
    if there:
        base.mkdir()
    base.parent.chmod(bits)
    refused(lambda: private_folder(base / "project"), base.parent, f"{hint} {base.parent}", "MACHINE_DATA_DIR")
    assert list(base.parent.rglob("*")) == ([base] if there else [])
    base.parent.chmod(0o755)
    private_folder(base / "project")


def test_one_that_has_the_sticky_bit_is_as_good_as_tmp(base):
    base.parent.chmod(0o1777)
    private_folder(base / "project")
    assert mode(base.parent) == 0o1777


def test_the_users_own_group_of_one_may_write(base):
    base.parent.chmod(0o775)
    private_folder(base)


@pytest.mark.parametrize(
    ("group", "members", "first", "fine"),
    [("me", [], True, True), ("me", ["me"], True, True), ("me", ["you"], True, False), ("staff", [], True, False), ("me", [], False, False)],
)  # fmt: skip
def test_a_group_is_the_users_own_if_it_is_the_first_one_of_that_name_and_nobody_else_is_in_it(
    monkeypatch, group, members, first, fine
):
    monkeypatch.setattr(
        pwd, "getpwuid", lambda uid: pwd.struct_passwd(("me", "x", uid, 7 if first else 8, "", "/", ""))
    )
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((group, "x", gid, members)))
    assert owners._group_of_one(7) is fine


def test_links_above_are_followed_and_what_they_lead_to_is_looked_at(base, tmp_path, monkeypatch):
    monkeypatch.setattr(owners, "_group_of_one", lambda gid: False)
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("above/../real")
    home = tmp_path / "alias" / "home"
    monkeypatch.setenv("MACHINE_DATA_DIR", str(home))
    Pool(home / "project" / "traces.jsonl").erase([])
    private_folder(home / "project")
    assert (tmp_path / "real" / "home" / "project").is_dir()
    owners.safe_parents.cache_clear()
    (tmp_path / "real").chmod(0o777)
    refused(lambda: private_folder(home / "project"), tmp_path / "real", "chmod")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises((StoreError, OSError)):
        owners.safe_parents(tmp_path / "circle" / "x")


@pytest.mark.parametrize("below", ["", "project", "project/blobs", "project/blobs/0a"])
def test_a_link_in_the_place_of_a_folder_is_refused_wherever_it_is(base, tmp_path, below):
    elsewhere = tmp_path / "elsewhere"
    path = base / "project" / "blobs" / "0a"
    private_folder(path)
    place = base / below
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    held = {each: each.read_bytes() for each in elsewhere.rglob("*") if each.is_file()}
    for act in (
        lambda: private_folder(path),
        lambda: write_private(path / "file", b"private"),
        lambda: open_private(path / "file", os.O_RDWR | os.O_CREAT),
        lambda: read_private(path / "file"),
        lambda: is_private(path / "file"),
    ):
        refused(act, place, f"rm {place}", "MACHINE_DATA_DIR")
    assert {each: each.read_bytes() for each in elsewhere.rglob("*") if each.is_file()} == held


@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "pipe"])
def test_what_is_no_file_of_its_own_is_neither_read_nor_written(base, tmp_path, kind):
    folder = private_folder(base / "project")
    path, other = folder / "file", tmp_path / "other"
    other.write_bytes(b"theirs")
    {"link": path.symlink_to, "hard link": path.hardlink_to, "folder": lambda _: path.mkdir(), "pipe": lambda _: os.mkfifo(path)}[kind](other)  # fmt: skip
    for act in (
        lambda: open_private(path, os.O_RDWR | os.O_APPEND),
        lambda: open_private(path, os.O_WRONLY),
        lambda: read_private(path),
        lambda: is_private(path),
        lambda: whole_lines(path),
    ):
        with pytest.raises(StoreError) as fault:
            act()
        assert str(path) in fault.value.message
        assert fault.value.next_step
    assert other.read_bytes() == b"theirs"


@pytest.mark.parametrize("name", ["traces.jsonl", "traces.lock", "settings.json"])
def test_a_pool_with_a_second_name_is_refused(base, tmp_path, name):
    project = Project(tmp_path, base / "project")
    project.set(auto=True)
    pool = project.pool
    pool.path.touch()
    (tmp_path / "second").hardlink_to(project.folder / name)
    acts = {
        "traces.jsonl": [lambda: list(pool.rows()), lambda: pool.erase(["t_1"]), lambda: pool.append(row("one"))],
        "traces.lock": [lambda: project.set(auto=False)],
        "settings.json": [],
    }
    for act in acts[name]:
        refused(act, project.folder / name, "-inum")
    if name == "settings.json":  # replaced, so that the second name keeps the old bytes
        before = (tmp_path / "second").read_bytes()
        project.set(auto=False)
        assert (tmp_path / "second").read_bytes() == before


def test_a_folder_that_users_share_is_not_taken_from_them(base, monkeypatch):
    base.mkdir()
    base.chmod(0o1777)
    refused(lambda: private_folder(base / "project"), base, "MACHINE_DATA_DIR")
    assert mode(base) == 0o1777


@pytest.mark.parametrize("name", ["people/me", "people"])
def test_the_users_home_and_what_is_above_it_are_not_closed_to_others(base, tmp_path, monkeypatch, name):
    (tmp_path / "people" / "me").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "me"))
    place = tmp_path / name
    (tmp_path / "alias").symlink_to(place.parent)
    for given in (place, tmp_path / "alias" / place.name):
        monkeypatch.setenv("MACHINE_DATA_DIR", str(given))
        project = Project(tmp_path, given / "project")
        for act in (partial(project.set, auto=True), partial(project.pool.recent, 1)):
            refused(act, given, f"MACHINE_DATA_DIR to a folder in {given}")
    assert mode(place) == 0o755
    place.chmod(0o700)
    Project(tmp_path, place / "project").set(auto=True)


def test_folders_that_have_become_open_are_closed_again(base):
    private_folder(base / "project" / "blobs")
    for folder in (base, base / "project", base / "project" / "blobs"):
        folder.chmod(0o755)
    write_private(base / "project" / "blobs" / "file", b"")
    assert [mode(folder) for folder in (base, base / "project", base / "project" / "blobs")] == [0o700] * 3


def test_a_file_that_has_become_open_is_closed_when_it_is_read(base):
    path = private_folder(base) / "file"
    path.write_bytes(b"private")
    path.chmod(0o644)
    assert (read_private(path), mode(path)) == (b"private", 0o600)
    path.chmod(0o400)
    assert (read_private(path), mode(path)) == (b"private", 0o400)


def test_the_folders_above_are_looked_at_once(base, monkeypatch):
    private_folder(base / "project")
    asked, lstat = [], os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **options: asked.append(path) or lstat(path, **options))
    private_folder(base / "project")
    assert [path for path in asked if not Path(path).is_relative_to(base)] == []


@as_root
@pytest.mark.parametrize("whose", ["above", "above/home", "above/home/project", "above/home/project/file"])
def test_what_belongs_to_somebody_else_is_refused(base, tmp_path, whose):
    path = private_folder(base / "project") / "file"
    path.touch(0o600)
    os.chown(tmp_path / whose, NOBODY, NOBODY)
    owners.safe_parents.cache_clear()
    fault = refused(lambda: open_private(path, os.O_RDWR), tmp_path / whose, "MACHINE_DATA_DIR")
    assert "another user" in fault.message
    assert (tmp_path / whose).stat().st_uid == NOBODY


@as_root
def test_a_link_above_that_somebody_else_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    os.chown(tmp_path / "alias", NOBODY, NOBODY, follow_symlinks=False)
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tmp_path / "alias" / "home"))
    refused(lambda: private_folder(tmp_path / "alias" / "home"), tmp_path / "alias", "MACHINE_DATA_DIR")


@as_root
def test_another_user_can_read_none_of_it_and_keeps_a_store_beside_it(base, tmp_path):
    """In a child that is nobody: root's store is closed to it, and it can have its own in the same shared folder."""
    base.parent.chmod(0o1777)
    project = Project(tmp_path, private_folder(base / "project"))
    project.set(auto=True)
    for folder in base.parent.parents:
        if folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o711)
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            asked_again()
            with pytest.raises(StoreError):
                project.settings()
            with pytest.raises(StoreError):
                project.set(auto=False)
            with pytest.raises(PermissionError):
                list(base.iterdir())
            mine = base.with_name("nobody")
            os.environ["MACHINE_DATA_DIR"] = str(mine)
            Project(tmp_path, mine / "project").set(auto=True)
            assert mine.stat().st_uid == NOBODY
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert project.settings().auto


def test_who_has_no_home_folder_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setenv("MACHINE_DATA_DIR", "~nobody-of-this-name/machine")
    with pytest.raises(StoreError, match="no home folder") as fault:
        Project.at(tmp_path)
    assert "MACHINE_DATA_DIR" in fault.value.next_step
    monkeypatch.delenv("MACHINE_DATA_DIR")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(StoreError, match="no home folder"):
        Project.at(tmp_path)
    monkeypatch.setenv("MACHINE_DATA_DIR", str(tmp_path / "home"))
    (tmp_path / ".git").mkdir()
    assert Project.at(tmp_path / "below").root == tmp_path


def asked_again():
    for cached in (owners.safe_parents, owners._group_of_one, owners._trusted):
        cached.cache_clear()
