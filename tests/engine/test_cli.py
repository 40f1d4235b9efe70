"""The real `tinker` command line against the running engine: its own entry point, in this process for speed."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tinker.cli.__main__ import main

TINKER = Path(sys.executable).with_name("tinker")


@pytest.fixture
def cli(engine, tmp_path, monkeypatch):
    """Runs a command in an empty home and gives its exit code, what it printed, and what it complained of."""
    for name, value in (("TINKER_BASE_URL", engine.url), ("TINKER_API_KEY", engine.key), ("HOME", str(tmp_path))):
        monkeypatch.setenv(name, value)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tinker", *words])
        printed, complaint = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaint):
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code or 0
        return code, printed.getvalue(), complaint.getvalue()

    return run


@pytest.fixture(scope="module")
def saved(service, engine):
    """A run with a training checkpoint and one for use elsewhere."""
    client = service.create_lora_training_client(engine.model, rank=4).result()
    return client.save_state("one").result().path, client.save_weights_external("two").result().path


def listed(cli, *words):
    code, printed, complaint = cli("--format", "json", *words)
    assert code == 0, complaint
    return json.loads(printed)


def test_who_is_asked_and_what_is_there(cli, engine, saved):
    run = saved[0].split("/")[2]
    assert cli("version")[0] == 0
    assert listed(cli, "model", "list")["models"][0]["model_name"] == engine.model
    assert listed(cli, "auth", "whoami")["org_urn"] == "tml:organization:this-machine"
    assert "accessible: yes" in cli("auth", "status")[1]
    assert run in [each["training_run_id"] for each in listed(cli, "run", "list", "--limit", "0")["runs"]]
    assert listed(cli, "run", "info", run)["lora_rank"] == 4
    every = listed(cli, "checkpoint", "list", "--limit", "0")["checkpoints"]
    assert {each["tinker_path"] for each in every} >= {*saved}
    assert len(listed(cli, "checkpoint", "list", "--run-id", run)["checkpoints"]) >= 2


def test_a_checkpoint_is_published_kept_and_deleted(cli, rest, saved):
    path = rest.copy_weights(saved[0], "p").result()

    def about():
        return listed(cli, "checkpoint", "info", path)

    assert cli("checkpoint", "publish", path)[0] == 0
    assert cli("checkpoint", "set-ttl", path, "--ttl", "7200")[0] == 0
    assert (about()["public"], about()["expires_at"] is None) == (True, False)
    assert cli("checkpoint", "unpublish", path)[0] == 0
    assert cli("checkpoint", "set-ttl", path, "--remove")[0] == 0
    assert (about()["public"], about()["expires_at"]) == (False, None)
    assert listed(cli, "checkpoint", "delete", "--yes", path) == {"deleted_count": 1, "failed": []}
    code, _, complaint = cli("checkpoint", "info", path)
    assert (code, "Traceback" in complaint) == (1, False)


@pytest.mark.parametrize("which", [0, 1])
def test_a_downloaded_checkpoint_is_an_adapter(cli, engine, rest, saved, which, tmp_path):
    """A training checkpoint goes through a run of its own and a temporary export, which is gone afterwards."""
    path = saved[which]
    done = listed(cli, "checkpoint", "download", path, "--output", str(tmp_path))
    folder = Path(done["destination"])
    assert sorted(file.name for file in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    here = engine.home / "checkpoints" / path.removeprefix("tinker://")
    for file in folder.iterdir():
        assert file.read_bytes() == (here / file.name).read_bytes()
    assert not [c for c in rest.list_user_checkpoints(limit=1000).result().checkpoints if "/download" in c.tinker_path]


def test_a_login_is_checked_and_stored(cli, engine, monkeypatch, tmp_path):
    """Typed into the command as a process of its own; commands that follow need no key in their environment."""
    monkeypatch.setenv("TINKER_API_KEY", "")

    def login(key):
        done = subprocess.run([TINKER, "auth", "login"], input=key, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    code, told = login("tml-wrong\n")
    assert (code, "API key is missing or wrong" in told) == (1, True)
    code, told = login(f"{engine.key}\n")
    assert (code, "Logged in as local" in told, engine.key in told) == (0, True, False)
    assert cli("auth", "whoami")[0] == 0
    stored = tmp_path / ".tinker" / "credentials.json"
    assert engine.key in stored.read_text()
    assert cli("auth", "logout")[0] == 0
    assert engine.key not in stored.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["billing", "usage", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"], "billing"),
        (["billing", "checkpoint-storage"], "billing"),
        (["session", "export-trace", "some-session"], "trace_export"),
        (["checkpoint", "push-hf", "tinker://a/weights/b"], "hf auth login"),
        (["checkpoint", "download", "tinker://a/external_weights/b"], "no checkpoint"),
        (["checkpoint", "download", "tinker://../external_weights/b"], "not found"),
        (["checkpoint", "info", "tinker://a/weights/b"], "a"),
        (["run", "info", "nobody"], "nobody"),
        (["model", "list", "gpt"], "this-machine"),
    ],
)
def test_what_cannot_be_done_is_told_at_once(cli, words, told):
    code, printed, complaint = cli(*words)
    assert (code, told in printed + complaint) == (1, True), complaint
    assert "Traceback" not in complaint
