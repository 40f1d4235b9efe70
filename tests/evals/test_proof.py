"""Which weights answered, asked of the engine: right ones pass, mixed-up ones are an error."""

import dataclasses
import math

import pytest

from machine.errors import Refused, ServiceError, TrainingError
from machine.evals.case import Case, Scorer
from machine.evals.proof import Proof, prove, same_base
from machine.evals.sample import Asker, Parameters, ask
from machine.tinker import probe
from machine.tinker.checkpoints import base_of, sampler
from machine.tinker.service import connect, endpoint
from machine.tinker.students import default_model, load_student, models
from students import user


def test_who_answers_is_proven(service):
    from machine.dataset.render import datum, render
    from machine.dataset.targets import expand
    from students import questions
    from tinker import AdamParams

    with connect(endpoint()) as here:
        model = default_model(models(here))
        student = load_student(model)
        trainer = here.wait(here.client.create_lora_training_client(model, rank=4, seed=0), "creating")
        untrained = here.wait(trainer.save_weights_for_sampler("untrained"), "saving").path
        data = [datum(render(student, target)) for target in expand(questions(2))]
        for _ in range(2):
            trainer.forward_backward(data, "cross_entropy")
            here.wait(trainer.optim_step(AdamParams(learning_rate=1e-3)), "training")
        trained = here.wait(trainer.save_weights_for_sampler("trained"), "saving").path
        saved = tuple(probe.of_trainer(here, trainer, student))
        assert base_of(here, trained) == model

        base_asker = Asker(here, student, sampler(here, model, None))
        asker = Asker(here, student, sampler(here, model, trained))
        base = prove(base_asker, None)
        proof = prove(asker, trained, base, saved)
        assert proof.path == trained
        assert proof.distance > 1e-3

        with pytest.raises(TrainingError, match="was asked for, the service's sampler is"):
            prove(base_asker, trained, base, saved)
        with pytest.raises(TrainingError, match="same log-probabilities as the base"):
            prove(Asker(here, student, sampler(here, model, untrained)), untrained, base)
        with pytest.raises(TrainingError, match="nearer to the base"):
            prove(asker, trained, base, base.probe)
        with pytest.raises(TrainingError, match="sampler is of"):
            prove(Asker(here, dataclasses.replace(student, model="other"), base_asker.client), None)

        same_base(base, prove(base_asker, None), proof)
        with pytest.raises(TrainingError, match="not answered by the base"):
            same_base(dataclass_of(base, proof.probe), base, proof)
        with pytest.raises(Refused, match="trained from"):
            sampler(here, "other", trained)
        with pytest.raises(ServiceError):
            sampler(here, model, trained + "-absent")

        cases = [Case(f"c{i}", (user(f"Say {i}."),), Scorer("contains", "")) for i in range(3)]
        samples = ask(asker, cases, Parameters(max_tokens=4))
        assert [s.case for s in samples] == ["c0", "c1", "c2"]
        assert all(1 <= s.tokens <= 4 for s in samples)
        again = ask(asker, cases, Parameters(max_tokens=4))
        assert [s.ids for s in samples] == [s.ids for s in again]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_ran_away_prove_nothing(service, monkeypatch, value):
    with connect(endpoint()) as here:
        model = default_model(models(here))
        asker = Asker(here, load_student(model), sampler(here, model, None))
        taken = probe.of_sampler(here, asker.client, asker.student)
        monkeypatch.setattr(probe, "of_sampler", lambda *given: [*taken[:-1], value])
        with pytest.raises(TrainingError, match="ran away") as told:
            prove(asker, None)
    assert "--learning-rate" in told.value.next_step


def dataclass_of(proof: Proof, taken: tuple[float, ...]) -> Proof:
    return Proof(proof.base_model, proof.path, taken)
