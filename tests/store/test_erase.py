"""Erasing: the bytes are gone, wherever the store had them, and nothing else has moved."""

import errno
import hashlib
import json
import os
import sqlite3
import traceback
from pathlib import Path

import msgspec
import pytest
from underfire import row

from machine.errors import Refused, StoreError
from machine.store import erase, index
from machine.store.blobs import Blobs
from machine.store.copies import copies
from machine.store.erase import Span, all_lines, begin, erase_lines, erasing, finish, is_erased
from machine.store.files import append_line
from machine.store.index import Index
from machine.store.pool import Pool
from machine.store.selection import selected
from machine.store.wipe import wipe
from machine.trace import digest, encode


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """A pool, and its index, whose second row is to go; the others are long enough that no end of the pool is near it."""
    monkeypatch.setattr(index, "_KEPT_LINES", 1)
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    for name in ("one", "two", "three"):
        pool.append(changed(row(name, size=2000), note=f"a note on {name}"))
    list(pool.rows())
    return pool


def changed(row, **fields):
    return msgspec.structs.replace(row, **fields)


def ids(pool):
    return [found.id for found in pool.rows()]


def whole_store(pool):
    return {path: path.read_bytes() for path in pool.path.parent.rglob("*") if path.is_file()}


def as_fresh(pool, tmp_path):
    """Whether the pool's index says what one says that is made now."""
    with Index(pool.path, pool.path.with_suffix(".index")) as kept, Index(pool.path, tmp_path / "fresh") as fresh:
        said = [(each.places(), each.counts(), each.broken(), each.erased()) for each in (kept, fresh)]
    (tmp_path / "fresh").unlink()
    return said[0] == said[1]


def test_a_row_is_overwritten_where_it_lies_and_nothing_else_moves(pool, tmp_path):
    before = pool.path.read_bytes().split(b"\n")
    assert pool.erase(["t_two_0"]) == 1
    after = pool.path.read_bytes().split(b"\n")
    assert [len(line) for line in after] == [len(line) for line in before]
    assert (after[0], after[2:]) == (before[0], before[2:])
    said = json.loads(after[1])
    assert said.keys() == {"erased", "at"}
    assert said["erased"] == "t_two_0"
    assert ids(pool) == ["t_one_0", "t_three_0"]
    assert (pool.counts(), pool.broken(), pool.erased()) == ({"good": 2}, 0, 1)
    assert as_fresh(pool, tmp_path)
    with pytest.raises(Refused, match="t_two_0"):
        pool.get("t_two_0")
    assert copies(pool.path.parent, [b"two 0", b"a note on two"]) == []
    assert (pool.erase(["t_two_0"]), pool.erase(["t_none"]), pool.erase([])) == (0, 0, 0)
    pool.append(row("two"))
    assert ids(pool) == ["t_one_0", "t_three_0", "t_two_0"]


def test_a_project_without_a_pool_has_nothing_to_erase(tmp_path):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    assert (pool.erase(["t_one_0"]), pool.erased()) == (0, 0)
    assert not pool.path.parent.exists()


def test_every_row_of_an_id_goes_damaged_and_unfinished_ones_too(pool):
    twice = encode(changed(row("two", size=2000), note="again"))
    with pool.path.open("ab") as file:
        file.write(twice + b"\n" + twice.replace(b'"target"', b'"tarxxx"') + b"\n" + twice[:-30] + b"\n" + twice)
    assert pool.erase(["t_two_0"]) == 5
    assert b"two 0" not in pool.path.read_bytes()
    assert ids(pool) == ["t_one_0", "t_three_0"]
    assert (pool.erased(), pool.broken()) == (5, 0)


def test_what_a_crash_left_of_a_row_goes_too(pool):
    line = encode(row("two", size=2000))
    again = encode(changed(row("two", size=2000), id="t_tried_before"))
    other = encode(row("four", size=2000))
    for piece in (line[:60], again[:9000], other[:9000], again):
        append_line(pool.torn, b"# set aside then\n" + piece)
    with pool.path.open("ab") as file:
        file.write(again[:5000])
    assert pool.erase(["t_two_0"]) == 1
    assert copies(pool.path.parent, [b"two 0"]) == []
    assert other[:9000] in pool.torn.read_bytes()
    assert ids(pool) == ["t_one_0", "t_three_0"]


