"""The store under fire: processes that are killed while they write, that write all at once, and power that fails."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from underfire import row

from machine.store import extent, files
from machine.store.batch import pending_note
from machine.store.files import append_line, private_folder, read_private, write_private
from machine.store.index import Index
from machine.store.pool import Pool
from machine.store.wipe import rewrite
from machine.trace import encode

SINGLES = os.environ.get("CROWD_SINGLES", "20")
"""Of 500 rows of a process, how many are appended one by one; the others in between, at once. `make nightly`: all."""
FIRE = Path(__file__).with_name("underfire.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def memory():
    """A folder in memory, where there is one: a kill loses nothing that was written, synced or not."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    yield Path(folder)
    shutil.rmtree(folder)


def fire(folder, *words):
    return subprocess.Popen([sys.executable, FIRE, folder, *words], stdout=subprocess.PIPE, text=True)


def test_a_thousand_kills_lose_nothing_that_was_confirmed(memory):
    runs = [fire(memory / kinds[0], "kill", "160", *kinds) for kinds in (("one", "observed", "blob"), ("turn", "refusal", "setting", "erase"))]  # fmt: skip
    counts = Counter()
    faults = []
    for run in runs:
        said = json.loads(run.communicate()[0])
        faults += said.pop("faults")
        counts.update(said)
    assert faults == []
    assert counts["kills"] >= 1000
    assert min(counts["torn lines"], counts["torn turns"], counts["temporaries"]) >= 10, counts


def test_sixteen_processes_append_and_every_row_is_there_once_and_in_order(memory):
    said = json.loads(fire(memory, "crowd", "16", "500", SINGLES).communicate()[0])
    assert said == {"failed": 0, "rows": 8000, "in order": True, "listed": True}


class Disk:
    """What a power cut leaves: of a file the bytes of its last sync, of a folder the names of its last sync."""

    def __init__(self, monkeypatch, root):
        self.root, self.files, self.names = root, {}, {root: set()}
        real = os.fsync

        def fsync(descriptor):
            real(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if path.is_dir():
                self.names[path] = {child.name for child in path.iterdir()}
            else:
                self.files[os.fstat(descriptor).st_ino] = path.read_bytes()

        monkeypatch.setattr(os, "fsync", fsync)

    def read(self, path):
        """The bytes of a file after the cut; None if it, or a folder above it, is gone."""
        for child in [path, *path.parents]:
            if child == self.root:
                return self.files.get(path.stat().st_ino)
            if child.name not in self.names.get(child.parent, ()):
                return None
        raise AssertionError


@pytest.fixture
def disk(monkeypatch, tmp_path):
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    return Disk(monkeypatch, tmp_path)


def test_what_was_appended_survives_a_power_cut(disk, tmp_path):
    pool = Pool(tmp_path / "home" / "store" / "traces.jsonl")
    pool.append(row("one"))
    for rows in ([row("two")], [row("three", part=i) for i in range(3)]):
        pool.append_all(rows)
        assert disk.read(pool.path) == pool.path.read_bytes()
    with pool.path.open("ab") as file:
        file.write(b'{"torn')
    pool.append_observed([row("four", tag="observed")])
    assert disk.read(pool.path) == pool.path.read_bytes()
    assert b'{"torn' in disk.read(pool.torn)


def test_the_rows_of_a_turn_are_announced_before_they_are_written(disk, tmp_path, monkeypatch):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append(row("one"))
    announced = []
    real = os.write

    def write(descriptor, data):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == pool.path:
            announced.append(disk.read(pool.path.with_suffix(".pending")))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    begin = pool.path.stat().st_size
    pool.append_all([row("two", part=i) for i in range(2)])
    [note] = announced
    assert note.startswith(f"{begin} {pool.path.stat().st_size} ".encode())
    assert not pool.path.with_suffix(".pending").exists()


def test_what_was_erased_stays_erased_after_a_power_cut_and_is_announced_before(disk, tmp_path, monkeypatch):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    for name in ("one", "two", "three"):
        pool.append(row(name, size=2000))
    note, announced, begun, left = pool.path.with_suffix(".erasing"), [], [], []
    real, wiped = os.pwrite, os.unlink

    def pwrite(descriptor, data, offset):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == pool.path:
            announced.append(disk.read(note))
            begun.append(b"  " in bytes(data) and b'\n{"erased":' not in disk.read(pool.path))
        return real(descriptor, data, offset)

    def unlink(path, **options):
        left.append((Path(path).name, b"two 0 two" in disk.read(pool.path)))
        return wiped(path, **options)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "unlink", unlink)
    assert pool.erase(["t_two_0"]) == 1
    assert announced
    assert all(b"t_two_0" in said for said in announced)
    assert not any(begun)  # nothing goes before the beginning of its line is on the disk as erased
    assert ("traces.erasing", False) in left
    assert disk.read(pool.path) == pool.path.read_bytes()
    assert disk.read(note) is None


