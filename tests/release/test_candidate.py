"""A candidate: a run whose own records keep to the bounds, and were not edited since it was done."""

import datetime
import json

import pytest
from released import MODEL, Work

from machine.errors import Refused
from machine.release.candidate import candidate_of, edited
from machine.training.run import RECORDS, HeldOut

TOMORROW = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)).isoformat(timespec="seconds")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    work = Work(tmp_path_factory.mktemp("work")).frozen()
    work.found = work.place.read()
    return work


def named(work, run, frozen=""):
    return candidate_of(run, work.found, frozen or work.standing.frozen)


def refused(work, run, frozen="") -> str:
    with pytest.raises(Refused) as found:
        named(work, run, frozen)
    assert found.value.next_step
    assert "\n" not in found.value.message
    return found.value.message


def test_a_run_within_its_bounds(work):
    run = work.run()
    found = named(work, run)
    assert (found.run, found.rows, found.steps, found.rank, found.tokens) == (run.id, 24, 6, 16, 300)
    assert (found.learning_rate, found.cost, found.renderer) == (4.26e-4, 0.0, "machine/chatml")
    assert found.weights == run.sampler().sampler
    assert found.records == run.digests()
    assert edited(run, found) == []


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_was_edited_is_named(work, name):
    run = work.run()
    run.add_held_out(HeldOut(1, 1.0, 2))
    run.seal()
    found = named(work, run)
    path = run.folder / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    assert edited(run, found) == [name]
    assert refused(work, run) == (
        f"the records of run {run.id} cannot be relied on: {name} is not as it was when the run was done"
    )


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_was_removed_or_came_later_is_named(work, name):
    run = work.run()
    found = named(work, run)
    if (run.folder / name).exists():
        (run.folder / name).unlink()
    else:
        (run.folder / name).write_text("{}\n")
    assert edited(run, found) == [name]
    assert name in refused(work, run)


def test_a_run_without_its_seal(work):
    run = work.run()
    (run.folder / "seal.json").unlink()
    assert "seal.json is not as it was" in refused(work, run)


def test_a_run_that_is_called_after_another_day(work):
    run = work.run("20200101-120000-abcd")
    run.folder.rename(run.folder.parent / "20990101-120000-abcd")
    moved = type(run)(run.folder.parent / "20990101-120000-abcd")
    assert "seal.json is not as it was" in refused(work, moved)


@pytest.mark.parametrize("text", ["{", "[]", '{"config.json": 5}', "[" * 100_000, "\udcff"])
def test_a_damaged_seal(work, text):
    run = work.run()
    (run.folder / "seal.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "seal.json is damaged" in refused(work, run)


def test_records_that_were_edited_and_sealed_again_have_to_agree(work):
    run = work.run()
    metrics = (run.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run.folder / "metrics.jsonl").write_text("".join(metrics[:-2]))
    run.seal()
    assert "metrics.jsonl has 4 steps, the checkpoint is of step 6, the run was of 6, config.json says 6" in refused(
        work, run
    )
    (run.folder / "metrics.jsonl").write_text("".join(metrics))
    config = json.loads((run.folder / "config.json").read_text())
    config["recipe"]["learning_rate"] = 1e-4
    run.write_config(config)
    run.seal()
    assert "metrics.jsonl has a learning rate of 0.000426, config.json says 0.0001" in refused(work, run)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.json", '"rank": 16', '"rank": "many"'),
        ("config.json", '"rank": 16', '"rank": null'),
        ("config.json", '"rank": 16', '"rang": 16'),
        ("config.json", '"recipe"', '"recipes"'),
        ("config.json", "{", "[" * 100_000),
        ("metrics.jsonl", '"tokens": 50', '"tokens": "x"'),
        ("metrics.jsonl", '"tokens": 50', '"token": 50'),
        ("metrics.jsonl", "{", "5{"),
        ("checkpoints.jsonl", '"step":6', '"step":"6"'),
        ("state.json", '"done"', '"finished"'),
        ("state.json", '"started_at":"2', '"started_at":"x2'),
    ],
)  # fmt: skip
def test_records_without_their_form_are_refused_whoever_sealed_them(work, file, old, new):
    run = work.run()
    text = (run.folder / file).read_text()
    assert old in text
    (run.folder / file).write_text(text.replace(old, new, 1))
    run.seal()
    assert refused(work, run).startswith(f"the records of run {run.id} cannot be relied on: ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 40}, "steps 40, and 1 to 24 was preregistered"),
        ({"rank": 64}, "rank 64, and 1 to 16 was preregistered"),
        ({"learning_rate": 1e-2}, "learning rate 0.01, and 1e-05 to 0.000426 was preregistered"),
        ({"learning_rate": 1e-6}, "learning rate 1e-06, and 1e-05 to 0.000426 was preregistered"),
        ({"rows": 60}, "rows 60, and 12 to 48 was preregistered"),
        ({"tokens": 1_000_000}, "6,000,000 tokens, and at most 393,216 was preregistered"),
        ({"usd": 7.5}, "it cost about 7.50 USD, and at most 5.00 was preregistered"),
        ({"usd": None}, f"its cost is not known (no price of {MODEL};"),
        ({"model": "other/model"}, f"it trained other/model, and {MODEL} was preregistered"),
        ({"rows_sha256": "ab" * 32}, "it trained on other rows than the 24 that were preregistered"),
    ],
)
def test_out_of_a_bound_is_refused_with_both_figures(work, changes, words):
    run = work.run(**changes)
    message = refused(work, run)
    assert message.startswith(f"run {run.id} is out of the bounds of BR-000: ")
    assert words in message
    assert message.count("preregistered") + ("not known" in message) == 1, "nothing else is out of bounds"


def test_every_broken_bound_is_named(work):
    message = refused(work, work.run(steps=40, rank=64, model="other/model"))
    assert "steps 40" in message
    assert "rank 64" in message
    assert "other/model" in message


def test_the_bounds_themselves_are_within(work):
    assert named(work, work.run(steps=24, rank=16, learning_rate=1e-5, usd=5.0)).steps == 24


def test_a_run_that_began_before_the_freeze(work):
    run = work.run()
    assert f"run {run.id} began before BR-000 was frozen ({TOMORROW})" in refused(work, run, TOMORROW)


def test_a_resumed_run_keeps_its_first_beginning(work):
    run = work.run("20260101-120000-abcd")  # begun then, gone on with now
    assert "began before" in refused(work, run, "2026-01-01T12:00:01+00:00")
    assert named(work, run, "2026-01-01T12:00:00+00:00").run == run.id


def test_a_run_that_says_it_started_before_its_name_does(work):
    run = work.run(started="2020-01-01T00:00:00+00:00")
    assert "began before" in refused(work, run)


def test_a_run_whose_name_says_no_time(work):
    assert "its name is not that of a run" in refused(work, work.run("mine"))


@pytest.mark.parametrize("status", ["failed", "interrupted", "running"])
def test_a_run_that_is_not_done(work, status):
    run = work.run(status=status)
    assert refused(work, run).startswith(
        f"run {run.id} is {'interrupted' if status == 'running' else status}, not done"
    )


def test_a_run_that_is_gone(work):
    run = work.run()
    found = named(work, run)
    for file in run.folder.iterdir():
        file.unlink()
    assert set(edited(run, found)) == set(found.records)
    assert "cannot be relied on" in refused(work, run)
