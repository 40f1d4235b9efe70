import json

import pytest

from machine.release import log, tried
from machine.release.outcomes import Outcome, tallied
from machine.release.standing import ledger
from machine.release.status import list_report, log_report, status_report
from machine.report import as_json, as_markdown, as_text
from releasepages import BEHAVIOUR, MODEL, PREREGISTRATION, RUN, Release, questions, whole


def cell(report, table, row, column):
    found = next(each for each in report.tables if table in each.title)
    return next(each for each in found.rows if each[0].strip() == row)[column]


def failing(folder):
    """A release whose candidate failed its gates: it wins one case and loses one."""
    release = Release(folder).freeze().candidate().asked()
    release.answer("target", "candidate", questions("target"), ["ANSWER: no"] * 12, lambda i: i == 6)
    return release.judged()


def test_a_trial_says_where_it_stands_and_all_that_it_is_held_to(tmp_path):
    report = status_report(whole(tmp_path).summary())
    rows = dict(report.rows)
    assert report.title == "BR-001 v1 Reliable file repair: trial"
    assert rows["Stands at"].startswith("trial since 20")
    assert rows["Base model"] == MODEL
    assert rows["Candidate"] == f"run {RUN}"
    assert rows["Training"] == "steps 36 (10 to 60), rank 16 (4 to 32), learning rate 0.0004 (1e-05 to 0.001)"
    assert rows["Size and cost"] == "rows 96 (20 to 400), tokens 214,080 (at most 400,000), cost $0.41 (at most $2.00)"
    assert rows["From outside"] == "holdout (12 cases of mine.jsonl)"
    assert rows["Trial"] == "12 of 20 turns, out of 25 % of the user's turns"
    assert rows["It stops at"] == "3 failures in a row (1 in all), 5 bad turns (2 now), worse at p ≤ 0.01 (0.77 now)"
    assert rows["Who decides"] == "ada, grace"
    assert rows["Student"].startswith("no release is active")
    assert report.next_step


def test_every_gate_has_its_verdict_figure_and_threshold(tmp_path):
    release = whole(tmp_path)
    report = status_report(release.summary())
    gates = report.tables[0]
    assert gates.title == "Gates: 7 of 7 passed"
    assert cell(report, "Gates", "better on the target", 1) == "passed"
    assert "2 → 11 of 12 passed" in cell(report, "Gates", "better on the target", 2)
    assert ["", "needs", "p ≤ 0.05 and a gain of ≥ 10 %"] in gates.rows
    assert [row[0] for row in gates.rows if row[0]] == ["frozen", *release.found.gates]


def test_the_trial_is_counted_arm_by_arm_with_intervals(tmp_path):
    report = status_report(whole(tmp_path).summary())
    trial = next(each for each in report.tables if "trial" in each.title)
    assert list(trial.columns) == ["", "release", "work model"]
    assert cell(report, "trial", "turns", 1) == "12"
    assert cell(report, "trial", "turns", 2) == "39"
    assert cell(report, "trial", "bad turns", 1) == "2 of 11"
    assert cell(report, "trial", "share (95 % interval)", 2) == "23.1 % (12.6 % to 38.3 %)"
    assert "failed" not in [row[0].strip() for row in trial.rows]
    assert any("no difference is shown" in note for note in report.notes)


def test_it_fits_the_terminal_as_text(tmp_path):
    for report in (status_report(whole(tmp_path / "a").summary()), status_report(failing(tmp_path / "b").summary())):
        lines = as_text(report).split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith("Gates"))
        stop = next(i for i, line in enumerate(lines) if i > start and not line)
        assert max(map(len, lines[: stop + 1])) <= 100
        assert " · " not in "".join(lines[start:stop])


def test_gates_that_were_not_run_say_what_they_need(tmp_path):
    report = status_report(Release(tmp_path).summary())
    assert report.title.endswith(": draft")
    assert report.tables[0].title == "Gates: 6, not run yet"
    assert {row[1] for row in report.tables[0].rows if row[0]} == {"not run"}
    assert cell(report, "Gates", "holds outside", 2) == "at most 30 % worse than the base on holdout (95 % confidence)"
    assert "Candidate" not in dict(report.rows)
    assert report.next_step == "machine release freeze BR-001"
    assert len(report.tables) == 1
    assert not report.notes
    assert not report.passages


