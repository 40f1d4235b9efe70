"""`machine privacy`: the policy of a project, scans, and what is mended or erased later."""

import json
import os
import stat

import pytest
from msgspec.structs import replace

from hosts import ScriptedHost
from machine.capture.rows import new_id
from machine.cli import ShellHost
from machine.commands import run
from machine.correction.ledger import Ledger
from machine.correction.link import rows_of
from machine.home import machine_home
from machine.privacy.redact import PLACEHOLDER
from machine.privacy.sources import Sources
from machine.store.erase import Span, all_lines, begin
from machine.store.pool import Pool
from machine.store.project import Project
from sessions import TOOL, Script

TOKEN = "ghp_" + "aB3dE6" * 6
PASSWORD = "q7/Zr\"x+9 Lm'"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A project with a `.env` file, in which the command runs."""
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    (root / ".env").write_text(f"DB_PASSWORD='{PASSWORD.replace(chr(39), chr(92) + chr(39))}'\n")
    monkeypatch.chdir(root)
    return root


def session(root, file="s.jsonl", question="Which password?", answer="It is in the file."):
    """A session whose tool read the token and the password."""
    s = Script(cwd=str(root), tools=[TOOL])
    s.user(question)
    s.assistant("", [("c1", {"path": f"cat .env # {PASSWORD}"})])
    s.result("c1", f"token={TOKEN}\npassword={PASSWORD}")
    s.assistant(answer)
    return s.save(root.parent / file)


def ask(root, *words, **host):
    return run(list(words), ScriptedHost(root, **host) if host else ShellHost())


def good(root, **host):
    return ask(root, "good", "--session", str(session(root)), **host)


def on_disk(root):
    """Every byte of the project's store."""
    folder = Project.at(root).folder
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_secret_of_the_projects_env_file_never_reaches_the_disk(work):
    report = good(work)
    assert report.exit_code == 0
    [row] = Project.at(work).pool.rows()
    arguments = json.loads(row.messages[2]["tool_calls"][0]["function"]["arguments"])
    assert PLACEHOLDER.search(arguments["path"]).group(1) == "env-db-password"
    assert "<secret:env-db-password" in row.messages[3]["content"]
    assert "<secret:github-token" in row.messages[3]["content"]
    assert {edit.detail for edit in row.edits} == {
        "env-db-password at messages[2].tool_calls[0].function.arguments",
        "github-token at messages[3].content",
        "env-db-password at messages[3].content",
    }
    held = on_disk(work)
    assert TOKEN.encode() not in held
    assert json.dumps(PASSWORD)[1:-1].encode() not in held


def test_no_write_ever_holds_a_secret_temporary_files_included(work, monkeypatch, tmp_path):
    written = bytearray()
    for name in ("write", "pwrite"):
        real = getattr(os, name)

        def noted(descriptor, data, *where, real=real):
            written.extend(data)
            return real(descriptor, data, *where)

        monkeypatch.setattr(os, name, noted)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    file = session(work, question=f"Is {TOKEN} right?", answer=f"Yes: {PASSWORD}")
    words = ["correction", f"it said {TOKEN}", "--as", f"Never say {PASSWORD}", "--note", TOKEN, "--session", str(file)]
    assert ask(work, *words).exit_code == 0
    assert ask(work, "good", "--session", str(file), "--out", str(tmp_path / "out.jsonl")).exit_code == 0
    assert ask(work, "import", str(file), "--branches").exit_code == 0
    held = bytes(written) + on_disk(work) + (tmp_path / "out.jsonl").read_bytes()
    assert held.count(b"<secret:github-token") > 5
    assert TOKEN.encode() not in held
    assert json.dumps(PASSWORD)[1:-1].encode() not in held
    assert PASSWORD.encode() not in held
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_refused_is_noted_and_said_without_the_secrets_of_the_turn(work):
    s = Script(cwd=str(work), tools=[TOOL])
    s.user("Go on")
    s.assistant("", [(TOKEN, {"path": "x"})])
    unanswered = s.save(work.parent / "unanswered.jsonl")
    stopped = work.parent / "stopped.jsonl"
    stopped.write_text(session(work).read_text().replace('"stop"', json.dumps(TOKEN)))
    for file in (unanswered, stopped):
        for words in (["good", "--session"], ["correction", "no", "--session"], ["import", "--tag", "good"]):
            report = ask(work, *words, str(file))
            assert TOKEN not in str(report)
        assert "<secret:github-token:1>" in str(report)
    assert TOKEN.encode() not in on_disk(work)
    assert any("<secret:github-token:1>" in refusal.reason for refusal in Project.at(work).refusals())


