import numpy as np
import pytest
import torch
import zstandard
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.response_conv import deserialize_forward_backward_output, deserialize_sample_response

from machine.engine import wire
from machine.engine.faults import Fault
from machine.engine.sampling import Draw, SampleRequest, SamplingParams
from machine.engine.trainer import Outcome


def tensor(values, dtype="<f4", shape=None):
    kind = {"<f4": pb.DTYPE_FLOAT32, "<i8": pb.DTYPE_INT64}[dtype]
    array = np.array(values, dtype)
    return pb.Tensor(dense=array.tobytes(), dtype=kind, shape=shape or list(array.shape))


def message(tokens=(1, 2, 3), loss="cross_entropy", **inputs):
    request = pb.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn=loss)
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(tokens, "<i4").tobytes()
    given = {"target_tokens": tensor([2, 3, 4], "<i8"), "weights": tensor([0, 1, 1])} | inputs
    for key, value in given.items():
        if value is not None:
            datum.loss_fn_inputs[key].CopyFrom(value)
    return request


def datums(request, vocabulary=10, context=4):
    return wire.datums(wire.decode_forward_backward(request.SerializeToString()), vocabulary, context)


def test_a_good_request():
    [datum] = datums(message())
    assert (datum.tokens, datum.targets.tolist()) == ([1, 2, 3], [2, 3, 4])
    assert datum.inputs["weights"].tolist() == [0, 1, 1]


def test_weights_are_one_unless_given():
    assert datums(message(weights=None))[0].inputs["weights"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (message(tokens=()), "data[0].model_input: 0 tokens"),
        (message(tokens=range(5)), "data[0].model_input: 5 tokens"),
        (message(tokens=(1, -1, 2)), "data[0].model_input: token -1 at 1"),
        (message(tokens=(1, 2, 10)), "data[0].model_input: token 10 at 2"),
        (message(target_tokens=None), "needs target_tokens"),
        (message(target_tokens=tensor([2, 3, 99], "<i8")), "data[0].target_tokens: token 99"),
        (message(target_tokens=tensor([2, 3, 4])), "data[0].target_tokens: the type is float32"),
        (message(target_tokens=tensor([[2], [3], [4]], "<i8")), "data[0].target_tokens: the shape is [3, 1]"),
        (message(weights=tensor([1, 2])), "data[0].weights: the shape is [2]"),
        (message(weights=tensor([1, 2, 3], shape=[4])), "data[0].weights: 3 numbers do not fill"),
        (message(weights=tensor([1, float("nan"), 3])), "data[0].weights: a number is not finite"),
        (message(weights=pb.Tensor(dense=b"12345", dtype=pb.DTYPE_FLOAT32)), "data[0].weights: 5 bytes"),
        (message(weights=pb.Tensor(dense=b"12", dtype=pb.DTYPE_BFLOAT16)), "data[0].weights: the data type"),
        (message(loss="ppo"), "needs logprobs"),
        (message(loss="gspo"), "loss_fn: 'gspo'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(request_, field):
    with pytest.raises(Fault) as caught:
        datums(request_)
    assert field in caught.value.message


def test_bytes_that_are_no_request():
    whole = message().SerializeToString()
    with pytest.raises(Fault, match="ForwardBackwardRequest"):
        wire.decode_forward_backward(whole[:-3])
    with pytest.raises(Fault, match="zstd"):
        wire.decompress(b"not zstd")
    assert wire.decompress(zstandard.compress(whole)) == whole


def test_a_compression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(wire, "MAX_BODY", 1000)
    with pytest.raises(Fault, match="unfolds"):
        wire.decompress(zstandard.compress(bytes(10_000)))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"model_id": 3, "seq_id": 1, "adam_params": {}}', "model_id"),
        (b'{"model_id": "m", "seq_id": 1, "adam_params": {"beta1": 2}}', "adam_params.beta1"),
        (b'{"model_id": "m", "seq_id": 0, "adam_params": {}}', "seq_id"),
        (b'{"model_id": "m"', "not valid"),
    ],
)
def test_json_faults_name_the_field(body, field):
    with pytest.raises(Fault, match=field):
        wire.decode(body, wire.OptimStep)


def test_the_sdk_reads_what_we_write():
    outcome = Outcome(1.5, [torch.tensor([-1.0, -2.0]), torch.tensor([-3.0])], 3, 3)
    output = deserialize_forward_backward_output(wire.encode_outcome(outcome))
    assert [list(o["logprobs"].data) for o in output.loss_fn_outputs] == [[-1.0, -2.0], [-3.0]]
    assert output.metrics["loss:sum"] == 1.5

    request = SampleRequest([1, 2, 3], SamplingParams(2), scores=torch.tensor([-0.5, -0.25]))
    draw = Draw(torch.Generator(), [7, 8], [-1.0, -2.0], finished="stop")
    draw.tops = [(torch.tensor([-1.0]), torch.tensor([7])), (torch.tensor([-2.0]), torch.tensor([8]))]
    request.draws = [draw]
    response = deserialize_sample_response(wire.encode_sample(request))
    assert list(response.sequences[0].tokens) == [7, 8]
    assert response.sequences[0].stop_reason == "stop"
    assert list(response.prompt_logprobs) == [None, -0.5, -0.25]
