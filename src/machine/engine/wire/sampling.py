"""Sampling on the wire: a JSON request, checked and put in the decoder's form, and the protobuf that answers it.

Source: the tinker SDK's `types/sample_request.py` and `proto/response_conv.py`.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import torch
from tinker.proto import tinker_public_pb2 as pb

from machine.engine.faults import Fault
from machine.engine.sampling.requests import SampleRequest, SamplingParams
from machine.engine.wire.probes import Alternatives, Targets
from machine.engine.wire.requests import MAX_STOPS, NotNegative, Positive, Seed, StopText, Token
from machine.engine.wire.training import Array, check_tokens

DEFAULT_MAX_TOKENS = 512
MASKED = -99999.0
"""The log-probability that stands for no entry in a list of likeliest tokens."""

Some = Annotated[int, msgspec.Meta(ge=0, le=100)]


class WireParams(msgspec.Struct):
    """Sampling parameters as the SDK sends them."""

    max_tokens: NotNegative | None = None
    seed: Seed | None = None
    stop: StopText | Annotated[list[StopText | int], msgspec.Meta(max_length=MAX_STOPS)] | None = None
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


class TargetTokens(msgspec.Struct):
    """Tokens to score at each prompt position after the first, [len(prompt) - 1, k]; -1 asks for nothing."""

    data: list[Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]]
    dtype: Literal["int64"]
    shape: list[NotNegative]
    sparse_crow_indices: list[NotNegative] | None = None
    sparse_col_indices: list[NotNegative] | None = None


class Sample(msgspec.Struct):
    """POST asample."""

    prompt: Prompt
    sampling_params: WireParams
    num_samples: Annotated[int, msgspec.Meta(ge=1, le=128)] = 1
    sampling_session_id: str | None = None
    seq_id: NotNegative | None = None
    base_model: str | None = None
    model_path: str | None = None
    prompt_logprobs: bool | None = None
    prompt_logprobs_last_n: Positive | None = None
    topk_prompt_logprobs: Some = 0
    topk_sample_logprobs: Some = 0
    target_prompt_logprobs: TargetTokens | None = None
    prompt_alt_tokens_k: Some = 0
    record_stability_info: bool | None = None


@dataclass
class Sampling:
    """A request on its way: the wire's form, the decoder's, and what else is read off the prompt."""

    asked: Sample
    request: SampleRequest
    targets: Targets | None = None
    alternatives: Alternatives | None = None

    def encode(self) -> bytes:
        """A protobuf `SampleResponse`, once the request is finished; positions without a score are NaN."""
        request, asked = self.request, self.asked
        response = pb.SampleResponse(prompt_cache_hit_tokens=request.cached_tokens)
        for draw in request.draws:
            sequence = response.sequences.add(
                stop_reason=pb.STOP_REASON_STOP if draw.finished == "stop" else pb.STOP_REASON_LENGTH,
                tokens=np.array(draw.tokens, "<i4").tobytes(),
                logprobs=np.array(draw.logprobs, "<f4").tobytes(),
            )
            if draw.tops:
                values, ids = (torch.stack(part).cpu().numpy() for part in zip(*draw.tops, strict=True))
                _put_topk(sequence.topk_sampled_logprobs, values, ids)
        n = len(request.prompt)
        last = asked.prompt_logprobs_last_n or n
        if asked.prompt_logprobs and request.scores is not None:
            response.prompt_logprobs = _at_end(request.scores[-last:], n, np.nan).tobytes()
        if asked.topk_prompt_logprobs and request.score_tops is not None:
            tops = zip(request.score_tops, (MASKED, 0), strict=True)
            _put_topk(response.topk_prompt_logprobs, *(_at_end(part[-last:], n, filler) for part, filler in tops))
        if self.targets is not None and asked.target_prompt_logprobs is not None:
            _put_targets(response.target_prompt_logprobs, asked.target_prompt_logprobs, self.targets)
        if self.alternatives is not None:
            tokens, logprobs = self.alternatives.drawn()
            _put_dense(response.prompt_alt_tokens.tokens, tokens.numpy().astype("<i8"), pb.DTYPE_INT64)
            _put_dense(response.prompt_alt_tokens.logprobs, logprobs.numpy().astype("<f4"), pb.DTYPE_FLOAT32)
        return bytes(response.SerializeToString())


def sampling(asked: Sample, vocabulary: int, context: int, ends: frozenset[int]) -> Sampling:
    """A request in the decoder's form; `ends` are the tokens that end an answer unless `stop` says otherwise.

    Raises:
        Fault: a field is out of range, does not fit another, or asks for what the engine does not do.
    """
    if asked.record_stability_info:
        raise Fault("record_stability_info: this engine does not record it", next_step="leave it out")
    prompt = prompt_tokens(asked.prompt, vocabulary)
    for name in ("topk_prompt_logprobs", "topk_sample_logprobs"):
        if getattr(asked, name) > vocabulary:
            raise Fault(f"{name}: {getattr(asked, name)} is more than the vocabulary's {vocabulary}")
    last = asked.prompt_logprobs_last_n
    if last is not None and (not asked.prompt_logprobs or last >= len(prompt)):
        raise Fault(f"prompt_logprobs_last_n: {last} needs prompt_logprobs and at most {len(prompt) - 1}")
    made = Sampling(asked, SampleRequest(prompt, _params(asked.sampling_params, len(prompt), context, ends)))
    if asked.target_prompt_logprobs is not None:
        made.targets = _targets(asked.target_prompt_logprobs, len(prompt) - 1, vocabulary)
    if asked.prompt_alt_tokens_k:
        params = asked.sampling_params
        made.alternatives = Alternatives(asked.prompt_alt_tokens_k, params.temperature, params.seed)
    probes = [probe for probe in (made.targets, made.alternatives) if probe is not None]
    scored = asked.prompt_logprobs or asked.topk_prompt_logprobs or probes
    request = made.request
    request.count, request.topk, request.score_topk = (
        asked.num_samples,
        asked.topk_sample_logprobs,
        asked.topk_prompt_logprobs,
    )
    if scored:
        request.score_from = 1 if probes or last is None else len(prompt) - last
    request.probes = tuple(probe.hear for probe in probes)
    return made


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
    check_tokens(np.array(tokens, np.int64), vocabulary, "prompt")
    return tokens


def _params(given: WireParams, prompt: int, context: int, ends: frozenset[int]) -> SamplingParams:
    room = context - prompt
    if room < (given.max_tokens or 0) or room < 1:
        asked = given.max_tokens or 0
        raise Fault(f"prompt: {prompt} tokens and max_tokens {asked} do not fit the context of {context}")
    stops = [given.stop] if isinstance(given.stop, str) else given.stop
    if stops is not None and "" in stops:
        raise Fault("sampling_params.stop: an empty text would end every answer", next_step="leave it out")
    return SamplingParams(
        max_tokens=min(DEFAULT_MAX_TOKENS, room) if given.max_tokens is None else given.max_tokens,
        temperature=given.temperature,
        top_k=given.top_k,
        top_p=given.top_p,
        seed=given.seed,
        stop_tokens=(ends if stops is None else frozenset()) | {stop for stop in stops or () if isinstance(stop, int)},
        stop_texts=tuple(stop for stop in stops or () if isinstance(stop, str)),
    )


def _targets(given: TargetTokens, rows: int, vocabulary: int) -> Targets:
    name = "target_prompt_logprobs"
    tokens = torch.tensor(given.data, dtype=torch.int64)
    if len(given.shape) != 2 or given.shape[0] != rows or given.shape[1] >= 2**31:
        raise Fault(f"{name}: the shape is {given.shape}, not [{rows}, k], a row for each token after the first")
    if given.sparse_crow_indices is None:
        counts = torch.full((rows,), given.shape[1])
    else:
        starts = torch.tensor(given.sparse_crow_indices, dtype=torch.int64)
        columns = given.sparse_col_indices or []
        inside = len(columns) == len(tokens) and max(columns, default=0) < given.shape[1]
        if len(starts) != rows + 1 or int(starts[0]) != 0 or not inside:
            raise Fault(f"{name}: sparse_crow_indices and sparse_col_indices do not fit the shape {given.shape}")
        counts = starts.diff()
    if bool((counts < 0).any()) or int(counts.sum()) != len(tokens):
        raise Fault(f"{name}: {len(tokens)} tokens do not fill the shape {given.shape}")
    if len(wrong := tokens[tokens >= vocabulary]):
        raise Fault(f"{name}: token {int(wrong[0])} is not in the vocabulary (0 to {vocabulary - 1})")
    return Targets(torch.arange(rows).repeat_interleave(counts), tokens)


def _at_end(scores: torch.Tensor, length: int, filler: float) -> Array:
    """The scores at the end of `length` rows, with `filler` before them."""
    array = scores.cpu().numpy()
    whole = np.full((length, *array.shape[1:]), filler, "<f4" if array.dtype.kind == "f" else "<i4")
    whole[length - len(array) :] = array
    return whole


def _put_topk(message: Any, values: Array, ids: Array) -> None:
    message.length, message.k = values.shape
    message.logprobs = values.astype("<f4").tobytes()
    message.token_ids = ids.astype("<i4").tobytes()


def _put_dense(message: Any, array: Array, dtype: int) -> None:
    message.dtype = dtype
    message.shape.extend(array.shape)
    message.dense = array.tobytes()


def _put_targets(message: Any, asked: TargetTokens, targets: Targets) -> None:
    """The scores in the layout of the request, dense or sparse."""
    message.dtype = pb.DTYPE_FLOAT32
    message.shape.extend(asked.shape)
    values = targets.logprobs.numpy().astype("<f4").tobytes()
    if asked.sparse_crow_indices is None:
        message.dense = values
    else:
        message.sparse_csr.values = values
        message.sparse_csr.crow_indices = np.array(asked.sparse_crow_indices, "<i8").tobytes()
        message.sparse_csr.col_indices = np.array(asked.sparse_col_indices or [], "<i8").tobytes()
