"""What leaves for another machine is agreed to byte for byte: training and evaluations.

Training is run against the engine behind a relay: an address that is not this machine's engine, so that what is sent
there counts as leaving. Refusals are run against the fake of the hosted service, which keeps what it was asked.
"""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from hosted import KEY, Hosted
from hosts import ScriptedHost
from machine.agentic.task import draw
from machine.cli import ShellHost
from machine.commands import candidate, run
from machine.dataset.render import render
from machine.dataset.split import split
from machine.dataset.targets import expand
from machine.engine.models.convert import DEFAULT_MODEL, ensure_model
from machine.errors import Refused
from machine.evals.case import Case, Scorer
from machine.release.preregistration import Control
from machine.store.approvals import Approvals
from machine.store.project import Project
from machine.tinker.service import endpoint
from machine.tinker.students import load_student
from machine.training import leaving
from machine.training.config import read_config
from machine.training.script import Arguments, Data, begin, load_rows
from relay import relay
from students import assistant, questions, row, user

TRAIN = ["train", "run", "--steps", "1", "--rank", "2"]
PARTS = ("AKIA", "J5GQ7XW2", "R4TZ6MNB")
"""What only together is a key, and none of anybody."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "app"
    folder.mkdir()
    monkeypatch.chdir(folder)
    found = Project.at(folder)
    found.make()
    for each in questions(3):
        found.pool.append(each)
    return found


@pytest.fixture
def far(project, monkeypatch):
    """The fake of the hosted service, which has the engine's model."""
    ensure_model()
    with Hosted([{"model_name": DEFAULT_MODEL, "max_context_length": 8192}]) as hosted:
        monkeypatch.setenv("TINKER_API_KEY", KEY)
        monkeypatch.setenv("TINKER_BASE_URL", hosted.url)
        assert machine("train", "sft").exit_code == 0
        hosted.paths.clear()
        yield hosted


def machine(*words):
    return run([*words], ShellHost(quiet=True))


def data_of(project):
    config = read_config(project.train / "tinker.yaml")
    student = load_student(config.model, config.renderer)
    sides = split(load_rows(config, project.folder), config.test_size, config.seed)
    examples = [[render(student, target) for target in expand(side)] for side in (sides.train, sides.held_out)]
    return config, Data(sides, *examples)


def sent(hosted):
    """What the service was asked that could hold a token of the user's."""
    quiet = {"client/config", "client/dynamic_config", "healthz", "get_server_capabilities", "create_session",
             "session_heartbeat", "telemetry", "create_model"}  # fmt: skip
    paths = {path.removeprefix("/api/v1/") for path in hosted.paths}
    return {path for path in paths - quiet if not path.startswith("sessions/")}


def test_a_row_that_is_tagged_between_the_question_and_the_sending_stops_it(project, far):
    def tags_one_more(question):
        assert f"{far.url.removeprefix('http://')} (which is not this machine's engine)" in question
        assert "3 rows as tokens of" in question
        assert " of project, " in question
        project.pool.append(questions(4)[3])
        return True

    host = ScriptedHost(project.root, [("confirm", tags_one_more)])
    report = run(TRAIN, host)
    assert report.exit_code == 2, report.title
    assert "were not approved" in report.title
    assert "machine train run" in report.next_step
    assert sent(far) == set()
    assert not project.runs.exists()
    [summary] = host.said
    assert "SHA-256" in summary
    [approval] = Approvals(project.folder).all()
    assert (approval.by, approval.rows) == ("asked", 3)


def test_no_is_no_approval(project, far):
    for host, words in ((ScriptedHost(project.root, [("confirm", False)]), "not agreed"),
                        (ScriptedHost(project.root, interactive=False), "nobody is here")):  # fmt: skip
        report = run(TRAIN, host)
        assert (report.exit_code, words in report.title) == (2, True)
    assert Approvals(project.folder).all() == []
    assert sent(far) == set()


