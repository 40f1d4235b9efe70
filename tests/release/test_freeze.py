"""Draft, freeze and amend: what could never be decided is refused, and what changes afterwards is shown."""

import stat

import msgspec
import pytest
from released import ID, Work, cases

from machine.errors import Refused, UsageError
from machine.evals.case import Scorer
from machine.evals.suite import read_suite, suite_text
from machine.release import log
from machine.release.draft import amend, new
from machine.release.freeze import freeze
from machine.release.seal import changes
from machine.store.files import private_folder

PLACEHOLDER = "<the style, as you would ask for it in a system prompt>"


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def written(work) -> Work:
    """A draft that can be frozen."""
    return work.drafted().edit(PLACEHOLDER, "Answer in one short line.")


def refused(work) -> str:
    before = work.standing.entries
    with pytest.raises(Refused) as found:
        freeze(work.project, work.standing)
    assert work.standing.entries == before
    assert found.value.next_step
    return found.value.message


def suite(work, name="target"):
    return work.place.folder / "suites" / f"{name}.jsonl"


def test_a_draft_is_filled_with_what_is_known(work):
    place, missing = new(work.project, ID, None)
    found = place.read()
    assert (found.id, found.data.rows, found.training.rows) == (ID, 24, (12, 48))
    assert found.training.learning_rate == (1e-5, 4.26e-4), (
        "the recipe's own rate is within the bounds, to its last digit"
    )
    assert [case.id for case in read_suite(suite(work))] == [f"target-{i}" for i in range(14)]
    assert len(missing) == 1
    assert "instruction" in missing[0]
    assert work.standing.stage == "draft"
    for path in place.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_slow_recipe_is_within_its_own_bounds(work):
    recipe = work.project.train / "tinker.yaml"
    recipe.write_text(recipe.read_text().replace("4.26e-4", "2.5e-06"))
    assert new(work.project, ID, None)[0].read().training.learning_rate == (2.5e-6, 2.5e-6)


def test_new_twice_or_with_another_id(work):
    work.drafted()
    with pytest.raises(Refused, match="there is a release BR-000 already"):
        new(work.project, ID, None)
    for wrong in ("br-1", "../x", "BR-000\n", ""):
        with pytest.raises(UsageError, match="no id of a release"):
            new(work.project, wrong, None)


def test_a_folder_that_the_log_does_not_know_is_left_alone(work):
    folder = private_folder(work.project.releases / ID / "v1")
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(Refused, match="there already"):
        new(work.project, ID, None)
    assert (folder / "mine.txt").read_text() == "mine"


def test_a_fault_leaves_nothing_but_what_was_there(work):
    mine = private_folder(work.project.releases / ID) / "outcomes.jsonl"
    mine.write_text("")
    work.rows(24)
    (work.project.evals / "suite.jsonl").write_text("no case\n")
    with pytest.raises(Refused, match="line 1"):
        new(work.project, ID, None)
    assert [path.name for path in mine.parent.iterdir()] == ["outcomes.jsonl"]
    assert log.read(work.project.releases) == []


def template(folder, work, text=None):
    """A template of the user's, with a suite and a function beside it."""
    private_folder(folder / "suites")
    place, _ = new(work.project, "BR-777", "blank")
    mine = text or place.file.read_text().replace("id: BR-777", "id: $id").replace(
        "<what it is, in a few words>", "Mine"
    )
    (folder / "preregistration.yaml").write_text(mine)
    (folder / "suites" / "target.jsonl").write_bytes(suite_text(cases("own")))
    (folder / "suites" / "own.py").write_text("def score(answer):\n    return 1.0\n")
    private_folder(folder / "suites" / "__pycache__")
    return folder


@pytest.mark.parametrize("given", ["", "preregistration.yaml"])
def test_from_a_folder_of_the_users(work, tmp_path, given):
    folder = template(tmp_path / "mine", work)
    place, missing = new(work.project, "BR-778", str(folder / given))
    assert place.read().title == "Mine"
    assert sorted(path.name for path in (place.folder / "suites").iterdir()) == ["own.py", "target.jsonl"]
    assert any("regression.jsonl" in each for each in missing)


