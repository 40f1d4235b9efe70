import asyncio
import json
import logging

import pytest
import torch

from machine.engine.faults import Fault
from machine.engine.work.futures import CANCELLED, STOPPED, Answer, Future, failure
from machine.errors import StoreError


@pytest.mark.parametrize(
    ("error", "category", "message"),
    [
        (Fault("data[3].weights: off", next_step="mend it"), "user", "data[3].weights: off (mend it)"),
        (StoreError("disk full"), "server", "disk full"),
        (MemoryError(), "user", "out of memory (send fewer or shorter rows at a time, or less to sample)"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried ..."), "user", "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."), "user", "out of memory"),
        (RuntimeError("shape mismatch"), "server", "RuntimeError: shape mismatch"),
    ],
)
def test_a_failure_says_whose_fault_it_is_and_the_log_has_it(error, category, message, caplog):
    with caplog.at_level(logging.WARNING, "machine.engine"):
        answer = json.loads(failure(error, "session:train:0:7").body)
    assert answer["category"] == category
    assert answer["error"].startswith(message)
    [record] = caplog.records
    assert "session:train:0:7 failed" in record.getMessage()
    assert (record.exc_info is not None) == message.startswith("RuntimeError")


def test_torch_runs_out_of_memory_in_a_way_that_is_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert b"out of memory" in failure(caught.value, "x").body


def test_the_first_answer_stays_and_counts():
    async def main():
        future = Future("a", asyncio.get_running_loop(), weight=100)
        assert (future.size, await future.wait(0.01)) == (100, None)
        future.resolve(Answer(b"12345"))
        future.resolve(STOPPED)
        future.resolve(CANCELLED)
        assert (await future.wait(1)).body == b"12345"
        assert future.size == 5

    asyncio.run(main())