def test_of_a_turn_the_last_word_goes_alone_or_with_the_earlier_ones(pool, tmp_path):
    words = [("first", "bad"), ("second", "good"), ("third", "good")]
    turn = row("turn").source
    for name, tag in words:
        pool.append(changed(row(name, tag=tag), source=turn))
    pool.append_observed([row("seen", tag="observed")])
    pool.append(changed(row("seen", tag="good"), id="t_seen_judged"))
    assert ids(pool)[3:] == ["t_third_0", "t_seen_judged"]
    assert pool.erase(["t_third_0"]) == 1
    assert ids(pool)[3:] == ["t_second_0", "t_seen_judged"]
    assert as_fresh(pool, tmp_path)
    assert pool.erase(["t_second_0", "t_seen_judged"], superseded=True) == 4
    assert ids(pool) == ["t_one_0", "t_two_0", "t_three_0"]
    assert as_fresh(pool, tmp_path)


def test_a_row_in_force_of_the_same_turn_stays_when_an_older_one_goes(pool):
    old = pool.get("t_two_0")
    for before, name in ((old.id, "mended"), ("t_mended_0", "mended-twice")):
        pool.supersede(before, changed(row(name), source=old.source))
    assert pool.erase([old.id], superseded=True) == 2
    assert ids(pool) == ["t_one_0", "t_three_0", "t_mended-twice_0"]


def test_an_index_and_what_sqlite_keeps_beside_it_are_overwritten_not_only_removed(pool):
    path = pool.path.with_suffix(".index")
    with Index(pool.path, path) as kept:
        kept._db.execute("INSERT OR REPLACE INTO tally VALUES ('a word of the user', 1)")
    held = [path.open("rb")]
    beside = path.with_name(path.name + "-shm")
    beside.write_bytes(b"a word of the user")
    held.append(beside.open("rb"))
    assert b"a word of the user" in path.read_bytes()
    pool.erase(["t_two_0"])
    for file in held:
        with file:
            old = file.read()
            assert old == bytes(len(old)) != b""
    assert copies(pool.path.parent, [b"a word of the user"]) == []


def test_the_index_holds_none_of_the_words_of_a_row(pool):
    with Index(pool.path, pool.path.with_suffix(".index")):
        pass
    held = [path for path in whole_store(pool) if ".index" in path.name]
    assert held
    assert copies(pool.path.parent, [b"a note on"]) == [pool.path]


def halfway(pool, cut):
    """Notes that row two goes, and overwrites a part of it, as a crash may leave it."""
    spans = selected(pool.path, ["t_two_0"], None)
    begin(pool.path, spans)
    [span] = spans
    with pool.path.open("r+b") as file:
        file.seek(span.offset)
        line = file.read(span.length)
        file.seek(span.offset)
        file.write(cut(line))
    return span


CUTS = {
    "nothing yet": lambda line: line,
    "a part of its head": lambda line: b'{"era' + line[5:],
    "the other part of its head": lambda line: line[:4] + b'ased":' + line[10:],
    "its head": lambda line: b'{"erased":' + line[10:],
    "its middle": lambda line: b'{"erased":' + line[10:5000] + b" " * 4096 + line[9096:],
    "all but its words": lambda line: b'{"erased":' + line[10:80] + b" " * (len(line) - 80),
}
"""What a crash may leave, power cuts included: the head is synced before the rest is overwritten."""


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_what_is_half_erased_is_no_row_and_not_broken_and_the_next_append_ends_it(pool, tmp_path, cut):
    rows, places = pool.rows(), pool._places()
    next(rows)
    halfway(pool, cut)
    for read in (rows, pool._read(places)):  # readers that asked the index before: the old row is whole, or it is none
        found = [each for each in read if each.id != "t_one_0"]
        assert [each.id for each in found] in (["t_three_0"], ["t_two_0", "t_three_0"])
        assert all(digest(each.messages, each.tools, each.target) == each.digest for each in found)
    assert ids(pool) == ["t_one_0", "t_three_0"]
    assert (pool.counts(), pool.broken(), pool.erased()) == ({"good": 2}, 0, 1)
    with pytest.raises(Refused):
        pool.get("t_two_0")
    assert pool.names_blobs(["two 0"]) == set()
    pool.append(row("four"))
    assert ids(pool) == ["t_one_0", "t_three_0", "t_four_0"]
    assert copies(pool.path.parent, [b"two 0"]) == []
    assert not pool.path.with_suffix(".erasing").exists()
    assert as_fresh(pool, tmp_path)