def test_a_template_of_another_release_is_refused(work, tmp_path):
    folder = template(tmp_path / "mine", work)
    (folder / "preregistration.yaml").write_bytes(
        (work.project.releases / "BR-777" / "v1" / "preregistration.yaml").read_bytes()
    )
    with pytest.raises(Refused, match="id: the template is of BR-777 alone, and BR-778 is asked for"):
        new(work.project, "BR-778", str(folder))
    assert not (work.project.releases / "BR-778").exists()


@pytest.mark.parametrize("source", ["nowhere", "~nobody-of-that-name/x", "a\0b", "BR-000/../BR-001"])
def test_no_template(work, source):
    with pytest.raises(UsageError, match="is no template"):
        new(work.project, ID, source)


def test_a_template_that_is_no_text(work, tmp_path):
    (tmp_path / "preregistration.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="is no template"):
        new(work.project, ID, str(tmp_path))


def test_without_a_recipe(work):
    (work.project.train / "tinker.yaml").unlink()
    with pytest.raises(Refused, match=r"tinker\.yaml"):
        new(work.project, ID, None)
    assert not work.project.releases.exists()


def test_what_is_frozen_does_not_change_unseen(work):
    work.frozen()
    standing, place = work.standing, work.place
    assert standing.stage == "frozen"
    assert set(standing.seal.suites) == {"suites/target.jsonl", "suites/regression.jsonl"}
    assert changes(place, standing.seal) == []
    with pytest.raises(Refused, match="frozen already"):
        freeze(work.project, standing)
    work.edit("gain: 0.2", "gain: 0.0")
    suite(work).write_bytes(suite_text(cases("other")))
    suite(work, "regression").unlink()
    assert changes(place, standing.seal) == [
        "preregistration.yaml was edited after it was frozen",
        "suites/regression.jsonl is gone",
        "suites/target.jsonl was edited after it was frozen",
    ]
    suite(work).unlink()
    suite(work).mkdir()
    place.file.unlink()
    found = changes(place, standing.seal)
    assert found[0] == "preregistration.yaml is gone"
    assert found[2].startswith("suites/target.jsonl cannot be read (")
    other = msgspec.structs.replace(standing.seal, retention="00")
    assert changes(place, other)[-1].startswith("this Machine's retention suite is another")


def test_a_function_that_scores_is_frozen_with_its_suite(work):
    written(work)
    scored = [msgspec.structs.replace(case, scorer=Scorer("python", "own.py:score")) for case in cases("own")]
    suite(work).write_bytes(suite_text(scored))
    function = suite(work).with_name("own.py")
    function.write_text("def score(answer, case):\n    return 0.0\n")
    sealed, _ = freeze(work.project, work.standing)
    assert set(sealed.suites) == {"suites/own.py", "suites/target.jsonl", "suites/regression.jsonl"}
    function.write_text("def score(answer, case):\n    return 1.0\n")
    assert changes(work.place, sealed) == ["suites/own.py was edited after it was frozen"]


def test_a_function_elsewhere_cannot_be_frozen(work, tmp_path):
    written(work)
    below = suite(work).parent / "below"
    below.mkdir()
    for folder, fault in ((tmp_path, "lies outside"), (below, "does not lie beside the suite")):
        (folder / "far.py").write_text("def score(answer, case):\n    return 0.0\n")
        name = f"{tmp_path}/far.py:score" if folder == tmp_path else "below/far.py:score"
        scored = [msgspec.structs.replace(case, scorer=Scorer("python", name)) for case in cases("own")]
        suite(work).write_bytes(suite_text(scored))
        assert fault in refused(work)


@pytest.mark.parametrize("what", ["file", "folder", "dangling"])
def test_a_link_is_no_suite(work, tmp_path, what):
    written(work)
    target = tmp_path / "elsewhere"
    target.mkdir()
    for name in ("target", "regression"):
        (target / f"{name}.jsonl").write_bytes(suite(work, name).read_bytes())
    if what == "folder":
        for name in ("target", "regression"):
            suite(work, name).unlink()
        suite(work).parent.rmdir()
        suite(work).parent.symlink_to(target)
    else:
        suite(work).unlink()
        suite(work).symlink_to(target / ("target.jsonl" if what == "file" else "nothing.jsonl"))
    message = refused(work)
    assert "suites/" in message
    assert "link" in message or "is not there" in message


def test_a_suite_that_cannot_be_judged_is_refused(work):
    written(work)
    held = suite(work).read_bytes()
    suite(work).write_bytes(suite_text(cases("target", 11)))
    assert refused(work) == f"{suite(work)} holds 11 cases, suites.target says at least 12"
    suite(work).write_bytes(b"\n")
    assert refused(work) == f"{suite(work)} is empty: it is suites.target"
    suite(work).write_bytes(held + b"no case\n")
    assert "target.jsonl line 15" in refused(work)
    suite(work).unlink()
    assert refused(work) == f"{suite(work)} is not there: it is suites.target"
    suite(work).mkdir()
    assert str(suite(work)) in refused(work)
    suite(work).rmdir()
    suite(work).write_bytes(held)
    freeze(work.project, work.standing)


def test_a_gate_that_nobody_could_pass(work):
    written(work).edit("file: suites/target.jsonl, least: 12", "file: suites/target.jsonl, least: 4")
    suite(work).write_bytes(suite_text(cases("target", 4)))
    assert "gates.learnt could be passed by no candidate: target has 4 cases, and it takes 5" in refused(work)
    suite(work).write_bytes(suite_text(cases("target", 14)))
    work.edit("{kind: cases, least: 12, near", "{kind: cases, least: 3, near")
    assert "gates.holds outside could be passed by no candidate: holdout has 3 cases, and it takes 5" in refused(work)


def test_a_case_that_is_trained_on(work):
    written(work)
    leaked = msgspec.structs.replace(
        cases("x")[0], id="leak", messages=({"role": "user", "content": "what is 3  PLUS one?"},)
    )
    suite(work).write_bytes(suite_text([*cases("target", 12), leaked]))
    assert refused(work) == f"{suite(work)}: 1 cases are trained on and prove nothing: leak"


def test_other_rows_since(work):
    written(work)
    work.rows(25)
    message = refused(work)
    assert "preregistration.yaml: data: the recipe trains on 25 rows now" in message
    assert "24 rows of digest" in message


def test_another_model_since(work):
    written(work)
    recipe = work.project.train / "tinker.yaml"
    recipe.write_text(recipe.read_text().replace("SmolLM2-135M", "SmolLM2-360M"))
    assert "preregistration.yaml: model: it is HuggingFaceTB/SmolLM2-135M-Instruct, and the recipe trains" in refused(
        work
    )


def test_the_templates_own_words_are_refused(work):
    work.drafted()
    assert refused(work).endswith("gates.beats a prompt.instruction is not written yet")


def test_a_file_of_another_release(work):
    written(work).edit("id: BR-000", "id: BR-009")
    assert "id: it is of BR-009, not of BR-000" in refused(work)


def test_what_small_suites_cannot_show_is_said(work):
    written(work)
    _, limits = freeze(work.project, work.standing)
    assert any(each.startswith("learnt: 14 cases cannot show") for each in limits)


def test_an_amendment_is_a_copy_and_the_version_before_stays(work):
    work.frozen()
    before = {path: path.read_bytes() for path in work.place.folder.rglob("*") if path.is_file()}
    place = amend(work.project, work.standing, "more cases are needed")
    assert (work.standing.version, work.standing.stage, work.standing.why) == (2, "draft", "more cases are needed")
    assert place.file.read_bytes() == before[place.folder.parent / "v1" / "preregistration.yaml"]
    assert (place.folder / "suites" / "target.jsonl").exists()
    work.edit("gain: 0.2", "gain: 0.3")
    suite(work).write_bytes(suite_text(cases("more", 20)))
    freeze(work.project, work.standing)
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(UsageError, match="needs a reason"):
        amend(work.project, work.standing, " ")


def test_a_draft_is_not_amended_nor_what_is_gone(work):
    work.drafted()
    with pytest.raises(Refused, match="is a draft that is not frozen yet"):
        amend(work.project, work.standing, "too early")
    work.edit(PLACEHOLDER, "Be brief.")
    freeze(work.project, work.standing)
    work.place.file.unlink()
    with pytest.raises(Refused, match=r"preregistration\.yaml is gone"):
        amend(work.project, work.standing, "it is gone")
    assert work.standing.version == 1
