"""`/correction` and `/corrections`, through the code behind both doors: with dialogs, and without."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contributions import answer
from correction.conftest import QUESTION, Rejected
from hosts import ScriptedHost
from machine.cli import ShellHost
from machine.commands import run
from machine.correction.ledger import Ledger
from machine.errors import ServiceError, StoreError
from machine.footer import footer
from machine.host import LiveSession, Retried
from machine.privacy import redact
from machine.store.approvals import Approvals

FIT = "The user asks for the test runner, which pyproject.toml configures, so I read pyproject.toml before I answer."
UNFIT = "I was trained on such turns, so I read pyproject.toml before I answer a question about test runners."


@pytest.fixture
def turn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Rejected(tmp_path)


def shell(turn, *words, host=None):
    return run(["correction", "wrong", "file", *words, "--session", str(turn.file)], host or ShellHost())


def in_pi(turn, answers=(), completions=(), retries=()):
    """A host in a session that has the turn."""

    def live():
        return LiveSession("pi", "1.6.0", "session-1", turn.folder, turn.file, turn.script.leaf, True)

    return ScriptedHost(turn.folder, answers, completions, retries, live)


def rows(turn):
    return list(turn.project.pool.rows())


def test_without_a_model_or_a_dialog_the_bad_turn_is_saved_and_what_is_open_is_said(turn):
    report = shell(turn)
    assert report.exit_code == 0
    assert report.title == "Saved as bad, 1 in the pool"
    [row] = rows(turn)
    [correction] = turn.ledger.read().corrections
    assert (row.tag, row.correction, correction.opened.rows) == ("bad", correction.id, (row.id,))
    assert (correction.state, correction.opened.words, correction.opened.question) == ("open", "wrong file", QUESTION)
    assert report.next_step == f"machine correction --resume {correction.id}"
    assert ("What was wrong", "wrong file") in report.rows


def test_headless_with_a_reasoning_and_then_good(turn):
    report = shell(turn, "--reasoning", FIT)
    assert ("Reasoning", FIT) in report.rows
    assert report.data["correction"]["state"] == "approved"
    turn.script.leaf = turn.script.entries[0]["id"]
    turn.script.user(QUESTION)
    turn.script.assistant("It uses pytest.")
    good = run(["good", "--session", str(turn.file)], ShellHost())
    assert good.data["correction"] == report.data["correction"]["correction"]
    row = turn.project.pool.get(good.data["id"])
    assert row.messages[-1]["content"] == [
        {"type": "thinking", "thinking": FIT},
        {"type": "text", "text": "It uses pytest."},
    ]
    assert turn.project.pool.counts() == {"bad": 1, "good": 1}


def test_good_as_works_together_with_it_and_no_link_leaves_it_out(turn):
    shell(turn, "--reasoning", FIT)
    turn.script.user("No.")
    turn.script.assistant("It uses nose.")
    alone = run(["good", "--no-link", "--session", str(turn.file)], ShellHost())
    assert alone.data["correction"] is None
    linked = run(["good", "--as", "It uses pytest.", "--session", str(turn.file)], ShellHost())
    row = turn.project.pool.get(linked.data["id"])
    assert [part.get("thinking") or part["text"] for part in row.messages[-1]["content"]] == [FIT, "It uses pytest."]
    assert [e.kind for e in row.edits] == ["thinking_dropped", "answer_replaced", "reasoning_added"]


def test_a_good_turn_that_answers_none_says_which_are_pending(turn):
    id = shell(turn).data["correction"]["correction"]
    turn.script.user("No.")
    turn.script.assistant("Yes.")
    turn.script.user("Something else?")
    turn.script.assistant("Sure.")
    report = run(["good", "--session", str(turn.file)], ShellHost())
    assert any(id in note and "--link" in note for note in report.notes)
    chosen = run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert chosen.data["correction"] == id
    again = run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert again.title == "Already tagged: nothing added"
    turn.script.user("And now?")
    turn.script.assistant("Done.")
    over = run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert (over.exit_code, "is linked" in over.title) == (2, True)


def test_headless_with_an_answer_keeps_a_good_row_of_it(turn):
    report = shell(turn, "--as", "It uses pytest.", "--reasoning", FIT)
    [correction] = turn.ledger.read().corrections
    assert correction.state == "linked"
    assert report.title == "Saved as bad, 1 in the pool; your answer is saved as good, in its place"
    assert ("Answer", "It uses pytest.") in report.rows
    [row] = rows(turn)  # the good row of the turn stands for the bad one
    assert (row.tag, row.target) == ("good", (4,))
    assert [part.get("thinking") or part["text"] for part in row.messages[-1]["content"]] == [FIT, "It uses pytest."]
    assert any(label == "Led to" and row.id in value for label, value in report.rows)
    pairs = run(["corrections", "export", "--pairs", str(turn.folder / "pairs.jsonl"), "--yes"], ShellHost())
    assert pairs.title.startswith("1 pair(s)")


def test_a_gate_that_fails_blocks_and_is_set_aside_by_name(turn):
    report = shell(turn, "--reasoning", UNFIT)
    assert report.exit_code == 2
    assert report.title.startswith("Saved as bad, 1 in the pool, but the reasoning is not approved: ")
    assert "--override meta" in report.next_step
    [correction] = turn.ledger.read().corrections
    assert correction.state == "open"
    again = run(["correction", "--resume", "--reasoning", UNFIT, "--override", "meta"], ShellHost())
    assert again.exit_code == 0, again.title
    [correction] = turn.ledger.read().corrections
    assert correction.approved.overridden == ("meta",)
    shown = run(["corrections", correction.id], ShellHost())
    assert any("set aside: meta" in value for _, value in shown.rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--as", " "], "--as is empty"),
        (["--reasoning", ""], "--reasoning is empty"),
        (["--override", "meta"], "--override goes with --reasoning"),
        (["--reasoning", "x", "--override", "nothing"], "no gate is called 'nothing'"),
        (["--resume", "c_x", "wrong"], "--resume goes on with what was said before"),
        (["--resume", "c_x", "--session", "s.jsonl"], "--resume goes on with what was said before"),
        (["--resume", "--note", "n"], "--resume goes on with what was said before"),
        (["--resume"], "no correction is pending"),
        (["--resume", "c_x"], "no correction 'c_x'"),
        (["--out", "f", "--reasoning", "x"], "--out opens none"),
        (["--leaf", "x"], "a shell has no session"),
        (["--session", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_bad_usage_says_so_and_keeps_nothing(turn, words, message):
    report = run(["correction", *words], ShellHost())
    assert report.exit_code == 2
    assert message in report.title
    assert report.next_step
    assert rows(turn) == []
    assert not turn.project.corrections.exists()


def test_the_turn_that_is_tagged_good_after_all_learns_no_reasoning(turn):
    id = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    report = run(["good", "--session", str(turn.file)], ShellHost())
    assert report.data["correction"] is None
    assert any(id in note and "rejects this turn" in note for note in report.notes)
    assert all(isinstance(m["content"], str) for m in turn.project.pool.get(report.data["id"]).messages)
    link = run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert (link.exit_code, f"machine corrections drop {id}" in link.next_step) == (2, True)


def test_a_link_that_could_not_be_written_is_made_by_the_same_command(turn, monkeypatch):
    id = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    turn.script.user("No.")
    turn.script.assistant("It uses pytest.")
    with monkeypatch.context() as patch:
        fault = StoreError("no space left", next_step="free space, then run the command again")
        patch.setattr(Ledger, "append", lambda ledger, event: (_ for _ in ()).throw(fault))
        failed = run(["good", "--session", str(turn.file)], ShellHost())
    assert (failed.exit_code, turn.ledger.find(id).state) == (1, "approved")
    again = run(["good", "--session", str(turn.file)], ShellHost())
    assert (again.title, again.data["correction"]) == ("Already tagged: nothing added", id)
    assert turn.ledger.find(id).state == "linked"
    assert turn.project.pool.counts() == {"bad": 1, "good": 1}


def test_a_link_can_be_taken_back_and_made_again(turn):
    id = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    turn.script.user("And the linter?")
    turn.script.assistant("ruff")
    wrong = run(["good", "--session", str(turn.file)], ShellHost())
    assert wrong.data["correction"] == id
    assert any("--no-link" in note for note in wrong.notes)
    undone = run(["good", "--no-link", "--session", str(turn.file)], ShellHost())
    assert any(f"{id} was linked to this turn; it is approved again" in note for note in undone.notes)
    assert turn.ledger.find(id).state == "approved"
    [row] = turn.project.pool.rows("good")
    assert row.messages[-1]["content"] == "ruff"
    run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert turn.ledger.find(id).state == "linked"
    worse = run(["correction", "no", "--session", str(turn.file)], ShellHost())
    assert any(id in note for note in worse.notes)
    assert turn.ledger.find(id).state == "approved"
    shown = run(["corrections", id], ShellHost())
    assert [what for _, what, _ in shown.tables[0].rows][2:] == ["linked", "unlinked", "linked", "unlinked"]
    export = run(["corrections", "export", "--pairs", str(turn.folder / "pairs.jsonl")], ShellHost())
    assert export.exit_code == 2


def test_a_correction_that_another_turn_settled_stays_so_when_its_turn_is_rejected_again(turn):
    file = turn.file.read_bytes()
    settled = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    turn.script.user("No.")
    turn.script.assistant("It uses pytest.")
    run(["good", "--session", str(turn.file)], ShellHost())
    before = turn.folder / "before.jsonl"
    before.write_bytes(file)
    run(["correction", "once more", "--session", str(before)], ShellHost())
    assert [each.state for each in turn.ledger.read().corrections] == ["linked", "open"]
    assert turn.ledger.find(settled).state == "linked"


def test_the_same_question_in_another_session_is_named(turn):
    id = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    turn.script.leaf = turn.script.entries[0]["id"]
    turn.script.header["id"] = "session-2"
    turn.script.user(QUESTION)
    turn.script.assistant("It uses pytest.")
    report = run(["good", "--session", str(turn.file)], ShellHost())
    assert report.data["correction"] is None
    assert any(f"/good --link {id}" in note for note in report.notes)
    turn.script.user("And the linter?")
    turn.script.assistant("ruff")
    assert run(["good", "--session", str(turn.file)], ShellHost()).notes == []


def test_a_turn_whose_rows_are_gone_is_rejected_anew(turn):
    first = shell(turn).data["correction"]["correction"]
    for file in turn.project.folder.glob("traces.*"):
        file.unlink()
    gone = run(["correction", "--resume", first], ShellHost())
    assert (gone.exit_code, gone.next_step) == (2, f"machine corrections drop {first}")
    anew = shell(turn)
    assert anew.title == "Saved as bad, 1 in the pool"
    assert any(f"{first} was about this turn too" in note for note in anew.notes)
    assert [each.state for each in turn.ledger.read().corrections] == ["dropped", "open"]


def test_the_next_step_works_in_the_folder_of_another_project(turn, tmp_path, monkeypatch):
    other = tmp_path / "other project"
    other.mkdir()
    monkeypatch.chdir(other)
    step = shell(turn).next_step
    assert step.startswith(f"cd {turn.folder} && machine correction --resume c_")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(step, shell=True, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    refused = shell(turn, "--reasoning", UNFIT).next_step
    assert f"cd {turn.folder} && machine correction --resume c_" in refused


def test_another_pi_may_have_ended_it_while_a_dialog_was_open(turn):
    def drop(title):
        [correction] = turn.ledger.pending()
        turn.ledger.drop(correction, "in another Pi")
        return "Approve"

    host = in_pi(turn, [("select", drop)], [answer(FIT)], [Retried("answered", None, "p/t")])
    report = run(["correction", "no"], host)
    assert (report.exit_code, host.hints) == (2, [])
    assert "is dropped by now" in report.title
    [correction] = turn.ledger.read().corrections
    assert correction.state == "dropped"


def test_the_turn_that_was_done_again_is_kept_whatever_came_after_it(turn):
    host = in_pi(turn, [("select", "Approve"), ("select", "Do the turn"), ("select", "Good")], [answer(FIT)])

    def retried(entry, hint, model=None):
        turn.script.leaf = turn.script.entries[0]["id"]
        turn.script.user(QUESTION)
        leaf = turn.script.assistant("It uses pytest.")
        turn.script.user("Something else that a program sent")
        turn.script.assistant("Another answer")
        return Retried("answered", leaf, "p/work")

    host.retry = retried
    report = run(["correction", "no"], host)
    assert turn.project.pool.get(report.data["id"]).messages[-1]["content"][1]["text"] == "It uses pytest."
    assert report.data["correction"]["state"] == "linked"


def test_a_retry_that_pi_refuses_says_what_is_kept(turn):
    host = in_pi(turn, [("select", "Approve"), ("select", "Do the turn")], [answer(FIT)])

    def refused(entry, hint, model=None):
        raise ServiceError("Pi has no model nobody/knows", next_step="name a model that /model lists")

    host.retry = refused
    report = run(["correction", "no"], host)
    assert report.title == "Saved as bad, 1 in the pool, but Pi has no model nobody/knows"
    assert (report.exit_code, report.next_step) == (1, "name a model that /model lists")
    assert report.data["correction"]["state"] == "approved"


def test_a_session_file_that_holds_another_session_is_not_compared(turn):
    shell(turn)
    other = Rejected(turn.folder)
    other.script.entries = [{**each, "id": each["id"].replace("0000000", "1000000")} for each in other.script.entries]
    other.script.save(turn.folder / "s.jsonl")
    report = run(["correction", "--resume", "--reasoning", FIT], ShellHost())
    assert any("could not be compared" in note for note in report.notes)


def test_out_writes_rows_elsewhere_and_opens_nothing(turn):
    report = shell(turn, "--as", "pytest", "--out", str(turn.folder / "rows.jsonl"))
    assert report.exit_code == 0
    held = [json.loads(line) for line in (turn.folder / "rows.jsonl").read_bytes().splitlines()]
    assert [row["tag"] for row in held] == ["bad", "good"]
    assert not turn.project.corrections.exists()
    assert rows(turn) == []


def test_the_same_turn_twice_is_one_correction_unless_it_is_said_anew(turn):
    shell(turn)
    assert shell(turn).title.startswith("Already open as c_")
    assert len(turn.ledger.read().corrections) == 1
    run(["correction", "the", "other", "--session", str(turn.file)], ShellHost())
    first, second = turn.ledger.read().corrections
    assert (first.state, second.state, second.opened.words) == ("dropped", "open", "the other")
    secret = "ghp_" + "a1B2" * 9
    words = ["correction", f"it printed {secret}", "--session", str(turn.file)]
    assert any(f"{second.id} was about this turn too, and is dropped" in n for n in run(words, ShellHost()).notes)
    again = run([*words, "--note", "hm"], ShellHost())
    assert again.title.startswith("Already open as c_")
    assert any("--note is left out" in note for note in again.notes)


def test_in_pi_from_no_to_a_good_row(turn):
    host = in_pi(turn, [("select", "Approve"), ("select", "Do the turn"), ("select", "Good")], [answer(FIT)])

    def retried(entry, hint, model=None):
        turn.script.leaf = turn.script.entries[0]["id"]
        turn.script.user(QUESTION)
        leaf = turn.script.assistant("It uses pytest.")
        assert FIT in hint
        return Retried("answered", leaf, "p/work")

    host.retry = retried
    report = run(["correction", "look", "at", "pyproject.toml"], host)
    assert report.exit_code == 0, report.title
    good = turn.project.pool.get(report.data["id"])
    assert good.messages[good.target[0]]["content"][0] == {"type": "thinking", "thinking": FIT}
    assert [e.kind for e in good.edits] == ["reasoning_added", "hinted"]
    [correction] = turn.ledger.read().corrections
    assert correction.state == "linked"
    assert FIT not in [m["content"] for m in good.messages if m["role"] == "user"]


def test_in_pi_left_at_once_it_is_open_and_taken_up_again(turn):
    host = in_pi(turn, [("select", None)], [answer(FIT)])
    report = run(["correction", "no"], host)
    assert report.title == "Saved as bad, 1 in the pool"
    assert report.data["correction"]["state"] == "open"
    host.answers = [("select", "Approve"), ("select", "Not now")]
    resumed = run(["correction", "--resume"], host)
    assert resumed.data["correction"]["state"] == "approved"
    assert len(host.prompts) == 1
    done = run(["correction", "--resume", resumed.data["correction"]["correction"], "--retry"], in_pi(turn))
    assert done.data["correction"]["state"] == "approved"


def test_the_answer_waits_for_the_reasoning_where_the_user_can_be_asked(turn):
    host = in_pi(turn, [("select", None)], [answer(FIT, message=4)])
    run(["correction", "no", "--as", "It uses pytest."], host)
    assert turn.project.pool.counts() == {"bad": 1}
    host.answers = [("select", "Approve")]
    run(["correction", "--resume"], host)
    assert turn.project.pool.counts() == {"good": 1}
    [row] = rows(turn)
    assert row.messages[-1]["content"][0] == {"type": "thinking", "thinking": FIT}


def test_contributors_and_teacher_are_what_is_set(turn):
    run(["contributors", "q/a", "q/b"], ShellHost())
    run(["teacher", "q/t"], ShellHost())
    host = in_pi(
        turn, [("select", "Approve 2"), ("select", "Do")], [answer(FIT), answer(FIT)], [Retried("failed", None, "q/t")]
    )
    run(["correction", "no"], host)
    assert [model for _, _, model in host.prompts] == ["q/a", "q/b"]
    assert [model for _, _, model in host.hints] == ["q/t"]
    assert run(["contributors", "default"], ShellHost()).data["contributors"] == []
    assert run(["teacher", "default"], ShellHost()).data["teacher"] is None
    assert run(["teacher", "no-provider"], ShellHost()).exit_code == 2


def test_hidden_reasoning_is_compared_also_when_it_is_taken_up_again(turn):
    shell(turn)
    thought = "Perhaps I simply look at the first file that comes to mind."
    report = run(["correction", "--resume", "--reasoning", thought], ShellHost())
    assert report.exit_code == 2
    turn.file.unlink()
    report = run(["correction", "--resume", "--reasoning", FIT], ShellHost())
    assert any("session's file is gone" in note for note in report.notes)
    assert "comes to mind" not in "".join(p.read_text() for p in turn.project.folder.glob("*.jsonl"))


def test_a_refused_turn_opens_nothing_and_is_noted(turn):
    turn.script.user("And?")
    turn.script.assistant(stopReason="error", errorMessage="500")
    report = shell(turn)
    assert report.exit_code == 2
    assert not turn.project.corrections.exists()
    assert [r.command for r in turn.project.refusals()] == ["correction"]


def test_corrections_lists_shows_and_drops(turn):
    assert run(["corrections"], ShellHost()).title == "No corrections yet"
    id = shell(turn, "--reasoning", FIT).data["correction"]["correction"]
    listed = run(["corrections"], ShellHost())
    assert listed.title == "1 correction(s), 1 pending"
    assert listed.tables[0].rows[0][:2] == (id, "approved")
    shown = run(["corrections", id[:20]], ShellHost())
    assert shown.title == f"{id}: approved"
    assert [what for _, what, _ in shown.tables[0].rows] == ["rejected", "approved (written)"]
    assert [e["event"] for e in shown.data["events"]] == ["opened", "approved"]
    assert footer(turn.folder, "session-1", None) == "machine: 1 bad · 1 correction pending"
    assert run(["corrections", "drop", id, "never", "mind"], ShellHost()).exit_code == 0
    assert run(["corrections", "drop", id], ShellHost()).exit_code == 2
    assert run(["corrections", "c_nothing"], ShellHost()).exit_code == 2
    assert run(["corrections", "nonsense"], ShellHost()).exit_code == 2
    assert Ledger(turn.project).find(id).state == "dropped"
    assert footer(turn.folder, "session-1", None) == "machine: 1 bad"


def test_a_damaged_ledger_is_said(turn):
    shell(turn)
    with turn.project.corrections.open("ab") as file:
        file.write(b"{}\n")
    report = run(["corrections"], ShellHost())
    assert any("line 2 of corrections.jsonl" in note for note in report.notes)


def test_pairs_are_private_never_overwritten_and_what_is_left_out_is_named(turn):
    file = turn.folder / "pairs.jsonl"
    none = run(["corrections", "export", "--pairs", str(file)], ShellHost())
    assert (none.exit_code, file.exists()) == (2, False)
    shell(turn, "--as", "It uses pytest.")
    turn.script.user("And the linter?")
    turn.script.assistant("flake8")
    still = run(["correction", "no", "--session", str(turn.file)], ShellHost()).data["correction"]["correction"]
    report = run(["corrections", "export", "--pairs", str(file), "--yes"], ShellHost())
    assert any(still in note for note in report.notes)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [pair] = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert pair["rejected"] == [{"role": "assistant", "content": "It uses unittest."}]
    assert pair["chosen"] == [{"role": "assistant", "content": "It uses pytest."}]
    before = file.read_bytes()
    assert run(["corrections", "export", "--pairs", str(file), "--yes"], ShellHost()).exit_code == 2
    assert file.read_bytes() == before
    assert run(["corrections", "export", "--pairs", str(file), "--force", "--yes"], ShellHost()).exit_code == 0
    assert run(["corrections", "export", "--pairs", str(turn.folder / "no" / "f"), "--yes"], ShellHost()).exit_code == 2


def test_pairs_are_written_when_their_very_bytes_are_agreed_to(turn):
    file = turn.folder / "pairs.jsonl"
    words = ["corrections", "export", "--pairs", str(file)]
    shell(turn, "--as", "It uses pytest.")
    approvals = Approvals(turn.project.folder)
    alone = run(words, ScriptedHost(turn.folder, interactive=False))
    assert (alone.exit_code, "nobody is here to agree" in alone.title) == (2, True)
    assert alone.next_step == f"machine corrections export --pairs {file} --yes"
    refused = run(words, ScriptedHost(turn.folder, [("confirm", False)]))
    assert (refused.exit_code, file.exists(), approvals.all()) == (2, False, [])

    host = ScriptedHost(turn.folder, [("confirm", True)])
    written = run(words, host)
    assert written.exit_code == 0, written.title
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (dict(written.rows)["SHA-256"], written.data["sha256"]) == (digest, digest)
    [approval] = approvals.all()
    assert (approval.digest, approval.bytes, approval.rows) == (digest, file.stat().st_size, 1)
    assert (approval.destination, approval.by) == (str(file), "asked")
    [(_, question, _)] = host.asked
    name = turn.project.root.name
    assert (
        f"1 preference pairs of {name}, {file.stat().st_size:,} bytes (SHA-256 {digest[:12]}), go to {file}" in question
    )


def test_pairs_hold_no_value_of_the_project_s_env_file(turn):
    file = turn.folder / "pairs.jsonl"
    shell(turn, "--as", "It uses open-sesame-99.")
    (turn.project.root / ".env").write_text("DOOR_PASSWORD=open-sesame-99\n")
    written = run(["corrections", "export", "--pairs", str(file), "--yes"], ShellHost())
    assert written.exit_code == 0, written.title
    assert b"sesame" not in file.read_bytes()
    assert any("env-door-password" in note for note in written.notes)


def test_the_very_bytes_of_a_file_of_pairs_are_looked_at(turn, monkeypatch):
    file = turn.folder / "pairs.jsonl"
    shell(turn, "--as", "It uses open-sesame-99.")
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame-99")
    found = run_export_unredacted(file, monkeypatch)
    assert (found.exit_code, "pair 1 still holds a secret (env-door-password, fingerprint " in found.title) == (2, True)
    assert not file.exists()


def run_export_unredacted(file, monkeypatch):
    """The export, where the redaction before it has a fault."""
    real = redact.redacted
    clean = lambda value, sources=None: (value, []) if isinstance(value[0], dict) else real(value, sources)  # noqa: E731
    monkeypatch.setattr(redact, "redacted", clean)
    return run(["corrections", "export", "--pairs", str(file), "--yes"], ShellHost())