def test_a_reader_that_was_slow_does_not_give_out_what_was_erased_meanwhile(pool):
    rows = pool.rows()
    next(rows)
    pool.erase(["t_two_0"])
    assert [found.id for found in rows] == ["t_three_0"]


def test_a_reader_that_overtakes_an_erasing_gives_out_nothing_half_erased(pool, monkeypatch):
    pool.append(row("long", size=30_000))  # longer than what is read at once
    rows, real, left = pool.rows(), os.pwrite, []
    assert [next(rows).id for _ in range(3)] == ["t_one_0", "t_two_0", "t_three_0"]  # the head of the next one is read

    def pwrite(descriptor, data, offset):
        written = real(descriptor, data, offset)
        if set(bytes(data)) == {ord(" ")}:
            left.append(offset)
            if len(left) == 40:  # so many pages are blank; what follows, and ends the row, is as it was
                left.extend(rows)
        return written

    monkeypatch.setattr(erase, "_CHUNK", 4096)
    monkeypatch.setattr(os, "pwrite", pwrite)
    assert pool.erase(["t_long_0"]) == 1
    assert len(left) > 40
    assert all(isinstance(each, int) for each in left)


def test_reading_asks_the_system_nothing_that_grows_with_the_rows_but_for_their_bytes(pool, monkeypatch):
    asked, real = [], os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: (asked.append(path), real(path))[1])
    pool.append_all([row("many", part=i) for i in range(50)])
    pool.counts()
    counts = []
    for count in (1, 50):
        asked.clear()
        assert len(pool.recent(count)) == count
        counts.append(len(asked))
    assert counts[0] == counts[1]


def other_of(line):
    """Another row of the same length."""
    return line.replace(b"two", b"owt")


def test_a_note_that_meets_a_restored_pool_hides_and_erases_no_other_row(pool):
    span = halfway(pool, CUTS["nothing yet"])
    restored = other_of(pool.path.read_bytes())
    pool.path.write_bytes(restored)
    note = pool.path.with_suffix(".erasing")
    assert erasing(pool.path) == frozenset()
    assert ids(pool) == ["t_one_0", "t_owt_0", "t_three_0"]
    with pytest.raises(StoreError, match="restored") as fault:
        pool.append(row("four"))
    assert str(note) in fault.value.message
    assert "t_two_0" in fault.value.next_step
    assert pool.path.read_bytes()[: len(restored)] == restored
    assert not note.exists()
    pool.append(row("four"))
    assert ids(pool) == ["t_one_0", "t_owt_0", "t_three_0", "t_four_0"]
    assert pool.path.read_bytes()[span.offset :][: span.length] == restored[span.offset :][: span.length]


def test_what_a_note_means_goes_from_a_restored_pool_too_and_nothing_else_does(pool):
    spans = selected(pool.path, ["t_two_0", "t_three_0"], None)
    begin(pool.path, spans)
    pool.path.write_bytes(pool.path.read_bytes().replace(b"three", b"eerht"))
    assert ids(pool) == ["t_one_0", "t_eerht_0"]
    with pytest.raises(StoreError, match="1 line"):
        pool.append(row("four"))
    assert copies(pool.path.parent, [b"two 0"]) == []
    assert ids(pool) == ["t_one_0", "t_eerht_0"]


def test_what_a_crash_left_of_a_row_is_bound_to_its_bytes_too(pool):
    append_line(pool.torn, b"# set aside then\n" + encode(row("two", size=2000))[:9000])
    begin(pool.path, selected(pool.path, ["t_two_0"], None))
    restored = other_of(pool.torn.read_bytes())
    pool.torn.write_bytes(restored)
    with pytest.raises(StoreError, match="1 line"):
        pool.append(row("four"))
    assert pool.torn.read_bytes() == restored
    assert ids(pool) == ["t_one_0", "t_three_0"]


def test_a_note_says_nothing_of_what_a_line_was_and_is_wiped(pool):
    note, said = pool.path.with_suffix(".erasing"), []
    for _ in range(2):
        begin(pool.path, selected(pool.path, ["t_two_0"], None))
        said.append(json.loads(note.read_bytes()))
    line = encode(changed(row("two", size=2000), note="a note on two"))
    assert said[0]["spans"][0].keys() == {"offset", "length", "id", "torn", "seal"}
    assert said[0]["spans"][0]["seal"] != said[1]["spans"][0]["seal"]
    for hashed in (hashlib.blake2b, hashlib.sha256):
        for part in (line, line[10:]):
            assert hashed(part).hexdigest()[:32] not in note.read_text()
    stray = note.with_name(f".tmp-{note.name}-0a1b")
    stray.write_bytes(note.read_bytes())
    with note.open("rb") as held:
        pool.append(row("four"))
        left = held.read()
    assert left == bytes(len(left)) != b""
    pool.erase(["t_one_0"])
    assert not stray.exists()


