"""JSON on the wire: every request as a typed struct, and what its fields may be.

`decode` checks types and ranges before any work is queued, and its message names the field. What the engine does not
do has a field too, so that it is refused by name instead of being ignored. Source: the tinker SDK's `types`.
The protobuf of training is in `training`, sampling in `sampling`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import zstandard

from machine.engine.faults import Fault, TooLarge
from machine.engine.models.lora import MAX_RANK
from machine.engine.training.optimizer import AdamParams

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request, and of what its compression unfolds to."""

MAX_BODIES = 512 * 1024 * 1024
"""Bytes of all requests that are being read or answered."""
MAX_JSON = 16 * 1024 * 1024
"""Bytes of JSON: as Python's objects it takes some 25 times the memory, and the event loop waits for it."""
MAX_METADATA = 64 * 1024
"""Characters of a session's, model's or checkpoint's metadata, as text."""
MAX_STOPS = 256
"""Texts and tokens that may end an answer; each is looked for at every token."""

Positive = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
NotNegative = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=10**10)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Label = Annotated[str, msgspec.Meta(max_length=1000)]
StopText = Annotated[str, msgspec.Meta(max_length=1000)]


class CreateSession(msgspec.Struct):
    """POST create_session; `project_id` is taken and has no effect (an engine has no projects)."""

    user_metadata: dict[str, Any] | None = None
    display_name: Label | None = None
    project_id: str | None = None


class OfSession(msgspec.Struct):
    """A request that names a session."""

    session_id: str


class LoraConfig(msgspec.Struct):
    """The adapter that a client asks for."""

    rank: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANK)] = 32
    seed: Seed | None = None
    train_unembed: bool = True
    train_mlp: bool = True
    train_attn: bool = True


class OptimizerConfig(msgspec.Struct):
    """The optimiser of a model: there is one."""

    type: str = "adamw"

    def check(self) -> None:
        """Refuses any other.

        Raises:
            Fault: it is not AdamW.
        """
        if self.type != "adamw":
            raise Fault(f"optimizer_config: {self.type!r} is not supported; this engine has adamw")


class CreateModel(msgspec.Struct):
    """POST create_model."""

    session_id: str
    model_seq_id: NotNegative
    base_model: str
    lora_config: LoraConfig | None = None
    optimizer_config: OptimizerConfig | None = None
    user_metadata: dict[str, Any] | None = None


class OfModel(msgspec.Struct):
    """A request that names a trained model."""

    model_id: str


class Turn(msgspec.Struct):
    """What orders the requests of a trained model, whatever else they say."""

    model_id: str
    seq_id: Positive


class OptimStep(msgspec.Struct):
    """POST optim_step; `optimizer_params` are those of other optimisers than Adam."""

    model_id: str
    seq_id: Positive
    adam_params: AdamParams | None = None
    optimizer_params: dict[str, Any] | None = None

    def adam(self) -> AdamParams:
        """Adam's settings.

        Raises:
            Fault: there are none.
        """
        if self.optimizer_params is not None:
            raise Fault(f"optimizer_params: {self.optimizer_params.get('type')!r} is not supported; send adam_params")
        if self.adam_params is None:
            raise Fault("adam_params: it is missing")
        return self.adam_params


class SaveWeights(msgspec.Struct):
    """POST save_weights, save_weights_for_sampler, save_weights_external."""

    model_id: str
    seq_id: Positive
    path: Name | None = None
    sampling_session_seq_id: NotNegative | None = None
    kind: Literal["snapshot", "inflight"] = "snapshot"
    overwrite: bool = True
    ttl_seconds: Seconds | None = None
    age_encryption_recipients: list[str] | None = None
    user_metadata: dict[str, Any] | None = None


class LoadWeights(msgspec.Struct):
    """POST load_weights: into a model (`model_id`, `seq_id`), or as a new one (`session_id`, `model_seq_id`)."""

    path: str
    optimizer: bool
    model_id: str | None = None
    seq_id: Positive | None = None
    session_id: str | None = None
    model_seq_id: NotNegative | None = None
    base_model: str | None = None
    optimizer_config: OptimizerConfig | None = None
    weights_access_token: str | None = None
    user_metadata: dict[str, Any] | None = None


class CopyWeights(msgspec.Struct):
    """POST copy_weights: into a session's run, or (with neither named) into a run of its own."""

    source_path: str
    session_id: str | None = None
    model_seq_id: NotNegative | None = None
    destination_project_id: str | None = None
    ttl_seconds: Seconds | None = None


class CreateSamplingSession(msgspec.Struct):
    """POST create_sampling_session."""

    session_id: str
    sampling_session_seq_id: NotNegative
    base_model: str | None = None
    model_path: str | None = None


class OfRequest(msgspec.Struct):
    """A request that names a future."""

    request_id: str


class WeightsInfo(msgspec.Struct):
    """POST weights_info."""

    tinker_path: str


class Ttl(msgspec.Struct):
    """PUT ttl."""

    ttl_seconds: Seconds | None = None


_T = TypeVar("_T")


def decode(body: bytes, kind: type[_T]) -> _T:
    """A JSON request.

    Raises:
        Fault: it is not JSON, or not of this kind; the message names the field.
        TooLarge: it is longer than `MAX_JSON`.
    """
    if len(body) > MAX_JSON:
        raise TooLarge(f"the request is larger than {MAX_JSON} bytes, the limit of JSON")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Fault(f"the request is not valid: {error}") from error


def decompress(body: bytes) -> bytes:
    """Unfolds one frame of zstd, up to `MAX_BODY` bytes.

    Raises:
        Fault: it is not zstd, is cut off, goes on after its end, or is too large.
    """
    try:
        size = zstandard.get_frame_parameters(body).content_size
        if size <= MAX_BODY or size == zstandard.CONTENTSIZE_UNKNOWN:
            return zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_BODY, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Fault(f"the body is not zstd of at most {MAX_BODY} bytes: {error}") from error
    raise Fault(f"the body unfolds to {size} bytes; {MAX_BODY} are the limit", next_step="send smaller batches")


def check_account(token: str | None, field: str) -> None:
    """Refuses what belongs to another account: an engine knows one.

    Raises:
        Fault: there is a token.
    """
    if token is not None:
        raise Fault(f"{field}: this engine has one account", next_step="leave the token out")


def metadata(given: Mapping[str, Any] | None) -> dict[str, str] | None:
    """User metadata as text, the way the API gives it back.

    Raises:
        Fault: there is too much of it.
    """
    if given is None:
        return None
    told = {key: str(value) for key, value in given.items()}
    if (size := sum(len(key) + len(value) for key, value in told.items())) > MAX_METADATA:
        raise Fault(f"user_metadata: {size} characters; {MAX_METADATA} are the limit", next_step="keep it elsewhere")
    return told
