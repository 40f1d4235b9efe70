"""The daily loop through the commands: validate, write the page, train, measure, use; with the engine behind."""

import json

import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.errors import Refused
from machine.store.project import Project
from machine.tinker.service import endpoint
from machine.training.config import read_config
from machine.training.run import Run, State
from machine.training.script import Arguments, begin
from students import questions, row, user


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Project.at(folder)


@pytest.fixture
def pool(project):
    project.make()
    for each in questions(6):
        project.pool.append(each)
    return project


def machine(*words):
    return run([*words], ShellHost(quiet=True))


def test_an_empty_pool_says_how_to_begin(project):
    report = machine("train", "validate")
    assert report.exit_code == 2
    assert "/good" in report.next_step


def test_a_file_that_is_not_rows(project, tmp_path):
    (tmp_path / "notes.txt").write_text("hello\n")
    report = machine("train", "validate", str(tmp_path / "notes.txt"))
    assert report.exit_code == 2
    assert "notes.txt line 1" in report.title


@pytest.mark.parametrize("words", [["run"], ["eval", "init"], ["eval", "baseline"], ["eval", "compare"]])
def test_out_of_order_says_what_comes_first(pool, words):
    report = machine("train", *words)
    assert report.exit_code == 2
    assert report.next_step.startswith("machine train ")


def test_no_run_yet(project):
    assert machine("train", "runs").next_step == "machine train sft"


def test_the_daily_loop(service, pool, tmp_path):
    found = machine("train", "validate")
    assert found.data["verdict"] == "SMOKE ONLY"
    assert (found.data["rows"], found.data["targets"]) == (6, 6)

    wrote = machine("train", "sft")
    assert wrote.exit_code == 0, wrote.title
    assert machine("train", "sft").exit_code == 2
    assert machine("train", "sft", "--force").exit_code == 0
    unasked = machine("train", "run")
    assert unasked.exit_code == 2
    assert "this machine" in unasked.title
    assert unasked.next_step == "machine train run --yes"

    trained = machine("train", "run", "--yes", "--steps", "2")
    assert trained.exit_code == 0, trained.title
    assert trained.data["state"]["step"] == 2
    assert trained.data["sampler"].startswith("tinker://")
    kept = json.loads((pool.runs / trained.data["run"] / "config.json").read_text())
    assert kept["data"]["examples"] == 6
    assert kept["versions"]["tinker"]
    assert machine("train", "runs").data["runs"][0]["state"]["status"] == "done"
    assert machine("train", "run", "--resume", "--yes").exit_code == 2

    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"prompt": f"What is {n} plus ten?"}) + "\n" for n in range(5)))
    made = machine("train", "eval", "init", "--from", str(asked), "--scorer", r"regex:^ANSWER: \S+\.$")
    assert made.exit_code == 0, made.title
    before = machine("train", "eval", "baseline", "--yes", "--max-tokens", "6")
    assert (before.data["passed"], before.data["cases"]) == (0, 5)
    after = machine("train", "eval", "checkpoint", "--yes")
    assert after.data["path"] == trained.data["sampler"]
    compared = machine("train", "eval", "compare")
    assert compared.data["cases"] == 5
    assert compared.data["verdict"] in ("better", "no difference shown")
    assert compared.data["answers"][0]["question"] == "What is 0 plus ten?"
    assert machine("train", "eval", "compare", trained.data["run"][-4:]).data["path"] == trained.data["sampler"]
    suite = pool.evals / "suite.jsonl"
    suite.write_text(suite.read_text().replace("plus ten", "plus eleven", 1))
    assert "edited" in machine("train", "eval", "compare").title

    used = machine("tinker", "use", "latest", "mine")
    assert used.data["model"] == trained.data["sampler"]
    assert machine("tinker", "list").data["models"][0]["ref"] == "tinker/mine"
    assert machine("tinker", "status").exit_code == 0
    assert any(c["path"] == trained.data["sampler"] for c in machine("tinker", "checkpoints").data["checkpoints"])
    assert machine("tinker", "use", "no/such-model").exit_code == 2
    assert machine("tinker", "remove", "mine").exit_code == 0


