"""Models by name, with the hub's own cache layout, its own client, and a server on loopback in the hub's place."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from jinja2.exceptions import SecurityError
from starlette.testclient import TestClient

from machine.engine.core import Engine
from machine.engine.models.hub import DEFAULT_MODEL, model_folder
from machine.engine.server import build_app
from machine.errors import UsageError
from machine.renderers import CHATML, load_tokenizer, local_model, renderer_name

NAME, COMMIT = "acme/tiny-chat", "0a1b2c3d" * 5


@pytest.fixture
def model(tiny_folder, small_folder, tmp_path):
    """A whole model folder: the tiny weights, the default model's tokenizer."""
    folder = tmp_path / "tiny-chat"
    folder.mkdir()
    for source in (*small_folder.glob("tokenizer*"), *tiny_folder.iterdir()):
        shutil.copy(source, folder)
    return folder


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """An empty models folder and an empty hub cache."""
    monkeypatch.setenv("MACHINE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


def cached(model, cache):
    """The model as the hub's client leaves it in its cache."""
    repository = cache / f"models--{NAME.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return shutil.copytree(model, repository / "snapshots" / COMMIT)


def start(home, *words, **environment):
    """`machine engine start` in a process of its own: (exit code, what it printed)."""
    command = [sys.executable, "-m", "machine.cli", "engine", "start", *words]
    variables = os.environ | {"MACHINE_DATA_DIR": str(home / "data"), **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_folder_is_itself_and_a_name_is_found_among_the_models(model, homes):
    assert model_folder(str(model)) == model
    shutil.copytree(model, homes / "models" / "tiny-chat")
    assert model_folder("tiny-chat") == model_folder(NAME) == homes / "models" / "tiny-chat"


@pytest.mark.parametrize("asked", [None, DEFAULT_MODEL, "SmolLM2-135M-Instruct"])
def test_the_default_model_has_a_name_too(small_folder, asked):
    assert model_folder(asked) == small_folder


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME"])
def test_a_snapshot_of_the_hubs_cache_is_found_without_the_hub(model, homes, monkeypatch, variable):
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(homes / "moved"))
    snapshot = cached(model, homes / "moved" / ("hub" if variable == "HF_HOME" else ""))
    assert model_folder(NAME) == local_model(NAME) == snapshot
    assert renderer_name(NAME) == CHATML


def test_the_engine_serves_a_snapshot_under_the_hubs_name(model, homes):
    cached(model, homes / "hub")
    app = build_app(Engine(model_folder(NAME), homes / "state"), "tml-x")
    with TestClient(app, "http://localhost", headers={"X-API-Key": "tml-x"}) as client:
        served = client.get("/api/v1/get_server_capabilities").json()["supported_models"]
    assert [model["model_name"] for model in served] == [NAME]


def test_what_is_no_model_is_refused(homes):
    (homes / "empty").mkdir()
    with pytest.raises(UsageError, match=r"lacks config\.json and tokenizer\.json"):
        model_folder(str(homes / "empty"))
    for asked in ("nothing", "./nothing", "../nothing", "a/b/c"):
        with pytest.raises(UsageError, match="no model folder"):
            model_folder(asked)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_without_a_network_the_command_says_what_it_tried(model, homes, environment, told):
    (cached(model, homes / "hub") / "model.safetensors").unlink()
    code, printed = start(homes, "--model", NAME, **environment)
    assert code == 1
    assert told in printed
    assert str(homes / "models") in printed
    assert "not whole in" in printed
    assert "--model" in printed


class Hub(BaseHTTPRequestHandler):
    """The three answers of the hub that a download needs, for the files of `folder`."""

    folder: Path
    asked: list[str]

    def do_HEAD(self):
        self.do_GET(body=False)

    def do_GET(self, body=True):
        path = self.path.partition("?")[0]
        self.asked.append(path)
        name = path.rpartition("/")[2]
        if path.startswith(f"/{NAME}/resolve/{COMMIT}/") and (self.folder / name).is_file():
            self.answer((self.folder / name).read_bytes(), body, "application/octet-stream")
        elif path in (f"/api/models/{NAME}", f"/api/models/{NAME}/revision/main"):
            files = [{"rfilename": file.name, "size": file.stat().st_size} for file in self.folder.iterdir()]
            facts = {"id": NAME, "modelId": NAME, "sha": COMMIT, "siblings": files, "private": False, "downloads": 0}
            self.answer(json.dumps(facts | {"tags": []}).encode(), body, "application/json")
        elif path == f"/api/models/{NAME}/tree/{COMMIT}":
            files = [
                {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": etag(file.read_bytes())}
                for file in self.folder.iterdir()
            ]
            self.answer(json.dumps(files).encode(), body, "application/json")
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer(self, content, body, kind):
        self.send_response(200)
        for header, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("ETag", f'"{etag(content)}"'),
            ("X-Repo-Commit", COMMIT),
        ):
            self.send_header(header, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args):
        pass


def etag(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub(model):
    handler = type("HubOfTest", (Hub,), {"folder": model, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", handler.asked
    server.shutdown()
    server.server_close()


def fetch(homes, url, name):
    program = "import sys; from machine.engine.models.hub import model_folder; print(model_folder(sys.argv[1], print))"
    variables = os.environ | {"HF_ENDPOINT": url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, name], env=variables, capture_output=True, text=True, timeout=60
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("way", ["absolute", "relative"])
def test_a_tokenizer_is_the_folder_s_own_whatever_its_settings_name(model, tmp_path, way):
    other = tmp_path / "other"
    other.mkdir()
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    stolen = tokenizer["added_tokens"][0] | {"id": 49152, "content": "<|elsewhere|>"}
    tokenizer["added_tokens"].append(stolen)
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "<|elsewhere|>" in load_tokenizer(str(other)).get_vocab()
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings |= {
        "absolute": {"tokenizer_file": str(other / "tokenizer.json")},
        "relative": {"tokenizer_file": "../other/tokenizer.json"},
    }[way]
    code = {"tokenizer_class": "T", "auto_map": {"AutoTokenizer": ["trap.T", "trap.T"]}, "trust_remote_code": True}
    (model / "tokenizer_config.json").write_text(json.dumps(settings | code))
    (model / "trap.py").write_text("raise SystemExit\n")
    assert "<|elsewhere|>" not in load_tokenizer(str(model)).get_vocab()


@pytest.mark.parametrize(
    "name", ["../other/tokenizer.4.0.0.json", "/other/tokenizer.4.0.0.json", "a/tokenizer.4.0.0.json"]
)
def test_a_version_of_a_tokenizer_that_lies_elsewhere_is_refused(model, name):
    (model / "tokenizer_config.json").write_text(json.dumps({"fast_tokenizer_files": [name]}))
    with pytest.raises(UsageError, match="does not lie beside it"):
        load_tokenizer(str(model))


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"added_tokens_decoder": 5}', '{"added_tokens_decoder": {"1": 2}}']
)
def test_a_tokenizer_that_cannot_be_read_is_told(model, text):
    (model / "tokenizer_config.json").write_text(text)
    with pytest.raises(UsageError, match="the tokenizer in"):
        load_tokenizer(str(model))


@pytest.mark.parametrize(
    "code",
    [
        "''.__class__.__mro__[1].__subclasses__()",
        "cycler.__init__.__globals__.os.system('true')",
        "messages.append(messages[0])",
        "lipsum.__globals__['os']",
    ],
)
def test_a_chat_template_reaches_no_code_and_changes_nothing(model, code):
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": "{{ " + code + " }}"}))
    tokenizer = load_tokenizer(str(model))
    messages = [{"role": "user", "content": "x"}]
    with pytest.raises(SecurityError):
        tokenizer.apply_chat_template(messages, tokenize=False)
    assert len(messages) == 1


def test_a_model_of_the_hub_is_downloaded_once_without_pickles(model, homes, hub):
    url, asked = hub
    (model / "pytorch_model.bin").write_bytes(b"a pickle")
    (model / "modeling_tiny.py").write_text("raise SystemExit")
    printed, errors = fetch(homes, url, NAME)
    assert printed, errors
    folder = Path(printed[-1])
    assert folder == homes / "hub" / "models--acme--tiny-chat" / "snapshots" / COMMIT
    assert (folder / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert not any(path.endswith((".bin", ".py")) for path in asked)
    asked.clear()
    again, _ = fetch(homes, url, NAME)
    assert again == [str(folder)]
    assert asked == []


def test_an_unfit_model_of_the_hub_is_refused_before_its_weights_are_fetched(model, homes, hub):
    url, asked = hub
    config = json.loads((model / "config.json").read_text()) | {"model_type": "mixtral"}
    (model / "config.json").write_text(json.dumps(config))
    _, errors = fetch(homes, url, NAME)
    assert "model_type mixtral" in errors
    assert not any(path.endswith(".safetensors") for path in asked)


def test_a_name_that_the_hub_does_not_know_is_told(homes, hub):
    _, errors = fetch(homes, hub[0], "acme/nothing")
    assert "the hub has no such model" in errors
