import os
import subprocess
import sys

import pytest

from machine.errors import Refused, StoreError
from machine.training.run import Checkpoint, HeldOut, Run, State, find_run, new_id, runs


def made(folder, id, **fields):
    run = Run(folder / id)
    run.write_config({"recipe": {}})
    state = {"status": "done", "step": 2, "steps": 2, "started_at": "2026-01-01T00:00:00+00:00", "pid": os.getpid()}
    run.write_state(State(**state | fields))
    return run


def test_a_run_reads_back_what_it_kept(tmp_path):
    run = made(tmp_path, new_id())
    run.add_metrics({"step": 1, "loss": 2.0})
    run.add_metrics({"step": 2, "loss": 1.0})
    run.add_checkpoint(Checkpoint(1, state="tinker://a/weights/1"))
    run.add_checkpoint(Checkpoint(2, sampler="tinker://a/sampler_weights/2", probe=(0.5, 1.5)))
    again = Run(run.folder)
    assert [m["loss"] for m in again.metrics()] == [2.0, 1.0]
    assert again.resumable().step == 1
    assert again.sampler().probe == (0.5, 1.5)
    assert {p.stat().st_mode & 0o777 for p in run.folder.iterdir()} == {0o600}


def test_a_step_done_again_counts_once(tmp_path):
    run = made(tmp_path, "r")
    for step, loss in ((1, 3.0), (2, 2.0), (2, 1.5)):
        run.add_metrics({"step": step, "loss": loss})
    assert [m["loss"] for m in run.metrics()] == [3.0, 1.5]


def test_a_measurement_done_again_counts_once(tmp_path):
    run = made(tmp_path, "r")
    assert run.held_out() == []
    for step, loss in ((0, 3.0), (4, 2.0), (2, 2.5), (4, 1.5)):
        run.add_held_out(HeldOut(step, loss, 6))
    assert [(each.step, each.loss) for each in run.held_out()] == [(0, 3.0), (2, 2.5), (4, 1.5)]


def test_a_torn_line_is_not_read(tmp_path):
    run = made(tmp_path, "r")
    run.add_metrics({"step": 1, "loss": 3.0})
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert len(run.metrics()) == 1


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path):
    run = made(tmp_path, "a", status="running")
    assert run.state.status == "interrupted"
    run.claim()
    assert run.state.status == "running"


def test_one_process_trains_a_run_at_a_time(tmp_path):
    run = made(tmp_path, "b", status="running")
    run.claim()
    for second in (Run(run.folder).claim, Run(run.folder).refuse_running):
        words = f"run b is being trained by process {os.getpid()}, since 2026-01-01.*, and is at step 2 of 2"
        with pytest.raises(Refused, match=words) as refused:
            second()
        assert "resume" in refused.value.next_step


def test_a_run_whose_process_died_is_in_nobody_s_way(tmp_path):
    run = made(tmp_path, "c", status="running")
    code = "import sys; from pathlib import Path; from machine.training.run import Run; r = Run(Path(sys.argv[1]))"
    code += "; r.claim(); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(Refused, match="being trained"):
            run.refuse_running()
        child.kill()
        child.wait()
        run.refuse_running()
        run.claim()


def test_no_number_that_is_not_finite_gets_into_a_file(tmp_path):
    run = made(tmp_path, "r")
    with pytest.raises(ValueError):
        run.add_metrics({"step": 1, "loss": float("nan")})
    with pytest.raises(ValueError):
        run.write_config({"estimate": float("inf")})
    assert run.metrics() == []


def test_finding_a_run(tmp_path):
    with pytest.raises(Refused, match="no training run"):
        find_run(tmp_path)
    first, second = made(tmp_path, "20260101-000000-aaaa"), made(tmp_path, "20260102-000000-bbbb")
    assert [r.id for r in runs(tmp_path)] == [second.id, first.id]
    assert find_run(tmp_path).id == second.id
    assert find_run(tmp_path, "aaaa").id == first.id
    with pytest.raises(Refused, match="2 runs"):
        find_run(tmp_path, "2026")


def test_a_torn_line_is_cut_off_by_the_next_one(tmp_path):
    run = made(tmp_path, "r")
    run.add_metrics({"step": 1, "loss": 3.0})
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 2, "lo')
    run.add_metrics({"step": 2, "loss": 2.0})
    assert [m["loss"] for m in run.metrics()] == [3.0, 2.0]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("state.json", lambda run: run.state),
        ("config.json", lambda run: run.config),
        ("metrics.jsonl", Run.metrics),
        ("checkpoints.jsonl", Run.checkpoints),
        ("heldout.jsonl", Run.held_out),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, read):
    run = made(tmp_path, "r")
    (run.folder / name).write_text('{"step": 1, "lo\n')
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        read(run)
