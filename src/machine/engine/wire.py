"""Wire formats: JSON requests as typed structs, and Tinker's protobuf for training and sampling.

Decoding checks everything that a client can get wrong (types, shapes, ranges, finite numbers) before any work is
queued; a message names the field. Bytes in the protobuf are little-endian. Source: the tinker SDK's
`tinker_public.proto` and `proto/request_conv.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import torch
import zstandard
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tinker.proto import tinker_public_pb2 as pb

from machine.engine.faults import Fault
from machine.engine.lora import MAX_RANK
from machine.engine.losses import REQUIRED, Loss
from machine.engine.optimizer import AdamParams
from machine.engine.sampling import SampleRequest
from machine.engine.trainer import Datum, Outcome, check_length

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request, and of what its compression unfolds to."""

_DTYPES: dict[int, "np.dtype[Any]"] = {
    pb.DTYPE_FLOAT32: np.dtype("<f4"),
    pb.DTYPE_INT64: np.dtype("<i8"),
    pb.DTYPE_INT32: np.dtype("<i4"),
}
_PER_TOKEN = ("weights", "advantages", "logprobs", "mask")

Array = np.ndarray[Any, np.dtype[Any]]
Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=10**10)]


class CreateSession(msgspec.Struct):
    """POST create_session."""

    user_metadata: dict[str, Any] | None = None
    display_name: str | None = None


class OfSession(msgspec.Struct):
    """A request that names a session."""

    session_id: str


class LoraConfig(msgspec.Struct):
    """The adapter that a client asks for; `train_unembed` is accepted and has no effect (see `weights_info`)."""

    rank: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANK)] = 32
    seed: int | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class CreateModel(msgspec.Struct):
    """POST create_model."""

    session_id: str
    model_seq_id: int
    base_model: str
    lora_config: LoraConfig | None = None
    user_metadata: dict[str, Any] | None = None


class OfModel(msgspec.Struct):
    """A request that names a trained model."""

    model_id: str


class Turn(msgspec.Struct):
    """What orders the requests of a trained model, whatever else they say."""

    model_id: str
    seq_id: Positive


class OptimStep(msgspec.Struct):
    """POST optim_step."""

    model_id: str
    seq_id: Positive
    adam_params: AdamParams


class SaveWeights(msgspec.Struct):
    """POST save_weights, save_weights_for_sampler, save_weights_external."""

    model_id: str
    seq_id: Positive
    path: str | None = None
    sampling_session_seq_id: int | None = None
    ttl_seconds: Seconds | None = None
    user_metadata: dict[str, Any] | None = None


class LoadWeights(msgspec.Struct):
    """POST load_weights: into a model (`model_id`, `seq_id`), or as a new one (`session_id`, `model_seq_id`)."""

    path: str
    optimizer: bool
    model_id: str | None = None
    seq_id: Positive | None = None
    session_id: str | None = None
    model_seq_id: int | None = None
    base_model: str | None = None
    user_metadata: dict[str, Any] | None = None


class CreateSamplingSession(msgspec.Struct):
    """POST create_sampling_session."""

    session_id: str
    sampling_session_seq_id: int
    base_model: str | None = None
    model_path: str | None = None


class WireParams(msgspec.Struct):
    """Sampling parameters as the SDK sends them."""

    max_tokens: NotNegative | None = None
    seed: int | None = None
    stop: str | list[str | int] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] = 1.0
    top_k: int = -1
    top_p: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 1.0


class Chunk(msgspec.Struct):
    """A piece of a prompt."""

    type: str
    tokens: list[Token] | None = None


class Prompt(msgspec.Struct):
    """A prompt in pieces."""

    chunks: list[Chunk]


class Sample(msgspec.Struct):
    """POST asample. What the engine does not do is here to be refused by name."""

    prompt: Prompt
    sampling_params: WireParams
    num_samples: Annotated[int, msgspec.Meta(ge=1, le=128)] = 1
    sampling_session_id: str | None = None
    seq_id: int | None = None
    base_model: str | None = None
    model_path: str | None = None
    prompt_logprobs: bool | None = None
    prompt_logprobs_last_n: Positive | None = None
    topk_prompt_logprobs: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    topk_sample_logprobs: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    target_prompt_logprobs: Any = None
    prompt_alt_tokens_k: int = 0
    record_stability_info: bool | None = None


class OfRequest(msgspec.Struct):
    """A request that names a future."""

    request_id: str


class WeightsInfo(msgspec.Struct):
    """POST weights_info."""

    tinker_path: str


class Ttl(msgspec.Struct):
    """PUT ttl."""

    ttl_seconds: Seconds | None = None


