"""`/correction` and `/corrections`, through the code behind both doors: with dialogs, and without."""

import json
import stat

import pytest

from contributions import answer
from correction.conftest import QUESTION, Rejected
from hosts import ScriptedHost
from machine.cli import ShellHost
from machine.commands import run
from machine.correction.ledger import Ledger
from machine.footer import footer
from machine.host import LiveSession, Retried

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
    over = run(["good", "--link", id, "--session", str(turn.file)], ShellHost())
    assert (over.exit_code, "is linked" in over.title) == (2, True)


def test_headless_with_an_answer_keeps_a_good_row_of_it(turn):
    report = shell(turn, "--as", "It uses pytest.", "--reasoning", FIT)
    [correction] = turn.ledger.read().corrections
    assert correction.state == "linked"
    [row] = rows(turn)  # the good row of the turn stands for the bad one
    assert (row.tag, row.target) == ("good", (4,))
    assert [part.get("thinking") or part["text"] for part in row.messages[-1]["content"]] == [FIT, "It uses pytest."]
    assert any(label == "Led to" and row.id in value for label, value in report.rows)
    pairs = run(["corrections", "export", "--pairs", str(turn.folder / "pairs.jsonl")], ShellHost())
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
    report = run(["corrections", "export", "--pairs", str(file)], ShellHost())
    assert any(still in note for note in report.notes)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [pair] = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert pair["rejected"] == [{"role": "assistant", "content": "It uses unittest."}]
    assert pair["chosen"] == [{"role": "assistant", "content": "It uses pytest."}]
    before = file.read_bytes()
    assert run(["corrections", "export", "--pairs", str(file)], ShellHost()).exit_code == 2
    assert file.read_bytes() == before
    assert run(["corrections", "export", "--pairs", str(file), "--force"], ShellHost()).exit_code == 0
    assert run(["corrections", "export", "--pairs", str(turn.folder / "no" / "f")], ShellHost()).exit_code == 2
