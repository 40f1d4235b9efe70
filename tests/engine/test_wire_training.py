import numpy as np
import pytest
import torch
from tinker.proto import tinker_public_pb2 as pb
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output
from tinker.types import ForwardBackwardInput, ForwardBackwardRequest

from machine.engine.faults import Fault
from machine.engine.training.trainer import Outcome
from machine.engine.wire import requests as wire
from machine.engine.wire import training as wire_training
from tinker import Datum, ModelInput

NAN = float("nan")


def tensor(values, dtype="<f4", shape=None):
    kind = {"<f4": pb.DTYPE_FLOAT32, "<i8": pb.DTYPE_INT64}[dtype]
    array = np.array(values, dtype)
    return pb.Tensor(dense=array.tobytes(), dtype=kind, shape=list(array.shape) if shape is None else shape)


def sparse(values, starts, columns, shape, dtype="<i8"):
    message = tensor(values, dtype, shape)
    message.sparse_csr.values = np.array(values, dtype).tobytes()
    message.sparse_csr.crow_indices = np.array(starts, "<i8").tobytes()
    message.sparse_csr.col_indices = np.array(columns, "<i8").tobytes()
    return message


def message(tokens=(1, 2, 3), loss="cross_entropy", settings=(), **inputs):
    request = pb.ForwardBackwardRequest(model_id="m", seq_id=1, loss_fn=loss)
    datum = request.data.add()
    datum.model_input.add().encoded_text.tokens = np.array(tokens, "<i4").tobytes()
    given = {"target_tokens": tensor([2, 3, 4], "<i8")} | inputs
    for key, value in given.items():
        if value is not None:
            datum.loss_fn_inputs[key].CopyFrom(value)
    for key, value in settings:
        setattr(request.loss_fn_config_v2[key], "text" if isinstance(value, str) else "number", value)
    return request


def image():
    request = message()
    request.data[0].model_input.add().image.data = b"png"
    return request


def policy(loss="ppo", settings=(), **inputs):
    return message(
        loss=loss, settings=settings, **{"logprobs": tensor([0, 0, 0]), "advantages": tensor([1, 1, 1])} | inputs
    )


def datums(request, vocabulary=10, context=4):
    return wire_training.datums(wire_training.decode_forward_backward(request.SerializeToString()), vocabulary, context)


def test_a_good_request():
    [datum] = datums(message(weights=tensor([0, 1, 1])))
    assert (datum.tokens, datum.targets.tolist()) == ([1, 2, 3], [2, 3, 4])
    assert datum.inputs["weights"].tolist() == [0, 1, 1]


def test_what_may_be_left_out_is_one():
    assert datums(message())[0].inputs["weights"].tolist() == [1, 1, 1]
    assert datums(policy())[0].inputs["mask"].tolist() == [1, 1, 1]
    assert datums(policy(mask=tensor([0, 1, 0])))[0].inputs["mask"].tolist() == [0, 1, 0]


