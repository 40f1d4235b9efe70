"""Models are asked for a reasoning: once more where they do not keep the contract, and then they are passed over."""

import pytest

from contributions import answer
from hosts import ScriptedHost
from machine.correction.contract import INSTRUCTIONS, MOST_FAULT, MOST_TURN, digest_of
from machine.correction.contributor import propose
from machine.correction.ledger import NotProposed, Proposed
from machine.correction.link import rows_of
from machine.correction.moment import moment_of
from machine.errors import Refused, ServiceError

FIT = "The user asks for the test runner, which pyproject.toml configures, so I read pyproject.toml before I answer."


def proposals(rejected, host, models=(None,), **fields):
    correction = rejected.opened(**fields)
    rows = rows_of(rejected.ledger, correction.opened.rows)
    return list(propose(host, correction, rows, moment_of(rows, correction.opened, []), models))


def test_a_proposal_and_its_evidence(rejected):
    host = ScriptedHost(rejected.folder, completions=[answer(FIT)])
    [proposed] = proposals(rejected, host)
    assert isinstance(proposed, Proposed)
    assert (proposed.proposal, proposed.reasoning, proposed.caught) == (1, FIT, ())
    evidence = proposed.evidence
    assert (evidence.contract, evidence.model, evidence.attempts) == ("reasoning/1", "p/work", 1)
    assert (evidence.input_tokens, evidence.output_tokens, evidence.cost) == (100, 20, 0.001)
    assert len(evidence.prompt) == 64


def test_what_is_not_of_the_contract_is_asked_for_once_more_with_what_was_wrong(rejected):
    host = ScriptedHost(rejected.folder, completions=["Sure!", answer(FIT)])
    [proposed] = proposals(rejected, host)
    assert proposed.reasoning == FIT
    assert (proposed.evidence.attempts, proposed.evidence.output_tokens) == (2, 40)
    _, second = host.prompts
    assert [who for who, _ in second[1]] == ["user", "assistant", "user"]
    assert "not one JSON object" in second[1][2][1]


def test_a_model_that_never_keeps_the_contract_is_a_clear_failure(rejected):
    host = ScriptedHost(rejected.folder, completions=["Sure!", "{}"])
    [failed] = proposals(rejected, host)
    assert isinstance(failed, NotProposed)
    assert failed.why.startswith("asked 2 times: the answer is not one JSON object of the contract")
    assert failed.evidence.output_tokens == 40
    assert len(host.prompts) == 2


def test_several_models_propose_and_one_that_fails_stops_no_other(rejected):
    said = [answer(FIT), ServiceError("no key for q/b"), answer(FIT + " Then I answer.")]
    host = ScriptedHost(rejected.folder, completions=said)
    one, failed, two = proposals(rejected, host, models=("q/a", "q/b", "q/c"))
    assert [model for _, _, model in host.prompts] == ["q/a", "q/b", "q/c"]
    assert (one.proposal, failed.why, two.proposal) == (1, "no key for q/b", 2)
    assert (failed.model, failed.evidence) == ("q/b", None)


def test_a_service_that_fails_the_second_time_keeps_the_evidence_of_the_first(rejected):
    host = ScriptedHost(rejected.folder, completions=["x" * 1_000_000, ServiceError("over " + "y" * 1_000)])
    [failed] = proposals(rejected, host)
    assert (failed.model, failed.evidence.attempts, failed.evidence.output_tokens) == ("p/work", 1, 20)
    assert failed.why.startswith("over y")
    assert len(failed.why) <= MOST_FAULT
    assert len(host.prompts[1][1][1][1]) == MOST_TURN


def test_the_prompts_hash_is_of_all_that_was_sent(rejected):
    once = ScriptedHost(rejected.folder, completions=[answer(FIT)])
    twice = ScriptedHost(rejected.folder, completions=["Sure!", answer(FIT)])
    [first], [second] = (proposals(rejected, host) for host in (once, twice))
    assert first.evidence.prompt == digest_of([INSTRUCTIONS, once.prompts[0][1]])
    assert second.evidence.prompt == digest_of([INSTRUCTIONS, twice.prompts[1][1]])


def test_a_session_that_is_replaced_ends_it(rejected):
    host = ScriptedHost(rejected.folder, completions=[Refused("the session was replaced"), answer(FIT)])
    with pytest.raises(Refused):
        proposals(rejected, host, models=("q/a", "q/b"))


def test_a_host_without_a_model_proposes_nothing(rejected):
    assert proposals(rejected, ScriptedHost(rejected.folder)) == []


def test_a_proposal_that_fails_a_gate_says_which(rejected):
    host = ScriptedHost(
        rejected.folder, completions=[answer("I was trained to read pyproject.toml before I answer such a question.")]
    )
    [proposed] = proposals(rejected, host)
    assert "meta" in [caught.rule for caught in proposed.caught]
