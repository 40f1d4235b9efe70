"""What is kept of a session unasked: which turns, how often, and what becomes of those that cannot be kept."""

import base64

import pytest

from machine import observe as observing
from machine.capture.reader import read
from machine.capture.rows import Recorder
from machine.cli import ShellHost
from machine.commands import run
from machine.errors import StoreError
from machine.observe import note, observe
from machine.store.project import Project
from sessions import Script


@pytest.fixture
def script(tmp_path):
    return Script(cwd=str(tmp_path))


@pytest.fixture
def project(tmp_path):
    return Project.at(tmp_path)


@pytest.fixture
def look(script, project, tmp_path):
    """Observes the session as it stands."""

    def looked(**how):
        session = read(script.save(tmp_path / "s.jsonl"))
        return observe(project, session, script.leaf, Recorder("pi", "1.6.0"), **how)

    return looked


def turn(script, question):
    script.user(question)
    return script.assistant(f"About {question}")


def answers(project):
    return [row.messages[-1]["content"] for row in project.pool.rows()]


def reasons(project):
    return [refusal.reason for refusal in project.refusals()]


def test_without_a_compaction_only_headless_turns_are_kept(script, project, look):
    turn(script, "one")
    assert look() == 0
    assert not project.folder.exists()
    assert look(headless=True) == 1
    assert answers(project) == ["About one"]
    assert [row.tag for row in project.pool.rows()] == ["observed"]


def test_the_turns_before_the_first_kept_entry_are_those_that_were_summarised(script, project, look):
    turn(script, "one")
    turn(script, "two")
    kept = script.user("three")
    script.assistant("About three")
    script.entry("compaction", summary="...", firstKeptEntryId=kept, tokensBefore=9)
    turn(script, "four")
    assert look() == 2
    assert answers(project) == ["About one", "About two"]
    assert all(row.source.leaf == row.source.entries[-1] for row in project.pool.rows())


def test_a_turn_that_the_compaction_cut_is_not_over_for_the_model(script, project, look):
    script.user("one")
    script.assistant("", calls=[("c1", {})])
    kept = script.result("c1", "a file")
    script.assistant("About one")
    script.entry("compaction", summary="...", firstKeptEntryId=kept, tokensBefore=9)
    assert look() == 0


@pytest.mark.parametrize("tail", [None, [{"role": "user", "content": "kept"}]])
def test_where_nothing_was_kept_or_a_tail_is_embedded_all_before_it_was_summarised(script, project, look, tail):
    turn(script, "one")
    kept = turn(script, "two") if tail else "00000004"  # its own id: nothing is kept
    extra = {"retainedTail": tail} if tail else {}
    script.entry("compaction", summary="...", firstKeptEntryId=kept, tokensBefore=9, **extra)
    assert look() == (2 if tail else 1)


def test_only_the_latest_compaction_of_the_active_branch_counts(script, project, look):
    root = turn(script, "one")
    script.entry("compaction", summary="...", firstKeptEntryId=turn(script, "left"), tokensBefore=9)
    script.leaf = root
    turn(script, "two")
    assert look() == 0
    script.entry("compaction", summary="...", firstKeptEntryId=turn(script, "three"), tokensBefore=9)
    script.entry("compaction", summary="...", firstKeptEntryId=turn(script, "four"), tokensBefore=9)
    assert look() == 3
    assert "About left" not in answers(project)


def test_a_headless_run_s_own_turns_are_those_after_where_it_began(script, project, look):
    began = turn(script, "before")
    turn(script, "one")
    assert look(headless=True, since=began) == 1
    turn(script, "two")
    assert look(headless=True, since=began) == 1
    assert answers(project) == ["About one", "About two"]
    assert look(headless=True, since="no such entry") == 0


def test_a_turn_is_kept_once_also_in_a_fork(script, project, look):
    turn(script, "one")
    assert look(headless=True) == 1
    script.header["id"] = "a-fork"
    script.entry("session_info", name="the fork")
    assert look(headless=True) == 0