def test_a_secret_in_the_name_of_a_model_or_of_a_session_is_one(work):
    file = session(work)
    first, *lines = map(json.loads, file.read_text().splitlines())
    lines[-1]["message"]["model"] = f"proxy/{TOKEN}"
    file.write_text("\n".join(map(json.dumps, [first | {"id": f"s-{TOKEN}"}, *lines])) + "\n")
    assert ask(work, "good", "--session", str(file)).exit_code == 0
    [row] = Project.at(work).pool.rows()
    named = [row.source.session.removeprefix("s-"), row.source.models[-1].rpartition("/")[2]]
    assert PLACEHOLDER.fullmatch(named[0])
    assert named[0] == named[1]
    assert TOKEN.encode() not in on_disk(work)


def test_a_turn_and_what_is_said_of_it_agree_on_their_placeholders(work):
    file = session(work, answer=f"Yes: {TOKEN}")
    report = ask(work, "correction", f"it said {TOKEN}", "--as", f"Never say {PASSWORD}", "--session", str(file))
    project = Project.at(work)
    [good] = project.pool.rows("good")
    opened = Ledger(project).read().corrections[0].opened
    bad = project.pool.get(opened.rows[0])
    named = {match.group(1): match.group(0) for match in PLACEHOLDER.finditer(str(bad.messages))}
    assert opened.words == f"it said {named['github-token']}"
    assert good.messages[-1]["content"] == opened.answer == f"Never say {named['env-db-password']}"
    assert report.exit_code == 0


def test_what_the_words_of_a_correction_show_is_taken_out_of_the_turn_too(work):
    (work / ".env").unlink()
    file = session(work, question="Is riverbed-41x7 right?", answer="It is riverbed-41x7.")
    report = ask(work, "correction", 'never show it: password = "riverbed-41x7"', "--session", str(file))
    assert report.exit_code == 0
    assert b"riverbed-41x7" not in on_disk(work)
    ask(work, "privacy", "policy", "refuse")
    other = session(work, "u.jsonl", "Another question?", "Another answer.")
    other.write_text(other.read_text().replace(TOKEN, "nothing"))
    refused = ask(work, "correction", "no", "--as", f"Use {TOKEN}", "--session", str(other))
    assert refused.exit_code == 2
    assert "github-token at answer" in refused.title


@pytest.mark.parametrize("key", [b"", b"short", b"\xff" * 64])
def test_a_key_of_fingerprints_that_is_none_is_refused(work, key):
    ask(work, "privacy", "scan", "--pool")
    path = machine_home() / "fingerprint.key"
    path.write_bytes(key)
    report = ask(work, "privacy", "scan", "--pool")
    assert report.exit_code == 1
    assert "fingerprint.key is damaged" in report.title


def test_a_project_that_refuses_keeps_no_such_turn(work):
    assert ask(work, "privacy", "policy", "refuse").data["policy"] == "refuse"
    report = good(work)
    assert report.exit_code == 2
    assert "github-token at messages[3].content" in report.title
    assert report.next_step.startswith("machine privacy policy redact")
    assert Project.at(work).pool.counts() == {}
    assert TOKEN.encode() not in on_disk(work)
    found = ask(work, "import", str(session(work)))
    assert "github-token" in found.notes[0]
    assert Project.at(work).pool.counts() == {}


def test_a_project_that_asks_does_as_it_is_told(work):
    ask(work, "privacy", "policy", "ask")
    assert "nobody is here" in good(work).title
    assert "it is not kept" in good(work, answers=[("select", "Do not keep")]).title
    assert "it is not kept" in good(work, answers=[("select", None)]).title
    assert Project.at(work).pool.counts() == {}
    assert good(work, answers=[("select", "Keep the turn without")]).exit_code == 0
    [row] = Project.at(work).pool.rows()
    assert "<secret:" in row.messages[3]["content"]
    assert good(work, answers=[("select", "They are no secrets")]).exit_code == 0
    [row] = Project.at(work).pool.rows()
    assert TOKEN in row.messages[3]["content"]
    assert len(Project.at(work).settings().allowed) == 2
    assert good(work, answers=[]).title == "Already tagged: nothing added"


