"""The daily loop through the commands: validate, write the page, train, measure, use; with the engine behind."""

import json
import subprocess
import sys

import msgspec
import pytest

from machine.cli import ShellHost
from machine.commands import run
from machine.dataset.split import Split
from machine.errors import Refused
from machine.store.project import Project
from machine.tinker.service import endpoint
from machine.training.config import read_config
from machine.training.run import Run, State, runs
from machine.training.script import Arguments, Data, begin
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


class Listening(ShellHost):
    """A shell that keeps what it was told."""

    def __init__(self):
        super().__init__(quiet=True)
        self.told, self.lines, self.details = [], [], []

    def notify(self, message, level="info"):
        self.told.append(message)

    def progress(self, message, detail=()):
        self.lines.append(message)
        self.details.append(list(detail))


def test_figures_of_the_command_line_are_in_the_recipe_that_is_written(service, pool):
    wrote = machine("train", "sft", "--rank", "4", "--learning-rate", "5e-4", "--batch-size", "3", "--steps", "2",
                    "--test-size", "2", "--seed", "7", "--schedule", "constant", "--save-every", "1")  # fmt: skip
    assert wrote.exit_code == 0, wrote.title
    text = (pool.train / "tinker.yaml").read_text()
    config = read_config(pool.train / "tinker.yaml")
    assert (config.rank, config.learning_rate, config.batch_size, config.steps) == (4, 5e-4, 3, 2)
    assert (config.test_size, config.seed, config.schedule, config.save_every) == (2, 7, "constant", 1)
    assert "rank: 4  # you chose it" in text
    assert "max_length: 1024  # in tokens" in text
    assert machine("train", "sft", "--force", "--rank", "none").title.endswith("--rank none: Expected `int`, got `str`")
    assert machine("train", "sft", "--force", "--steps", "0").exit_code == 2
    assert (pool.train / "tinker.yaml").read_text() == text


def test_a_run_with_figures_of_its_own_says_what_it_takes_and_keeps_it(service, pool):
    machine("train", "sft")
    host = Listening()
    words = ["train", "run", "--yes", "--steps", "2", "--rank", "4", "--batch-size", "3", "--test-size", "2"]
    trained = run([*words, "--save-every", "1"], host)
    assert trained.exit_code == 0, trained.title
    kept = json.loads((pool.runs / trained.data["run"] / "config.json").read_text())
    assert (kept["recipe"]["rank"], kept["recipe"]["batch_size"], kept["recipe"]["steps"]) == (4, 3, 2)
    assert read_config(pool.train / "tinker.yaml").rank == 32

    assert len(kept["split"]["held_out"]) == 2
    assert sorted(kept["split"]["held_out"] + kept["split"]["train"]) == [f"session-{i}" for i in range(6)]
    assert (kept["split"]["seed"], kept["split"]["test_size"], kept["split"]["held_out_examples"]) == (0, 2, 2)
    assert kept["data"]["examples"] == 4
    assert [each["step"] for each in trained.data["held_out"]] == [0, 1, 2]
    assert dict(trained.rows)["Held out"].endswith("at step 2")

    [summary] = host.told
    tokens = sum(line["tokens"] for line in trained.data["metrics"])
    assert f"2 of 3 datums; {tokens} tokens in all" in summary
    assert kept["estimate"]["tokens"] == tokens
    assert kept["estimate"]["usd"] == 0
    assert "2 conversations; 2 targets" in summary
    assert "Goes to          this machine" in summary
    assert "nothing, this machine does the work" in summary
    assert "Time" not in summary

    assert host.lines[-1] is None
    steps = [line for line in host.lines if line and line.startswith("step ")]
    assert [line.split(" ")[1] for line in steps] == ["1/2", "2/2"]
    assert all("█" in line and "tok/s" in line and " left" in line for line in steps)
    title, line, curve = host.details[host.lines.index(steps[-1])]
    assert trained.data["run"] in title
    assert line == steps[-1]
    assert curve.startswith("loss ")

    again = Listening()
    assert run([word for word in words if word != "--yes"], again).exit_code == 2
    assert "at the speed of the last run" in again.told[0]


@pytest.mark.parametrize(("option", "value"), [("--rank", "0"), ("--epochs", "many"), ("--schedule", "cosine")])
def test_a_wrong_figure_is_named_and_nothing_runs(service, pool, option, value):
    machine("train", "sft")
    report = machine("train", "run", "--yes", option, value)
    assert report.exit_code == 2
    assert f"{option} {value}: " in report.title
    assert not pool.runs.exists()


def test_no_steps_is_an_error(service, pool):
    machine("train", "sft")
    report = machine("train", "run", "--yes", "--steps", "0")
    assert (report.exit_code, "0 steps" in report.title) == (2, True)
    assert not pool.runs.exists()


