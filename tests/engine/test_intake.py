import asyncio
import dataclasses
import json
import weakref

import pytest

from machine.engine.faults import Busy, Gone
from machine.engine.work.futures import CANCELLED, ENDED, STOPPED, Answer
from machine.engine.work.intake import Intake, Limits
from machine.engine.work.scheduling import Queue, Worker


class Bench:
    """An intake with a worker on the running loop; `done` tells what ran."""

    def __init__(self, **limits):
        self.queue = Queue()
        self.intake = Intake(self.queue, dataclasses.replace(Limits(), **limits))
        self.worker = Worker(self.queue, lambda group, more: False)
        self.done = []

    def ask(self, id, seq=None, order="a", answer=b"x", **facts):
        def run():
            self.done.append(id)
            return Answer(answer)

        facts = {"owner": "session"} | facts
        return self.intake.submit(id, run, order=order if seq else "", seq=seq, **facts)

    async def finish(self, *given):
        if not self.worker.is_alive():
            self.worker.start()
        return [(await future.wait(5)).body for future in given]


def run(main, **limits):
    async def with_bench():
        bench = Bench(**limits)
        try:
            await main(bench)
        finally:
            bench.queue.close()

    asyncio.run(with_bench())


def test_an_order_is_kept_whatever_arrives_first():
    async def main(bench):
        await bench.finish(*[bench.ask(n, n) for n in (3, 1, 4, 2)])
        assert bench.done == [1, 2, 3, 4]

    run(main)


def test_a_resend_finds_the_first_future_or_hears_that_its_answer_is_gone():
    async def main(bench):
        first = bench.ask("a:1", 1)
        assert bench.ask("a:1", 1) is first
        await bench.finish(first)
        assert bench.ask("a:1", 1) is first
        bench.intake.fetched(first)
        with pytest.raises(Gone):
            bench.ask("a:1", 1)
        assert bench.done == ["a:1"]

    run(main, kept=0)


def test_the_number_of_requests_is_bounded_for_one_session_and_for_all():
    async def main(bench):
        given = [bench.ask(n) for n in range(3)]
        with pytest.raises(Busy, match="3 requests"):
            bench.ask("more")
        given.append(bench.ask("else", owner="other"))
        with pytest.raises(Busy):
            bench.ask("more", owner="third")
        await bench.finish(*given)
        with pytest.raises(Busy):
            bench.ask("more", owner="third")
        bench.intake.fetched(given[0])
        assert bench.ask("more", owner="third")

    run(main, open=4, open_each=3)


def test_requests_and_answers_are_bounded_by_bytes():
    async def main(bench):
        given = [bench.ask(1, weight=60, answer=b"x" * 90)]
        with pytest.raises(Busy, match="bytes"):
            bench.ask(2, weight=60)
        given.append(bench.ask(3, weight=40, answer=b"x" * 90))
        await bench.finish(*given)
        with pytest.raises(Busy, match="180 bytes"):
            bench.ask(2)
        bench.intake.fetched(given[0])
        assert bench.intake.get(1) is given[0]
        bench.intake.fetched(given[1])
        with pytest.raises(Gone):
            bench.intake.get(1)
        assert bench.intake.get(3) is given[1]

    run(main, open_bytes=100, kept_bytes=100)


def test_who_fills_a_gap_is_always_let_in():
    async def main(bench):
        held = [bench.ask(n, n) for n in (2, 3)]
        with pytest.raises(Busy):
            bench.ask(4, 4)
        await bench.finish(bench.ask(1, 1), *held)
        assert bench.done == [1, 2, 3]

    run(main, open=2)


def test_requests_behind_one_that_never_came_fail_and_name_it():
    async def main(bench):
        first, *held = bench.ask(1, 1), bench.ask(3, 3), bench.ask(5, 5)
        bench.intake.tend()
        assert await held[0].wait(0.05) is None
        bench.intake.limits = dataclasses.replace(bench.intake.limits, missing_seconds=0.0)
        bench.intake.tend()
        assert await bench.finish(first) == [b"x"]
        answers = [json.loads(body) for body in await bench.finish(*held)]
        assert {answer["category"] for answer in answers} == {"user"}
        assert all("request 2 never came" in answer["error"] for answer in answers)
        with pytest.raises(Gone):
            bench.ask(2, 2)
        assert await bench.finish(bench.ask(6, 6)) == [b"x"]
        assert bench.done == [1, 6]

    run(main)


def test_a_session_that_ends_leaves_nothing_behind():
    async def main(bench):
        waits, held, other = bench.ask(1, 1), bench.ask(3, 3), bench.ask("o", owner="other")
        bench.intake.end("session")
        assert await bench.finish(waits, held, other) == [ENDED.body, ENDED.body, b"x"]
        assert bench.done == ["o"]
        assert bench.intake._turns == {}
        bench.intake.fetched(other)
        assert bench.intake._futures == {}

    run(main, kept=0)


def test_what_waits_can_be_cancelled_and_those_behind_it_go_on():
    async def main(bench):
        first, second, third = (bench.ask(n, n) for n in (1, 2, 3))
        bench.intake.cancel(second)
        assert await second.wait(1) == CANCELLED
        await bench.finish(first, third)
        assert bench.done == [1, 3]

    run(main)


def test_answers_that_nobody_fetches_are_dropped():
    async def main(bench):
        await bench.finish(bench.ask(1))
        bench.intake.tend()
        with pytest.raises(Gone):
            bench.intake.get(1)

    run(main, unfetched_seconds=0.0, kept=0)


def test_a_request_is_freed_when_it_is_answered_and_its_answer_when_it_is_fetched():
    class Rows:
        """What a decoded request holds."""

        def __call__(self):
            return Answer(b"x" * 1000)

    async def main(bench):
        rows = [Rows() for _ in range(3)]
        alive = [weakref.ref(each) for each in rows]
        given = [bench.intake.submit(n, each, order="a", seq=n) for n, each in enumerate(rows, 1)]
        del rows
        await bench.finish(*given)
        bench.queue.close()
        bench.worker.join(5)
        assert [each() for each in alive] == [None] * 3
        answers = [weakref.ref(future) for future in given]
        for future in given:
            bench.intake.fetched(future)
        del given, future
        await asyncio.sleep(0.01)
        assert [each() for each in answers] == [None] * 3

    run(main, kept=0)


def test_closing_answers_everyone():
    async def main(bench):
        given = [bench.ask(1, 1), bench.ask(3, 3)]
        bench.intake.close()
        assert await bench.finish(*given) == [STOPPED.body] * 2
        assert bench.done == []

    run(main)