def test_rows_that_must_be_mended_are_not_trained_on(service, pool):
    machine("train", "sft")
    broken = row(user("a"), {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": "c", "function": {"name": "read", "arguments": "{"}}]}, number=50)  # fmt: skip
    pool.pool.append(broken)
    report = machine("train", "run", "--yes")
    assert report.exit_code == 2
    assert broken.id in report.title
    assert not pool.runs.exists()


def test_a_question_that_was_trained_on_is_no_case(service, pool, tmp_path):
    machine("train", "sft")
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"prompt": "what is 3 plus one?", "expected": "4"}) + "\n")
    report = machine("train", "eval", "init", "--from", str(asked))
    assert report.exit_code == 2
    assert "asked-1" in report.title


def test_cases_come_from_held_out_conversations(service, pool):
    machine("train", "sft")
    recipe = pool.train / "tinker.yaml"
    assert "nothing to make cases of" in machine("train", "eval", "init").title
    recipe.write_text(recipe.read_text().replace("test_size: 0", "test_size: 2"))
    assert machine("train", "eval", "init").data["cases"] == 2


def test_a_wrong_entry_in_the_recipe_is_named(service, pool):
    machine("train", "sft")
    recipe = pool.train / "tinker.yaml"
    recipe.write_text(recipe.read_text() + "lerning_rate: 1\n")
    assert "lerning_rate" in machine("train", "run", "--yes").title


@pytest.fixture
def remote(pool, service, tmp_path, monkeypatch):
    """A page, a recipe and a suite, made here; after that the service is far away, and nobody may connect to it."""
    machine("train", "sft")
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"prompt": "Is it late?", "expected": "Yes"}) + "\n")
    assert machine("train", "eval", "init", "--from", str(asked)).exit_code == 0
    monkeypatch.setenv("TINKER_BASE_URL", "http://example.invalid")
    monkeypatch.setattr("socket.create_connection", lambda *given: pytest.fail("it connected"))
    return pool


@pytest.mark.parametrize("words", [["run"], ["eval", "baseline"]])
def test_the_user_is_told_where_the_bytes_would_go(remote, words):
    report = machine("train", *words)
    assert (report.exit_code, "go to example.invalid; nobody is here" in report.title) == (2, True)


def test_a_secret_goes_nowhere(remote, monkeypatch):
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame-99")
    remote.pool.append(row(user("say open-sesame-99"), {"role": "assistant", "content": "no"}, number=60))
    suite = remote.evals / "suite.jsonl"
    suite.write_text(suite.read_text().replace("Is it late?", "open-sesame-99?"))
    for words in (["run"], ["eval", "baseline"]):
        report = machine("train", *words, "--yes")
        assert (report.exit_code, "holds a secret" in report.title) == (2, True)
        assert "sesame" not in report.title


def test_the_page_by_itself_scans_too(remote, monkeypatch):
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame-99")
    remote.pool.append(row(user("say open-sesame-99"), {"role": "assistant", "content": "no"}, number=60))
    with pytest.raises(Refused, match="holds a secret"):
        begin(remote.folder, read_config(remote.train / "tinker.yaml"), [], endpoint(), Arguments(1, None, "r"))


def test_a_damaged_run_hides_no_other(project):
    for id in ("20260101-000000-aaaa", "20260102-000000-bbbb"):
        run_of = Run(project.runs / id)
        run_of.write_config({})
        run_of.write_state(State("done", 1, 1, "2026-01-01T00:00:00+00:00", 1))
    (run_of.folder / "state.json").write_text("{")
    report = machine("train", "runs")
    assert [each["id"] for each in report.data["runs"]] == ["20260101-000000-aaaa"]
    assert "damaged" in report.notes[0]
