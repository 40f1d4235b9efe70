import collections
import contextlib
import os
import random
import sqlite3
import stat
from pathlib import Path

import pytest

from machine.errors import Refused, StoreError
from machine.store import index
from machine.store.extent import mark_of
from machine.store.pool import Pool, append_elsewhere
from machine.store.project import Project
from machine.trace import Row, Source, digest


def row(text="Paris.", tag="good", note=None, entries=("e1", "e2"), id=None, part=0):
    messages = ({"role": "user", "content": "Capital?"}, {"role": "assistant", "content": text})
    source = Source(host="pi", host_version="1", session="s", leaf=entries[-1], entries=entries, cwd="/p", part=part)
    number = abs(hash((text, tag, note, entries, part))) % 10**20
    return Row(
        id=id or f"t_{number:026d}", tag=tag, messages=messages, tools=(), target=(1,), created_at="2026-01-01T00:00:00+00:00",
        source=source, digest=digest(messages, (), (1,)), note=note,
    )  # fmt: skip


@pytest.fixture
def pool(tmp_path):
    return Pool(tmp_path / "store" / "traces.jsonl")


def test_what_was_appended_is_read_back(pool):
    kept = row()
    assert pool.append(kept).duplicate is False
    assert list(pool.rows()) == [kept]
    assert pool.counts() == {"good": 1}
    assert pool.get(kept.id[:12]) == kept


def test_the_same_turn_tagged_twice_is_one_row(pool):
    first = row()
    pool.append(first)
    again = pool.append(row(id="t_other"))
    assert (again.duplicate, again.id) == (True, first.id)
    assert len(list(pool.rows())) == 1


def test_a_later_word_on_a_turn_supersedes_the_earlier(pool):
    pool.append(row("Perhaps Paris"))
    pool.append(row("ANSWER: Paris."))
    pool.append(row("ANSWER: Paris.", tag="bad"))
    assert [(r.tag, r.messages[1]["content"]) for r in pool.rows()] == [("bad", "ANSWER: Paris.")]
    assert pool.counts() == {"bad": 1}
    assert len(pool.path.read_bytes().splitlines()) == 3


def test_recent_is_newest_first_and_by_tag(pool):
    for i in range(5):
        pool.append(row(f"A{i}", tag="good" if i % 2 else "bad", entries=(f"u{i}", f"a{i}")))
    assert [r.messages[1]["content"] for r in pool.recent(2)] == ["A4", "A3"]
    assert [r.messages[1]["content"] for r in pool.recent(9, "good")] == ["A3", "A1"]
    assert pool.tagged_entries("s") == {f"a{i}" for i in range(5)}


def test_a_torn_last_line_is_set_aside_and_never_read(pool):
    pool.append(row("one", entries=("a", "b")))
    with pool.path.open("ab") as file:
        file.write(b'{"id":"t_torn","mess')
    assert len(list(pool.rows())) == 1
    pool.append(row("two", entries=("c", "d")))
    assert [r.messages[1]["content"] for r in pool.rows()] == ["one", "two"]
    assert b'{"id":"t_torn","mess' in pool.path.with_suffix(".torn").read_bytes()


def test_a_line_that_is_no_row_is_counted_and_left_alone(pool):
    pool.append(row("one", entries=("a", "b")))
    with pool.path.open("ab") as file:
        file.write(b'{"not": "a row"}\n')
    pool.append(row("two", entries=("c", "d")))
    assert len(list(pool.rows())) == 2
    assert pool.broken() == 1


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b"not a database" * 99)])
def test_the_index_is_rebuilt_from_the_pool(pool, damage):
    pool.append(row("one", entries=("a", "b")))
    pool.append(row("two", entries=("c", "d")))
    damage(pool.path.with_suffix(".index"))
    assert pool.counts() == {"good": 2}
    assert len(list(pool.rows())) == 2


def test_an_index_of_another_pool_is_not_believed(pool):
    pool.append(row("one", entries=("a", "b")))
    pool.append(row("two", entries=("c", "d")))
    lines = pool.path.read_bytes().splitlines(keepends=True)
    pool.path.write_bytes(lines[1] * 1 + lines[0])
    assert [r.messages[1]["content"] for r in pool.rows()] == ["two", "one"]


def test_files_are_private_whatever_the_umask(pool):
    old = os.umask(0)
    try:
        pool.append(row())
    finally:
        os.umask(old)
    assert stat.S_IMODE(pool.path.parent.stat().st_mode) == 0o700
    for file in pool.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_symlink_in_the_way_is_refused(pool, tmp_path):
    pool.path.parent.mkdir(parents=True)
    pool.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        pool.append(row())
    assert not (tmp_path / "elsewhere").exists()


