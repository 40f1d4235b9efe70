import asyncio

import pytest

from machine.engine import futures
from machine.engine.faults import Busy, Fault, Gone
from machine.engine.futures import Answer, Futures, Queue, Worker
from machine.engine.sampling import SampleRequest, SamplingParams


def alone(group, more):
    raise AssertionError("nothing is sampled here")


class Bench:
    """Futures and a worker on the running loop."""

    def __init__(self, batcher=alone):
        self.queue = Queue()
        self.futures = Futures(self.queue)
        self.worker = Worker(self.queue, batcher)
        self.done = []

    def job(self, name):
        return lambda: self.done.append(name) or Answer.json(name)

    async def finish(self, *given):
        self.worker.start()
        answers = [await future.wait(5) for future in given]
        self.queue.close()
        return [answer.body for answer in answers]


def test_an_order_is_kept_whatever_arrives_first():
    async def main():
        bench = Bench()
        given = [bench.futures.submit(f"a:{n}", bench.job(n), order="a", seq=n) for n in (3, 1, 4, 2)]
        await bench.finish(*given)
        assert bench.done == [1, 2, 3, 4]

    asyncio.run(main())


def test_a_resend_finds_the_first_future():
    async def main():
        bench = Bench()
        first = bench.futures.submit("a:1", bench.job(1), order="a", seq=1)
        assert bench.futures.submit("a:1", bench.job(1), order="a", seq=1) is first
        await bench.finish(first)
        assert bench.done == [1]
        with pytest.raises(Gone):
            bench.futures.submit("other", bench.job(1), order="a", seq=1)

    asyncio.run(main())


def test_failures_are_answers_by_whose_fault_it_is(capsys):
    async def main():
        bench = Bench()

        def fails(error):
            def run():
                raise error

            return run

        given = [bench.futures.submit(str(i), fails(e)) for i, e in enumerate((Fault("bad field"), RuntimeError("x")))]
        after = bench.futures.submit("after", bench.job("after"))
        user, server, ok = await bench.finish(*given, after)
        assert user == b'{"error":"bad field","category":"user"}'
        assert b'"category":"server"' in server
        assert ok == b'"after"'

    asyncio.run(main())
    assert "RuntimeError: x" in capsys.readouterr().err


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(futures, "MAX_OPEN", 3)
    monkeypatch.setattr(futures, "KEEP_FETCHED", 1)

    async def main():
        bench = Bench()
        given = [bench.futures.submit(str(i), bench.job(i)) for i in range(3)]
        with pytest.raises(Busy):
            bench.futures.submit("more", bench.job(9))
        await bench.finish(*given)
        for future in given[:2]:
            bench.futures.fetched(future)
        with pytest.raises(Gone):
            bench.futures.get("0")
        assert bench.futures.get("1") is given[1]

    asyncio.run(main())


def test_jobs_of_one_group_run_together_and_overtake_nothing():
    batches = []

    def batcher(group, more):
        jobs = more(8)
        batches.append((group, len(jobs)))
        for job in jobs:
            job.future.resolve(Answer.json(group))

    async def main():
        bench = Bench(batcher)

        def ask(id, group):
            request = SampleRequest([1], SamplingParams(1))
            return bench.futures.submit(id, bench.job(id), group=group, request=request)

        given = [ask("1", "x"), ask("2", "x"), bench.futures.submit("t", bench.job("t")), ask("3", "x"), ask("4", "y")]
        await bench.finish(*given)
        assert batches == [("x", 2), ("x", 1), ("y", 1)]

    asyncio.run(main())


def test_an_ended_session_frees_what_waits_for_its_turn():
    async def main():
        bench = Bench()
        held = bench.futures.submit("a:2", bench.job(2), order="a", seq=2)
        bench.futures.forget_order("a")
        assert b"ended" in (await held.wait(1)).body

    asyncio.run(main())
