"""The log: append-only and chained; what is done to it behind its back is found."""

import json
import multiprocessing
import stat
import sys

import msgspec
import pytest

from machine.errors import Refused
from machine.release import log

FOUR = ("drafted", "frozen", "candidate", "gated")


@pytest.fixture
def folder(tmp_path):
    """A log of four entries."""
    for step in FOUR:
        log.append(tmp_path / "releases", "BR-001", 1, step, {"step": step, "figure": 1e-05, "several": (1, 2)})
    return tmp_path / "releases"


def lines(folder):
    return (folder / log.LOG).read_bytes().splitlines(keepends=True)


def write(folder, held):
    (folder / log.LOG).write_bytes(b"".join(held))


def test_entries_follow_each_other(folder):
    entries = log.read(folder)
    assert [entry.step for entry in entries] == list(FOUR)
    assert [entry.number for entry in entries] == [1, 2, 3, 4]
    assert entries[0].previous == log.FIRST
    assert [entry.previous for entry in entries[1:]] == [entry.digest for entry in entries[:-1]]
    assert entries[0].by == log.user()
    assert log.look(folder) == (entries, [])


def test_no_log_is_an_empty_one(tmp_path):
    assert log.read(tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()


def test_it_is_private(folder):
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def edited(held):
    held[1] = held[1].replace(b"frozen", b"gated!")


def relabelled(held):
    held[1] = held[1].replace(b'"step":"frozen","by"', b'"step":"eligible","by"')


def spaced(held):
    held[1] = held[1].replace(b'{"number":2,', b'{"number":2, ')


def with_another_digest(held):
    entry = json.loads(held[1])
    entry["data"] = {}
    entry["digest"] = log._digest(msgspec.convert(entry, log.Entry))
    held[1] = msgspec.json.encode(msgspec.convert(entry, log.Entry)) + b"\n"


def removed(held):
    del held[1]


def inserted(held):
    held.insert(1, held[0])


def swapped(held):
    held[1], held[2] = held[2], held[1]


def garbled(held):
    held[1] = b"\xff\xfe not JSON\n"


def deeply_nested(held):
    held[1] = b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (edited, 2), (relabelled, 2), (spaced, 2), (with_another_digest, 3), (removed, 2), (inserted, 2), (swapped, 2),
        (garbled, 2), (deeply_nested, 2),
    ],
)  # fmt: skip
def test_a_damaged_line_is_found_by_its_number_and_nothing_is_added(folder, damage, line):
    held = lines(folder)
    damage(held)
    write(folder, held)
    with pytest.raises(Refused, match=f"log.jsonl line {line}"):
        log.read(folder)
    with pytest.raises(Refused, match=f"log.jsonl line {line}") as refused:
        log.append(folder, "BR-001", 1, "trial", {})
    assert refused.value.next_step == "machine release verify"
    assert lines(folder) == held


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_cut_tail_is_found(folder, left):
    write(folder, lines(folder)[:left])
    _, broken = log.look(folder)
    assert broken == [f"{folder / 'log.jsonl'} ends at entry {left}, and it had 4"]


def test_a_last_line_without_its_end_is_missed(folder):
    write(folder, [*lines(folder)[:3], lines(folder)[3].rstrip(b"\n")])
    assert "ends at entry 3, and it had 4" in log.look(folder)[1][0]


def test_a_removed_log_is_found(folder):
    (folder / log.LOG).unlink()
    assert log.look(folder) == ([], [f"{folder / 'log.jsonl'} is gone"])


@pytest.mark.parametrize("left", [1, 4])
def test_a_removed_head_is_found_even_with_a_cut_tail(folder, left):
    write(folder, lines(folder)[:left])
    (folder / log.HEAD).unlink()
    assert log.look(folder)[1] == [f"{folder / 'head.json'} is gone"]


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b"\xff", b"[" * 100_000, b'{"number":-1,"digest":""}', b'{"number":4,"digest":"00"}',
     b'{"number":0,"digest":"' + b"0" * 64 + b'"}'],
)  # fmt: skip
def test_a_damaged_head_is_found(folder, head):
    (folder / log.HEAD).write_bytes(head)
    _, [broken] = log.look(folder)
    assert "head.json" in broken