def test_what_was_agreed_to_is_trained_on_and_nothing_else_by_hand_either(project, service, monkeypatch):
    assert machine("train", "sft").exit_code == 0
    with relay(service.url) as tunnel:
        monkeypatch.setenv("TINKER_BASE_URL", tunnel.url)
        config, data = data_of(project)
        page = (project.folder, config, data, endpoint())
        with pytest.raises(Refused, match="not approved") as told:
            begin(*page, Arguments({}, None, "by-hand"))
        assert "machine train run" in told.value.next_step
        trained = machine(*TRAIN, "--yes")
        assert trained.exit_code == 0, trained.title
        [approval] = Approvals(project.folder).all()
        assert (approval.by, approval.digest) == ("--yes", leaving.parcel(config, data, endpoint()).digest)
        begin(*page, Arguments({}, None, "by-hand"))
        project.pool.append(questions(4)[3])
        with pytest.raises(Refused, match="not approved"):
            begin(project.folder, *data_of(project), endpoint(), Arguments({}, None, "later"))
    with relay(service.url) as other:
        monkeypatch.setenv("TINKER_BASE_URL", other.url)
        with pytest.raises(Refused, match=f"not approved for {other.url.removeprefix('http://')}"):
            begin(project.folder, config, data, endpoint(), Arguments({}, None, "elsewhere"))


def test_at_home_nobody_is_asked_to_approve_anything(project, service):
    assert machine("train", "sft").exit_code == 0
    config, data = data_of(project)
    begin(project.folder, config, data, endpoint(), Arguments({}, None, "at-home"))
    assert not Approvals(project.folder).file.exists()


def test_other_tokens_weights_sides_or_model_are_another_parcel(project, far):
    config, data = data_of(project)
    where = endpoint()
    seen = {leaving.parcel(config, data, where).digest}

    def other(config, data):
        digest = leaving.parcel(config, data, where).digest
        assert digest not in seen
        seen.add(digest)

    other(msgspec.structs.replace(config, model="another"), data)
    other(config, Data(data.rows, data.examples[:2], data.examples[2:]))
    other(config, Data(data.rows, data.examples[:2]))
    first = data.examples[0]
    other(config, Data(data.rows, [replace(first, tokens=[*first.tokens[:-1], 7]), *data.examples[1:]]))
    other(config, Data(data.rows, [replace(first, weights=[*first.weights[:-1], 0.5]), *data.examples[1:]]))
    assert leaving.parcel(config, Data(data.rows, list(data.examples)), where).digest in seen
    assert leaving.parcel(config, data, where).projects == ("project",)


def test_a_secret_that_only_the_tokens_spell_goes_nowhere(project, far):
    """No part of the message is a key; the renderer puts them together."""
    parts = [{"type": "text", "text": part} for part in PARTS]
    project.pool.append(row(user("Say it."), {"role": "assistant", "content": parts}, number=60))
    report = machine(*TRAIN, "--yes")
    assert (report.exit_code, "holds a secret" in report.title) == (2, True), report.title
    assert f"t_{60:026d}" in report.title
    assert PARTS[1] not in report.title
    config, data = data_of(project)
    with pytest.raises(Refused, match="holds a secret"):
        begin(project.folder, config, data, endpoint(), Arguments({}, None, "by-hand"))
    assert Approvals(project.folder).all() == []
    assert sent(far) == set()


def test_a_value_of_the_project_s_env_file_goes_nowhere_unless_it_is_allowed(project, far):
    (project.root / ".env").write_text("DOOR_PASSWORD=open-sesame-99\n")
    project.pool.append(row(user("say open-sesame-99"), assistant("no"), number=60))
    page = (project.folder, *data_of(project), endpoint(), Arguments({}, None, "by-hand"))
    with pytest.raises(Refused, match=r"holds a secret \(env-door-password at messages") as told:
        begin(*page)
    mark = re.search(r"fingerprint ([0-9a-f]+)", told.value.message)[1]
    assert "machine privacy allow" in told.value.next_step
    assert machine("privacy", "allow", mark).exit_code == 0
    with pytest.raises(Refused, match="not approved"):
        begin(*page)


