import json

from machine.cli import ShellHost
from machine.commands import run
from machine.store.project import Project
from sessions import TOOL, Script


def talk(cwd, turns=3, **header):
    s = Script(cwd=str(cwd), tools=[TOOL])
    s.header |= header
    for number in range(turns):
        s.user(f"Question {number}")
        s.assistant("", [(f"c{number}", {})])
        s.result(f"c{number}", f"result {number}")
        s.assistant(f"Answer {number}")
    return s


def test_every_turn_is_observed_once_and_the_file_is_not_touched(tmp_path):
    file = talk(tmp_path).save(tmp_path / "s.jsonl")
    before = file.read_bytes()
    report = run(["import", str(file)], ShellHost())
    assert (report.exit_code, report.title) == (0, "3 turn(s) added as observed")
    rows = list(Project.at(tmp_path).pool.rows())
    assert [(row.tag, row.messages[-1]["content"], len(row.target)) for row in rows] == [
        ("observed", f"Answer {number}", 2) for number in range(3)
    ]
    again = run(["import", str(file)], ShellHost())
    assert again.title.startswith("0 turn(s)")
    assert again.data["files"][0]["held"] == 3
    assert file.read_bytes() == before


def test_a_steered_turn_is_one_turn(tmp_path):
    s = Script(cwd=str(tmp_path), tools=[TOOL])
    s.user("Fix it")
    s.assistant("", [("c1", {})])
    s.result("c1", "x")
    s.user("and keep the name")
    s.assistant("Fixed.")
    assert run(["import", str(s.save(tmp_path / "s.jsonl"))], ShellHost()).title.startswith("1 ")
    [row] = Project.at(tmp_path).pool.rows()
    assert len(row.target) == 2


def test_a_tagged_turn_stays_what_it_was(tmp_path):
    file = talk(tmp_path).save(tmp_path / "s.jsonl")
    run(["good", "--session", str(file)], ShellHost())
    run(["import", str(file)], ShellHost())
    assert Project.at(tmp_path).pool.counts() == {"good": 1, "observed": 2}
    run(["import", str(file), "--tag", "good"], ShellHost())
    assert Project.at(tmp_path).pool.counts() == {"good": 1, "observed": 2}


def test_what_is_left_out_is_counted_and_named(tmp_path):
    s = talk(tmp_path, turns=1)
    s.user("Cut")
    cut = s.assistant("Half an ans", stopReason="length")
    s.user("Aborted")
    s.assistant("", stopReason="aborted")
    file = s.save(tmp_path / "s.jsonl")
    file.write_bytes(file.read_bytes() + b'{"torn')
    report = run(["import", str(file), str(tmp_path / "nowhere.jsonl")], ShellHost())
    assert report.exit_code == 1
    said = "\n".join(report.notes)
    assert f"length limit (entry {cut})" in said
    assert "1 damaged line(s) left out, first at 11" in said
    assert "nowhere.jsonl: No such file" in said
    [first, _] = report.data["files"]
    assert (first["turns"], first["added"], len(first["refused"]), first["unanswered"]) == (2, 1, 1, 1)


def test_abandoned_branches_are_taken_when_they_are_asked_for(tmp_path):
    s = talk(tmp_path, turns=2)
    s.leaf = s.entries[4]["id"]
    s.user("Another way")
    s.assistant("Answer X")
    file = s.save(tmp_path / "s.jsonl")
    assert run(["import", str(file)], ShellHost()).title.startswith("2 ")
    assert run(["import", str(file), "--branches"], ShellHost()).title.startswith("1 ")
    answers = {row.messages[-1]["content"] for row in Project.at(tmp_path).pool.rows()}
    assert answers == {"Answer 0", "Answer 1", "Answer X"}


def test_sessions_of_elsewhere_come_here_when_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = talk("/somewhere/else").save(tmp_path / "s.jsonl")
    run(["import", str(file), "--here"], ShellHost())
    assert Project.at(tmp_path).pool.counts() == {"observed": 3}


def test_files_of_old_pis_lack_their_prompt_and_need_a_word(tmp_path):
    s = talk(tmp_path, turns=1)
    entries = [{k: v for k, v in e.items() if k not in ("id", "parentId")} for e in s.entries[1:]]
    header = {"type": "session", "id": "old", "timestamp": "x", "cwd": str(tmp_path)}
    file = tmp_path / "v1.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [header, *entries]))
    refused = run(["import", str(file)], ShellHost())
    assert "system prompt" in refused.notes[0]
    assert run(["import", str(file), "--no-prompt"], ShellHost()).title.startswith("1 ")


def test_a_row_whole_says_what_began_the_turn_and_what_came_while_it_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    s = talk(tmp_path, turns=1)
    prompt = s.entries[0]["message"]
    s.user("Fix it")
    call = s.assistant("Looking.", [("x1", {})])
    s.result("x1", "x")
    s.entry("compaction", summary="S", firstKeptEntryId=call, tokensBefore=9, systemMessage=prompt)
    s.user("and keep the name")
    s.assistant("Fixed.")
    saved = run(["good", "--session", str(s.save(tmp_path / "s.jsonl"))], ShellHost())
    shown = [run(["tagged", id], ShellHost()) for id in saved.data["rows"]]
    who = [[role for _, role, _ in report.tables[0].rows if role.startswith("user")] for report in shown]
    assert who == [["user", "user, began the turn"], ["user, a summary", "user, during the turn"]]
    assert "part 2" in dict(shown[1].rows)["Turn"]
