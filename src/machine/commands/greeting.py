"""Greeting: a few tokens from a model, through its own renderer, before Pi is given it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from machine.tinker.service import Service
    from tinker import SamplingClient

_TOKENS = 8


def greeting(service: "Service", base: str, client: "SamplingClient") -> str:
    """What the weights that `client` asks, of the base model `base`, say to a greeting.

    Raises:
        MachineError: no renderer is known for the base model, or the service fails.
    """
    from machine.evals.case import Case, Scorer
    from machine.evals.sample import Asker, Parameters, ask
    from machine.tinker.students import load_student

    case = Case("greeting", ({"role": "user", "content": "Say hello."},), Scorer("contains", ""))
    return ask(Asker(service, load_student(base), client), [case], Parameters(max_tokens=_TOKENS))[0].text
