"""What the system can refuse, as kinds: each is a StoreError with a next step, and what was kept stays as it was."""

import datetime
import errno
import fcntl
import os
import resource
import signal
from pathlib import Path

import pytest
from underfire import row

from machine.errors import StoreError
from machine.store.files import append_line, private_folder, write_private
from machine.store.pool import Pool
from machine.store.project import Project

ANOTHER_USER = 65534


@pytest.fixture
def project(tmp_path):
    """A project that holds one of everything."""
    project = Project(tmp_path, tmp_path / "store")
    project.make()
    project.pool.append_all([row("kept"), row("old")])
    project.set(auto=True)
    project.refused("good", "kept")
    project.blobs.keep([b"kept"])[0]
    return project


ACTIONS = {
    "one": lambda project: project.pool.append(row("new", size=3000)),
    "turn": lambda project: project.pool.append_all([row("new", part=i, size=3000) for i in range(3)]),
    "observed": lambda project: project.pool.append_observed([row("new", tag="observed", size=3000)]),
    "setting": lambda project: project.set(auto=False),
    "refusal": lambda project: project.refused("good", "new " * 9999),
    "blob": lambda project: project.blobs.keep([b"new" * 9999])[0],
    "erase": lambda project: project.pool.erase(["t_old_0"]),
}
actions = pytest.mark.parametrize("act", ACTIONS.values(), ids=ACTIONS)


def holds(project):
    """Everything that a user would miss."""
    return (
        list(project.pool.rows()),
        project.pool.path.read_bytes(),
        project.settings(),
        project.refusals(),
        sorted(path.read_bytes() for path in project.blobs.folder.rglob("??/[!.]*")),
    )


def refused(act, *words):
    with pytest.raises(StoreError) as fault:
        act(*words)
    assert str(words[0].folder if words else "") in fault.value.message
    assert fault.value.next_step not in ("", "run `machine doctor`")
    return fault.value


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EIO", "ESTALE", "EROFS"])
@actions
def test_a_write_that_fails_half_way_leaves_all_as_it_was(project, monkeypatch, act, code):
    before, write = holds(project), os.write

    def failing(descriptor, data):
        if len(data) > 1:
            return write(descriptor, data[: len(data) // 2])
        raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        refused(act, project)
    assert holds(project) == before
    act(project)
    assert holds(project) != before


@pytest.mark.parametrize(
    ("module", "name", "code"),
    [
        (os, "fsync", "EIO"),
        (os, "fsync", "ENOSPC"),
        (os, "replace", "EXDEV"),
        (os, "replace", "ESTALE"),
        (os, "replace", "EACCES"),
        (fcntl, "flock", "ENOLCK"),
        (fcntl, "flock", "EIO"),
        (fcntl, "flock", "ESTALE"),
        (os, "open", "EROFS"),
        (os, "open", "ESTALE"),
        (os, "fstat", "EIO"),
    ],
)
@actions
def test_a_call_that_fails_leaves_all_as_it_was(project, monkeypatch, act, module, name, code):
    before, called = holds(project), []

    def failing(*words, **options):
        called.append(name)
        raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))

    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing)
        try:
            refused(act, project)
        except pytest.fail.Exception:
            assert not called  # this one has no need of it
            return
    assert holds(project) == before
    act(project)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on file sizes")
@pytest.mark.parametrize("kind", ["one", "turn", "observed"])
def test_a_full_disk_leaves_the_pool_as_it_was(project, kind):
    # A limit on the file's size is the nearest thing to a full disk that a test may cause: write(2) fails half-way.
    before, limits = holds(project), resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[1]) + 1000, limits[1]))
        fault = refused(ACTIONS[kind], project)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert "large" in fault.message
    assert holds(project) == before


def test_a_write_that_cannot_even_be_cut_off_is_not_read(project, monkeypatch):
    before, write = holds(project), os.write

    def failing(descriptor, data):
        if len(data) < 1000:  # the note of the turn
            return write(descriptor, data)
        write(descriptor, bytes(data)[: bytes(data).rindex(b"\n", 0, -1) + 1])  # two of three rows
        raise OSError(errno.EIO, "Input/output error")

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        patch.setattr(os, "ftruncate", broken)
        refused(ACTIONS["turn"], project)
    assert list(project.pool.rows()) == before[0]
    ACTIONS["turn"](project)
    assert [found.id for found in project.pool.rows()] == ["t_kept_0", "t_old_0", "t_new_0", "t_new_1", "t_new_2"]


