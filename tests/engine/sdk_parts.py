"""What the tests of the real SDK share: a short row to train on, and how they call a method and its async twin."""

import asyncio
import warnings

from tinker import Datum, ModelInput, SamplingParams

QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
ANSWER = "ANSWER: Paris.<|im_end|>\n"
PATIENCE = 60
"""Seconds that a call may take; the SDK repeats a 5xx for 300."""


def row(tokenizer):
    """The question, with weight on the answer."""
    tokens = tokenizer.encode(QUESTION + ANSWER)
    weights = [0.0] * len(tokenizer.encode(QUESTION)) + [1.0] * len(tokenizer.encode(ANSWER))
    inputs = {"target_tokens": tokens[1:], "weights": weights[1:]}
    return Datum(model_input=ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)


def loss(client, datum):
    return client.forward([datum], "cross_entropy").result().metrics["loss:sum"]


def ask(sampler, tokenizer, prompt=QUESTION, count=1, **params):
    given = SamplingParams(**{"max_tokens": 12, "temperature": 0.0, "stop": [tokenizer.eos_token_id]} | params)
    return sampler.sample(ModelInput.from_ints(tokenizer.encode(prompt)), count, given).result().sequences


def methods(kind):
    """The public methods of a client of the SDK that ask a server for something; async twins apart."""
    names = [name for name in dir(kind) if not name.startswith("_") and not name.endswith("_async")]
    return [name for name in names if name not in ("get_telemetry", "holder")]


def call(client, name, *arguments, **options):
    """What a method gives, waited for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are deprecated, and work
        found = getattr(client, name)(*arguments, **options)
        return found.result(timeout=PATIENCE) if hasattr(found, "result") else found


def call_async(client, name, *arguments, **options):
    """What its async twin gives, awaited; some give a future to await again."""

    async def wait():
        found = await getattr(client, f"{name}_async")(*arguments, **options)
        return await found if hasattr(found, "__await__") else found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return asyncio.run(asyncio.wait_for(wait(), PATIENCE))
