import asyncio
import threading
import time

from machine.engine.sampling.requests import SampleRequest, SamplingParams
from machine.engine.work.futures import CANCELLED, Answer, Future
from machine.engine.work.scheduling import SAMPLED_AT_ONCE, Job, Queue, Worker


class Bench:
    """A worker on the running loop. Its sampler draws one "token" a step; `done` tells who had the model, in order."""

    def __init__(self):
        self.queue = Queue()
        self.worker = Worker(self.queue, self.sample)
        self.done, self.futures = [], []
        self.batches = {}

    def sample(self, group, more):
        batch = self.batches.setdefault(group, [])
        batch += more(4 - len(batch), {job.future.owner for job in batch})
        self.done.append((group, [job.future.id for job in batch]))
        time.sleep(0.002)
        for job in batch:
            job.request.draws.append("token")
        finished = [job for job in batch if len(job.request.draws) == job.request.params.max_tokens]
        for job in finished:
            job.future.resolve(job.run())
        self.batches[group] = [job for job in batch if job not in finished]
        return bool(self.batches[group])

    def train(self, owner, name, work=lambda: time.sleep(0.002)):
        def run():
            self.done.append(name)
            work()
            return Answer.json(name)

        return self.put(Job(Future(name, asyncio.get_running_loop(), owner), run))

    def ask(self, owner, name, group, tokens=1):
        request = SampleRequest([1], SamplingParams(tokens))
        future = Future(name, asyncio.get_running_loop(), owner)
        return self.put(Job(future, lambda: Answer.json(name), group, request))

    def put(self, job):
        self.queue.put(job)
        self.futures.append(job.future)
        return job.future

    async def finish(self):
        if not self.worker.is_alive():
            self.worker.start()
        answers = [await future.wait(10) for future in self.futures]
        self.queue.close()
        self.worker.join(5)
        return [None if answer is None else answer.body for answer in answers]


def test_sixty_four_jobs_of_one_session_do_not_hold_up_another():
    async def main():
        bench = Bench()
        for n in range(64):
            bench.train("greedy", n)
        bench.train("other", "other")
        bench.ask("chat", "question", "base")
        await bench.finish()
        assert [job for job in bench.done if isinstance(job, int)] == list(range(64))
        assert bench.done.index("other") <= 2
        assert bench.done.index(("base", ["question"])) <= 2

    asyncio.run(main())


def test_decoding_shares_the_time_with_training():
    async def main():
        bench = Bench()
        bench.ask("chat", "long", "base", tokens=30)
        for n in range(30):
            bench.train("session", n)
        await bench.finish()
        half = bench.done[:30]
        assert 5 < sum(isinstance(job, int) for job in half) < 25

    asyncio.run(main())


def test_sessions_alternate_in_a_batch_and_a_full_one_lets_a_newcomer_in():
    async def main():
        bench = Bench()
        for n in range(6):
            bench.ask("greedy", n, "base", tokens=3)
        bench.ask("modest", "a", "base", tokens=2)
        bench.ask("modest", "b", "base")
        bench.worker.start()
        while not bench.done:
            await asyncio.sleep(0.001)
        bench.ask("late", "c", "base")
        await bench.finish()
        assert bench.done[0] == ("base", [0, "a", 1, "b"])
        first = next(batch for _, batch in bench.done if "c" in batch)
        assert 5 not in first

    asyncio.run(main())


def test_only_a_few_sets_of_weights_decode_at_once_and_all_get_their_turn():
    async def main():
        bench = Bench()
        groups = [f"weights{n}" for n in range(SAMPLED_AT_ONCE + 2)]
        for group in groups:
            for n in range(3):
                bench.ask("session", f"{group}:{n}", group, tokens=5)
        assert None not in await bench.finish()
        for n, (group, _) in enumerate(bench.done):
            later = {other for other, _ in bench.done[n:]}
            started = {other for other, _ in bench.done[: n + 1]}
            assert len(later & started) <= SAMPLED_AT_ONCE, (n, group)

    asyncio.run(main())


def test_a_long_job_lets_others_sample_between_its_parts_but_none_train():
    async def main():
        bench = Bench()
        started, asked = threading.Event(), threading.Event()

        def long():
            started.set()
            asked.wait(5)
            for part in range(3):
                time.sleep(0.02)
                bench.worker.pause()
                bench.done.append(f"part {part}")

        bench.train("session", "long", long)
        bench.worker.start()
        started.wait(5)
        bench.train("other", "short")
        bench.ask("chat", "question", "base")
        asked.set()
        await bench.finish()
        assert bench.done == ["long", ("base", ["question"]), "part 0", "part 1", "part 2", "short"]

    asyncio.run(main())


def test_a_long_job_ends_between_its_parts_when_it_is_cancelled_or_the_engine_stops():
    async def main():
        for stop in (
            lambda bench, future: bench.queue.close(),
            lambda bench, future: setattr(future, "cancelled", True),
        ):
            bench = Bench()
            started = threading.Event()

            def long(bench=bench, started=started):
                started.set()
                while True:
                    time.sleep(0.01)
                    bench.worker.pause()

            future = bench.train("session", "long", long)
            bench.worker.start()
            started.wait(5)
            stop(bench, future)
            assert b'"category":"user"' in (await future.wait(5)).body
            bench.queue.close()
            bench.worker.join(5)
            assert not bench.worker.is_alive()
        bench.worker.pause()  # outside a job it does nothing

    asyncio.run(main())


def test_what_is_cancelled_or_removed_while_it_waits_never_runs():
    async def main():
        bench = Bench()
        bench.train("a", "first").cancelled = True
        bench.train("b", "second")
        gone = bench.ask("c", "third", "base")
        assert [job.future for job in bench.queue.remove(lambda job: job.future.owner == "c")] == [gone]
        bench.futures.remove(gone)
        assert await bench.finish() == [CANCELLED.body, b'"second"']
        assert bench.done == ["second"]

    asyncio.run(main())