@pytest.mark.parametrize("way", ["link", "dangling link", "folder"])
@pytest.mark.parametrize("name", ["traces.jsonl", "traces.lock", "traces.torn", "settings.json", "refusals.jsonl"])
def test_what_is_no_file_of_its_own_is_refused_and_never_written_through(project, tmp_path, name, way):
    path, elsewhere = project.folder / name, tmp_path / "elsewhere"
    with project.pool.path.open("ab") as file:
        file.write(b"torn")
    path.unlink(missing_ok=True)
    if way == "link":
        elsewhere.write_bytes(b"")
    if way.endswith("link"):
        path.symlink_to(elsewhere)
    else:
        path.mkdir()
    act = {"settings.json": ACTIONS["setting"], "refusals.jsonl": ACTIONS["refusal"]}.get(name, ACTIONS["one"])
    with pytest.raises(StoreError) as fault:
        act(project)
    assert str(path) in fault.value.message
    assert fault.value.next_step
    assert not elsewhere.exists() or elsewhere.read_bytes() == b""


@pytest.mark.parametrize("way", ["link", "folder"])
def test_an_index_that_is_no_file_is_done_without(project, tmp_path, way):
    path, elsewhere = project.folder / "traces.index", tmp_path / "elsewhere"
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere) if way == "link" else path.mkdir()
    ACTIONS["turn"](project)
    assert project.pool.counts() == {"good": 5}
    assert not elsewhere.exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "traces.jsonl", "traces.lock", "refusals.jsonl", "blobs"])
def test_what_belongs_to_another_user_is_refused(project, name):
    os.chown(project.folder / name, ANOTHER_USER, ANOTHER_USER)
    act = {"refusals.jsonl": ACTIONS["refusal"], "blobs": ACTIONS["blob"]}.get(name, ACTIONS["one"])
    fault = refused(act, project)
    assert "another user" in fault.message
    assert "MACHINE_DATA_DIR" in fault.next_step


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@actions
def test_a_folder_that_may_only_be_read_can_be_read(project, tmp_path, act):
    """In a child that is nobody, since root may write anywhere."""
    before = holds(project)
    nobody = os.geteuid() == 0
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if nobody:
            os.chown(path, ANOTHER_USER, ANOTHER_USER)
        path.chmod(0o500 if path.is_dir() else 0o400)
    if nobody:
        open_up(tmp_path)
    child = os.fork()
    if not child:
        try:
            if nobody:
                os.setgid(ANOTHER_USER)
                os.setuid(ANOTHER_USER)
            assert holds(project) == before
            assert "writable" in refused(act, project).next_step
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def open_up(path):
    """Lets others pass through the folders above, which are this test run's own."""
    for parent in path.parents:
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)


def test_newest_is_by_place_in_the_pool_whatever_the_clock_says(project):
    later = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    for i, id in enumerate(["t_9", "t_5", "t_7", "t_1"]):
        made = row(str(i), size=1)
        at = (later - datetime.timedelta(days=i)).isoformat()
        project.pool.append(type(made)(**{f: getattr(made, f) for f in made.__struct_fields__} | {"id": id, "created_at": at}))  # fmt: skip
    assert [found.id for found in project.pool.recent(3)] == ["t_1", "t_7", "t_5"]
    assert [found.id for found in project.pool.rows()][2:] == ["t_9", "t_5", "t_7", "t_1"]


@pytest.mark.parametrize(
    "stray", [".tmp-settings.json-0a1b", ".tmp-traces.pending-ff", "traces.index-journal", "traces.torn"]
)
def test_what_a_crash_left_beside_does_not_hurt(project, stray):
    (project.folder / stray).write_bytes(b"half of someth")
    for act in ACTIONS.values():
        act(project)
    assert project.pool.counts() == {"good": 4}


def test_the_readers_say_what_hinders_them(project, monkeypatch):
    def failing(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "open", failing)
    monkeypatch.setattr(Path, "open", failing)
    monkeypatch.setattr(Path, "read_bytes", failing)
    for read, *words in (
        (project.pool.recent, 1),
        (project.settings,),
        (project.refusals,),
        (project.blobs.get, "0" * 64),
    ):
        with pytest.raises(StoreError, match="Stale") as fault:
            read(*words)
        assert "disk" in fault.value.next_step


def test_private_files_and_logs_say_what_hinders_them(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for act in (private_folder, lambda path: write_private(path, b""), lambda path: append_line(path, b"")):
        with pytest.raises(StoreError) as fault:
            act(tmp_path / "file" / "below")
        assert fault.value.next_step


def test_a_pool_whose_folder_cannot_be_made_is_a_store_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError):
        Pool(tmp_path / "file" / "store" / "traces.jsonl").append(row("one"))