def test_the_next_step_of_a_candidate_names_the_files_that_are_wanted_until_they_are_given(tmp_path):
    release = Release(tmp_path).freeze().candidate()
    assert status_report(release.summary()).next_step == "machine release gate BR-001 --holdout holdout=FILE"
    release.asked()
    report = status_report(release.summary())
    assert report.next_step == "machine release gate BR-001"
    assert "begun and have not come to an end" in dict(report.rows)["Which means"]


def test_a_failed_gate_says_all_of_why_and_a_passed_one_only_what_it_leaves_open(tmp_path):
    report = status_report(failing(tmp_path).summary())
    passages = {each.title: each.spans[0].text for each in report.passages}
    assert "no improvement is shown" in passages["Why it FAILED: better on the target"]
    assert "exact McNemar test" in passages["Why it FAILED: better on the target"]
    assert "holds outside: these answers leave a drop of up to" in passages["What the gates that passed leave open"]
    assert "0 won, 0 lost" not in "".join(passages.values())
    assert "failed better on the target" in dict(report.rows)["Which means"]


def test_candidates_that_failed_before_are_counted(tmp_path):
    release = failing(tmp_path)
    assert not status_report(release.summary()).notes
    release.candidate()
    [note] = status_report(release.summary()).notes
    assert note.startswith("1 candidate of this version failed these gates before")
    release.asked().judged()
    assert "no p-value here counts" in status_report(release.summary()).notes[0]


def test_forced_stays_for_ever(tmp_path):
    release = failing(tmp_path).activated("the demo is tomorrow")
    report = status_report(release.summary())
    assert report.title.endswith(": active, FORCED")
    assert report.rows[0] == ("FORCED", "the demo is tomorrow")
    assert report.notes[0].startswith("FORCED: v1 was activated against the rules")
    assert dict(report.rows)["Student"].startswith("yes")
    release.step("rolled back", {"reason": "it was worse"})
    release.step("amended", {"reason": "other gates"}, version=2)
    report = status_report(release.summary())
    assert report.title == "BR-001 v2: draft, FORCED"
    assert "the demo is tomorrow" in report.notes[0]


def test_a_broken_log_comes_first(tmp_path):
    release = failing(tmp_path).activated("because")
    path = release.project.releases / log.LOG
    path.write_bytes(path.read_bytes().replace(b'"by":"ada"', b'"by":"eve"', 1))
    report = status_report(release.summary())
    assert report.rows[0][0] == "LOG BROKEN"
    assert report.notes[0].startswith("THE LOG IS BROKEN")
    assert "line 1" in report.notes[0]
    assert report.notes[1].startswith("FORCED")
    assert report.next_step == "machine release verify"


def test_what_changed_after_freezing_is_loud(tmp_path):
    release = Release(tmp_path).freeze()
    (release.place.folder / "suites" / "target.jsonl").write_text("other\n")
    report = status_report(release.summary())
    assert report.rows[0] == ("CHANGED", "suites/target.jsonl was edited after it was frozen")
    assert report.notes == ["CHANGED SINCE IT WAS FROZEN: suites/target.jsonl was edited after it was frozen"]


def test_a_preregistration_that_cannot_be_read_is_said(tmp_path):
    report = status_report(Release(tmp_path, "title: [").summary())
    assert report.title == "BR-001 v1: draft"
    assert report.rows[0][0] == "NOT READ"
    assert report.notes[0].startswith("CANNOT BE READ")
    assert not report.tables


def test_a_damaged_verdict_is_told_from_the_log(tmp_path):
    release = failing(tmp_path)
    (release.gates / "result.json").write_text("{")
    report = status_report(release.summary())
    assert cell(report, "Gates", "better on the target", 1) == "FAILED"
    assert cell(report, "Gates", "holds outside", 1) == "passed"
    assert "its record cannot be read" in cell(report, "Gates", "holds outside", 2)
    assert "damaged" in report.notes[0]


