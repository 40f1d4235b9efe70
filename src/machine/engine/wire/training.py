"""Training on the wire: Tinker's protobuf for batches of datums, and for what comes back.

Decoding checks everything that a client can get wrong (types, shapes, ranges, finite numbers); a message names the
field. Bytes are little-endian. A target is a token a position, shape [n], or k weighted tokens a position, shape
[n, k] (distillation); tensors of the latter may come as sparse rows (CSR), where what is not listed is 0.
Source: the tinker SDK's `proto/request_conv.py` and `proto/response_conv.py`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tinker.proto import tinker_public_pb2 as pb

from machine.engine.faults import Fault
from machine.engine.training.losses import REQUIRED, Loss
from machine.engine.training.trainer import Datum, Outcome, check_length
from machine.engine.wire.requests import MAX_BODY, Turn, decode

MAX_TARGETS = MAX_BODY // 4
"""Entries of all targets of a request; sparse tensors could otherwise ask for more memory than was sent."""

_DTYPES: dict[int, "np.dtype[Any]"] = {
    pb.DTYPE_FLOAT32: np.dtype("<f4"),
    pb.DTYPE_INT64: np.dtype("<i8"),
    pb.DTYPE_INT32: np.dtype("<i4"),
}

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ForwardBackward:
    """POST forward_backward, decoded; `data` is checked later, on the model's thread, by `datums`."""

    model_id: str
    seq_id: int
    backward: bool
    loss: Loss
    data: Sequence[Any]


def decode_forward_backward(body: bytes) -> ForwardBackward:
    """A protobuf `ForwardBackwardRequest`.

    Raises:
        Fault: it is not one, or names an unknown loss.
    """
    request = _parse(body)
    if request is None:
        raise Fault("the body is not a ForwardBackwardRequest")
    if request.seq_id < 1:
        raise Fault(f"seq_id: {request.seq_id} is not a sequence number; they begin at 1")
    if not request.data:
        raise Fault("data: there is no datum")
    loss = Loss(request.loss_fn, _settings(request))
    return ForwardBackward(request.model_id, request.seq_id, not request.forward_only, loss, request.data)


def turn(body: bytes, kind: str) -> Turn | None:
    """The turn of a request that may be wrong in all else; None where it cannot be read. `kind` is its media type."""
    if kind.partition(";")[0].strip().lower() == "application/json":
        try:
            return decode(body, Turn)
        except Fault:
            return None
    request = _parse(body)
    return Turn(request.model_id, request.seq_id) if request is not None and request.seq_id > 0 else None


def datums(request: ForwardBackward, vocabulary: int, context: int) -> list[Datum]:
    """The rows of a request, checked.

    Raises:
        Fault: a field is missing, of a wrong type, length or range.
    """
    shapes = [d.loss_fn_inputs["target_tokens"].shape for d in request.data if "target_tokens" in d.loss_fn_inputs]
    entries = sum(max(0, math.prod(shape)) for shape in shapes)
    if entries > MAX_TARGETS:
        raise Fault(f"data: {entries} targets; {MAX_TARGETS} are the limit", next_step="send smaller batches")
    return [_datum(datum, request.loss, vocabulary, context, f"data[{i}]") for i, datum in enumerate(request.data)]


def encode_outcome(outcome: Outcome) -> bytes:
    """A protobuf `ForwardBackwardOutput`: summed metrics, and the log-probabilities in the shapes of the targets.

    A record holds datums in a row that have the same trailing shape.
    """
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
    output.metrics["loss:sum"] = outcome.loss
    output.metrics["tokens:sum"] = outcome.tokens
    output.metrics["tokens_computed:sum"] = outcome.computed
    for trailing, group in itertools.groupby(outcome.logprobs, key=lambda logprobs: tuple(logprobs.shape[1:])):
        flat = [logprobs.flatten() for logprobs in group]
        record = output.loss_fn_outputs.add(num_datums=len(flat), type_tag="ArrayRecord")
        field = record.fields["logprobs"]
        field.dtype = pb.DTYPE_FLOAT32
        field.trailing_shape.extend(trailing)
        field.data = torch.cat(flat).numpy().astype("<f4").tobytes()
        field.offsets = (np.cumsum([0, *[len(part) for part in flat]]) * 4).astype("<i8").tobytes()
    return bytes(output.SerializeToString())


def check_tokens(tokens: Array, vocabulary: int, name: str) -> None:
    """Refuses tokens that the model does not have.

    Raises:
        Fault: one is negative or too large; the message says which and where.
    """
    bad = np.argwhere((tokens < 0) | (tokens >= vocabulary))
    if len(bad):
        token, place = tokens[tuple(bad[0])], ", ".join(str(i) for i in bad[0])
        raise Fault(f"{name}: token {token} at {place} is not in the vocabulary (0 to {vocabulary - 1})")


def _parse(body: bytes) -> Any | None:
    request = pb.ForwardBackwardRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        return None
    return request


def _settings(request: Any) -> dict[str, float]:
    for key, value in request.loss_fn_config_v2.items():
        if value.WhichOneof("value") == "text":
            raise Fault(f"loss_fn_config: {key} is {value.text!r}, not a number")
    settings = {key: value.number for key, value in request.loss_fn_config_v2.items()} or dict(request.loss_fn_config)
    for key, number in settings.items():
        if not math.isfinite(number):
            raise Fault(f"loss_fn_config: {key} is {number}; it must be finite")
    return settings