def test_without_a_key_nothing_is_allowed(work):
    assert good(work).exit_code == 0
    ask(work, "privacy", "scan", str(session(work)))
    (machine_home() / "fingerprint.key").write_bytes(b"")
    ask(work, "privacy", "policy", "ask")
    for choice in ("They are no secrets", "Keep the turn without"):
        good(work, answers=[("select", choice)])
    assert TOKEN.encode() not in on_disk(work)
    assert not Sources({}, frozenset({""})).allows(TOKEN)


def test_an_allowed_one_is_found_no_more_until_it_is_taken_off_the_list(work):
    file = work.parent / "x.py"
    file.write_text(f"\n\nkey = '{TOKEN}'\n")
    found = ask(work, "privacy", "scan", str(file))
    assert (found.exit_code, found.data["findings"][0]["place"], TOKEN in str(found)) == (1, "line 3", False)
    mark = found.data["findings"][0]["fingerprint"]
    assert ask(work, "privacy", "allow", mark).data["allowed"] == [mark]
    assert ask(work, "privacy", "scan", str(file)).exit_code == 0
    assert ask(work, "privacy", "allow", mark, "--remove").data["allowed"] == []
    assert ask(work, "privacy", "scan", str(file)).exit_code == 1
    assert ask(work, "privacy", "allow", "nothex").exit_code == 2
    assert ask(work, "privacy", "allow", mark, "--remove").exit_code == 2


def test_a_session_is_scanned_line_by_line(work):
    found = ask(work, "privacy", "scan", str(session(work)))
    places = {each["place"] for each in found.data["findings"]}
    assert "line 5: message.content[0].text" in places
    assert len({each["rule"] for each in found.data["findings"]}) == 2
    assert found.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [["scan"], ["scan", "x", "--pool"], ["scan", "missing.txt"], ["policy", "maybe"], ["redact"], ["redact", "t_none"], ["erase", "t_none", "--yes"], ["erase", "c_none", "--yes"]],
)  # fmt: skip
def test_a_mistake_is_said_and_changes_nothing(work, words):
    report = ask(work, "privacy", *words)
    assert report.exit_code == 2
    assert report.next_step


def kept_before_the_rule(root, monkeypatch):
    """A row whose secrets were not known when it was kept."""
    (root / ".env").rename(root / "env.off")
    file = session(root)
    text = file.read_text().replace(TOKEN, "a-name-of-the-house-77")
    file.write_text(text)
    assert ask(root, "correction", "no", "--session", str(file)).exit_code == 0
    (root / "env.off").rename(root / ".env")
    (root / ".env").write_text((root / ".env").read_text() + "HOUSE_TOKEN=a-name-of-the-house-77\n")
    [row] = Project.at(root).pool.rows()
    assert "a-name-of-the-house-77" in row.messages[3]["content"]
    return row


def test_a_row_is_mended_by_one_that_stands_for_it(work, monkeypatch):
    old = kept_before_the_rule(work, monkeypatch)
    found = ask(work, "privacy", "scan", "--pool")
    assert {each["place"].partition(":")[0] for each in found.data["findings"]} == {old.id}
    assert found.next_step == f"machine privacy redact {old.id}"
    report = ask(work, "privacy", "redact", old.id[:20])
    assert report.data["mended"][0]["old"] == old.id
    assert "the old bytes are in the pool still" in " ".join(report.notes)
    project = Project.at(work)
    [new] = project.pool.rows()
    assert (new.id, new.tag, new.correction) == (report.data["mended"][0]["new"], "bad", old.correction)
    assert "<secret:env-house-token:" in new.messages[3]["content"]
    assert ask(work, "privacy", "scan", "--pool").exit_code == 0
    ledger = Ledger(project)
    [correction] = ledger.read().corrections
    assert [row.id for row in rows_of(ledger, correction.opened.rows)] == [new.id]
    assert b"a-name-of-the-house-77" in on_disk(work)
    assert ask(work, "privacy", "redact", "--all").title.startswith("No secret found")
    assert "counts no more" in ask(work, "privacy", "redact", old.id).title


