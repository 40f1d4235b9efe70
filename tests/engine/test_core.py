import asyncio

import pytest

from machine.engine.core import Engine
from machine.engine.futures import Answer
from machine.engine.sampling import Decoder, SampleRequest, SamplingParams


@pytest.mark.parametrize("part", ["__init__", "admit", "step"])
def test_out_of_memory_fails_the_request_and_the_engine_goes_on(small_folder, tmp_path, monkeypatch, part):
    def no_memory(*given):
        raise MemoryError("no room")

    async def main():
        engine = Engine(small_folder, tmp_path)
        engine.start()

        async def ask(id):
            request = SampleRequest([1], SamplingParams(2))
            future = engine.sample(id, request, engine.source(None), lambda done: Answer.json("done"))
            return (await future.wait(20)).body

        with monkeypatch.context() as patch:
            patch.setattr(Decoder, part, no_memory)
            assert await ask("a") == b'{"error":"MemoryError: no room","category":"server"}'
        assert await ask("b") == b'"done"'
        engine.stop()

    asyncio.run(main())