def test_a_torn_last_line_is_set_aside_and_the_next_append_works(folder):
    whole = lines(folder)
    write(folder, [*whole, whole[3][:40]])
    assert log.look(folder)[1] == []
    log.append(folder, "BR-001", 1, "trial", {})
    assert [entry.step for entry in log.read(folder)] == [*FOUR, "trial"]
    assert whole[3][:40] in (folder / log.TORN).read_bytes()


def test_a_crash_between_the_line_and_the_head_loses_nothing(folder):
    head = (folder / log.HEAD).read_bytes()
    log.append(folder, "BR-001", 1, "trial", {})
    (folder / log.HEAD).write_bytes(head)
    assert len(log.read(folder)) == 5
    log.append(folder, "BR-001", 1, "eligible", {})
    assert len(log.read(folder)) == 6


def test_a_crash_before_the_first_line_leaves_an_empty_log(tmp_path):
    log.append(tmp_path, "BR-001", 1, "drafted", {})
    (tmp_path / log.LOG).unlink()
    (tmp_path / log.HEAD).write_bytes(msgspec.json.encode({"number": 0, "digest": log.FIRST}))
    assert log.look(tmp_path) == ([], [])
    log.append(tmp_path, "BR-001", 1, "drafted", {})
    assert len(log.read(tmp_path)) == 1


def test_a_crash_after_the_first_line_loses_nothing(tmp_path, monkeypatch):
    write_head = log._write_head

    def crash(folder, head):
        if head.number:
            raise KeyboardInterrupt
        write_head(folder, head)

    monkeypatch.setattr(log, "_write_head", crash)
    with pytest.raises(KeyboardInterrupt):
        log.append(tmp_path, "BR-001", 1, "drafted", {})
    assert len(log.read(tmp_path)) == 1


def test_entries_that_come_between_the_two_files_are_no_break(folder, monkeypatch):
    plain = log._bytes
    late = ["trial", "eligible"]

    def slow(path):
        data = plain(path)
        if path.name == log.HEAD:
            due, late[:] = list(late), []
            for step in due:
                log.append(folder, "BR-001", 1, step, {})
        return data

    monkeypatch.setattr(log, "_bytes", slow)
    assert len(log.read(folder)) == 6


def test_a_reason_that_no_file_can_hold_is_kept_without_what_is_wrong_with_it(folder):
    log.append(folder, "BR-001", 1, "rejected", {"reason": "bad \udc80 bytes, ü, \U0001f600"})
    assert log.read(folder)[-1].data["reason"] == "bad  bytes, ü, \U0001f600"


def test_restart_sets_the_old_log_aside_and_names_it(folder):
    with pytest.raises(Refused, match="sound"):
        log.restart(folder, "no need")
    held = lines(folder)[:2]
    write(folder, held)
    aside = log.restart(folder, "it was cut")
    assert aside.read_bytes() == b"".join(held)
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    [entry] = log.read(folder)
    assert (entry.step, entry.data["reason"], entry.data["set_aside"]) == ("restarted", "it was cut", aside.name)
    assert entry.data["faults"]
    (folder / log.HEAD).unlink()
    assert log.restart(folder, "again, in the same second") != aside
    assert aside.read_bytes() == b"".join(held)


def test_restart_after_the_log_was_removed(folder):
    (folder / log.LOG).unlink()
    assert log.restart(folder, "it is gone").read_bytes() == b""
    assert len(log.read(folder)) == 1


def _append(folder, count):
    for number in range(count):
        log.append(folder, "BR-001", 1, "gating", {"number": number})
        log.read(folder)


def test_several_processes_keep_the_chain_whole_and_never_see_it_broken(tmp_path):
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    each = [context.Process(target=_append, args=(tmp_path, 25)) for _ in range(3)]
    for process in each:
        process.start()
    for process in each:
        process.join(60)
    assert [process.exitcode for process in each] == [0, 0, 0]
    assert len(log.read(tmp_path)) == 75
