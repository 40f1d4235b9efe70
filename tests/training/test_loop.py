"""The loop against the engine itself: a run to its end, one that was left and resumed, one whose service died."""

import dataclasses
import errno
import math
import os
import re
import signal
import threading

import pytest

from machine.dataset.merge import merged
from machine.dataset.render import datum, fingerprint, render
from machine.dataset.targets import expand
from machine.errors import TrainingError
from machine.store import files
from machine.tinker import probe
from machine.tinker import service as services
from machine.tinker.checkpoints import sampler
from machine.tinker.service import connect, endpoint
from machine.tinker.students import default_model, load_student, models
from machine.training import loop as loops
from machine.training.config import Config
from machine.training.loop import Loop, _stop_on_signal, open_model
from machine.training.recipe import plan
from machine.training.run import Run, State, new_id, now
from relay import relay
from students import questions, weather_row

STEPS = 5


@pytest.fixture
def begin(service, tmp_path):
    """Makes a loop over four short examples, two a step, on the service at hand or at another address."""

    def make(open_service, run=None, progress=lambda line: None, rows=None, held_out=()):
        model = default_model(models(open_service))
        config = Config(model=model, renderer="machine/chatml", batch_size=2, steps=STEPS, save_every=2, rank=4)
        student = load_student(model)
        examples = [render(student, target) for target in expand(rows or questions(4))]
        held = merged([render(student, target) for target in expand(held_out)])
        packs = merged(examples)
        if run is None:
            run = Run(tmp_path / new_id())
            run.write_config({"data": fingerprint(examples)})
            run.write_state(State("running", 0, STEPS, now(), os.getpid()))
        opening = open_model(open_service, config, run.id, run.resumable())
        planned = plan(config, len(packs))
        made = Loop(open_service, student, opening, packs, held, planned, run, config.save_every, progress)
        made.examples = examples
        return made

    return make