@pytest.mark.parametrize("name", ["pwrite", "fsync", "unlink"])
@pytest.mark.parametrize("after", range(5))
def test_an_erasing_that_fails_on_the_way_is_ended_by_the_next_one(pool, tmp_path, monkeypatch, name, after):
    real, calls = getattr(os, name), []

    def failing(*words):
        calls.append(words)
        if len(calls) > after:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*words)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing)
        try:
            with pytest.raises(StoreError) as fault:
                pool.erase(["t_two_0"])
        except pytest.fail.Exception:
            assert len(calls) <= after or ids(pool) == ["t_one_0", "t_three_0"]  # only the note's bytes were not wiped
            return
        assert fault.value.next_step not in ("", "run `machine doctor`")
    begun = pool.path.with_suffix(".erasing").exists()
    assert ids(pool) == (["t_one_0", "t_three_0"] if begun else ["t_one_0", "t_two_0", "t_three_0"])
    pool.erase(["t_two_0"])
    assert ids(pool) == ["t_one_0", "t_three_0"]
    assert copies(pool.path.parent, [b"two 0"]) == []
    assert as_fresh(pool, tmp_path)


@pytest.mark.parametrize("edit", ["a line less", "a line less, another there", "a line more"])
def test_a_pool_that_was_edited_meanwhile_is_not_overwritten_somewhere_else(pool, edit):
    halfway(pool, CUTS["nothing yet"])
    lines = pool.path.read_bytes().split(b"\n")
    edits = {
        "a line less": lines[1:],
        "a line less, another there": [lines[0], lines[0], b""],
        "a line more": [lines[2], *lines],
    }
    edited = b"\n".join(edits[edit])
    pool.path.write_bytes(edited)
    assert len(ids(pool)) == {"a line less": 2, "a line less, another there": 1, "a line more": 3}[edit]
    with pytest.raises(StoreError, match=r"was edited .*traces\.erasing, which named them, was dropped") as fault:
        pool.append(row("four"))
    assert fault.value.next_step.endswith("machine privacy erase t_two_0")
    assert pool.path.read_bytes() == edited
    pool.append(row("four"))
    assert ids(pool)[-1] == "t_four_0"


@pytest.mark.parametrize(
    ("offset", "length"), [(1 << 62, 9), (1 << 40, 9), (-5, 9), (0, -5), (0, 1 << 60), (0, 1 << 46)]
)
def test_a_note_of_places_that_no_log_has_overwrites_nothing(pool, offset, length):
    before, span = pool.path.read_bytes(), {"offset": offset, "length": length, "id": "t_one_0"}
    note = {"at": "now", "spans": [span], "salt": "0" * 64, "version": 2}
    pool.path.with_suffix(".erasing").write_text(json.dumps(note))
    with pytest.raises(StoreError, match=r"damaged|was edited") as fault:
        pool.append(row("four"))
    assert "traces.erasing" in str(fault.value.message)
    assert pool.path.read_bytes() == before


@pytest.mark.parametrize(
    "note", [b'{"at": 3}', b"", b'{"at": "now", "spans": [{"offset": 0, "length": 2}], "size": 2, "torn_size": 0}']
)
def test_a_damaged_note_of_what_goes_is_said_and_not_guessed(pool, note):
    pool.path.with_suffix(".erasing").write_bytes(note)
    assert len(ids(pool)) == 3
    with pytest.raises(StoreError, match="damaged") as fault:
        pool.append(row("four"))
    assert "rm " in fault.value.next_step


def test_rows_are_mended_even_where_only_what_no_digest_covers_has_changed(pool):
    old = pool.get("t_two_0")
    mended = changed(old, id="t_mended", source=msgspec.structs.replace(old.source, cwd="/home/elsewhere"))
    assert pool.append(mended).duplicate
    pool.supersede(old.id, mended)
    assert ids(pool) == ["t_one_0", "t_three_0", "t_mended"]
    assert pool.get("t_mended").source.cwd == "/home/elsewhere"
    assert pool.counts() == {"good": 3}
    pool.erase([old.id, "t_mended"])
    with pytest.raises(Refused, match="mended"):
        pool.supersede(old.id, mended)
    with pytest.raises(Refused, match="mended"):
        pool.supersede("t_three_0", changed(row("three"), tag="bad", id="t_other_word"))


