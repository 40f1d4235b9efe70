import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from machine.capture import reader
from machine.capture.entries import text_of
from machine.capture.lines import BLOCK
from machine.capture.reader import latest, read
from machine.errors import SessionFault
from sessions import Script


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "line 1"), (b"hello\n", "line 1"), (b'{"type":"session","version":9,"id":"x"}\n', "version 9")],
)
def test_what_is_not_a_session_is_refused(tmp_path, content, says):
    file = tmp_path / "s.jsonl"
    file.write_bytes(content)
    with pytest.raises(SessionFault, match=says):
        read(file)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for file in (tmp_path / "pipe.jsonl", Path("/dev/zero")):
        with pytest.raises(SessionFault, match="no regular file"):
            read(file)


def test_a_line_nested_without_end_is_damage_and_no_crash(tmp_path):
    s = Script()
    s.user("one")
    file = s.save(tmp_path / "s.jsonl")
    for deep in (
        b'{"type":"message","id":"d","message":{"role":"user","content":',
        b'{"type":"custom","id":"d","data":',
    ):
        with file.open("ab") as more:
            more.write(deep + b"[" * 200_000 + b"\n")
    assert read(file).damaged == [4, 5]
    assert text_of(read(file).path()[-1].message.content) == "one"


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(SessionFault, match="nowhere"):
        read(tmp_path / "nowhere.jsonl")


def test_the_tree_is_followed_not_the_line_order(tmp_path):
    s = Script()
    root = s.leaf
    s.user("abandoned")
    s.leaf = root
    kept = s.user("kept")
    session = read(s.save(tmp_path / "s.jsonl"))
    assert [entry.id for entry in session.path(kept)] == [root, kept]


def test_damage_outside_the_path_is_counted_and_inside_it_refused(tmp_path):
    s = Script()
    first = s.user("one")
    second = s.user("two")
    file = s.save(tmp_path / "s.jsonl")
    lines = file.read_bytes().split(b"\n")
    lines[2] = lines[2][:20]
    file.write_bytes(b"\n".join(lines))
    session = read(file)
    assert session.damaged == [3]
    with pytest.raises(SessionFault, match=f"{second} names parent {first}") as fault:
        session.path(second)
    assert "line 3" in fault.value.next_step


def test_cycles_duplicates_and_unknown_leaves_are_named(tmp_path):
    s = Script()
    one, two = s.user("one"), s.user("two")
    s.entries[0]["parentId"] = two
    with pytest.raises(SessionFault, match="own ancestor"):
        read(s.save(tmp_path / "cycle.jsonl")).path()
    with pytest.raises(SessionFault, match="no entry nope"):
        read(tmp_path / "cycle.jsonl").path("nope")
    s.entries[0]["parentId"] = None
    s.entries[1]["id"] = two
    with pytest.raises(SessionFault, match=f"line 4 repeats the id {two}"):
        read(s.save(tmp_path / "double.jsonl")).path()
    assert read(tmp_path / "double.jsonl").path(s.entries[0]["id"])
    assert one


def test_a_line_of_megabytes_and_one_without_its_lf_are_read(tmp_path):
    s = Script()
    s.user("x" * (2 * BLOCK + 7))
    s.user("small")
    file = s.save(tmp_path / "s.jsonl")
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    path = read(file).path()
    assert [len(text_of(entry.message.content)) for entry in path] == [11, 2 * BLOCK + 7, 5]


def test_a_file_that_changes_under_the_reader_is_noticed(tmp_path):
    s = Script()
    s.user("one")
    s.user("two")
    session = read(s.save(tmp_path / "s.jsonl"))
    s.entries[1]["id"], s.entries[2]["id"] = s.entries[2]["id"], s.entries[1]["id"]
    s.save(tmp_path / "s.jsonl")
    with pytest.raises(SessionFault, match="changed while it was read"):
        list(session.path())


def test_what_was_read_is_kept_only_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("machine.capture.session.KEPT", 1000)
    s = Script()
    for _ in range(20):
        s.user("x" * 100)
    path = read(s.save(tmp_path / "s.jsonl")).path()
    assert [entry.id for entry in path] == [entry["id"] for entry in s.entries]
    assert len(path.session.kept.entries) < 10


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b"[1]", b'{"id":"x","type":"label","parentId":[]}', b"NaN", b"[" * 99999]
)
def test_a_line_that_is_no_entry_is_damaged(tmp_path, line):
    s = Script()
    file = s.save(tmp_path / "s.jsonl")
    file.write_bytes(file.read_bytes() + line + b"\n" + b'{"id":"y","type":"x","n":NaN}\n')
    assert read(file).damaged == [3, 4]


def test_a_malformed_entry_of_the_path_is_named_without_what_it_holds(tmp_path):
    s = Script()
    bad = s.message(role="user", content=[{"type": "text", "text": {"key": "hunter2"}}])
    leaf = s.user("Hi")
    with pytest.raises(SessionFault, match=f"entry {bad} is malformed.*content") as fault:
        list(read(s.save(tmp_path / "s.jsonl")).path(leaf))
    assert "hunter2" not in fault.value.message
    assert read(tmp_path / "s.jsonl").path(s.entries[0]["id"])


@pytest.mark.parametrize("cwd", [5, "here", "/a\0b", "/a\ud800"])
def test_a_header_whose_folder_cannot_be_is_refused(tmp_path, cwd):
    with pytest.raises(SessionFault, match="cwd"):
        read(Script(cwd=cwd).save(tmp_path / "s.jsonl"))


def test_a_file_that_grows_is_read_on_and_one_that_was_rewritten_is_read_anew(tmp_path, monkeypatch):
    taken = []
    real = reader._Index.read_on
    monkeypatch.setattr(reader._Index, "read_on", lambda self, file: (taken.append(self.end), real(self, file))[1])
    s = Script()
    s.user("one")
    file = s.save(tmp_path / "s.jsonl")
    first = latest(file)
    kept = list(first.path())
    s.user("two")
    s.entries.append(dict(s.entries[1]))  # an id that is there already
    s.save(file)
    with file.open("ab") as end:
        end.write(b"{damaged\n")
    grown = latest(file)
    assert taken[1] > 0
    assert (list(first.heads), list(grown.heads)) == (["00000001", "00000002"], ["00000001", "00000003", "00000002"])
    assert (first.damaged, grown.damaged, grown.repeated) == ([], [6], {"00000002"})
    assert grown.path("00000001")[0] is kept[0]
    assert grown.heads == read(file).heads
    s.entries, s.leaf = s.entries[:1], s.entries[0]["id"]
    s.user("anew")
    s.save(file)
    rewritten = latest(file)
    assert text_of(rewritten.path()[-1].message.content) == "anew"
    assert rewritten.heads == read(file).heads


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path):
    s = Script()
    s.user("one")
    file = s.save(tmp_path / "s.jsonl")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert latest(file).damaged == [3]
    file.write_bytes(whole)
    assert latest(file).damaged == []
    assert latest(file).last == "00000002"


def test_threads_read_one_session_together(tmp_path, monkeypatch):
    monkeypatch.setattr("machine.capture.session.KEPT", 3000)
    s = Script()
    for number in range(200):
        s.user(f"question {number}")
    file = s.save(tmp_path / "s.jsonl")
    with ThreadPoolExecutor(4) as threads:
        read_by = list(threads.map(lambda _: [entry.id for entry in latest(file).path()], range(16)))
    assert read_by == [[entry["id"] for entry in s.entries]] * 16