def test_a_symlinked_folder_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StoreError, match="symbolic link"):
        Pool(tmp_path / "link" / "traces.jsonl").append(row())


def test_unknown_and_ambiguous_ids_are_refused(pool):
    with pytest.raises(Refused, match="no row"):
        pool.get("t_x")
    pool.append(row("one", entries=("a", "b"), id="t_aa1"))
    pool.append(row("two", entries=("c", "d"), id="t_aa2"))
    with pytest.raises(Refused, match="several"):
        pool.get("t_aa")


def test_out_file_is_appended_to_and_its_folder_left_alone(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    append_elsewhere(folder / "rows.jsonl", row())
    append_elsewhere(folder / "rows.jsonl", row())
    assert len((folder / "rows.jsonl").read_bytes().splitlines()) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [f.name for f in folder.iterdir()] == ["rows.jsonl"]
    with pytest.raises(StoreError, match="not a folder"):
        append_elsewhere(tmp_path / "nowhere" / "rows.jsonl", row())


def test_projects_are_told_apart_by_path_and_joined_by_work_tree(tmp_path):
    for name in ("a/app/sub", "b/app"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a/app/.git").mkdir()
    one, inside, other = (Project.at(tmp_path / name) for name in ("a/app", "a/app/sub", "b/app"))
    assert one.folder == inside.folder != other.folder
    assert one.folder.name.startswith("app-")
    assert not one.folder.exists()


def test_a_whole_last_line_without_its_lf_is_kept_as_a_row(pool):
    pool.append(row("one", entries=("a", "b")))
    pool.path.write_bytes(pool.path.read_bytes().rstrip(b"\n"))
    pool.append(row("two", entries=("c", "d")))
    assert [r.messages[1]["content"] for r in pool.rows()] == ["one", "two"]
    assert not pool.torn.exists()


def test_nothing_of_the_users_own_file_is_moved(tmp_path):
    for name in ("mine.jsonl", "mine.torn"):
        (tmp_path / name).write_bytes(b"notes\nlast line")
        append_elsewhere(tmp_path / name, row())
        assert (tmp_path / name).read_bytes().startswith(b"notes\nlast line\n{")


@pytest.mark.parametrize("line", [b'{"a":"\\ud800"}', b"\xff", b"[" * 99999, b"{}"])
def test_no_line_of_a_pool_stops_it_from_being_read(pool, line):
    pool.append(row("one", entries=("a", "b")))
    with pool.path.open("ab") as file:
        file.write(line + b"\n")
    assert (len(pool.recent(9)), pool.broken(), pool.broken()) == (1, 1, 1)


def test_an_index_that_is_held_or_cannot_be_made_is_done_without(pool, monkeypatch):
    monkeypatch.setattr(index, "_BUSY_SECONDS", 0.05)
    pool.append(row("one", entries=("a", "b")))
    assert pool.counts() == {"good": 1}
    path = pool.path.with_suffix(".index")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert pool.append(row("two", entries=("c", "d"))).duplicate is False
        assert pool.counts() == {"good": 2}
    assert path.exists()
    path.unlink()
    path.mkdir()
    assert pool.counts() == {"good": 2}
    assert pool.append(row("two", entries=("c", "d"))).duplicate is True


def test_a_damaged_page_of_the_index_is_noticed_when_it_is_read(pool):
    for i in range(40):
        pool.append(row(f"A{i}", entries=(f"u{i}", f"a{i}")))
    assert pool.counts() == {"good": 40}
    path = pool.path.with_suffix(".index")
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192))
    assert (pool.counts(), len(pool.recent(99))) == ({"good": 40}, 40)


def test_a_pool_that_was_edited_by_hand_is_read_anew(pool):
    for i in range(40):
        pool.append(row(f"A{i}", entries=(f"u{i}", f"a{i}")))
    pool.counts()
    lines = pool.path.read_bytes().splitlines(keepends=True)
    lines[20] = lines[20].replace(b'"A20"', b'"an answer that is longer than it was"')
    pool.path.write_bytes(b"".join(lines))
    assert pool.recent(1)[0].messages[1]["content"] == "A39"
    assert len(list(pool.rows())) == 40


def test_a_pool_that_goes_away_while_it_is_read_is_a_store_error(pool):
    pool.append(row())
    rows = pool.rows()
    places = pool._places()
    pool.path.unlink()
    with pytest.raises(StoreError, match="No such file"):
        list(pool._read(places))
    assert list(rows) == []


def test_refusals_survive_a_torn_line(tmp_path):
    project = Project.at(tmp_path)
    project.refused("good", "one \ud800")
    with (project.folder / "refusals.jsonl").open("ab") as file:
        file.write(b'{"at":"x"}\n[]\n{"at":"x","com')
    project.refused("good", "two")
    project.refused("good", "three")
    assert [refusal.reason for refusal in project.refusals()] == ["one ", "two", "three"]