@pytest.mark.parametrize("filled", [0.1, 0.9])
def test_several_targets_a_token_as_the_sdk_sends_them(filled):
    """The SDK sends a 2-D torch tensor dense or sparse, whichever is shorter; both mean the same."""
    targets = torch.where(torch.rand(40, 6) < filled, torch.randint(1, 10, (40, 6)), 0)
    weights = torch.where(targets > 0, torch.rand(40, 6), 0.0)
    row = Datum(
        model_input=ModelInput.from_ints([1] * 40), loss_fn_inputs={"target_tokens": targets, "weights": weights}
    )
    batch = ForwardBackwardInput(data=[row], loss_fn="cross_entropy")
    request = forward_backward_request_to_proto(ForwardBackwardRequest(batch, "m", 1))
    encodings = {request.data[0].loss_fn_inputs[key].WhichOneof("encoding") for key in ("target_tokens", "weights")}
    assert encodings == {"sparse_csr" if filled < 0.5 else "dense"}
    [datum] = datums(request, context=64)
    assert torch.equal(datum.targets, targets)
    assert torch.equal(datum.inputs["weights"], weights)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (message(tokens=()), "data[0].model_input: 0 tokens"),
        (message(tokens=range(5)), "data[0].model_input: 5 tokens"),
        (message(tokens=(1, -1, 2)), "data[0].model_input: token -1 at 1"),
        (message(tokens=(1, 2, 10)), "data[0].model_input: token 10 at 2"),
        (image(), "data[0].model_input: image chunks"),
        (message(target_tokens=None), "needs target_tokens"),
        (message(target_tokens=tensor([2, 3, 99], "<i8")), "data[0].target_tokens: token 99 at 2"),
        (message(target_tokens=tensor([[2], [3], [-4]], "<i8")), "data[0].target_tokens: token -4 at 2, 0"),
        (message(target_tokens=tensor([2, 3, 4])), "data[0].target_tokens: the type is float32"),
        (message(target_tokens=tensor([2, 3], "<i8")), "data[0].target_tokens: the shape is [2]"),
        (message(target_tokens=tensor([[[2]]] * 3, "<i8")), "data[0].target_tokens: the shape is [3, 1, 1]"),
        (message(target_tokens=tensor([], "<i8", shape=[3, 0])), "data[0].target_tokens: the shape is [3, 0]"),
        (message(target_tokens=tensor([2, 3, 4], "<i8", shape=[-3, -1])), "data[0].target_tokens: the shape is [-3, -1]"),
        (message(target_tokens=tensor([[2], [3], [4]], "<i8"), weights=tensor([1, 1, 1])), "data[0].weights: the shape"),
        (policy(target_tokens=tensor([[2], [3], [4]], "<i8")), "data[0].target_tokens: ppo takes one token"),
        (message(weights=tensor([1, 2])), "data[0].weights: the shape is [2]"),
        (message(weights=tensor([1, 2, 3], shape=[4])), "data[0].weights: the shape is [4]"),
        (message(weights=tensor([1, 2], shape=[3])), "data[0].weights: 2 numbers do not fill the shape [3]"),
        (message(weights=tensor([1, NAN, 3])), "data[0].weights: a number is not finite"),
        (policy(advantages=tensor([1, float("inf"), 3])), "data[0].advantages: a number is not finite"),
        (message(weights=pb.Tensor(dense=b"12345", dtype=pb.DTYPE_FLOAT32)), "data[0].weights: 5 bytes"),
        (message(weights=pb.Tensor(dense=b"12", dtype=pb.DTYPE_BFLOAT16)), "data[0].weights: the data type"),
        (message(advantages=tensor([1, 1, 1])), "data[0].loss_fn_inputs: cross_entropy does not use advantages"),
        (policy(clip_low_threshold=tensor([1, 1, 1])), "ppo does not use clip_low_threshold"),
        (message(loss="ppo"), "ppo needs advantages, logprobs"),
        (message(loss="gspo"), "loss_fn: 'gspo'"),
        (policy(settings=[("beta", 1.0)]), "loss_fn_config: ppo has no setting beta"),
        (policy(settings=[("clip_low_threshold", "low")]), "loss_fn_config: clip_low_threshold is 'low'"),
        (policy(settings=[("clip_low_threshold", NAN)]), "loss_fn_config: clip_low_threshold is nan"),
        (message(target_tokens=sparse([2], [0, 1, 1, 1], [0], [3])), "data[0].target_tokens: the shape is [3]"),
        (message(target_tokens=sparse([2], [0, 1, 1], [0], [3, 2])), "data[0].target_tokens.crow_indices"),
        (message(target_tokens=sparse([2], [0, 2, 1, 1], [0], [3, 2])), "data[0].target_tokens.crow_indices"),
        (message(target_tokens=sparse([2], [0, 1, 1, 2], [0], [3, 2])), "data[0].target_tokens.crow_indices"),
        (message(target_tokens=sparse([2], [0, 1, 1, 1], [2], [3, 2])), "data[0].target_tokens.col_indices"),
        (message(target_tokens=sparse([2], [0, 1, 1, 1], [-1], [3, 2])), "data[0].target_tokens.col_indices"),
        (message(target_tokens=sparse([2], [0, 1, 1, 1], [0, 1], [3, 2])), "data[0].target_tokens.col_indices"),
        (message(target_tokens=sparse([], [0, 0, 0, 0], [], [3, 2**40])), "targets; 16777216 are the limit"),
        (message(weights=sparse([], [0, 0, 0, 0], [], [3, 2**40], "<f4")), "data[0].weights: the shape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_is_named(request_, field):
    with pytest.raises(Fault) as caught:
        datums(request_)
    assert field in caught.value.message


def test_bytes_that_are_no_request():
    whole = message().SerializeToString()
    with pytest.raises(Fault, match="ForwardBackwardRequest"):
        wire_training.decode_forward_backward(whole[:-3])
    with pytest.raises(Fault, match="seq_id"):
        wire_training.decode_forward_backward(b"")
    with pytest.raises(Fault, match="no datum"):
        wire_training.decode_forward_backward(pb.ForwardBackwardRequest(seq_id=1).SerializeToString())


def test_a_turn_is_read_off_a_request_that_is_wrong():
    kind = "application/x-protobuf"
    assert wire_training.turn(message(loss="gspo").SerializeToString(), kind).seq_id == 1
    assert wire_training.turn(b"\xff", kind) is None
    assert wire_training.turn(b'{"model_id": "m", "seq_id": 7, "adam_params": 3}', "application/json").seq_id == 7
    assert wire_training.turn(b'{"model_id": "m"}', "application/json") is None


def test_the_sdk_reads_outcomes_in_the_shapes_of_the_targets():
    logprobs = [
        torch.tensor([-1.0, -2.0]),
        torch.tensor([-3.0]),
        torch.tensor([[-4.0, -5.0, -6.0]]),
        torch.tensor([-7.0]),
    ]
    output = deserialize_forward_backward_output(wire_training.encode_outcome(Outcome(1.5, logprobs, 5, 4)))
    found = [o["logprobs"] for o in output.loss_fn_outputs]
    assert [each.shape for each in found] == [[2], [1], [1, 3], [1]]
    assert all(torch.equal(each.to_torch(), expected) for each, expected in zip(found, logprobs, strict=True))
    assert (output.metrics["loss:sum"], output.metrics["tokens:sum"]) == (1.5, 5)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_a_turn_is_read_however_json_is_called(kind):
    assert wire_training.turn(b'{"model_id": "m", "seq_id": 3, "adam_params": 7}', kind) == wire.Turn("m", 3)