def test_without_a_trial_there_is_none(tmp_path):
    text = PREREGISTRATION.replace("{turns: 20,", "{turns: 0,")
    report = status_report(Release(tmp_path, text).freeze().summary())
    rows = dict(report.rows)
    assert rows["Trial"] == "none in real use was written down"
    assert "It stops at" not in rows
    assert [table.title for table in report.tables] == ["Gates: 6, not run yet"]


def test_a_trial_without_a_turn_compares_nothing(tmp_path):
    report = status_report(Release(tmp_path).freeze().candidate().asked().judged().tried([]).summary())
    assert dict(report.rows)["Trial"].startswith("0 of 20 turns")
    assert cell(report, "trial", "turns", 1) == "0"
    assert cell(report, "trial", "share (95 % interval)", 1) == "none that counts"
    assert report.notes == ["Nothing can be compared yet: the release and the work model had no turn that counts."]


@pytest.mark.parametrize(("bad", "good", "said"), [(20, 0, "does worse"), (0, 20, "does better")])
def test_a_difference_that_is_shown_is_said(bad, good, said):
    def some(arm, what, count):
        at = "2026-01-01T00:00:00+00:00"
        return [Outcome(at, "s", f"{arm}{what}{i}", "BR-001", arm, "m", what) for i in range(count)]

    found = some("candidate", "corrected", bad) + some("candidate", "good", good)
    found += some("work", "corrected", good) + some("work", "good", bad)
    assert said in tried.compared(tallied(found))


def test_hostile_words_stay_words(tmp_path):
    release = failing(tmp_path).activated("**bold** \x1b[2J | `x`\n# head")
    report = status_report(release.summary())
    assert "\x1b" not in as_text(report)
    assert "\\x1b[2J" in as_text(report)
    assert "\n# head" not in as_markdown(report)
    assert "\\*\\*bold" in as_markdown(report)


def test_the_data_is_all_of_it(tmp_path):
    data = json.loads(as_json(status_report(whole(tmp_path).summary())))["data"]
    assert data["stage"] == "trial"
    assert data["verdicts"]["better on the target"] == "passed"
    assert data["candidate"]["run"] == RUN
    assert data["preregistration"]["behaviour"] == BEHAVIOUR
    assert data["gates"]["results"][1]["numbers"]["candidate_passed"] == 11
    assert data["trial"]["candidate"]["counts"]["good"] == 4
    assert [entry["step"] for entry in data["history"]][:3] == ["drafted", "frozen", "candidate"]


def test_the_list_says_which_release_is_active(tmp_path):
    release = failing(tmp_path)
    entries, _ = log.look(release.project.releases)
    report = list_report(ledger(entries), [release.summary()])
    assert dict(report.rows)["Active"].startswith("none")
    assert list(report.tables[0].rows[0])[:2] == ["BR-001 v1", "rejected"]
    assert report.tables[0].rows[0][3] == "5 of 7 passed"
    release.activated("because")
    entries, _ = log.look(release.project.releases)
    report = list_report(ledger(entries), [release.summary()])
    assert dict(report.rows)["Active"] == "BR-001 v1 (FORCED: because)"
    assert any("FORCED" in note for note in report.notes)
    assert "new BR-001" in list_report(ledger([]), []).next_step


def test_the_log_is_told_entry_by_entry_and_a_break_first(tmp_path):
    release = failing(tmp_path).activated("because")
    report = log_report(*log.look(release.project.releases))
    assert report.title == "Log of releases: 6 entries"
    assert report.exit_code == 0
    steps = [(row[3], row[6]) for row in report.tables[0].rows if row[0]]
    assert steps[0] == ("drafted", "")
    assert steps[2] == ("candidate", f"run {RUN}")
    assert steps[-1] == ("activated", "FORCED: because")
    assert all(len(line) <= 98 for line in as_text(report).split("\n"))
    path = release.project.releases / log.LOG
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    report = log_report(*log.look(release.project.releases))
    assert report.title.endswith(", BROKEN")
    assert report.rows[0][0] == "BROKEN"
    assert report.exit_code == 1
