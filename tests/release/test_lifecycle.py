"""The life of a behavior release, on the real engine: a style is learnt, gated, tried, activated and rolled back.

Two students are trained once for all tests: one that has learnt the style, and one that was over-trained on purpose.
What the tests do with them they do in copies of Machine's folder.
"""

import hashlib
import html
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fixtures_engine import RunningEngine
from machine.cli import ShellHost
from machine.commands import run
from machine.evals import retention
from machine.evals.record import read_record
from machine.release import log
from machine.release.gates.arms import Arm
from machine.release.outcomes import collect
from machine.release.seal import Place
from machine.release.trial import settle
from machine.report import Report
from machine.store.approvals import Approvals
from machine.store.files import write_private
from machine.store.project import Project
from machine.tinker import provider
from machine.tinker.served import Served, served, trial_of
from sessions import Script
from students import assistant, row, user

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal-sft"
STYLE = r"^ANSWER: (?!.*ANSWER)\S+(?: \S+){0,11}\.$"
MODEL = "tinker/br-000-v1"
NOWHERE = "http://127.0.0.1:9"
"""An address at which no service answers: who asks it fails."""

TARGET = [
    "What is the capital of Spain?", "How many wheels does a bicycle have?", "Which planet is known for its rings?",
    "Who painted the Mona Lisa?", "How many months are in a year?", "What do cows drink?", "What is five minus three?",
    "Which animal barks?", "What do you use to cut paper?", "Is ice solid or liquid?", "What is the largest mammal?",
    "What is the boiling point of water?",
]  # fmt: skip
OUTSIDE = [
    "Who invented the telephone?", "What do horses eat?", "How tall is Mount Everest?", "Do fish sleep?",
    "Why do leaves fall in autumn?", "Where do penguins live?", "Name something that floats on water.",
    "When did the first man walk on the Moon?", "Which instrument has black and white keys?", "How is bread baked?",
    "What is honey used for?", "Whose job is it to put out fires?",
]  # fmt: skip
CAPITALS = {
    "France": "Paris", "Japan": "Tokyo", "Germany": "Berlin", "Egypt": "Cairo", "China": "Beijing", "England": "London",
    "Canada": "Ottawa", "Russia": "Moscow",
}  # fmt: skip
WORDS = [
    "apple", "river", "window", "yellow", "mountain", "guitar", "silver", "garden", "bottle", "candle", "kitchen", "tiger",
    "paper", "ocean", "winter", "pencil", "market", "bridge",
]  # fmt: skip

