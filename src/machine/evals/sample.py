"""Sample: ask every case of one model, all at once, greedily unless told otherwise; answers come as they are done."""

import concurrent.futures
import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import msgspec

from machine.dataset.scan import Conversation
from machine.dataset.targets import text_of
from machine.errors import MachineError, Refused
from machine.renderers import to_conversation
from machine.tinker.service import Service
from machine.tinker.students import Student

if TYPE_CHECKING:
    from tinker import ModelInput, SampleResponse, SamplingClient

T = TypeVar("T")


class Parameters(msgspec.Struct, frozen=True):
    """How answers are sampled: `samples` of each case; temperature 0 is greedy, `top_p` 1 cuts nothing.

    `seed` is the evaluation's, from which each case has its own (see `seed_of`).
    """

    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 128
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    seed: int = 0
    samples: Annotated[int, msgspec.Meta(ge=1)] = 1
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer, the `number`th of its case.

    `text` is what a user would see, `message` the whole of it as it was parsed: thinking and tool calls too. `tokens`
    counts the sampled ones, `ids` are they; `stopped` is `stop` or `length`; `logprob` is their mean, in nats, None
    where it is not known or not finite. `seed` is what its case was drawn with. `score` is from 0 to 1.
    """

    case: str
    text: str
    tokens: int
    stopped: str
    passed: bool = False
    score: float = 0.0
    number: int = 0
    message: dict[str, Any] | None = None
    ids: tuple[int, ...] = ()
    prompt_tokens: int = 0
    seed: int = 0
    logprob: float | None = None


@dataclass(frozen=True)
class Asker:
    """A model that can be asked, with what renders its prompts and reads its answers."""

    service: Service
    student: Student
    client: "SamplingClient"

    def prompt(self, case: Conversation) -> "ModelInput":
        """The case's prompt (see `prompt_of`)."""
        return prompt_of(self.student, case)


def prompt_of(student: Student, case: Conversation) -> "ModelInput":
    """The case's prompt, token for token what training would put before the answer.

    Raises:
        Refused: its messages or tools cannot be rendered.
    """
    try:
        conversation = to_conversation(student.renderer, case.messages, case.tools)
        prompt: ModelInput = student.renderer.build_generation_prompt(conversation)
    except MachineError as error:
        raise Refused(f"case {case.id}: {error.message}", next_step="mend or remove the case") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(
            f"case {case.id}: {student.renderer_name} cannot render it ({type(error).__name__}: {error})",
            next_step="mend or remove the case",
        ) from error
    return prompt


def ask(
    asker: Asker,
    cases: Sequence[Conversation],
    how: Parameters,
    progress: Callable[[str], None] = lambda line: None,
    came: Callable[[Sequence[Sample]], None] = lambda samples: None,
) -> list[Sample]:
    """The answers to every case, in order.

    All are rendered before the first is sent, so that one that cannot be costs nothing; all are sent before the first
    is waited for. The SDK bounds how many are under way.

    Args:
        asker: the model.
        cases: what it is asked.
        how: `how.samples` answers are given to each case, one after another in the result.
        progress: told how far it is.
        came: given the answers to a case as soon as they are there, in whatever order that is.

    Raises:
        ServiceError: the service failed or went away; what came before was given to `came`.
    """
    from tinker import SamplingParams

    stop = asker.student.renderer.get_stop_sequences()
    seeds = [seed_of(how.seed, case.id) for case in cases]
    params = [
        SamplingParams(max_tokens=how.max_tokens, temperature=how.temperature, top_p=how.top_p, seed=seed, stop=stop)
        for seed in seeds
    ]
    prompts = [asker.prompt(case) for case in cases]
    sent = {
        asker.client.sample(prompt, how.samples, each).future(): index
        for index, (prompt, each) in enumerate(zip(prompts, params, strict=True))
    }
    found: dict[int, list[Sample]] = {}
    for index, response in as_completed(asker.service, sent, "asking the cases"):
        found[index] = _samples(asker, cases[index].id, prompts[index].length, seeds[index], response)
        came(found[index])
        progress(f"asked {len(found)}/{len(cases)}")
    return [sample for index in range(len(cases)) for sample in found[index]]


def _samples(asker: Asker, case: str, prompt_tokens: int, seed: int, response: "SampleResponse") -> list[Sample]:
    samples = []
    for number, sequence in enumerate(response.sequences):
        ids, logprobs = tuple(sequence.tokens), sequence.logprobs
        message = read_answer(asker.student, ids)
        samples.append(
            Sample(
                case=case,
                text=text_of(message),
                tokens=len(ids),
                stopped=str(sequence.stop_reason),
                number=number,
                message=message,
                ids=ids,
                prompt_tokens=prompt_tokens,
                seed=seed,
                logprob=_mean(logprobs),
            )
        )
    return samples


def seed_of(seed: int, case: str) -> int:
    """What a case is drawn with: another number for each case, so that chance does not treat all of them alike."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{case}".encode(errors="surrogatepass")).digest()[:4], "big") >> 1


def _mean(logprobs: Sequence[float] | None) -> float | None:
    mean = sum(logprobs) / len(logprobs) if logprobs else math.nan
    return round(mean, 6) if math.isfinite(mean) else None


def read_answer(student: Student, ids: Sequence[int]) -> dict[str, Any]:
    """The message that sampled tokens are; one of their text alone where the renderer cannot read them."""
    from tinker_cookbook.exceptions import RendererError

    try:
        parsed, _ = student.renderer.parse_response(list(ids))
    except RendererError:  # two ends of a message in one answer, say
        return {"role": "assistant", "content": student.tokenizer.decode(list(ids))}
    return plain_message(parsed)


def plain_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A renderer's message as JSON values."""
    return {key: _plain(value) for key, value in message.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def as_completed(
    service: Service, sent: Mapping["concurrent.futures.Future[T]", int], doing: str
) -> Iterator[tuple[int, T]]:
    """The results of `sent` in the order in which they come; what is not waited for any more is cancelled.

    Raises:
        ServiceError: as `Service.wait` says.
    """
    waiting = set(sent)
    try:
        while waiting:
            service.wait(_First(waiting), doing)
            done = {future for future in waiting if future.done()}
            waiting -= done
            for future in sorted(done, key=sent.__getitem__):
                yield sent[future], service.wait(_Done(future), doing)
    finally:
        for future in waiting:
            future.cancel()


@dataclass(frozen=True)
class _Done(Generic[T]):
    """A future as the SDK gives one."""

    of: "concurrent.futures.Future[T]"

    def future(self) -> "concurrent.futures.Future[T]":
        return self.of


@dataclass(frozen=True)
class _First:
    """Done when the first of several futures is."""

    of: "set[concurrent.futures.Future[Any]]"

    def future(self) -> "concurrent.futures.Future[None]":
        first: concurrent.futures.Future[None] = concurrent.futures.Future()

        def tell(_: object) -> None:
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                first.set_result(None)

        for each in self.of:
            each.add_done_callback(tell)
        return first
