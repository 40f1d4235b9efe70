"""Sample: ask every case of one model, all at once, greedily unless told otherwise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from machine.dataset.targets import text_of
from machine.errors import MachineError, Refused
from machine.evals.suite import Case
from machine.renderers import to_conversation
from machine.tinker.service import Service
from machine.tinker.students import Student

if TYPE_CHECKING:
    from tinker import ModelInput, SamplingClient


class Parameters(msgspec.Struct, frozen=True):
    """How answers are sampled; temperature 0 is greedy."""

    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0


class Sample(msgspec.Struct, frozen=True):
    """An answer. `text` is what a user would see; `stopped` is `stop` or `length`; `tokens` counts those sampled."""

    case: str
    text: str
    tokens: int
    stopped: str
    passed: bool = False


@dataclass(frozen=True)
class Asker:
    """A model that can be asked, with what renders its prompts and reads its answers."""

    service: Service
    student: Student
    client: "SamplingClient"

    def prompt(self, case: Case) -> "ModelInput":
        """The case's prompt, token for token what training would put before the answer.

        Raises:
            Refused: its messages or tools cannot be rendered.
        """
        try:
            conversation = to_conversation(self.student.renderer, case.messages, case.tools)
            prompt: ModelInput = self.student.renderer.build_generation_prompt(conversation)
        except MachineError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"case {case.id}: {self.student.renderer_name} cannot render it ({type(error).__name__}: {error})",
                next_step="mend or remove the case",
            ) from error
        return prompt


def ask(
    asker: Asker, cases: Sequence[Case], how: Parameters, progress: Callable[[str], None] = lambda line: None
) -> list[Sample]:
    """An answer to every case, in order; all are sent before the first is waited for.

    Raises:
        ServiceError: the service failed or went away.
    """
    from tinker import SamplingParams

    renderer = asker.student.renderer
    params = SamplingParams(
        max_tokens=how.max_tokens, temperature=how.temperature, seed=how.seed, stop=renderer.get_stop_sequences()
    )
    pending = [asker.client.sample(asker.prompt(case), 1, params) for case in cases]
    samples = []
    for case, waiting in zip(cases, pending, strict=True):
        sequence = asker.service.wait(waiting, f"asking {case.id}").sequences[0]
        message, _ = renderer.parse_response(list(sequence.tokens))
        stopped = str(sequence.stop_reason)
        samples.append(Sample(case.id, text_of(dict(message)), len(sequence.tokens), stopped))
        progress(f"asked {len(samples)}/{len(cases)}")
    return samples
