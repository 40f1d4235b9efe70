"""Contributors: models that are asked for a reasoning, one after another, and the evidence of what they were asked."""

from collections.abc import Iterator, Sequence
from typing import Literal

from machine.correction.contract import (
    CONTRACT,
    INSTRUCTIONS,
    MOST_FAULT,
    MOST_TURN,
    Ask,
    ContractFault,
    ask_for,
    digest_of,
    read_answer,
    spelt,
)
from machine.correction.gates import Moment, check
from machine.correction.ledger import Caught, Correction, Evidence, NotProposed, Proposed
from machine.errors import ServiceError
from machine.host import Completion, Host
from machine.report import one_line
from machine.trace import Row

ATTEMPTS = 2
"""How often a contributor is asked: once more, with the parser's error, where its answer is not of the contract."""

_Said = tuple[Literal["user", "assistant"], str]


def propose(
    host: Host,
    correction: Correction,
    rows: Sequence[Row],
    moment: Moment,
    models: Sequence[str | None],
    wish: str = "",
) -> Iterator[Proposed | NotProposed]:
    """What each of the models proposes (None: the model that the user works with), as events of the ledger.

    `rows` are those of the rejected turn, in order. A host without a model yields nothing. A model that fails, or does
    not keep the contract, yields a `NotProposed` that says why; the others are still asked.
    """
    ask = ask_for(correction, rows, wish)
    number = len(correction.of(Proposed))
    for model in models:
        event = _one(host, correction.id, ask, moment, model, number + 1)
        if event is None:
            return
        number += isinstance(event, Proposed)
        yield event


def caught_by(reasoning: str, moment: Moment) -> tuple[Caught, ...]:
    """The gates that a reasoning fails, as the ledger keeps them."""
    return tuple(Caught(finding.rule, finding.reason) for finding in check(reasoning, moment))


def _one(
    host: Host, correction: str, ask: Ask, moment: Moment, model: str | None, number: int
) -> Proposed | NotProposed | None:
    said: list[_Said] = [("user", spelt(ask))]
    answers: list[Completion] = []
    prompt = fault = ""
    while len(answers) < ATTEMPTS:
        try:
            completion = host.complete(INSTRUCTIONS, said, model)
        except ServiceError as error:
            fault = one_line(error.message, MOST_FAULT)
            break
        if completion is None:
            return None
        answers.append(completion)
        prompt = digest_of([INSTRUCTIONS, said])
        try:
            answer = read_answer(completion.text, ask)
        except ContractFault as error:
            fault = str(error)
            said += [
                ("assistant", completion.text[:MOST_TURN]),
                ("user", f"{fault}. Answer again, with the JSON object alone."),
            ]
            continue
        return Proposed(
            correction=correction,
            proposal=number,
            reasoning=answer.reasoning,
            diagnosis=answer.diagnosis,
            evidence=_evidence(answers, prompt),
            caught=caught_by(answer.reasoning, moment),
        )
    evidence = _evidence(answers, prompt) if answers else None
    name = evidence.model if evidence else model or "the work model"
    why = f"asked {ATTEMPTS} times: {fault}" if len(answers) == ATTEMPTS else fault
    return NotProposed(correction=correction, model=name, why=why, evidence=evidence)


def _evidence(answers: Sequence[Completion], prompt: str) -> Evidence:
    return Evidence(
        contract=CONTRACT,
        model=answers[-1].model,
        prompt=prompt,
        attempts=len(answers),
        input_tokens=sum(each.input_tokens for each in answers),
        output_tokens=sum(each.output_tokens for each in answers),
        cost=sum(each.cost for each in answers),
    )