@pytest.mark.parametrize("fields", [{"note": "said since"}, {"tag": "good", "digest": "0" * 64}])
def test_a_row_that_is_not_the_last_word_on_its_turn_is_mended_no_more(pool, fields):
    old, done = pool.get("t_two_0"), []
    newer = changed(old, id="t_newer", **fields)
    assert not pool.append(newer).duplicate
    before = pool.path.read_bytes()
    with pytest.raises(Refused, match="t_two_0"):
        pool.supersede(old.id, changed(old, id="t_mended"), first=lambda: done.append(1))
    assert (pool.path.read_bytes(), done) == (before, [])
    pool.supersede("t_newer", changed(newer, id="t_mended"), first=lambda: done.append(pool.path.read_bytes()))
    assert done == [before]
    assert ids(pool) == ["t_one_0", "t_three_0", "t_mended"]


def test_an_observed_row_whose_mended_one_another_turn_holds_already_counts_no_more(pool, tmp_path):
    pool.append_observed([row("seen", tag="observed")])
    pool.append(row("judged"))
    pool.supersede("t_seen_0", changed(row("judged", tag="observed"), id="t_mended", source=row("seen").source))
    assert ids(pool) == ["t_one_0", "t_two_0", "t_three_0", "t_judged_0"]
    assert pool.counts() == {"good": 4, "observed": 0} or pool.counts() == {"good": 4}
    assert as_fresh(pool, tmp_path)


def test_a_row_is_not_given_out_in_the_place_of_another(pool):
    assert ids(pool) == ["t_one_0", "t_two_0", "t_three_0"]
    places = pool._places()
    pool.path.write_bytes(other_of(pool.path.read_bytes()))
    with pytest.raises(StoreError, match="t_two_0"):
        list(pool._read(places))


def test_an_index_that_is_made_while_a_line_goes_does_not_call_it_broken(pool, monkeypatch):
    pool.path.with_suffix(".index").unlink()
    asked, real = [], index.erasing

    def meanwhile(log):
        asked.append(real(log))
        if len(asked) == 1:  # before the pool is read
            halfway(pool, CUTS["a part of its head"])
        return asked[-1]

    monkeypatch.setattr(index, "erasing", meanwhile)
    with Index(pool.path, pool.path.with_suffix(".index")) as made:
        assert (made.broken(), made.erased(), made.counts()) == (0, 1, {"good": 2})
    assert len(asked) == 1


def test_what_a_crash_left_of_replacing_a_log_goes_with_its_lines(tmp_path):
    log, stray = tmp_path / "log.jsonl", tmp_path / ".tmp-log.jsonl-0a1b2c3d"
    log.write_bytes(b'{"a": "a long enough word"}\n')
    stray.write_bytes(b'{"a": "a long enough wo')
    with stray.open("rb") as held:
        assert erase_lines(log, lambda line: b'"a"' in line) == 1
        assert held.read() == bytes(23)
    assert not stray.exists()


def test_a_later_row_with_a_new_id_stands_for_the_turn(pool):
    old = pool.get("t_two_0")
    assert not pool.append(changed(row("two-redacted"), source=old.source)).duplicate
    assert ids(pool) == ["t_one_0", "t_three_0", "t_two-redacted_0"]
    assert pool.get(old.id) == old


def test_images_that_no_row_names_any_more_go(pool):
    blobs = Blobs(pool.path.parent / "blobs")
    images = [b"first image" * 9, b"second image" * 9]
    first, second = blobs.keep(images)
    content = [{"type": "image", "image": first}]
    for name in ("four", "five"):
        made = row(name)
        pool.append(
            changed(made, messages=({"role": "user", "content": content}, *made.messages[1:]), digest=name * 16)
        )
    pool.erase(["t_four_0"])
    assert pool.names_blobs([first, second]) == {first}
    pool.erase(["t_five_0"])
    assert pool.names_blobs([first, second]) == set()
    stray = blobs.folder / first[:2] / f".tmp-{first}-0a1b"
    stray.write_bytes(images[0][:20])
    with (blobs.folder / first[:2] / first).open("rb") as held:
        assert blobs.erase([first, "0" * 64]) == 1
        assert held.read() == bytes(len(images[0]))
    assert not stray.exists()
    assert blobs.get(second) == images[1]
    with pytest.raises(StoreError):
        blobs.erase(["../" + second])


