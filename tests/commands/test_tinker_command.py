import json

import pytest

from hosted import BASES, KEY, MODELS, ONLY_STATES, RUN, SAMPLER, STATE, UNKNOWN_BASE, Fault, Hosted
from hosts import ScriptedHost
from machine.commands import doctor, run
from machine.report import as_json
from machine.store.project import Project
from machine.tinker import service as services
from machine.tinker.provider import providers_file, register
from machine.tinker.service import endpoint
from machine.training.run import Checkpoint, Run, State, now

MISSING = f"tinker://{RUN}/sampler_weights/missing"


class Listener(ScriptedHost):
    """A shell that counts how often Pi would have read its list of models anew."""

    changed = 0

    def session(self):
        return None

    def models_changed(self):
        self.changed += 1


@pytest.fixture
def host(tmp_path):
    return Listener(tmp_path, interactive=False)


@pytest.fixture
def hosted(monkeypatch):
    pytest.importorskip("tinker")
    with Hosted() as running:
        monkeypatch.setenv("TINKER_API_KEY", KEY)
        monkeypatch.setenv("TINKER_BASE_URL", running.url)
        monkeypatch.setattr(services, "PATIENCE", 1.0)
        yield running


def tinker(host, *words):
    report = run(["tinker", *words], host)
    assert KEY not in as_json(report)
    if report.exit_code:
        assert report.next_step
    return report


def a_run(project, name, *checkpoints):
    made = Run(Project.at(project).runs / name)
    made.write_config({})
    for number, (state, sampler) in enumerate(checkpoints):
        made.add_checkpoint(Checkpoint(step=number, state=state, sampler=sampler))
    made.write_state(State(status="done", step=1, steps=1, started_at=now(), pid=1))
    return made


def test_models_are_listed_and_become_models_of_pi(hosted, host):
    report = tinker(host, "models")
    assert [m["name"] for m in report.data["models"]] == [m["model_name"] for m in MODELS]
    assert host.changed == 1
    assert tinker(host, "models").exit_code == 0
    assert host.changed == 1
    listed = tinker(host, "list")
    assert "tinker/thinkingmachines/Inkling-Small" in listed.data["base_models"]
    assert "tinker/nvidia/only-trains" not in listed.data["base_models"]
    assert "just now" in listed.notes[0]


@pytest.mark.parametrize(
    ("ref", "said", "next_step"),
    [
        (STATE, "training state", f"machine tinker use {SAMPLER}"),
        (STATE.replace("000080", "other"), "training state", f"machine tinker checkpoints {RUN}"),
        (MISSING, "answered 404", "machine tinker checkpoints"),
        (UNKNOWN_BASE, "no renderer is known", "machine tinker models"),
        (f"tinker://{RUN}/archive/x", "not a sampler path", "sampler_weights"),
        ("https://example.com/x", "not a sampler path", "sampler_weights"),
        ("Qwen/Qwen3.5-5B", "no model", "machine tinker use Qwen/Qwen3.5-4B"),
        ("no/such", "no model", "machine tinker models"),
        ("nothing", "is no base model, no alias", "machine tinker checkpoints"),
        ("22222222", "only training states", "machine tinker checkpoints 22222222"),
        ("latest", "no training run yet", "machine train run"),
        ("nvidia/only-trains", "not asked", "machine tinker models"),
    ],
)
def test_what_cannot_be_used_says_why_and_what_to_do(hosted, host, ref, said, next_step):
    report = tinker(host, "use", ref)
    assert report.exit_code in (1, 2)
    assert said in report.title
    assert next_step in report.next_step.replace("`/", "machine ")
    assert tinker(host, "list").data["models"] == []


def test_a_run_of_several_is_asked_back(hosted, host):
    report = tinker(host, "use", "2" * 3)
    assert "only training states" in report.title
    assert "names 3 runs of the service" in tinker(host, "checkpoints", "").title


def test_a_checkpoint_of_a_model_that_is_not_listed(hosted, host, monkeypatch):
    monkeypatch.setitem(BASES, SAMPLER, "gone/model")
    assert "does not list" in tinker(host, "use", SAMPLER).title


def test_weights_that_do_not_answer_are_not_registered(hosted, host):
    report = tinker(host, "use", SAMPLER)  # the fake samples nothing
    assert (report.exit_code, f"{SAMPLER} is not registered: " in report.title) == (1, True)
    assert tinker(host, "list").data["models"] == []


@pytest.mark.parametrize("path", ["asample", "create_sampling_session"])
def test_an_account_without_billing_does_not_wait_an_hour(hosted, host, path):
    hosted.fault = Fault(402, f"no payment method for {KEY}", path=path)
    report = tinker(host, "use", SAMPLER)
    assert "answered 402" in report.title
    assert "billing" in report.next_step