def _datum(datum: Any, loss: Loss, vocabulary: int, context: int, name: str) -> Datum:
    tokens = _model_input(datum, f"{name}.model_input")
    check_length(len(tokens), context, f"{name}.model_input")
    check_tokens(tokens, vocabulary, f"{name}.model_input")
    given = _known(datum.loss_fn_inputs, loss.name, name)
    targets = _tensor(given.pop("target_tokens"), len(tokens), f"{name}.target_tokens")
    if targets.dtype.kind != "i":
        raise Fault(f"{name}.target_tokens: the type is {targets.dtype}, not an integer")
    if targets.ndim == 2 and loss.name != "cross_entropy":
        raise Fault(f"{name}.target_tokens: {loss.name} takes one token a position, not {targets.shape[1]}")
    check_tokens(targets, vocabulary, f"{name}.target_tokens")
    inputs = {}
    for key, value in given.items():
        array = _tensor(value, len(tokens), f"{name}.{key}")
        if array.shape != targets.shape:
            raise Fault(f"{name}.{key}: the shape is {list(array.shape)}, target_tokens has {list(targets.shape)}")
        if not np.isfinite(array).all():
            raise Fault(f"{name}.{key}: a number is not finite")
        inputs[key] = torch.from_numpy(array.astype(np.float32))
    inputs.setdefault(_defaulted(loss.name), torch.ones(targets.shape))
    return Datum(tokens.tolist(), torch.from_numpy(targets.astype(np.int64)), inputs)


def _model_input(datum: Any, name: str) -> Array:
    pieces = []
    for chunk in datum.model_input:
        if (kind := chunk.WhichOneof("chunk")) != "encoded_text":
            raise Fault(f"{name}: {kind} chunks are not supported; this model reads text only")
        pieces.append(_numbers(chunk.encoded_text.tokens, np.dtype("<i4"), name))
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _defaulted(loss: str) -> str:
    """The input that is 1 everywhere unless it is given."""
    return "weights" if loss == "cross_entropy" else "mask"


def _known(inputs: Any, loss: str, name: str) -> dict[str, Any]:
    """The tensors of a datum by key: all that the loss needs, and none that it would ignore."""
    used = {"target_tokens", *REQUIRED[loss], _defaulted(loss)}
    if missing := sorted(used - {_defaulted(loss)} - set(inputs)):
        raise Fault(f"{name}.loss_fn_inputs: {loss} needs {', '.join(missing)}")
    if unknown := sorted(set(inputs) - used):
        raise Fault(f"{name}.loss_fn_inputs: {loss} does not use {', '.join(unknown)}", next_step="leave it out")
    return dict(inputs.items())


def _tensor(tensor: Any, length: int, name: str) -> Array:
    """An array [length] or [length, k]."""
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise Fault(f"{name}: the data type {tensor.dtype} is not supported; use float32 or int64")
    sparse = tensor.WhichOneof("encoding") == "sparse_csr"
    flat = _numbers(tensor.sparse_csr.values if sparse else tensor.dense, dtype, name)
    shape = tuple(tensor.shape) or (len(flat),)
    if len(shape) > 2 or min(shape) < 1 or shape[0] != length or (sparse and len(shape) < 2):
        raise Fault(f"{name}: the shape is {list(shape)}, model_input has [{length}]; use [{length}] or [{length}, k]")
    if sparse:
        return _dense(flat, tensor.sparse_csr, shape, name)
    if math.prod(shape) != len(flat):
        raise Fault(f"{name}: {len(flat)} numbers do not fill the shape {list(shape)}")
    return flat.reshape(shape)


def _dense(values: Array, csr: Any, shape: tuple[int, ...], name: str) -> Array:
    """Sparse rows unfolded: row i has `values[starts[i]:starts[i + 1]]` at the columns of the same places."""
    if math.prod(shape) > MAX_TARGETS:
        raise Fault(f"{name}: the shape {list(shape)} is too large", next_step="send smaller batches")
    starts = _numbers(csr.crow_indices, np.dtype("<i8"), f"{name}.crow_indices")
    columns = _numbers(csr.col_indices, np.dtype("<i8"), f"{name}.col_indices")
    counts = np.diff(starts)
    if len(starts) != shape[0] + 1 or starts[0] != 0 or starts[-1] != len(values) or (counts < 0).any():
        raise Fault(f"{name}.crow_indices: they do not divide {len(values)} numbers into {shape[0]} rows")
    if len(columns) != len(values) or ((columns < 0) | (columns >= shape[1])).any():
        raise Fault(f"{name}.col_indices: they are not {len(values)} columns from 0 to {shape[1] - 1}")
    array = np.zeros(shape, values.dtype)
    array[np.repeat(np.arange(shape[0]), counts), columns] = values
    return array


def _numbers(data: bytes, dtype: "np.dtype[Any]", name: str) -> Array:
    if len(data) % dtype.itemsize:
        raise Fault(f"{name}: {len(data)} bytes are not a whole number of {dtype.name}")
    return np.frombuffer(data, dtype)
