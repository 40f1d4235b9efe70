"""What is given from outside: new to the store, never trained on, long enough, and taken once for a candidate."""

import hashlib
import stat

import msgspec
import pytest
from released import Work, cases

from machine.errors import Refused, UsageError
from machine.evals.case import Scorer
from machine.evals.suite import suite_text
from machine.release import log
from machine.release.draft import amend
from machine.release.freeze import freeze
from machine.release.given import suites
from machine.release.preregistration import Repair
from machine.store.files import private_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    work = Work(tmp_path_factory.mktemp("made")).frozen()
    work.candidate()
    return work


@pytest.fixture
def work(made, tmp_path):
    return made.copy(tmp_path)


def take(work, files, found=None):
    return suites(work.project, work.place, work.standing, found or work.place.read(), files, work.trained())


def refused(work, files, kind=Refused) -> str:
    before = work.standing.entries
    with pytest.raises(kind) as found:
        take(work, files)
    assert work.standing.entries == before, "nothing was taken"
    assert not list(work.place.folder.glob("gates/*/*"))
    assert found.value.next_step
    return found.value.message


def given(path, held):
    path.write_bytes(suite_text(held))
    return {"holdout": path}


def question(text, id="one"):
    return msgspec.structs.replace(cases("x")[0], id=id, messages=({"role": "user", "content": text},))


def test_it_is_kept_and_entered_before_anything_is_asked(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", cases("outside", 13))
    taken = take(work, files)
    assert [case.id for case in taken.cases["holdout"]] == [f"outside-{i}" for i in range(13)]
    assert (taken.size("holdout"), taken.size("target"), taken.size("nothing")) == (13, 14, 0)
    kept = work.place.gates(work.standing.candidate.run) / "holdout.jsonl"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert work.standing.gating["given"] == {"holdout": f"13 cases of mine.jsonl, {digest}"} == taken.given
    files["holdout"].unlink()
    assert take(work, {}) == taken, "the same again, whatever became of the file"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "the suite 'holdout' comes from outside: at least 12 cases"),
        ({"holdout": "f", "other": "f"}, "BR-000 has no suite from outside that is called 'other' (it has holdout)"),
        ({"target": "f"}, "BR-000 has no suite from outside that is called 'target'"),
    ],
)
def test_what_is_missing_or_unknown(work, tmp_path, files, words):
    path = given(tmp_path / "mine.jsonl", cases("outside"))["holdout"]
    assert refused(work, dict.fromkeys(files, path), UsageError).startswith(words)


def test_files_that_are_none(work, tmp_path):
    assert refused(work, {"holdout": tmp_path / "none.jsonl"}).startswith(f"{tmp_path}/none.jsonl is no file")
    assert "is no file" in refused(work, {"holdout": tmp_path})
    (tmp_path / "empty.jsonl").write_text("\n")
    assert "holds no case" in refused(work, {"holdout": tmp_path / "empty.jsonl"})
    (tmp_path / "bad.jsonl").write_bytes(b"\xff\xfe")
    assert "bad.jsonl line 1" in refused(work, {"holdout": tmp_path / "bad.jsonl"})