def test_a_run_of_this_project_and_a_run_of_the_service_are_found_by_their_beginning(hosted, host, tmp_path):
    a_run(tmp_path, "20261001-abc", (STATE, SAMPLER))
    a_run(tmp_path, "20261002-def", (ONLY_STATES, None))
    for ref in (SAMPLER, RUN, RUN[:8], "20261001", "abc"):
        assert SAMPLER in tinker(host, "use", ref).title, ref
    assert tinker(host, "use", "latest").next_step == "machine train run --resume 20261002-def"
    assert "names 2 runs of this project" in tinker(host, "use", "2026").title
    for ref, paths in (("abc", {SAMPLER, STATE}), (RUN[:8], {SAMPLER, STATE}), ("latest", {ONLY_STATES})):
        found = tinker(host, "checkpoints", ref)
        assert {c["path"] for c in found.data["checkpoints"]} == paths
    assert len(tinker(host, "checkpoints").data["checkpoints"]) == 4
    assert tinker(host, "checkpoints", "zzz").exit_code == 2


def test_an_alias_is_a_ref(hosted, host):
    register(endpoint(), SAMPLER, "mine", base=BASES[SAMPLER])
    assert SAMPLER in tinker(host, "use", "mine").title
    assert SAMPLER in tinker(host, "use", "tinker/mine").title
    assert "tinker/mine" in [c[4] for c in tinker(host, "checkpoints").tables[0].rows]


def test_removing(hosted, host):
    tinker(host, "models")
    register(endpoint(), SAMPLER, "mine", base=BASES[SAMPLER])
    assert tinker(host, "remove", "tinker/mine").exit_code == 0
    assert "no model is registered" in tinker(host, "remove", "mine").title
    assert "base model" in tinker(host, "remove", "Qwen/Qwen3-8B").title


@pytest.mark.parametrize("words", [["models"], ["use", SAMPLER], ["checkpoints"], ["status"]])
def test_a_refusal_of_the_service_is_an_error_with_a_next_step(hosted, host, words):
    hosted.fault = Fault(401, f"who is {KEY}?")
    report = tinker(host, *words)
    assert (report.exit_code, report.next_step) == (1, "check TINKER_API_KEY")


def test_status(hosted, host):
    report = tinker(host, "status")
    assert report.data["default"] == "thinkingmachines/Inkling-Small"
    assert dict(report.rows)["Base models"] == "6, 5 of them in Pi (last asked never)"


def checks(report):
    return {c["name"]: (c["found"], c["mend"]) for c in report.data["checks"]}


def test_doctor(hosted, host, tmp_path, monkeypatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    tinker(host, "models")
    found = checks(tinker(host, "doctor"))
    assert [name for name, (_, mend) in found.items() if mend] == []
    assert found["service"][0].endswith("with 6 base models")
    assert "5 base models, 0 registered; asked just now" in found["Pi's list"][0]
    assert {"python", "node", "pi", "tinker", "tinker-cookbook", "tml-renderers", "key", "engine", "/tinker"} < set(
        found
    )


def test_doctor_names_what_is_wrong(hosted, host, tmp_path, monkeypatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    (tmp_path / "settings.json").write_text(
        json.dumps({"packages": ["npm:pi-tinker-toys", {"source": "npm:pi-tinker@1.0"}]})
    )
    hosted.fault = Fault(402, "no payment method")
    report = tinker(host, "doctor")
    found = checks(report)
    assert report.exit_code == 1
    assert found["/tinker"][1] == "pi remove npm:pi-tinker@1.0"
    assert "billing" in found["service"][1]
    assert found["Pi's list"][1] == "machine tinker models"
    providers_file().write_text("{")
    assert "move" in checks(tinker(host, "doctor"))["Pi's list"][1]
    monkeypatch.setenv("TINKER_API_KEY", "sk-other")
    assert "tml-" in checks(tinker(host, "doctor"))["key"][1]


def test_doctor_without_any_service(host):
    found = checks(tinker(host, "doctor"))
    assert found["key"][1] == found["service"][1]
    assert "machine engine start" in found["key"][1]
    assert "not running" in found["engine"][0]


def test_an_age_in_words():
    import datetime

    now = datetime.datetime.now(datetime.UTC)
    said = [doctor.age(now - datetime.timedelta(minutes=m)) for m in (0, 1, 59, 60, 60 * 47, 60 * 48)]
    assert said == ["just now", "1 minute ago", "59 minutes ago", "1 hour ago", "1 day ago", "2 days ago"]


def test_the_engine_is_the_same_command_and_the_demo_says_how_to_run_it(host):
    assert tinker(host, "engine", "status").data == run(["engine", "status"], host).data
    report = tinker(host, "demo")
    assert report.next_step.startswith("in a shell: make -C ")