@pytest.fixture
def suite(project):
    def write(*cases):
        project.evals.mkdir(mode=0o700, exist_ok=True)
        (project.evals / "suite.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))

    write({"id": "a", "messages": [user("Is it late?")], "scorer": {"kind": "contains", "value": "yes"}})
    return write


def test_an_evaluation_says_what_leaves_and_is_approved_by_its_bytes(project, far, suite):
    asked = machine("train", "eval", "baseline")
    assert asked.exit_code == 2
    assert "1 cases of app, " in asked.title
    assert "(which is not this machine's engine)" in asked.title
    assert Approvals(project.folder).all() == []
    assert sent(far) == set()
    machine("train", "eval", "baseline", "--yes")  # which the fake cannot answer
    [approval] = Approvals(project.folder).all()
    assert (approval.what, approval.rows, approval.by) == ("cases", 1, "--yes")


def test_cases_are_not_sent_where_the_approval_is_not_of_them(project, far, suite, monkeypatch):
    monkeypatch.setattr(Approvals, "approve", lambda *given: None)
    report = machine("train", "eval", "baseline", "--yes")
    assert (report.exit_code, "not approved" in report.title) == (2, True), report.title
    assert sent(far) == set()


def test_a_rubric_and_what_tokens_spell_are_looked_at_before_a_case_leaves(project, far, suite):
    spelt = [{"type": "text", "text": part} for part in PARTS]
    suite({"id": "b", "messages": [{"role": "user", "content": spelt}], "scorer": {"kind": "contains", "value": "x"}})
    report = machine("train", "eval", "baseline", "--yes")
    assert (report.exit_code, "b holds a secret" in report.title) == (2, True), report.title
    assert sent(far) == set()


def test_cases_repositories_and_instructions_of_gates_are_one_parcel(project):
    case = Case("a", (user("Is it late?"),), scorer=Scorer("contains", "yes"))
    other = msgspec.structs.replace(case, messages=(user("Is it early?"),))
    task = draw(2)
    told, said = (instructed(words) for words in ("Be brief.", "Be kind."))
    digests = [
        candidate._parcel(gates_of(project, cases, tasks, control), "far.example").digest
        for cases in ([case], [other])
        for tasks in (task[:1], task[1:])
        for control in (told, said)
    ]
    assert len(set(digests)) == len(digests)
    found = candidate._parcel(gates_of(project, [case], task, told), "far.example")
    assert (found.rows, found.projects, found.destination) == (4, ("app",), "far.example")


def test_a_secret_in_a_case_or_an_instruction_of_gates_goes_nowhere(project, monkeypatch):
    ensure_model()
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame-99")
    fine = Case("a", (user("Is it late?"),), scorer=Scorer("contains", "yes"))
    leaks = Case("b", (user("Is it open-sesame-99?"),), scorer=Scorer("contains", "yes"))
    candidate._look(gates_of(project, [fine], [], instructed("Be brief.")))
    for cases, words in (([leaks], "Be brief."), ([fine], "Say open-sesame-99.")):
        with pytest.raises(Refused, match="holds a secret") as told:
            candidate._look(gates_of(project, cases, [], instructed(words)))
        assert "sesame" not in told.value.message


def instructed(words):
    return Control(suite="target", instruction=words, margin=0.1)


def gates_of(project, cases, tasks, control):
    """As much of a gate run as what leaves is made of."""
    return SimpleNamespace(
        project=project,
        suites=SimpleNamespace(cases={"target": cases}, tasks={"repairs": tasks}),
        found=SimpleNamespace(gates={"prompt": control}, model=DEFAULT_MODEL),
        standing=SimpleNamespace(candidate=SimpleNamespace(renderer=None)),
    )