def test_a_resumed_run_keeps_its_own_recipe(service, pool):
    machine("train", "sft")
    begun = Run(pool.runs / "20260101-000000-aaaa")
    recipe = msgspec.to_builtins(read_config(pool.train / "tinker.yaml")) | {"rank": 4, "steps": 1}
    begun.write_config({"recipe": recipe, "steps": 1, "data": {}, "service": "this machine"})
    begun.write_state(State("interrupted", 0, 1, "2026-01-01T00:00:00+00:00", 1))
    refused = machine("train", "run", "--resume", "--rank", "8", "--yes")
    assert (refused.exit_code, "--rank and --resume exclude each other" in refused.title) == (2, True)
    older = machine("train", "run", "--resume", "--yes")
    assert (older.exit_code, "older Machine" in older.title) == (2, True)
    recipe_file = pool.train / "tinker.yaml"
    trained = machine("train", "run", "--yes", "--steps", "1", "--rank", "4")
    done = Run(pool.runs / trained.data["run"])
    done.write_state(msgspec.structs.replace(done.state, status="interrupted", step=0, saved=None))
    (done.folder / "checkpoints.jsonl").unlink()
    recipe_file.write_text(recipe_file.read_text().replace("rank: 32", "rank: 16"))
    resumed = machine("train", "run", "--resume", done.id, "--yes")
    assert resumed.exit_code == 0, resumed.title
    assert done.config["recipe"]["rank"] == 4
    pool.pool.append(questions(7)[6])
    done.write_state(msgspec.structs.replace(done.state, status="interrupted"))
    changed = machine("train", "run", "--resume", done.id, "--yes")
    assert (changed.exit_code, "rows changed" in changed.title) == (2, True)


def test_the_page_renders_nothing_that_was_rendered_for_the_summary(service, pool):
    machine("train", "sft", "--test-size", "2")
    page = pool.train / "train_sft.py"
    text = page.read_text()
    page.write_text(
        text.replace("HERE =", "import machine.training.handover\n\nmachine.training.handover.render = None\nHERE =")
    )
    trained = machine("train", "run", "--yes", "--steps", "1")
    assert trained.exit_code == 0, trained.title
    page.write_text(text)
    done = subprocess.run([sys.executable, str(page), "--steps", "1"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    kept = [each.config["data"]["sha256"] for each in runs(pool.runs)]
    assert len(kept) == 2
    assert kept[0] == kept[1]


def test_a_run_that_is_being_trained_is_not_resumed(service, pool):
    machine("train", "sft")
    begun = Run(pool.runs / "20260101-000000-aaaa")
    begun.write_config({})
    begun.write_state(State("running", 2, 9, "2026-01-01T00:00:00+00:00", 77))
    begun.claim()
    refused = machine("train", "run", "--resume", "--yes")
    assert refused.exit_code == 2
    words = f"run {begun.id} is being trained by process 77, since 2026-01-01T00:00:00+00:00, and is at step 2 of 9"
    assert words in refused.title


def test_a_page_that_does_not_train_is_no_success(service, pool):
    machine("train", "sft")
    page = pool.train / "train_sft.py"
    page.write_text(page.read_text().replace("        train()\n", "        del train\n"))
    report = machine("train", "run", "--yes", "--steps", "1")
    assert (report.exit_code, "never trained to its last step" in report.title) == (1, True)
    assert "train_sft.py" in report.next_step
    page.write_text("print('hello')\n")
    report = machine("train", "run", "--yes", "--steps", "1")
    assert report.exit_code != 0
    assert "train_sft.py" in report.next_step


def test_a_model_that_is_not_known_is_named(service, pool):
    machine("train", "sft")
    report = machine("train", "run", "--yes", "--model", "no/such-model")
    assert (report.exit_code, "no/such-model" in report.title) == (2, True)


def test_the_daily_loop(service, pool, tmp_path, brief_retention):
    found = machine("train", "validate")
    assert found.data["verdict"] == "SMOKE ONLY"
    assert (found.data["rows"], found.data["targets"]) == (6, 6)

    wrote = machine("train", "sft")
    assert wrote.exit_code == 0, wrote.title
    assert machine("train", "sft").exit_code == 2
    assert machine("train", "sft", "--force").exit_code == 0
    unasked = machine("train", "run")
    assert unasked.exit_code == 2
    assert "go to this machine; nobody is here" in unasked.title
    assert "cost: nothing" in unasked.title
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
    assert "What is 0 plus ten?" in {answer["question"] for answer in compared.data["answers"]}
    assert compared.data["retention"]["verdict"] in ("kept", "lost", "too little to say")
    assert "Page" in dict(compared.rows)
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
    rows = list(remote.pool.rows())
    for sides in (Split(rows, []), Split(rows[:1], rows[1:])):
        with pytest.raises(Refused, match="holds a secret"):
            begin(
                remote.folder,
                read_config(remote.train / "tinker.yaml"),
                Data(sides, []),
                endpoint(),
                Arguments({}, None, "r"),
            )


def test_a_damaged_run_hides_no_other(project):
    for id in ("20260101-000000-aaaa", "20260102-000000-bbbb"):
        run_of = Run(project.runs / id)
        run_of.write_config({})
        run_of.write_state(State("done", 1, 1, "2026-01-01T00:00:00+00:00", 1))
    (run_of.folder / "state.json").write_text("{")
    report = machine("train", "runs")
    assert [each["id"] for each in report.data["runs"]] == ["20260101-000000-aaaa"]
    assert "damaged" in report.notes[0]