def test_files_survive_a_power_cut(disk, tmp_path):
    folder = private_folder(tmp_path / "a" / "b")
    write_private(folder / "whole", b"new")
    append_line(folder / "log", b"line")
    assert (disk.read(folder / "whole"), disk.read(folder / "log")) == (b"new", b"line\n")


def test_what_a_crash_left_of_a_turn_is_not_read_and_set_aside(tmp_path):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append(row("one"))
    begin = pool.path.stat().st_size
    pool.append_all([row("two", part=i) for i in range(3)])
    whole = pool.path.read_bytes()
    cut = whole.rindex(b"\n", 0, -1) + 1  # two of three rows, and nothing torn
    pool.path.write_bytes(whole[:cut])
    write_private(pool.path.with_suffix(".pending"), pending_note(pool.path, begin, whole[begin:]))
    assert [found.id for found in pool.rows()] == ["t_one_0"]
    assert pool.holds([("utwo", "atwo"), ("uone", "aone")]) == [False, True]
    pool.append(row("three"))
    assert [found.id for found in pool.rows()] == ["t_one_0", "t_three_0"]
    assert whole[begin:cut] in pool.torn.read_bytes()
    assert not pool.path.with_suffix(".pending").exists()


@pytest.mark.parametrize("left", ["nothing", "a few bytes", "a row", "zeros"])
def test_a_turn_that_was_begun_is_known_by_what_is_there_of_it(tmp_path, left):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append(row("one"))
    first = pool.path.read_bytes()
    rows = b"".join(encode(row("two", part=i)) + b"\n" for i in range(3))
    kept = {"nothing": b"", "a few bytes": rows[:9], "a row": rows[: rows.index(b"\n") + 1]}
    kept["zeros"] = bytes(70) + kept["a row"][70:]
    write_private(pool.path.with_suffix(".pending"), pending_note(pool.path, len(first), rows))
    pool.path.write_bytes(first + kept[left])
    assert extent.readable(pool.path) == len(first)
    pool.append(row("three"))
    assert [found.id for found in pool.rows()] == ["t_one_0", "t_three_0"]


@pytest.mark.parametrize("restored", ["other rows", "a row more", "no row less", "a longer row"])
def test_a_note_of_a_turn_that_meets_a_restored_pool_hides_and_moves_no_row(tmp_path, restored):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append(row("one"))
    first = pool.path.read_bytes()
    note = pending_note(pool.path, len(first), b"".join(encode(row("two", part=i)) + b"\n" for i in range(9)))
    other = encode(row("other")) + b"\n"
    pools = {"other rows": other + first, "a row more": first + other, "no row less": first}
    pools["a longer row"] = encode(row("one", size=41)) + b"\n"  # by a few bytes
    pool.path.write_bytes(pools[restored])
    write_private(pool.path.with_suffix(".pending"), note)
    assert extent.readable(pool.path) == len(pools[restored])
    pool.append(row("three"))
    assert pool.path.read_bytes().startswith(pools[restored])
    assert not pool.torn.exists()
    assert not pool.path.with_suffix(".pending").exists()


def test_no_part_of_a_turn_is_read_that_is_written_whole_meanwhile(tmp_path, monkeypatch):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append_all([row("one", part=i) for i in range(3)])
    whole = pool.path.read_bytes()
    pool.path.write_bytes(whole[: whole.index(b"\n") + 1])  # the writer is here, and ends before its note is looked for
    monkeypatch.setattr(extent, "pending", lambda path: path.write_bytes(whole) * 0 or None)
    assert extent.readable(pool.path) == len(whole)


def test_a_file_that_is_replaced_and_wiped_while_it_is_read_is_read_anew(tmp_path, monkeypatch):
    path, real, opened = tmp_path / "log", files.open_private, []
    write_private(path, b"as it was")

    def meanwhile(*words):
        descriptor = real(*words)
        opened.append(words)
        if len(opened) == 1:
            rewrite(path, b"as it is")
        return descriptor

    monkeypatch.setattr(files, "open_private", meanwhile)
    assert read_private(path) == b"as it is"


@pytest.mark.parametrize(
    "note", [b"", b"nonsense", b"1 2 3", b"0 1", b"5 999999999999", b"0 9999999 - 0", b"\xff 1 1 1"]
)
def test_a_note_of_a_turn_that_makes_no_sense_deletes_nothing(tmp_path, note):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append(row("one"))
    before = pool.path.read_bytes()
    write_private(pool.path.with_suffix(".pending"), note)
    pool.append(row("two"))
    aside = pool.torn.read_bytes() if pool.torn.exists() else b""
    assert before in pool.path.read_bytes() or before[5:] in aside
    assert pool.rows().__next__().id in ("t_one_0", "t_two_0")


def test_an_index_that_few_openings_write_forgets_nothing(tmp_path):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    for i in range(30):
        pool.append(row(str(i)))
        assert [found.id for found in pool.recent(2)] == [f"t_{j}_0" for j in (i, i - 1) if j >= 0]
    with Index(pool.path, pool.path.with_suffix(".index")) as kept, Index(pool.path, tmp_path / "fresh") as fresh:
        assert kept.places() == fresh.places()