def test_the_old_bytes_go_where_that_is_asked(work, monkeypatch):
    kept_before_the_rule(work, monkeypatch)
    suite = Project.at(work).folder / "evals" / "suite.jsonl"
    suite.parent.mkdir()
    suite.write_text('{"x": "a-name-of-the-house-77"}\n')
    assert "nobody is here" in ask(work, "privacy", "redact", "--all", "--erase").title
    assert b"a-name-of-the-house-77 " not in on_disk(work)
    report = ask(work, "privacy", "redact", "--all", "--erase", "--yes")
    assert (report.exit_code, report.data["erased"], report.data["elsewhere"]) == (0, 1, [str(suite)])
    suite.unlink()
    assert b"a-name-of-the-house-77" not in on_disk(work)
    assert json.dumps(PASSWORD)[1:-1].encode() not in on_disk(work)
    project = Project.at(work)
    [new] = project.pool.rows()
    ledger = Ledger(project)
    assert [row.id for row in rows_of(ledger, ledger.read().corrections[0].opened.rows)] == [new.id]
    assert (project.pool.broken(), project.pool.erased()) == (0, 1)


def test_what_the_ledger_holds_is_mended_too(work, monkeypatch):
    file = session(work)
    ask(work, "correction", "the house is called villa-9-rosebud", "--session", str(file))
    (work / ".env").write_text("HOUSE_SECRET=villa-9-rosebud\n")
    ledger = Ledger(Project.at(work))
    assert "villa-9-rosebud" in ledger.path.read_text()
    report = ask(work, "privacy", "redact", "--all")
    assert report.data["ledger"] == 1
    [correction] = ledger.read().corrections
    assert correction.opened.words == "the house is called <secret:env-house-secret:1>"
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_a_row_is_erased_with_the_correction_that_rejects_it(work, monkeypatch):
    old = kept_before_the_rule(work, monkeypatch)
    file = session(work, "t.jsonl", "Another question, of another day?", "Another answer, of another day.")
    assert ask(work, "good", "--session", str(file)).exit_code == 0
    assert "nobody is here" in ask(work, "privacy", "erase", old.id).title
    report = ask(work, "privacy", "erase", old.id, "--yes")
    assert report.exit_code == 0
    assert len(report.data["corrections"]) == 1
    project = Project.at(work)
    assert [row.tag for row in project.pool.rows()] == ["good"]
    assert Ledger(project).read().corrections == []
    assert Ledger(project).read().damaged == []
    held = on_disk(work)
    assert b"It is in the file." not in held
    assert b"Another answer" in held
    assert "Pi's session file is as it was" in " ".join(report.notes)


def test_an_erased_turn_is_not_captured_again_unasked_but_may_be_tagged(work):
    file = session(work)
    assert ask(work, "import", str(file)).title.startswith("1 turn(s)")
    [row] = Project.at(work).pool.rows()
    assert ask(work, "privacy", "erase", row.id, "--yes").exit_code == 0
    again = ask(work, "import", str(file))
    assert again.title.startswith("0 turn(s)")
    assert again.data["files"][0]["erased"] == 1
    assert "that you erased" in again.notes[0]
    assert ask(work, "good", "--session", str(file)).exit_code == 0
    assert Project.at(work).pool.counts() == {"good": 1}


def test_a_ledger_whose_erasing_a_crash_cut_short_is_read_without_those_lines(work):
    for name in ("one", "two"):
        file = session(work, f"{name}.jsonl", f"Question {name} of the day?", f"Answer {name} of the day.")
        ask(work, "correction", f"wrong {name}", "--session", str(file))
    ledger = Ledger(Project.at(work))
    first, second = ledger.read().corrections
    of_first = [each for each in all_lines(ledger.path) if first.id.encode() in each[1]]
    begin(ledger.path, [Span(offset, len(line)) for offset, line in of_first])
    assert [each.id for each in ledger.read().corrections] == [second.id]
    assert ledger.read().damaged == []
    ledger.drop(ledger.read().corrections[0], "done")
    assert b"wrong one" not in ledger.path.read_bytes()
    assert b"wrong two" in ledger.path.read_bytes()
    assert [each.state for each in ledger.read().corrections] == ["dropped"]
    assert first.id not in str(ledger.read())


