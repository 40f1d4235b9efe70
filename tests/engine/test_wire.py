import pytest
import zstandard

from machine.engine.faults import Fault
from machine.engine.wire import requests as wire


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (wire.OptimStep, b'{"model_id": 3, "seq_id": 1, "adam_params": {}}', "model_id"),
        (wire.OptimStep, b'{"model_id": "m", "seq_id": 1, "adam_params": {"beta1": 2}}', "adam_params.beta1"),
        (wire.OptimStep, b'{"model_id": "m", "seq_id": 1, "adam_params": {"eps": NaN}}', "not valid"),
        (wire.OptimStep, b'{"model_id": "m", "seq_id": 0, "adam_params": {}}', "seq_id"),
        (wire.OptimStep, b'{"model_id": "m", "seq_id": 99999999999999999999, "adam_params": {}}', "seq_id"),
        (wire.OptimStep, b'{"model_id": "m"', "not valid"),
        (wire.CreateModel, b'{"session_id": "s", "model_seq_id": -1, "base_model": "b"}', "model_seq_id"),
        (wire.LoraConfig, b'{"rank": 0}', "rank"),
        (wire.LoraConfig, b'{"seed": 9223372036854775808}', "seed"),
        (wire.SaveWeights, b'{"model_id": "m", "seq_id": 1, "kind": "odd"}', "kind"),
        (wire.SaveWeights, b'{"model_id": "m", "seq_id": 1, "path": ""}', "path"),
        (wire.Ttl, b'{"ttl_seconds": 0}', "ttl_seconds"),
        (wire.CreateSession, b'{"user_metadata": ' + b"[" * 99999 + b"]" * 99999 + b"}", "not valid"),
    ],
)
def test_json_faults_name_the_field(kind, body, field):
    with pytest.raises(Fault, match=field):
        wire.decode(body, kind)


def test_another_optimiser_than_adam_is_refused_by_name():
    body = b'{"model_id": "m", "seq_id": 1, "optimizer_params": {"type": "dimuon", "learning_rate": 1}}'
    with pytest.raises(Fault, match="optimizer_params: 'dimuon'"):
        wire.decode(body, wire.OptimStep).adam()
    with pytest.raises(Fault, match="adam_params: it is missing"):
        wire.decode(b'{"model_id": "m", "seq_id": 1}', wire.OptimStep).adam()
    with pytest.raises(Fault, match="optimizer_config: 'dimuon'"):
        wire.OptimizerConfig("dimuon").check()


def test_zstd_is_unfolded_whole_or_not_at_all():
    plain = bytes(range(256)) * 100
    whole = zstandard.compress(plain)
    assert wire.decompress(whole) == plain
    assert wire.decompress(zstandard.ZstdCompressor(write_content_size=False).compress(plain)) == plain
    for damaged in (b"not zstd", b"", whole[:5], whole[:-3], whole + b"more", whole + whole):
        with pytest.raises(Fault, match="zstd"):
            wire.decompress(damaged)


@pytest.mark.parametrize("tells_its_size", [True, False])
def test_a_compression_bomb_is_refused(monkeypatch, tells_its_size):
    monkeypatch.setattr(wire, "MAX_BODY", 1000)
    bomb = zstandard.ZstdCompressor(write_content_size=tells_its_size).compress(bytes(10_000))
    with pytest.raises(Fault, match="1000"):
        wire.decompress(bomb)