def test_the_same_words_in_another_session_are_one_row(script, project, look, tmp_path):
    turn(script, "one")
    assert look(headless=True) == 1
    script.__init__(cwd=str(tmp_path))
    script.entry("session_info", name="another")  # so that its entries have other ids
    turn(script, "one")
    assert look(headless=True) == 0
    assert len(project.pool.path.read_bytes().splitlines()) == 1


def test_what_is_held_or_was_refused_is_not_built_again(script, project, look, monkeypatch):
    turn(script, "one")
    script.user("two")
    script.assistant("", calls=[("c1", {})])
    turn(script, "three")
    assert look(headless=True) == 2
    [reason] = reasons(project)
    assert reason.startswith("turn of entries 00000004 to 00000005: call c1")
    monkeypatch.setattr(observing, "capture_turn", None)
    assert look(headless=True) == 0
    assert reasons(project) == [reason]


def test_a_fault_of_machine_s_own_costs_its_turn_alone(script, project, look, monkeypatch):
    def faulty(branch, turn, **how):
        return {}["a bug"] if turn.start == 1 else building(branch, turn, **how)

    building = observing.capture_turn
    monkeypatch.setattr(observing, "capture_turn", faulty)
    turn(script, "one")
    turn(script, "two")
    assert look(headless=True) == 1
    assert answers(project) == ["About two"]
    [reason] = reasons(project)
    assert reason.startswith("turn of entries 00000002 to 00000003: a fault of Machine's own: KeyError")


def test_a_tag_of_the_user_s_stays_and_a_later_one_wins(script, project, look, tmp_path):
    turn(script, "one")
    file = str(script.save(tmp_path / "s.jsonl"))
    assert run(["good", "--session", file], ShellHost()).exit_code == 0
    assert look(headless=True) == 0
    turn(script, "two")
    assert look(headless=True) == 1
    script.save(tmp_path / "s.jsonl")
    assert run(["good", "--session", file], ShellHost()).exit_code == 0
    assert project.pool.counts() == {"good": 2}


def test_reasoning_is_left_out_and_images_are_stored(script, project, look):
    image = base64.b64encode(b"\x89PNG").decode()
    script.message(role="user", content=[{"type": "image", "data": image, "mimeType": "image/png"}])
    script.assistant(
        content=[{"type": "thinking", "thinking": "it is private"}, {"type": "text", "text": "A picture."}]
    )
    assert look(headless=True) == 1
    [row] = project.pool.rows()
    assert "private" not in project.pool.path.read_text()
    assert row.messages[-1]["content"] == "A picture."
    [blob] = [path for path in project.blobs.folder.rglob("*") if path.is_file()]
    assert blob.read_bytes() == b"\x89PNG"


def test_a_pool_that_cannot_be_written_stops_it_and_the_next_time_goes_on(script, project, look, tmp_path):
    turn(script, "one")
    project.make()
    project.pool.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        look(headless=True)
    project.pool.path.unlink()
    assert look(headless=True) == 1


def test_a_reason_is_noted_once_and_a_store_that_fails_is_let_be(project):
    for reason in ("a", "b", "a", "lone \ud83d", "lone \ud83d"):
        note(project, reason)
    assert len(reasons(project)) == 3
    (project.folder / "refusals.jsonl").unlink()
    (project.folder / "refusals.jsonl").mkdir()
    note(project, "c")


def test_what_is_noted_of_a_turn_that_is_not_kept_holds_no_secret_of_it(script, project, look, monkeypatch):
    secret = "ghp_" + "aB3dE6" * 6
    turn(script, "one")

    def broken(*_args, **_how):
        raise KeyError(secret)

    monkeypatch.setattr(observing, "capture_turn", broken)
    assert look(headless=True) == 0
    note(project, f"no such thing: {secret}")
    assert len(reasons(project)) == 2
    assert all("<secret:github-token:1>" in reason and secret not in reason for reason in reasons(project))


def test_what_is_not_kept_is_noted_though_the_settings_are_damaged(project):
    project.make()
    (project.folder / "settings.json").write_text("{")
    note(project, "the session is damaged")
    assert reasons(project) == ["the session is damaged"]