@dataclass(frozen=True)
class ForwardBackward:
    """POST forward_backward, decoded; `data` is checked later, on the model's thread, by `datums`."""

    model_id: str
    seq_id: int
    backward: bool
    loss: Loss
    data: Sequence[Any]


_T = TypeVar("_T")


def decode(body: bytes, kind: type[_T]) -> _T:
    """A JSON request.

    Raises:
        Fault: it is not JSON, or not of this kind; the message names the field.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Fault(f"the request is not valid: {error}") from error


def decompress(body: bytes) -> bytes:
    """Unfolds zstd, up to `MAX_BODY` bytes.

    Raises:
        Fault: it is not zstd, or too large.
    """
    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            plain: bytes = reader.read(MAX_BODY + 1)
    except zstandard.ZstdError as error:
        raise Fault(f"the body is not zstd: {error}") from error
    if len(plain) > MAX_BODY:
        raise Fault(f"the body unfolds to more than {MAX_BODY} bytes", next_step="send smaller batches")
    return plain


def decode_forward_backward(body: bytes) -> ForwardBackward:
    """A protobuf `ForwardBackwardRequest`.

    Raises:
        Fault: it is not one, or names an unknown loss.
    """
    request = pb.ForwardBackwardRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise Fault("the body is not a ForwardBackwardRequest") from error
    settings = {key: value.number for key, value in request.loss_fn_config_v2.items()} or dict(request.loss_fn_config)
    if request.seq_id < 1:
        raise Fault(f"seq_id: {request.seq_id} is not a sequence number; they begin at 1")
    if not request.data:
        raise Fault("data: there is no datum")
    loss = Loss(request.loss_fn, settings)
    return ForwardBackward(request.model_id, request.seq_id, not request.forward_only, loss, request.data)


def turn(body: bytes, kind: str) -> Turn | None:
    """The turn of a request that may be wrong in all else; None where it cannot be read. `kind` is its media type."""
    request = pb.ForwardBackwardRequest()
    try:
        if kind == "application/json":
            return decode(body, Turn)
        request.ParseFromString(body)
    except (Fault, DecodeError):
        return None
    return Turn(request.model_id, request.seq_id) if request.seq_id > 0 else None


def datums(request: ForwardBackward, vocabulary: int, context: int) -> list[Datum]:
    """The rows of a request, checked.

    Raises:
        Fault: a field is missing, of a wrong type, length or range.
    """
    return [_datum(datum, request.loss, vocabulary, context, f"data[{i}]") for i, datum in enumerate(request.data)]


def _datum(datum: Any, loss: Loss, vocabulary: int, context: int, name: str) -> Datum:
    pieces = []
    for chunk in datum.model_input:
        if (kind := chunk.WhichOneof("chunk")) != "encoded_text":
            raise Fault(f"{name}.model_input: {kind} chunks are not supported; this model reads text only")
        pieces.append(_numbers(chunk.encoded_text.tokens, np.dtype("<i4"), f"{name}.model_input"))
    tokens = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
    check_length(len(tokens), context, f"{name}.model_input")
    _in_range(tokens, vocabulary, f"{name}.model_input")
    arrays = {key: _tensor(value, f"{name}.{key}") for key, value in datum.loss_fn_inputs.items()}
    if loss.name == "cross_entropy":
        arrays.setdefault("weights", np.ones(len(tokens), np.float32))
    for key in ("target_tokens", *REQUIRED[loss.name]):
        if key not in arrays:
            raise Fault(f"{name}.loss_fn_inputs: {loss.name} needs {key}")
    for key, array in arrays.items():
        if array.shape != tokens.shape:
            raise Fault(f"{name}.{key}: the shape is {list(array.shape)}, model_input has [{len(tokens)}]")
    targets = arrays.pop("target_tokens")
    if targets.dtype.kind != "i":
        raise Fault(f"{name}.target_tokens: the type is {targets.dtype}, not an integer")
    _in_range(targets, vocabulary, f"{name}.target_tokens")
    inputs = {key: torch.from_numpy(array.astype(np.float32)) for key, array in arrays.items() if key in _PER_TOKEN}
    for key, value in inputs.items():
        if not bool(value.isfinite().all()):
            raise Fault(f"{name}.{key}: a number is not finite")
    return Datum(tokens.tolist(), torch.from_numpy(targets.astype(np.int64)), inputs)


def _tensor(tensor: Any, name: str) -> Array:
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise Fault(f"{name}: the data type {tensor.dtype} is not supported; use float32 or int64")
    shape = tuple(tensor.shape)
    if tensor.WhichOneof("encoding") == "sparse_csr":
        raise Fault(f"{name}: sparse tensors are not supported", next_step="send a dense 1-D tensor")
    flat = _numbers(tensor.dense, dtype, name)
    if shape and int(np.prod(shape)) != len(flat):
        raise Fault(f"{name}: {len(flat)} numbers do not fill the shape {list(shape)}")
    return flat.reshape(shape) if shape else flat


def _numbers(data: bytes, dtype: "np.dtype[Any]", name: str) -> Array:
    if len(data) % dtype.itemsize:
        raise Fault(f"{name}: {len(data)} bytes are not a whole number of {dtype.name}")
    return np.frombuffer(data, dtype)


def _in_range(tokens: Array, vocabulary: int, name: str) -> None:
    bad = np.flatnonzero((tokens < 0) | (tokens >= vocabulary))
    if len(bad):
        raise Fault(f"{name}: token {tokens[bad[0]]} at {bad[0]} is not in the vocabulary (0 to {vocabulary - 1})")


def prompt_tokens(prompt: Prompt, vocabulary: int) -> list[int]:
    """The tokens of a prompt.

    Raises:
        Fault: a chunk is not text, or a token not in the vocabulary.
    """
    tokens: list[int] = []
    for chunk in prompt.chunks:
        if chunk.type != "encoded_text" or chunk.tokens is None:
            raise Fault(f"prompt: {chunk.type} chunks are not supported; this model reads text only")
        tokens += chunk.tokens
    if not tokens:
        raise Fault("prompt: it has no tokens")
    _in_range(np.array(tokens, np.int64), vocabulary, "prompt")
    return tokens


def encode_outcome(outcome: Outcome) -> bytes:
    """A protobuf `ForwardBackwardOutput`: one batched record of log-probabilities, and summed metrics."""
    output = pb.ForwardBackwardOutput(loss_fn_output_type="ArrayRecord")
    output.metrics["loss:sum"] = outcome.loss
    output.metrics["tokens:sum"] = outcome.tokens
    output.metrics["tokens_computed:sum"] = outcome.computed
    record = output.loss_fn_outputs.add(num_datums=len(outcome.logprobs), type_tag="ArrayRecord")
    field = record.fields["logprobs"]
    field.dtype = pb.DTYPE_FLOAT32
    field.data = torch.cat(outcome.logprobs).numpy().astype("<f4").tobytes()
    ends = np.cumsum([0, *[len(logprobs) for logprobs in outcome.logprobs]])
    field.offsets = (ends * 4).astype("<i8").tobytes()
    return bytes(output.SerializeToString())


def encode_sample(request: SampleRequest) -> bytes:
    """A protobuf `SampleResponse` for a finished request; positions without a score are NaN."""
    response = pb.SampleResponse(prompt_cache_hit_tokens=request.cached_tokens)
    for draw in request.draws:
        sequence = response.sequences.add(
            stop_reason=pb.STOP_REASON_STOP if draw.finished == "stop" else pb.STOP_REASON_LENGTH,
            tokens=np.array(draw.tokens, "<i4").tobytes(),
            logprobs=np.array(draw.logprobs, "<f4").tobytes(),
        )
        if draw.tops:
            values = torch.stack([values for values, _ in draw.tops])
            ids = torch.stack([ids for _, ids in draw.tops])
            _put_topk(sequence.topk_sampled_logprobs, values.numpy(), ids.numpy())
    if request.scores is not None:
        response.prompt_logprobs = _padded(request.scores.numpy(), len(request.prompt), np.nan).tobytes()
    if request.score_tops is not None:
        values, ids = request.score_tops
        n = len(request.prompt)
        _put_topk(response.topk_prompt_logprobs, _padded(values.numpy(), n, -99999.0), _padded(ids.numpy(), n, 0))
    return bytes(response.SerializeToString())


def _padded(array: Array, length: int, filler: float) -> Array:
    """The array at the end of one of `length` rows, with `filler` before it."""
    whole = np.full((length, *array.shape[1:]), filler, "<f4" if array.dtype.kind == "f" else "<i4")
    whole[length - len(array) :] = array
    return whole


def _put_topk(message: Any, values: Array, ids: Array) -> None:
    message.length, message.k = values.shape
    message.logprobs = values.astype("<f4").tobytes()
    message.token_ids = ids.astype("<i4").tobytes()


def metadata(given: Mapping[str, Any] | None) -> dict[str, str] | None:
    """User metadata as text, the way the API gives it back."""
    return None if given is None else {key: str(value) for key, value in given.items()}
