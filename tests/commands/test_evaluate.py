"""`train eval init`, `baseline` and `checkpoint` through the command line, with the engine behind."""

import json
import re

import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.evals.case import Call
from machine.evals.suite import read_suite
from machine.store.project import Project
from students import WEATHER, assistant, questions, row, user, weather_row


def machine(*words):
    return run(["train", "eval", *words], ShellHost(quiet=True))


@pytest.fixture
def store(service, tmp_path, monkeypatch):
    """A project with rows and a recipe that holds two conversations out."""
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    project = Project.at(folder)
    project.make()
    for each in questions(6):
        project.pool.append(each)
    assert run(["train", "sft"], ShellHost(quiet=True)).exit_code == 0
    holds_out(project, 2)
    return project


def holds_out(project, count):
    recipe = project.train / "tinker.yaml"
    recipe.write_text(re.sub(r"test_size: \d+", f"test_size: {count}", recipe.read_text()))


def suite(store, *cases):
    store.evals.mkdir(mode=0o700, exist_ok=True)
    (store.evals / "suite.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))


def case_of(name, **fields):
    return {"id": name, "messages": [user(f"Say {name}!")], "scorer": {"kind": "contains", "value": ""}} | fields


def test_init_proposes_what_is_not_trained_on(store):
    store.pool.append(row(user("What day is it?"), assistant("Monday."), number=70, tag="observed"))
    store.pool.append(row(user("List all."), assistant("x\ny"), number=71, tag="observed"))
    made = machine("init")
    assert made.exit_code == 0, made.title
    assert made.data["tags"] == {"held-out": 2, "regression": 1}
    assert made.data["scorers"] == {"exact": 3}
    assert len(made.data["left_out"]["long"]) == 1
    assert "too long to be given again" in made.notes[0]
    assert len(read_suite(store.evals / "suite.jsonl")) == 3
    assert machine("init").next_step == "machine train eval init --force"
    assert machine("init", "--force", "--scorer", "judge:Is it right?").data["scorers"] == {"judge": 4}


def test_a_held_out_call_must_be_made_again(store):
    for number in range(100, 104):
        first, _, *rest = weather_row(number=number).messages
        store.pool.append(row(first, user(f"Is it cold in city {number}?"), *rest, tools=[WEATHER], number=number))
    holds_out(store, 9)
    made = machine("init")
    assert made.data["scorers"]["tool_call"] >= 3
    called = [case for case in read_suite(store.evals / "suite.jsonl") if case.scorer.kind == "tool_call"]
    assert all(case.expected_calls == (Call("weather", {"city": "Oslo"}),) for case in called)


def test_a_recipe_that_holds_nothing_out_says_what_to_type(store):
    holds_out(store, 0)
    report = machine("init")
    assert report.exit_code == 2
    assert "test_size" in report.next_step


def test_init_takes_several_files(store, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": f"Is {name} odd?", "tags": [name]}) + "\n")
    made = machine(
        "init", "--from", str(tmp_path / "one.jsonl"), "--from", str(tmp_path / "two.jsonl"), "--scorer", "contains:odd"
    )
    assert made.data["tags"] == {"one": 1, "two": 1}


def test_a_bad_suite_is_named_before_anything_is_asked(store):
    suite(store, case_of("a"), case_of("b", scorer={"kind": "python", "value": "absent.py:f"}))
    report = machine("baseline", "--yes")
    assert report.exit_code == 2
    assert "suite.jsonl line 2" in report.title


def test_consent_says_what_it_may_cost(store):
    suite(store, case_of("a"), case_of("b", scorer={"kind": "judge", "value": "Kind?", "model": "big"}))
    report = machine("baseline", "--samples", "3", "--temperature", "1", "--max-tokens", "10")
    assert report.exit_code == 2
    assert "6 answers to 2 cases, at most 60 tokens" in report.title
    assert "3 verdicts of big" in report.title
    assert report.next_step == "machine train eval baseline --max-tokens 10 --temperature 1.0 --samples 3 --yes"


def test_many_greedy_answers_are_refused(store):
    suite(store, case_of("a"))
    report = machine("baseline", "--samples", "3", "--yes")
    assert report.exit_code == 2
    assert report.next_step.endswith("--temperature 1")


@pytest.mark.parametrize("words", [("--top-p", "nan"), ("--temperature", "nan"), ("--top-p", "0"), ("--top-p", "1.5")])
def test_a_parameter_out_of_bounds_is_named(store, words):
    suite(store, case_of("a"))
    report = machine("baseline", *words, "--yes")
    assert (report.exit_code, f"{words[0]}: Expected `float`" in report.title) == (2, True)


def test_a_baseline_that_cannot_be_read_is_said_before_a_checkpoint_is_asked(store):
    suite(store, case_of("a"))
    (store.evals / "baseline.json").write_text('{"name": "base')
    report = machine("checkpoint", "tinker://x/sampler_weights/y", "--yes")
    assert (report.exit_code, "baseline.json is damaged" in report.title) == (2, True)
    assert report.next_step == "machine train eval baseline"


def test_a_case_that_the_run_trained_on_is_refused_though_the_recipe_now_holds_it_out(store):
    trained = run(["train", "run", "--yes", "--steps", "1", "--test-size", "0"], ShellHost(quiet=True))
    assert trained.exit_code == 0, trained.title
    assert machine("init").data["cases"] == 2
    report = machine("checkpoint", "--yes")
    assert (report.exit_code, "2 cases were trained on and prove nothing" in report.title) == (2, True)


def test_a_rubric_s_secret_goes_nowhere(store, monkeypatch):
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame-99")
    monkeypatch.setenv("TINKER_BASE_URL", "http://example.invalid")
    suite(store, case_of("a", scorer={"kind": "judge", "value": "Does it keep open-sesame-99 to itself?"}))
    report = machine("baseline", "--yes")
    assert (report.exit_code, "a holds a secret" in report.title) == (2, True)
    assert "sesame" not in report.title


def test_baseline_and_checkpoint(store, brief_retention):
    suite(
        store,
        case_of("a", weight=3, tags=["x", "y"]),
        case_of("b", tags=["y"], scorer={"kind": "contains", "value": "no such words"}),
    )
    how = ["--max-tokens", "5", "--samples", "2", "--temperature", "0.7", "--seed", "4", "--top-p", "0.9"]
    before = machine("baseline", "--yes", *how)
    assert before.exit_code == 0, before.title
    assert (before.data["passed"], before.data["weighted"]) == (1, 0.75)
    assert before.data["tags"] == {"x": {"passed": 1, "cases": 1}, "y": {"passed": 1, "cases": 2}}
    assert ("By weight", "75%") in before.rows
    assert before.tables[0].rows == [("x", "1 of 1", "100%"), ("y", "1 of 2", "50%")]
    trained = run(["train", "run", "--yes", "--steps", "1", "--rank", "4"], ShellHost(quiet=True))
    assert trained.exit_code == 0, trained.title
    after = machine("checkpoint", "--yes")
    assert after.exit_code == 0, after.title
    kept = json.loads((store.evals / f"{after.data['record']}.json").read_text())
    assert kept["parameters"] == {"max_tokens": 5, "temperature": 0.7, "seed": 4, "samples": 2, "top_p": 0.9}
    assert len(kept["samples"]) == 4
    assert kept["samples"][1]["number"] == 1
    assert kept["proof"]["path"] == trained.data["sampler"]
    assert after.data["identical"] is kept["identical"]
    asked = machine("checkpoint")
    assert "the baseline was asked" not in asked.title
    suite(store, case_of("a", weight=2))
    asked = machine("checkpoint", "--max-tokens", "6")
    words = (
        "baseline was asked with another suite and other sampling parameters (max-tokens 5 and 6), and must be asked"
    )
    assert words in asked.title