LIFE = """
id: $id
title: One style of answer
behaviour: An answer is one line, which begins with ANSWER.
model: $model
training: {rows: [24, 24], steps: [9, 12], rank: [1, 32], learning_rate: [1.0e-5, 0.01], tokens: 20000, cost: 1.0}
data: {rows: $rows, sha256: $sha256}
sampling: {max_tokens: 16}
suites:
  target: {kind: cases, file: suites/target.jsonl, least: 12}
  regression: {kind: cases, file: suites/regression.jsonl, least: 26}
  holdout: {kind: cases, least: 12, near: 0.7}
gates:
  learnt: {test: improvement, suite: target, gain: 0.5}
  unharmed: {test: non-inferiority, suite: regression, margin: 0.35}
  kept: {test: retention, rise: 0.5}
  holds outside: {test: improvement, suite: holdout, gain: 0.5}
  beats a prompt: {test: control, suite: target, margin: 0.4, instruction: Answer in one line that begins with ANSWER.}
  same pace: {test: drift, suite: target, length: 3, latency: 20}
  sane: {test: sanity, more: 0.3}
trial: {turns: 4, share: 0.5}
"""
ARMS: dict[str, tuple[Arm, ...]] = {
    "target": ("base", "candidate", "control"), "regression": ("base", "candidate"), "holdout": ("base", "candidate"),
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """Machine's folder with trained runs and frozen releases, and the project that they are of.

    BR-000 is to live, BR-002 to fail; no run is within the bounds of BR-003.
    """

    engine: RunningEngine
    home: Path
    root: Path
    good: str
    overtrained: str

    @property
    def project(self) -> Project:
        return Project.at(self.root)


@dataclass(frozen=True)
class Gated:
    """A world whose BR-000 went through its gates: `Ctrl-C` in the midst of a suite, then to the end."""

    world: World
    interrupted: Report
    asked: bytes
    report: Report
    told: list[str]


class Listening(ShellHost):
    """A shell that keeps what it is told of the progress; at the line `until` somebody presses Ctrl-C."""

    def __init__(self, until: str = "") -> None:
        super().__init__(quiet=True)
        self.until, self.told = until, []

    def progress(self, message, detail=()):
        self.told.append(message or "")
        if message and message == self.until:
            raise KeyboardInterrupt


def release(*words: str, host: ShellHost | None = None) -> Report:
    return run(["release", *words], host or ShellHost(quiet=True))


def case(name: str, question: str, pattern: str) -> str:
    scorer = {"kind": "regex", "value": pattern}
    return json.dumps({"id": name, "messages": [user(question)], "scorer": scorer}) + "\n"


def in_style(name: str, questions: list[str]) -> str:
    return "".join(case(f"{name}-{number}", question, STYLE) for number, question in enumerate(questions))


def template(folder: Path, text: str) -> Path:
    """A template of the user's own, with its suites."""
    (folder / "suites").mkdir(parents=True)
    (folder / "preregistration.yaml").write_text(text)
    (folder / "suites" / "target.jsonl").write_text(in_style("target", TARGET))
    known = [case(f"capital-{of}", f"Which city is the capital of {of}?", name) for of, name in CAPITALS.items()]
    again = [case(f"again-{word}", f"Repeat this word: {word}", rf"(?i)\b{word}\b") for word in WORDS]
    (folder / "suites" / "regression.jsonl").write_text("".join([*known, *again]))
    return folder


def caught(text: str) -> str:
    """The preregistration with the suites and gates alone that an over-trained student fails."""
    text = text.replace("max_tokens: 16", "max_tokens: 10")
    for name in ("holdout", "holds outside", "beats a prompt", "same pace", "sane"):
        text = re.sub(rf"^  {name}: .*\n", "", text, flags=re.MULTILINE)
    return text


def tight(text: str) -> str:
    """The preregistration with bounds that no run here is within."""
    return text.replace("steps: [9, 12], rank: [1, 32]", "steps: [20, 40], rank: [1, 16]")


@contextmanager
def inside(engine: RunningEngine, home: Path, root: Path) -> Iterator[None]:
    """In the project, with Machine's folder and the service, and with a part of the retention suite."""
    cases, passages = retention.built_in_cases(), retention.built_in_passages()
    few = [case for case in cases if not case.tools][:8]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MACHINE_DATA_DIR", str(home))
        patch.setenv("TINKER_API_KEY", engine.key.strip())
        patch.setenv("TINKER_BASE_URL", engine.url)
        patch.chdir(root)
        patch.setattr(retention, "built_in_cases", lambda: few)
        patch.setattr(retention, "built_in_passages", lambda: dict(list(passages.items())[:6]))
        yield


@pytest.fixture(scope="module")
def world(engine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("life")
    root = folder / "app"
    root.mkdir()
    with inside(engine, folder / "home", root):
        project = Project.at(root)
        project.make()
        for number, line in enumerate((EXAMPLE / "questions.jsonl").read_text().splitlines()):
            asked = json.loads(line)
            project.pool.append(row(user(asked["question"]), assistant(asked["answer"]), number=number))
        done(run(["train", "sft"], ShellHost(quiet=True)))
        for name, text in {"BR-000": LIFE, "BR-002": caught(LIFE), "BR-003": tight(LIFE)}.items():
            done(release("new", name, "--from", str(template(folder / name, text))))
            done(release("freeze", name))
        good = trained()
        overtrained = trained("--steps", "12", "--batch-size", "4", "--learning-rate", "6e-3")
        return World(engine, folder / "home", root, good, overtrained)


def trained(*words: str) -> str:
    return str(done(run(["train", "run", "--yes", *words], ShellHost(quiet=True))).data["run"])


def done(report: Report) -> Report:
    assert report.exit_code == 0, (report.title, report.notes)
    return report


@pytest.fixture(scope="module")
def gated(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gated")
    mine = replace(world, home=shutil.copytree(world.home, folder / "home"))
    with inside(world.engine, mine.home, world.root):
        done(release("candidate", "BR-000", world.good))
        stopping, listening = Listening("asked 5/26"), Listening()
        given = f"holdout={outside(folder)}"
        interrupted = release("gate", "BR-000", "--holdout", given, "--yes", host=stopping)
        asked = (gates_of(mine) / "target-base.json").read_bytes()
        (folder / "outside.jsonl").unlink()
        report = release("gate", "BR-000", "--yes", host=listening)
    return Gated(mine, interrupted, asked, report, listening.told)


@pytest.fixture
def shop(world, home, tmp_path):
    """The project with its trained runs, to do with as a test likes."""
    mine = replace(world, home=shutil.copytree(world.home, tmp_path / "shop"))
    with inside(world.engine, mine.home, world.root):
        yield mine


@pytest.fixture
def passed(gated, home, tmp_path):
    """The project after the gates, to do with as a test likes."""
    mine = replace(gated.world, home=shutil.copytree(gated.world.home, tmp_path / "passed"))
    with inside(mine.engine, mine.home, mine.root):
        yield mine


def outside(folder: Path, questions: list[str] = OUTSIDE) -> Path:
    path = folder / "outside.jsonl"
    path.write_text(in_style("outside", questions))
    return path


def place(world: World, name: str = "BR-000") -> Place:
    return Place(world.project.releases, name, 1)


def gates_of(world: World) -> Path:
    return place(world).gates(world.good)


def stage(name: str = "BR-000") -> str:
    return str(release("status", name).data["stage"])


def steps(world: World, name: str = "BR-000") -> list[str]:
    return [entry.step for entry in log.read(world.project.releases) if entry.release == name]


def forge(path: Path, before: bytes, after: bytes) -> None:
    data = path.read_bytes()
    assert before in data
    write_private(path, data.replace(before, after, 1))


def test_a_run_from_before_the_freeze_is_no_candidate(shop, tmp_path):
    done(release("new", "BR-009", "--from", str(template(tmp_path / "late", LIFE))))
    assert stage("BR-009") == "draft"
    done(release("freeze", "BR-009"))
    refused = release("candidate", "BR-009", shop.good)
    assert (refused.exit_code, "began before BR-009 was frozen" in refused.title) == (2, True)
    assert stage("BR-009") == "frozen"


def test_a_candidate_within_its_bounds_passes_every_gate(gated, passed):
    assert gated.report.exit_code == 0, gated.report.data["verdicts"]
    assert gated.report.data["stage"] == "gated"
    assert gated.report.data["verdicts"] == dict.fromkeys(
        ["frozen", "learnt", "unharmed", "kept", "holds outside", "beats a prompt", "same pace", "sane"], "passed"
    )
    kept = gates_of(passed)
    for suite, arms in ARMS.items():
        for arm in arms:
            record = read_record(kept, f"{suite}-{arm}")
            assert record.proof.path == (None if arm != "candidate" else gated.report.data["candidate"]["weights"])
            assert all(sample.text for sample in record.samples)
    control = read_record(kept, "target-control")
    assert control.suite != read_record(kept, "target-base").suite
    [entry] = [each for each in log.read(passed.project.releases) if each.step == "gated"]
    assert entry.data["sha256"] == hashlib.sha256((kept / "result.json").read_bytes()).hexdigest()
    approvals = Approvals(passed.project.folder).all()  # the engine is another home's: what it is asked leaves this one
    assert [each.what for each in approvals[-2:]] == ["cases, tasks and instructions"] * 2
    assert len({each.digest for each in approvals[-2:]}) == 1
    page = Path(gated.report.data["page"]).read_text()
    assert all(name in page for name in gated.report.data["verdicts"])


def test_gates_that_were_interrupted_go_on_with_what_is_missing_and_the_same_holdout(gated, passed):
    assert gated.interrupted.exit_code == 1
    assert "interrupted; 5 of 26 cases are answered, and kept" in gated.interrupted.title
    assert gated.interrupted.next_step == "machine release gate BR-000 --yes"
    heads = [line for line in gated.told if ": asking the " in line]
    assert len(heads) == sum(map(len, ARMS.values()))
    begun = gated.told.index("regression: asking the base")
    assert not [line for line in gated.told[:begun] if line.startswith(("asked", "retention"))]
    assert gated.told[begun + 1] == "asked 1/21"
    assert (gates_of(passed) / "target-base.json").read_bytes() == gated.asked
    given = (gates_of(passed) / "holdout.jsonl").read_bytes()
    assert len(given.splitlines()) == len(OUTSIDE)
    [entry] = [each for each in log.read(passed.project.releases) if each.step == "gating"]
    assert entry.data["given"]["holdout"] == f"12 cases of outside.jsonl, {hashlib.sha256(given).hexdigest()}"


def test_gates_are_run_once(passed):
    again = release("gate", "BR-000", "--yes")
    assert (again.exit_code, again.next_step) == (2, "machine release trial BR-000")
    assert steps(passed).count("gated") == 1


class Day(Script):
    """A session in Pi in which the trial draws some turns."""

    def turn(self, arm: str) -> str:
        asked = self.user("Who was it?")
        state = {"release": "BR-000", "arm": arm, "session": self.header["id"], "turn": asked}
        data = {"provider": "machine", "modelId": "student", "state": state}
        self.entry("custom", customType="pi.virtual-model-state", data=data)
        self.assistant("ANSWER: Nobody.", provider="tinker" if arm == "candidate" else "p", model="br-000-v1")
        return asked


def test_from_the_trial_to_the_rollback(passed, tmp_path):
    from machine.capture.reader import read

    project, model = passed.project, passed.engine.model
    begun = done(release("trial", "BR-000"))
    trial = trial_of(project.root)
    assert trial is not None
    assert (trial.release, trial.model, trial.share) == ("BR-000", MODEL, 0.5)
    assert trial.weights == release("status", "BR-000").data["candidate"]["weights"]
    assert begun.data["turns"] == 4

    day = Day()
    day.entry("model_change", provider="machine", modelId="student")
    for arm in ("candidate", "work", "candidate", "candidate"):
        day.turn(arm)
    collect(project, read(day.save(tmp_path / "day.jsonl")), "BR-000")
    assert settle(project, "BR-000") is None
    assert release("status", "BR-000").data["trial"]["candidate"]["turns"] == 3
    early = release("activate", "BR-000")
    assert (early.exit_code, stage()) == (2, "trial")
    day.turn("candidate")
    collect(project, read(day.save(tmp_path / "day.jsonl")), "BR-000")
    assert "eligible" in (settle(project, "BR-000") or "")
    assert (stage(), trial_of(project.root)) == ("eligible", None)

    assert served(project.root) is None
    done(release("activate", "BR-000"))
    assert served(project.root) == Served(MODEL, trial.weights, "BR-000")
    [entry] = [each for each in provider.listed() if f"tinker/{each.alias}" == MODEL]
    assert (entry.model, entry.base) == (trial.weights, model)
    status, answer = passed.engine.chat(model=entry.model, messages=[user("What is the capital of Portugal?")])
    assert status == 200
    assert re.search(STYLE, answer["choices"][0]["message"]["content"])
    found = release("status", "BR-000")
    assert (found.data["stage"], found.data["active"], found.data["forced"]) == ("active", True, "")

    done(release("rollback", "--reason", "to see that it can be"))
    assert served(project.root) == Served(f"tinker/{model}", model, "base")
    assert f"tinker/{model}" in {entry.ref for entry in provider.base_models()}, "Pi has it, and can go back to it"
    assert release("rollback").exit_code == 2
    assert steps(passed) == [
        "drafted", "frozen", "candidate", "gating", "gated", "trial", "eligible", "activated", "rolled back",
    ]  # fmt: skip
    sound = release("verify")
    assert (sound.exit_code, sound.data["faults"]) == (0, [])
    forge(gates_of(passed) / "result.json", b'"passed": true', b'"passed": false')
    assert release("verify").exit_code == 1


def test_what_is_forced_is_loud_for_ever(passed):
    before = release("activate", "BR-000")
    assert (before.exit_code, served(passed.root)) == (2, None)
    assert release("activate", "BR-000", "--force", "because").exit_code == 2
    reason = "it cannot wait for the trial"
    forced = done(release("activate", "BR-000", "--force", reason))
    assert any(note.startswith("WARNING") and reason in note for note in forced.notes)
    assert served(passed.root).model == MODEL
    done(release("rollback"))
    done(release("amend", "BR-000", "--reason", "another try"))
    status = release("status", "BR-000")
    assert (status.data["version"], status.data["forced"]) == (2, reason)
    assert "FORCED" in status.title
    assert any("against the rules" in note and reason in note for note in status.notes)


def test_a_rollback_lets_a_request_end_and_the_next_one_goes_to_the_base(shop):
    import httpx

    done(release("candidate", "BR-000", shop.good))
    done(release("activate", "BR-000", "--force", "only for this one test"))
    student = served(shop.root)
    body = {"model": student.weights, "messages": [user("Who wrote Hamlet?")], "stream": True, "max_tokens": 24}
    url, bearer = (
        f"{shop.engine.url}/oai/api/v1/chat/completions",
        {"Authorization": f"Bearer {shop.engine.key.strip()}"},
    )
    asked = {"json": body | {"temperature": 0}, "headers": bearer, "timeout": 60}
    with httpx.Client(trust_env=False) as client, client.stream("POST", url, **asked) as answer:
        lines = answer.iter_lines()
        first = next(line for line in lines if line)
        done(release("rollback"))
        after = served(shop.root)
        rest = [line for line in lines if line]
    assert (student.model, after.why, after.model) == (MODEL, "base", f"tinker/{shop.engine.model}")
    assert rest[-1] == "data: [DONE]"
    parts = [json.loads(line.removeprefix("data: "))["choices"] for line in [first, *rest[:-1]]]
    assert re.search(STYLE, "".join(part[0]["delta"].get("content") or "" for part in parts if part))


def test_a_suite_that_was_edited_after_the_freeze(shop, monkeypatch, tmp_path):
    forge(place(shop, "BR-003").folder / "suites" / "target.jsonl", b"Spain", b"Sweden")
    assert "suites/target.jsonl was edited" in release("candidate", "BR-003", shop.good).title
    done(release("candidate", "BR-000", shop.good))
    forge(place(shop).folder / "suites" / "target.jsonl", b"Spain", b"Sweden")
    assert release("status", "BR-000").data["changed"] == ["suites/target.jsonl was edited after it was frozen"]
    monkeypatch.setenv("TINKER_BASE_URL", NOWHERE)
    report = release("gate", "BR-000", "--holdout", f"holdout={outside(tmp_path)}", "--yes")
    failed(shop, report, "suites/target.jsonl was edited")


def failed(shop: World, report: Report, why: str) -> None:
    """The gates failed at the seal alone, and nothing was asked."""
    assert (report.exit_code, report.data["stage"]) == (1, "rejected")
    assert report.data["gates"]["asked"] is False
    [result] = report.data["gates"]["results"]
    assert (result["gate"], result["passed"], why in result["words"][0]) == ("frozen", False, True)
    assert report.data["verdicts"]["learnt"] == "not run"
    assert [file.name for file in gates_of(shop).iterdir()] == ["result.json"]


def test_a_run_whose_record_was_edited_is_no_candidate(shop):
    forge(shop.project.runs / shop.good / "config.json", b'"rank": 32', b'"rank": 16')
    refused = release("candidate", "BR-000", shop.good)
    assert (refused.exit_code, "config.json is not as it was" in refused.title) == (2, True)
    assert stage() == "frozen"


def test_a_record_that_was_edited_after_the_run_became_the_candidate_fails_the_gates(shop, monkeypatch, tmp_path):
    done(release("candidate", "BR-000", shop.good))
    forge(shop.project.runs / shop.good / "metrics.jsonl", b'"loss": ', b'"loss": 1')
    monkeypatch.setenv("TINKER_BASE_URL", NOWHERE)
    report = release("gate", "BR-000", "--holdout", f"holdout={outside(tmp_path)}", "--yes")
    failed(shop, report, f"runs/{shop.good}/metrics.jsonl was edited")
    assert release("verify").exit_code == 1


def test_a_holdout_that_was_trained_on_is_refused_and_another_may_be_given(shop, monkeypatch, tmp_path):
    done(release("candidate", "BR-000", shop.good))
    leaked = outside(tmp_path, [*OUTSIDE[:10], "What do bees make?", "Tell me: how many hours are in a day?"])
    with monkeypatch.context() as patch:
        patch.setenv("TINKER_BASE_URL", NOWHERE)
        refused = release("gate", "BR-000", "--holdout", f"holdout={leaked}", "--yes")
    assert refused.exit_code == 2, refused.title
    assert "2 of 12 cases repeat what was trained on" in refused.title
    assert re.search(r"outside-10 \(exact: t_0+6, 100%\), outside-11 \(near: t_0+20, ", refused.title)
    assert (stage(), steps(shop)[-1]) == ("candidate", "candidate")
    assert not gates_of(shop).exists()

    clean = f"holdout={outside(tmp_path)}"
    begun = release("gate", "BR-000", "--holdout", clean, "--yes", host=Listening("asked 1/12"))
    assert (begun.exit_code, "cases are answered, and kept" in begun.title) == (1, True)
    assert steps(shop)[-1] == "gating"


def test_a_candidate_out_of_bounds(shop):
    refused = release("candidate", "BR-003", shop.good)
    assert refused.exit_code == 2
    assert "steps 9, and 20 to 40 was preregistered" in refused.title
    assert "rank 32, and 1 to 16 was preregistered" in refused.title
    assert stage("BR-003") == "frozen"


def test_an_over_trained_student_is_caught(shop):
    done(release("candidate", "BR-002", shop.overtrained))
    report = release("gate", "BR-002", "--yes")
    assert (report.exit_code, report.data["stage"]) == (1, "rejected")
    verdicts = report.data["verdicts"]
    assert (verdicts["unharmed"], verdicts["kept"], verdicts["frozen"]) == ("FAILED", "FAILED", "passed")
    assert any("Why it FAILED: unharmed" in passage.title for passage in report.passages)
    assert release("activate", "BR-002").exit_code == 2
    kept = place(shop, "BR-002").gates(shop.overtrained)
    base, candidate = (read_record(kept, f"regression-{arm}") for arm in ("base", "candidate"))
    lost = next(each for each in candidate.samples if base.passed[each.case] and not candidate.passed[each.case])
    page = Path(report.data["page"]).read_text()
    assert lost.case in page
    assert html.escape(lost.text[:20]) in page
    again = release("candidate", "BR-002", shop.overtrained)
    assert (again.exit_code, "which judge a run once" in again.title) == (2, True)