def test_lines_of_another_log_go_whole_torn_and_unfinished_ones(tmp_path):
    log = tmp_path / "corrections.jsonl"
    lines = [b'{"correction":"c_1","why":"spoken word"}', b'{"c":2}', b"", b'{"correction":"c_1"}']
    log.write_bytes(b"\n".join(lines) + b'\n{"correction":"c_1","why":"spok')
    log.with_suffix(".torn").write_bytes(b'# set aside\n{"correction":"c_1","wh\n')
    assert erase_lines(log, lambda line: b'"c_1"' in line) == 3
    after = log.read_bytes().split(b"\n")
    assert [len(line) for line in after] == [40, 7, 0, 20, 31]
    assert after[1] == lines[1]
    assert [is_erased(line) for line in after] == [True, False, False, True, True]
    assert all(json.loads(after[i]) for i in (0, 3, 4))
    assert copies(tmp_path, [b"c_1", b"spok"]) == []
    assert erase_lines(log, lambda line: b"2" in line) == 1
    assert log.read_bytes().split(b"\n")[1] == b" " * 7
    assert list(all_lines(log)) == []
    assert erase_lines(tmp_path / "none.jsonl", lambda line: True) == 0


def test_a_log_can_be_read_while_its_lines_go(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"a": "long enough"}\n{"b": "long enough"}\n')
    assert erasing(log) == frozenset()
    begin(log, [span for span in selected_by(log, b'"b"')])
    assert erasing(log) == {21}
    finish(log)
    assert erasing(log) == frozenset()
    assert is_erased(log.read_bytes().split(b"\n")[1])


def selected_by(log, word):
    return [Span(offset, len(line)) for offset, line in all_lines(log) if word in line]


def test_copies_are_found_wherever_they_lie_and_links_are_not_followed(tmp_path):
    needle, other = b"the secret word", b"another word"
    files = {
        "plain.txt": b"so " + needle, "a/b/across.bin": bytes((1 << 20) - 7) + needle + bytes(9), "c/none": b"the secret wor",
        "d/other": other * 3, "empty": b"",
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_bytes(data)
    with sqlite3.connect(tmp_path / "store" / "some.index") as db:
        db.execute("CREATE TABLE t (x TEXT)")
        db.execute("INSERT INTO t VALUES (?)", [needle.decode()])
    db.close()
    (tmp_path / "outside").write_bytes(needle)
    (tmp_path / "store" / "link").symlink_to(tmp_path / "outside")
    found = copies(tmp_path / "store", [needle, other, b""])
    assert [str(path.relative_to(tmp_path / "store")) for path in found] == ["a/b/across.bin", "d/other", "plain.txt", "some.index"]  # fmt: skip
    assert copies(tmp_path / "store", []) == copies(tmp_path / "store", [b""]) == []


def test_a_file_that_is_wiped_is_overwritten_before_it_goes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"word" * (1 << 19))
    with path.open("rb") as held:
        assert wipe(path)
        assert hashlib.sha256(held.read()).digest() == hashlib.sha256(bytes(1 << 21)).digest()
    assert not path.exists()
    assert not wipe(path)
    Path(tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        wipe(tmp_path / "link")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_others_read_and_write_while_rows_are_erased(tmp_path):
    pool = Pool(tmp_path / "store" / "traces.jsonl")
    pool.append_all([row("stays", part=i, size=300) for i in range(20)])

    def erased(number):
        pool.append_all([row(f"goes.{number}", size=2000), row(f"stays.{number}")])
        assert pool.erase([f"t_goes.{number}_0"]) == 1

    def read(number):
        rows = list(pool.rows())
        assert all(digest(found.messages, found.tools, found.target) == found.digest for found in rows)
        assert len([found for found in rows if found.id.startswith("t_stays_")]) == 20
        assert (pool.broken(), pool.counts()["good"] >= 20) == (0, True)

    def appended(number):
        assert not pool.append(row(f"more.{number}")).duplicate

    children = [forked(each) for each in (erased, read, read, appended)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert pool.erased() == TIMES
    assert pool.counts() == {"good": 20 + 2 * TIMES}
    assert copies(pool.path.parent, [b"goes.0 0 goes"]) == []
    assert as_fresh(pool, tmp_path)


TIMES = 25


def forked(act):
    child = os.fork()
    if not child:
        try:
            for number in range(TIMES):
                act(number)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    return child