def test_too_short(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", cases("outside", 11))
    assert refused(work, files) == f"{tmp_path}/mine.jsonl holds 11 cases, suites.holdout says at least 12"


def test_one_case_many_times(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", [question("Who goes there, and why?", f"c{i}") for i in range(12)])
    assert "cases c0 and c1 ask the same, which counts once" in refused(work, files)


def test_one_id_twice(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", [*cases("outside"), *cases("outside")])
    assert "two cases are called 'outside-0'" in refused(work, files)


def test_a_file_that_lies_in_the_store(work, tmp_path):
    inside = given(private_folder(work.project.folder / "mine") / "mine.jsonl", cases("outside"))
    assert "lies in the project's store" in refused(work, inside)
    link = tmp_path / "link.jsonl"
    link.symlink_to(inside["holdout"])
    assert "lies in the project's store" in refused(work, {"holdout": link})


@pytest.mark.parametrize("spelt", ["Tell target number 3, please.", "  tell TARGET\nnumber 3,   please. "])
def test_a_question_that_a_suite_of_the_store_asks(work, tmp_path, spelt):
    files = given(tmp_path / "mine.jsonl", [*cases("outside"), question(spelt)])
    assert "case one is in the store already (evals/suite.jsonl), so it is no holdout" in refused(work, files)
    (work.project.evals / "suite.jsonl").unlink()
    message = refused(work, files)
    assert "case one is in the store already (releases/BR-000/v1/suites/target.jsonl)" in message


def test_another_system_prompt_makes_no_other_question(work, tmp_path):
    asked = cases("target")[3]
    told = msgspec.structs.replace(
        asked, id="one", messages=({"role": "system", "content": "Be kind."}, *asked.messages)
    )
    assert "case one is in the store already" in refused(
        work, given(tmp_path / "mine.jsonl", [*cases("outside"), told])
    )


def test_a_holdout_of_an_earlier_candidate_or_version(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", cases("outside"))
    take(work, files)
    first = work.standing.candidate.run
    work.step("gated", {"passed": False, "sha256": "", "gates": {"learnt": False}})
    work.candidate()
    where = f"releases/BR-000/v1/gates/{first}/holdout.jsonl"
    with pytest.raises(Refused, match=f"in the store already \\({where}\\)"):
        take(work, files)
    amend(work.project, work.standing, "another try")
    freeze(work.project, work.standing)
    work.candidate()
    with pytest.raises(Refused, match=f"in the store already \\({where}\\)"):
        take(work, files)
    take(work, given(tmp_path / "mine.jsonl", cases("fresh")))


def test_lines_of_other_files_are_no_questions(work, tmp_path):
    for text in (
        b'{"id": 5}\n',
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"id":"a","messages":[{"role":"user","content":5}],"scorer":{"kind":"exact"}}\n',
    ):
        with (work.project.evals / "odd.jsonl").open("ab") as file:
            file.write(text)
    take(work, given(tmp_path / "mine.jsonl", cases("outside")))


def test_a_crash_before_the_log_knew_of_it_is_no_dead_end(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", cases("outside"))
    folder = private_folder(work.place.gates(work.standing.candidate.run))
    (folder / "holdout.jsonl").write_bytes(files["holdout"].read_bytes())
    assert take(work, files).size("holdout") == 12


@pytest.mark.parametrize(
    ("text", "kind"),
    [("What is 3 plus one?", "exact"), ("what is  3 PLUS one?", "exact"), ("Well, what is 3 plus one?", "near")],
)
def test_what_was_trained_on(work, tmp_path, text, kind):
    message = refused(work, given(tmp_path / "mine.jsonl", [*cases("outside"), question(text)]))
    assert "1 of 13 cases repeat what was trained on, and prove nothing: one (" + kind in message


def test_a_function_may_not_come_along(work, tmp_path):
    (tmp_path / "own.py").write_text("def score(answer, case):\n    return 1.0\n")
    scored = [msgspec.structs.replace(case, scorer=Scorer("python", "own.py:score")) for case in cases("outside")]
    message = refused(work, given(tmp_path / "mine.jsonl", scored))
    assert "case outside-0 is scored by a function, which a suite from outside may not bring along" in message


@pytest.mark.parametrize("damage", ["edited", "removed"])
def test_what_was_kept_is_not_changed_between_two_attempts(work, tmp_path, damage):
    take(work, given(tmp_path / "mine.jsonl", cases("outside")))
    kept = work.place.gates(work.standing.candidate.run) / "holdout.jsonl"
    if damage == "edited":
        kept.write_bytes(suite_text(cases("easier")))
    else:
        kept.unlink()
    with pytest.raises(Refused, match="is not the suite that the gates began with"):
        take(work, {})


def test_another_file_at_the_second_attempt_is_refused_and_the_same_is_not(work, tmp_path):
    files = given(tmp_path / "mine.jsonl", cases("outside"))
    first = take(work, files)
    assert take(work, files) == first
    with pytest.raises(Refused, match=r"another holdout was given .* already \(12 cases of mine\.jsonl\)"):
        take(work, given(tmp_path / "other.jsonl", cases("other")))
    with pytest.raises(Refused, match="another holdout was given"):
        take(work, {"holdout": tmp_path / "gone.jsonl"})
    with pytest.raises(UsageError, match="called 'typo'"):
        take(work, {"typo": tmp_path / "mine.jsonl"})


def test_naming_the_same_run_again_draws_nothing_anew(work, tmp_path):
    found = work.place.read()
    found = msgspec.structs.replace(found, suites={**found.suites, "fresh": Repair(least=3)})
    files = given(tmp_path / "mine.jsonl", cases("outside"))
    first = take(work, files, found)
    assert first.given["fresh"].startswith("3 fresh seeds, ")
    assert [take(work, {}, found).tasks["fresh"] for _ in range(2)] == [first.tasks["fresh"]] * 2
    named = next(entry.data for entry in work.standing.entries if entry.step == "candidate")
    work.step("candidate", named)
    assert take(work, {}, found).tasks == first.tasks
    assert [entry.step for entry in log.read(work.project.releases)].count("gating") == 1
