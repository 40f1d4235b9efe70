"""What is kept of attempts, and what becomes of it when another model is asked, or a crash has cut a line."""

import stat
from pathlib import Path

import msgspec
import pytest

from machine.agentic.attempt import Attempt
from machine.agentic.kept import ATTEMPTS, Header, Kept, read_attempts
from machine.agentic.task import Task
from machine.errors import Refused, StoreError

HEADER = Header("base", None, 8192, 512, None, {"seconds": 300.0}, "1.6.0")


def attempt(task: str, digest: str = "d", passed: bool = True) -> Attempt:
    return Attempt(task, digest, "base", passed, "", "exited", 1, 1, 0, {"bash": 1}, 10, 5, 1.5, ("a.py",), (), 0, "ok",
                   (), "bubblewrap", f"{task}.jsonl")  # fmt: skip


def of(task: str, digest: str = "d") -> Task:
    return Task(id=task, fault="syntax", seed=1, digest=digest)


def test_what_is_kept_is_found_again(tmp_path: Path):
    folder = tmp_path / "new" / "attempts"
    kept = Kept(folder, HEADER)
    kept.add(attempt("one"), b"events\n")
    kept.add(attempt("two", passed=False), b"")
    again = Kept(folder, HEADER)
    assert again.attempts == {"one": attempt("one"), "two": attempt("two", passed=False)}
    assert again.aside == ""
    assert read_attempts(folder) == (HEADER, [attempt("one"), attempt("two", passed=False)])
    assert (folder / "transcripts" / "one.jsonl").read_bytes() == b"events\n"
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert set(modes.values()) == {0o600, 0o700}
    assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items())


@pytest.mark.parametrize(
    ("change", "word"),
    [({"model": "other"}, "another model"), ({"instruction": "be good"}, "another instruction"),
     ({"limits": {"seconds": 1.0}}, "another limits"), ({"pi": "1.7.0"}, "another version of Pi"),
     ({"temperature": 0.0}, "another temperature"), ({"max_tokens": 1}, "another max-tokens")],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)  # fmt: skip
def test_attempts_asked_otherwise_are_set_aside(tmp_path: Path, change: dict, word: str):
    Kept(tmp_path, HEADER).add(attempt("one"), b"events\n")
    before = (tmp_path / ATTEMPTS).read_bytes()
    other = Kept(tmp_path, msgspec.structs.replace(HEADER, **change))
    assert other.attempts == {}
    assert word in other.aside
    assert "attempts.1.jsonl" in other.aside
    assert (tmp_path / "attempts.1.jsonl").read_bytes() == before
    assert (tmp_path / "transcripts.1" / "one.jsonl").read_bytes() == b"events\n"
    assert list((tmp_path / "transcripts").iterdir()) == []


def test_asked_anew_nothing_is_lost_either(tmp_path: Path):
    for _ in range(3):
        kept = Kept(tmp_path, HEADER, again=True)
        assert kept.attempts == {}
        kept.add(attempt("one"), b"")
    assert "attempts.2.jsonl" in kept.aside
    assert Kept(tmp_path, HEADER).attempts == {"one": attempt("one")}


def test_a_crash_loses_the_line_it_cut_and_no_other(tmp_path: Path):
    Kept(tmp_path, HEADER).add(attempt("one"), b"")
    with (tmp_path / ATTEMPTS).open("ab") as file:
        file.write(msgspec.json.encode(attempt("two"))[:40])
    kept = Kept(tmp_path, HEADER)
    assert list(kept.attempts) == ["one"]
    kept.add(attempt("three"), b"")
    assert list(Kept(tmp_path, HEADER).attempts) == ["one", "three"]


def test_a_damaged_line_is_named(tmp_path: Path):
    Kept(tmp_path, HEADER).add(attempt("one"), b"")
    with (tmp_path / ATTEMPTS).open("ab") as file:
        file.write(b'{"task": 3}\n')
    for read in (lambda: Kept(tmp_path, HEADER), lambda: read_attempts(tmp_path)):
        with pytest.raises(StoreError, match="line 3 is damaged"):
            read()


def test_a_task_that_has_changed_is_named(tmp_path: Path):
    kept = Kept(tmp_path, HEADER)
    kept.add(attempt("one"), b"")
    kept.add(attempt("two"), b"")
    kept.ensure_same([of("one"), of("two"), of("three", "new")])
    with pytest.raises(Refused, match=r"were tried: two$"):
        kept.ensure_same([of("one"), of("two", "other")])


def test_nothing_kept_is_said(tmp_path: Path):
    with pytest.raises(Refused, match="no attempts"):
        read_attempts(tmp_path / "none")