def test_what_is_shown_of_a_project(work):
    ask(work, "privacy", "home", "on")
    shown = ask(work, "privacy")
    assert (shown.data["policy"], shown.data["home"], shown.data["email"]) == ("redact", True, False)
    assert shown.data["env_files"] == [".env"]
    assert "env-db-password" in shown.data["exact"]
    assert PASSWORD not in str(shown)


def test_the_old_bytes_of_a_row_that_was_mended_before_go_when_that_is_asked_later(work, monkeypatch):
    old = kept_before_the_rule(work, monkeypatch)
    ask(work, "privacy", "redact", old.id)
    refusal = ask(work, "privacy", "redact", old.id, "--erase", "--yes")
    project = Project.at(work)
    [new] = project.pool.rows()
    assert refusal.next_step.startswith(f"machine privacy redact {new.id} --erase")
    report = ask(work, "privacy", "redact", new.id, "--erase", "--yes")
    assert (report.data["erased"], list(project.pool.rows())) == (1, [new])
    assert b"a-name-of-the-house-77" not in on_disk(work)
    ledger = Ledger(project)
    assert rows_of(ledger, ledger.read().corrections[0].opened.rows) == [new]
    assert ask(work, "privacy", "redact", "--all", "--erase", "--yes").title.startswith("No secret found")


def test_the_bytes_of_a_mended_row_are_erased_and_the_correction_of_what_stands_for_it_stays(work, monkeypatch):
    old = kept_before_the_rule(work, monkeypatch)
    ask(work, "privacy", "redact", old.id)
    report = ask(work, "privacy", "erase", old.id, old.id[:20], "--yes")
    assert (report.data["rows"], report.data["corrections"], report.data["erased"]) == ([old.id], [], 1)
    project = Project.at(work)
    ledger = Ledger(project)
    [correction] = ledger.read().corrections
    [new] = project.pool.rows()
    assert rows_of(ledger, correction.opened.rows) == [new]
    assert ask(work, "privacy", "erase", new.id, "--yes").data["corrections"] == [correction.id]


def test_a_link_to_a_mended_row_that_is_erased_is_taken_back(work):
    file = session(work)
    ask(work, "correction", "no", "--as", "It is a-name-of-the-house-77.", "--session", str(file))
    project = Project.at(work)
    (work / ".env").write_text("HOUSE_TOKEN=a-name-of-the-house-77\n")
    [good] = project.pool.rows("good")
    ask(work, "privacy", "redact", good.id)
    [mended] = project.pool.rows("good")
    assert mended.id != good.id
    assert ask(work, "privacy", "erase", mended.id, "--yes").exit_code == 0
    [correction] = Ledger(project).read().corrections
    assert (correction.state, correction.link) == ("open", None)


@pytest.mark.parametrize("word", ["redact", "erase"])
def test_an_empty_id_names_nothing_though_there_is_one_row_alone(work, word):
    assert good(work).exit_code == 0
    report = ask(work, "privacy", word, "", "--yes")
    assert (report.exit_code, Project.at(work).pool.counts()) == (2, {"good": 1})


def test_a_correction_whose_words_name_an_erased_one_stays(work):
    first = ask(work, "correction", "no", "--session", str(session(work, "1.jsonl", "The first question?")))
    words = f"as in {first.data['correction']['correction']}"
    ask(work, "correction", words, "--session", str(session(work, "2.jsonl", "The second question?", "Another.")))
    one, two = Ledger(Project.at(work)).read().corrections
    assert ask(work, "privacy", "erase", one.id, "--yes").exit_code == 0
    [left] = Ledger(Project.at(work)).read().corrections
    assert (left.id, left.opened.words) == (two.id, words)


def test_parts_of_one_turn_are_mended_together(work):
    s = Script(cwd=str(work), tools=[TOOL])
    s.user("Which one?")
    call = s.assistant("Looking for villa9rosebud7.", [("c1", {"path": "x"})])
    s.result("c1", "more-of-it-9")
    s.entry("compaction", summary="S", firstKeptEntryId=call, tokensBefore=9, systemMessage=s.entries[0]["message"])
    s.assistant("It is villa9rosebud7.")
    assert ask(work, "good", "--session", str(s.save(work.parent / "s.jsonl"))).exit_code == 0
    project = Project.at(work)
    assert [row.source.part for row in project.pool.rows()] == [0, 1]
    (work / ".env").write_text("HOUSE_TOKEN=villa9rosebud7\nMORE_TOKEN=more-of-it-9\n")
    assert len(ask(work, "privacy", "redact", "--all").data["mended"]) == 2
    first, second = project.pool.rows()
    [house] = {match.group() for match in PLACEHOLDER.finditer(str(first.messages))}
    assert house in second.messages[-1]["content"]
    assert len({match.group() for match in PLACEHOLDER.finditer(str(second.messages))}) == 2


