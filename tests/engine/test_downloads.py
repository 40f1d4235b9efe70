"""Downloads, through the application on a tiny model that transformers and PEFT load too."""

import io
import tarfile
import uuid
from email.utils import parsedate_to_datetime

import pytest
import torch

from machine.engine.checkpoints import CheckpointPath
from machine.engine.core import Run
from machine.engine.models.attention import attention
from machine.engine.models.lora import ALL


@pytest.fixture
def saved(api):
    """The path of an adapter that changes the model, and its folder."""
    engine = api.app.state.engine
    run = Run(f"{uuid.uuid4()}:train:0", 4, ALL, None)
    engine.runs[run.model_id] = run
    engine.do_create(run, 0)
    for parameter in engine._trainee(run.model_id).lora.parameters.values():
        parameter.data.normal_(0, 0.1)
    path = CheckpointPath(run.model_id, "external_weights", "mine")
    engine.do_save(run, path, None, None)
    return path, engine.checkpoints.folder(path)


def url(path, what):
    return f"/api/v1/training_runs/{path.run}/checkpoints/{path.kind}/{path.name}/{what}"


def bare(api, address):
    """A request without the key, as a client makes it that has only the URL."""
    return api.get(address, headers={"X-API-Key": ""})


def test_files_come_one_by_one_without_the_key(api, saved):
    path, folder = saved
    answer = api.get(url(path, "external_weights_urls")).json()
    assert sorted(answer["urls"]) == ["adapter_config.json", "adapter_model.safetensors"]
    for name, address in answer["urls"].items():
        assert address.startswith("http://localhost/")
        assert bare(api, address).content == (folder / name).read_bytes()


def test_the_archive_is_an_adapter_that_peft_loads(api, saved, tmp_path, tiny_chat):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    path, _ = saved
    redirect = api.get(url(path, "archive"))
    assert redirect.status_code == 302
    assert parsedate_to_datetime(redirect.headers["Expires"])
    answer = bare(api, redirect.headers["Location"])
    assert len(answer.content) == int(answer.headers["Content-Length"])
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert all(member.isfile() for member in archive)
        archive.extractall(tmp_path, filter="data")
    engine, tokens = api.app.state.engine, torch.arange(9)[None]
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_chat), str(tmp_path))
    reference = model(tokens).logits[0]

    def logits(adapter):
        hidden = engine.model.forward(tokens[0], torch.arange(9), lambda _, q, k, v: attention(q, k, v), adapter)
        return engine.model.logits(hidden, adapter)

    torch.testing.assert_close(logits(engine._trainee(path.run).lora), reference, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits(None), reference, atol=1e-2)


def test_a_url_is_good_for_its_file_and_for_the_weights_as_they_were(api, saved):
    path, _ = saved
    urls = api.get(url(path, "external_weights_urls")).json()["urls"]
    config, weights = urls["adapter_config.json"], urls["adapter_model.safetensors"]
    token = config.split("/")[-2]
    assert bare(api, weights.replace(weights.split("/")[-2], token)).status_code == 410
    assert bare(api, config.replace(token, token[:-3] + "AAA")).status_code == 410
    for odd in ("..%2f..%2fkey", "checkpoint.json", "optimizer.safetensors"):
        assert bare(api, config.replace("adapter_config.json", odd)).status_code in (404, 410)
    engine = api.app.state.engine
    engine.do_save(engine.runs[path.run], path, None, None)
    assert bare(api, config).status_code == 410
    engine.checkpoints.delete(path)
    assert bare(api, config).status_code == 404


@pytest.mark.parametrize("kind", ["external_weights", "..", "other"])
def test_what_is_not_here_has_no_urls(api, kind):
    answer = api.get(f"/api/v1/training_runs/nobody/checkpoints/{kind}/x/external_weights_urls")
    assert answer.status_code in (400, 404)