def test_a_run_learns_and_one_that_was_left_goes_on_exactly(begin):
    with connect(endpoint()) as here:
        whole = begin(here)
        assert whole().status == "done"
        losses = [line["loss"] for line in whole.run.metrics()]
        assert len(losses) == STEPS
        assert losses[-1] < losses[0] / 2

        left = begin(here, progress=lambda line: "step 2/" in line and os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(TrainingError, match="interrupted at step 3") as told:
            left()
        assert "is saved" in told.value.message
        assert f"--resume {left.run.id}" in told.value.next_step
        assert left.run.state.status == "interrupted"
        resumed = begin(here, Run(left.run.folder))
        assert resumed().step == STEPS
        assert [line["loss"] for line in left.run.metrics()] == losses
        assert left.run.sampler().probe == pytest.approx(whole.run.sampler().probe, abs=1e-4)

        taken = probe.of_sampler(here, sampler(here, whole.student.model, whole.run.sampler().sampler), whole.student)
        base = probe.of_sampler(here, sampler(here, whole.student.model, None), whole.student)
        assert probe.distance(taken, whole.run.sampler().probe) < probe.distance(base, taken) / 10
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_targets_of_a_conversation_go_as_one_datum_with_their_own_loss(begin):
    with connect(endpoint()) as here:
        loop = begin(here, rows=[weather_row(), *questions(1)])
        loop.plan = dataclasses.replace(loop.plan, steps=1)
        examples = loop.examples
        assert len(examples) == 3
        client = here.wait(loop.model, "opening")
        apart = client.forward([datum(example) for example in examples], "cross_entropy").result()
        nll = [
            -sum(p * w for p, w in zip(output["logprobs"].data, example.weights[1:], strict=True))
            for output, example in zip(apart.loss_fn_outputs, examples, strict=True)
        ]
        loop()
        first = loop.run.metrics()[0]
    assert first["loss"] == pytest.approx(sum(nll) / 3, rel=1e-5)
    assert first["examples"] == 3
    assert (
        first["tokens"]
        == sum(len(example.tokens) - 1 for example in examples[1:])
        < sum(len(e.tokens) for e in examples)
    )


def test_held_out_conversations_are_measured_with_every_state_and_never_trained(begin):
    rows = questions(6)
    with connect(endpoint()) as here:
        loop = begin(here, rows=rows[:4], held_out=rows[4:])
        held = [render(loop.student, target) for target in expand(rows[4:])]
        client = here.wait(open_model(here, Config(model=loop.student.model, renderer="r", rank=4), "base"), "opening")
        base = client.forward([datum(example) for example in held], "cross_entropy").result()
        loop()
    nll = [
        -sum(p * w for p, w in zip(output["logprobs"].data, example.weights[1:], strict=True))
        for output, example in zip(base.loss_fn_outputs, held, strict=True)
    ]
    measured = loop.run.held_out()
    assert [(each.step, each.examples) for each in measured] == [(0, 2), (2, 2), (4, 2), (STEPS, 2)]
    assert measured[0].loss == pytest.approx(sum(nll) / 2, rel=1e-4)
    assert measured[-1].loss < measured[0].loss
    assert sum(line["examples"] for line in loop.run.metrics()) == 2 * STEPS


def test_a_resumed_run_measures_what_the_one_before_did_not(begin):
    rows = questions(6)
    with connect(endpoint()) as here:
        whole = begin(here, rows=rows[:4], held_out=rows[4:])
        whole()
        stop = lambda line: "step 2/" in line and os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
        left = begin(here, progress=stop, rows=rows[:4], held_out=rows[4:])
        with pytest.raises(TrainingError, match="interrupted at step 3"):
            left()
        assert [each.step for each in left.run.held_out()] == [0, 2]
        begin(here, Run(left.run.folder), rows=rows[:4], held_out=rows[4:])()
    assert [each.step for each in left.run.held_out()] == [0, 2, 3, 4, STEPS]
    assert left.run.held_out()[-1].loss == pytest.approx(whole.run.held_out()[-1].loss, rel=1e-3)
    lines = (left.run.folder / "heldout.jsonl").read_text().splitlines()
    assert len(lines) == 5


def test_the_next_step_is_sent_before_a_state_and_a_measurement_are_waited_for(begin):
    rows, sent = questions(6), []
    with connect(endpoint()) as here:
        loop = begin(here, rows=rows[:4], held_out=rows[4:], progress=lambda line: sent.append(line.split("/")[0]))
        step, save = loop._step, loop._save
        loop._step = lambda number, data: (sent.append(f"sends {number + 1}"), step(number, data))[1]
        loop._save = lambda number, *rest: (sent.append(f"saves {number}"), save(number, *rest))[1]
        loop()
    assert sent.index("sends 3") < sent.index("step 2")
    assert sent.index("saves 2") < sent.index("sends 3")
    assert [each for each in sent if each.startswith("step")] == [f"step {n}" for n in range(1, STEPS + 1)]


def test_a_service_that_dies_leaves_a_run_that_can_go_on(begin, monkeypatch):
    monkeypatch.setattr(services, "PATIENCE", 1.0)
    where = endpoint()
    with relay(where.url) as between, connect(dataclasses.replace(where, base_url=between.url)) as there:
        held = questions(6)[4:]
        loop = begin(there, held_out=held, progress=lambda line: "step 3/" in line and between.cut())
        with pytest.raises(TrainingError, match=r"does not answer; the state after step 2 is saved") as told:
            loop()
    assert loop.run.state.status == "failed"
    assert told.value.next_step == f"machine engine start, then machine train run --resume {loop.run.id}"
    with connect(where) as here:
        assert begin(here, Run(loop.run.folder), held_out=held)().status == "done"
    assert [line["step"] for line in loop.run.metrics()] == [1, 2, 3, 4, 5]
    assert [each.step for each in loop.run.held_out()] == [0, 2, 4, 5]
    assert len((loop.run.folder / "heldout.jsonl").read_text().splitlines()) == 4  # that of step 2 is not taken again


@pytest.mark.parametrize("of", ["step", "held out", "probe"])
def test_a_number_that_is_none_ends_the_run_and_gets_into_no_file(begin, monkeypatch, of):
    """The engine refuses to train on such a loss; another service may not, and hand it on."""
    nll, taken = loops._nll, probe.of_trainer
    if of == "probe":
        monkeypatch.setattr(probe, "of_trainer", lambda *given: [*taken(*given)[1:], -math.inf])
    else:
        size = 2 if of == "step" else 1
        monkeypatch.setattr(loops, "_nll", lambda output, packs: math.nan if len(packs) == size else nll(output, packs))
    with connect(endpoint()) as here:
        loop = begin(here, held_out=questions(5)[4:])
        loop.plan = dataclasses.replace(loop.plan, steps=2)
        with pytest.raises(TrainingError, match=r"training ran away at learning rate 0.001; ") as told:
            loop()
    state = loop.run.state
    assert state.status == "failed"
    assert (told.value.next_step, state.next_step) == ("machine train run --learning-rate 0.00025",) * 2
    for path in loop.run.folder.glob("*.json*"):
        if path.name != "state.json":  # its cause is a text, and names the number
            assert not re.search(rb"nan|infinity|null", path.read_bytes(), re.IGNORECASE), path
    assert loop.run.sampler() is None


def test_a_rate_that_is_far_too_high_ends_the_run(begin):
    with connect(endpoint()) as here:
        loop = begin(here)
        loop.plan = dataclasses.replace(loop.plan, learning_rate=1e30)
        with pytest.raises(TrainingError, match="loss is nan"):
            loop()
    assert loop.run.state.status == "failed"
    assert all(math.isfinite(line["loss"]) for line in loop.run.metrics())


def test_it_trains_outside_the_main_thread_too(begin):
    found = []

    def work():
        with connect(endpoint()) as here:
            loop = begin(here)
            loop.plan = dataclasses.replace(loop.plan, steps=1)
            found.append(loop().status)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(120)
    assert found == ["done"]


def test_a_disk_that_fills_up_leaves_a_run_that_can_go_on(begin, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with connect(endpoint()) as here:
        with monkeypatch.context() as disk:
            loop = begin(here, progress=lambda line: "step 3/" in line and disk.setattr(files.os, "write", full))
            with pytest.raises(TrainingError, match=r"No space left.*; the state after step 2 is saved") as told:
                loop()
        assert told.value.next_step.startswith("free space")
        assert begin(here, Run(loop.run.folder))().status == "done"
    assert [line["step"] for line in loop.run.metrics()] == [1, 2, 3, 4, 5]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_terminal_that_is_closed_stops_as_ctrl_c_does():
    with _stop_on_signal() as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.wait(1)