def test_a_folder_whose_name_is_no_utf8_has_a_store(tmp_path):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    assert Project.at(odd).make().is_dir()


def told(pool):
    return [(r.tag, r.messages[1]["content"]) for r in pool.rows()]


def test_the_parts_of_a_turn_stand_side_by_side_and_are_superseded_each_by_its_own(pool):
    first = [row(f"P{i}", part=i) for i in range(3)]
    assert [a.duplicate for a in pool.append_all(first).rows] == [False] * 3
    assert [(a.id, a.duplicate) for a in pool.append_all(first).rows] == [(r.id, True) for r in first]
    assert list(pool.rows()) == first
    assert "part" not in pool.path.read_bytes().split(b"\n")[0].decode()
    added = pool.append_all([first[0], row("P1 as it should be", part=1), first[2]]).rows
    assert [a.duplicate for a in added] == [True, False, True]
    assert told(pool) == [("good", "P0"), ("good", "P2"), ("good", "P1 as it should be")]


def test_observed_rows_are_added_once_and_only_where_the_turn_has_none(pool):
    pool.append(row("judged", tag="bad"))
    turns = [("u1", "a1"), ("u2", "a2"), ("e1", "e2")]
    assert pool.holds(turns) == [False, False, True]
    new = [row(f"O{i}", tag="observed", entries=turn) for i, turn in enumerate(turns)]
    assert pool.append_observed(new) == 2
    assert pool.append_observed(new) == 0
    assert pool.append_observed([row("judged", tag="observed", entries=("u3", "a3"))]) == 0
    assert told(pool) == [("bad", "judged"), ("observed", "O0"), ("observed", "O1")]
    assert pool.holds(turns) == [True] * 3
    assert len(pool.path.read_bytes().splitlines()) == 3


def test_an_observed_row_has_no_say_over_a_judged_one_but_is_judged_itself(pool):
    pool.append(row("seen", tag="observed"))
    pool.append(row("seen", tag="good"))
    assert told(pool) == [("good", "seen")]
    assert pool.append(row("seen", tag="observed")).duplicate is True
    pool.append(row("seen otherwise", tag="observed"))
    assert told(pool) == [("good", "seen")]
    assert pool.counts() == {"good": 1}


def test_nothing_to_add_adds_nothing(pool):
    assert pool.append_all([]).rows == []
    assert pool.append_observed([]) == 0
    assert not pool.path.exists()
    assert pool.holds([("u", "a")]) == [False]


def test_an_index_of_the_old_schema_is_made_anew(pool):
    pool.append(row("one", entries=("a", "b")))
    path = pool.path.with_suffix(".index")
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("CREATE TABLE covers (bytes INTEGER NOT NULL, mark TEXT NOT NULL, broken INTEGER NOT NULL)")
        old.execute("CREATE TABLE rows (offset INTEGER PRIMARY KEY, turn TEXT)")
        old.execute("INSERT INTO covers VALUES (?, ?, 0)", [pool.path.stat().st_size, mark_of(pool.path, pool.path.stat().st_size)])  # fmt: skip
    assert pool.holds([("a", "b")]) == [True]
    assert pool.counts() == {"good": 1}
    with contextlib.closing(sqlite3.connect(path)) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (index._VERSION,)


def test_the_counts_that_come_with_an_append_are_those_of_the_pool(pool):
    first = pool.append_all([row(f"{i}", entries=("u1", "a1"), part=i) for i in range(3)])
    assert first.counts == pool.counts() == {"good": 3}
    pool.path.write_bytes(pool.path.read_bytes().rstrip(b"\n"))  # as an editor may leave it
    assert pool.append_all([row("b", entries=("u2", "a2"))]).counts == pool.counts() == {"good": 4}
    assert pool.append_all([row("b", entries=("u2", "a2"))]).counts == {"good": 4}
    assert pool.append_all([row("c", entries=("u2", "a2"), tag="bad")]).counts == pool.counts() == {"good": 3, "bad": 1}


def test_the_tally_is_that_of_the_rows_whatever_supersedes_what(pool):
    draw = random.Random(3)
    for number in range(120):
        tag = draw.choice(["good", "bad", "observed"])
        turn = (f"u{draw.randrange(9)}", f"a{draw.randrange(3)}")
        pool.append(row(f"{draw.randrange(12)}", tag=tag, entries=turn, id=f"t_{draw.randrange(60)}", note=str(number)))
    tags = collections.Counter(kept.tag for kept in pool.rows())
    assert pool.counts() == dict(tags)
