import dataclasses
import os

import pytest

from machine.dataset.merge import Pack
from machine.home import machine_home
from machine.tinker.service import Endpoint
from machine.training.config import Config
from machine.training.forecast import forecast
from machine.training.recipe import plan
from machine.training.run import Run, State

HERE, FAR = Endpoint("http://127.0.0.1:1", "k", "$K"), Endpoint("https://far.invalid", "k", "$K")


def packs(*lengths):
    return [Pack([0] * length, [0.0] * length, (i,)) for i, length in enumerate(lengths)]


@pytest.mark.parametrize(("steps", "looks"), [(1, 2), (2, 2), (3, 3), (4, 3), (5, 4)])
def test_tokens_are_those_of_the_batches_and_of_every_look_at_the_held_out_side(tmp_path, steps, looks):
    config = Config(model="m", renderer="r", batch_size=2, steps=steps, save_every=2)
    datums = packs(11, 21, 31)
    planned = plan(config, 3)
    made = forecast(config, planned, datums, packs(6, 7), HERE, tmp_path)
    assert made.tokens == sum([10, 20, 30][i] for step in range(steps) for i in planned.batch(step))
    assert made.held_out == looks * (5 + 6)
    assert (made.dollars, made.cost.partition(",")[0]) == (0, "nothing")


def test_dollars_are_of_training_and_of_reading(tmp_path):
    machine_home().mkdir(exist_ok=True)
    (machine_home() / "prices.yaml").write_text("m: {prefill: 10000, train: 100000}\n")
    config = Config(model="m", renderer="r", batch_size=1, steps=1)
    made = forecast(config, plan(config, 1), packs(11), packs(6), FAR, tmp_path)
    assert made.dollars == pytest.approx(10 * 0.1 + 10 * 0.01)
    assert made.cost.startswith("about $1.10")
    unknown = dataclasses.replace(made, dollars=None, cost="price not known")
    assert (
        forecast(Config(model="n", renderer="r", steps=1), plan(config, 1), packs(11), packs(6), FAR, tmp_path)
        == unknown
    )


def test_time_goes_by_the_last_whole_run_of_the_model_on_that_service(tmp_path):
    config = Config(model="m", renderer="r", batch_size=1, steps=1)

    def expected():
        return forecast(config, plan(config, 1), packs(101), [], HERE, tmp_path).seconds

    def ran(id, seconds, model="m", service="this machine", status="done"):
        run = Run(tmp_path / id)
        run.write_config({"recipe": {"model": model}, "service": service})
        run.write_state(State(status, 1, 1, "2026-01-01T00:00:00+00:00", os.getpid(), seconds=seconds))
        run.add_metrics({"step": 1, "tokens": 1000})

    assert expected() is None
    ran("1", 5.0)
    ran("2", 10.0)
    assert expected() == pytest.approx(1.0)
    ran("3", 100.0, model="other")
    ran("4", 100.0, service="elsewhere")
    ran("5", 100.0, status="failed")
    assert expected() == pytest.approx(1.0)