SAID = "It is a-name-of-the-house-17."


@pytest.mark.parametrize("erased", [False, True])
@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("fields", [{"tag": "bad"}, {"note": "said since"}, {"note": "said since", "clean": True}])
def test_a_row_that_is_tagged_anew_while_the_pool_is_mended_is_mended_in_its_place(
    work, monkeypatch, fields, times, erased
):
    s = Script(cwd=str(work), tools=[TOOL])
    for number in (1, 2):
        s.user(f"Question {number}?")
        s.assistant(f"It is a-name-of-the-house-{number}7.")
    ask(work, "import", str(s.save(work.parent / "s.jsonl")), "--tag", "good")
    (work / ".env").write_text("A_TOKEN=a-name-of-the-house-17\nB_TOKEN=a-name-of-the-house-27\n")
    project = Project.at(work)
    first, second = project.pool.rows()
    supersede, newer = Pool.supersede, []
    fields = dict(fields)
    clean = fields.pop("clean", False)

    def meanwhile(pool, old, row, **words):
        """Somebody tags the first turn anew, just before its mended row is written."""
        if row.source.entries == first.source.entries and len(newer) < times:
            said = replace(first, id=new_id(), **fields, digest=f"{len(newer):064x}")
            if clean:
                messages = ({"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A"})
                said = replace(said, messages=messages, target=(1,))
            newer.append(said)
            assert not pool.append(said).duplicate
        supersede(pool, old, row, **words)

    monkeypatch.setattr(Pool, "supersede", meanwhile)
    report = ask(work, "privacy", "redact", "--all", *(["--erase", "--yes"] if erased else []))
    assert second.id in [each["old"] for each in report.data["mended"]]
    assert report.data["retagged"] == [first.id, *[each.id for each in newer[:-1]]]
    assert f"{first.id} was tagged anew meanwhile: {newer[0].id} stands for its turn" in " ".join(report.notes)
    [now] = [row for row in project.pool.rows() if row.source.entries == first.source.entries]
    assert (now.tag, now.note) == (newer[-1].tag, newer[-1].note)  # what the user said last
    left = times > 1 and not clean
    assert ("run this again" in " ".join(report.notes)) == left
    assert (now.id == newer[-1].id) == (left or clean)
    assert (SAID in str(now.messages)) == left
    if now.tag == first.tag:
        assert project.mends.heirs(first.id)[0] == now.id
        assert (SAID.encode() in project.pool.path.read_bytes()) == (left or not erased)
    elif not left:
        assert f"machine privacy erase {first.id}" in " ".join(report.notes)
    assert project.pool.counts() == ({"bad": 1, "good": 1} if now.tag == "bad" else {"good": 2})


def test_a_row_that_is_erased_while_the_pool_is_mended_does_not_come_back(work, monkeypatch):
    old = kept_before_the_rule(work, monkeypatch)
    project, supersede = Project.at(work), Pool.supersede

    def meanwhile(pool, *words, **options):
        pool.erase([old.id])
        supersede(pool, *words, **options)

    monkeypatch.setattr(Pool, "supersede", meanwhile)
    report = ask(work, "privacy", "redact", "--all")
    assert (report.data["mended"], report.data["retagged"]) == ([], [old.id])
    assert f"{old.id} counts no more" in " ".join(report.notes)
    assert list(project.pool.rows()) == []
    assert project.mends.all() == {}


def test_data_says_what_it_can_where_the_pool_cannot_be_read(work):
    good(work)
    pool = Project.at(work).pool.path
    pool.rename(work.parent / "elsewhere.jsonl")
    pool.symlink_to(work.parent / "elsewhere.jsonl")
    shown = ask(work, "data")
    assert (shown.exit_code, shown.data["privacy"], shown.data["refused"]) == (1, "redact", [])
    assert "traces.jsonl is a symbolic link" in shown.notes[0]
    assert shown.next_step.startswith("rm ")
