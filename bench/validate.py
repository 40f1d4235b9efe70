"""How long an audit takes: 1,000 rows of some 2,000 tokens, tool turns of three targets each.

    python bench/validate.py [--rows N] [--model NAME ...]

Beside it, in the same run and over a part of the same rows, the alternative: the cookbook's renderer asked for each
target's prompt and example with no memory of what it has tokenised, and nothing checked. Ratios over 1 mean that the
audit is the faster one, checks included.
"""

import argparse
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from machine.dataset.audit import audit
from machine.dataset.render import render
from machine.dataset.targets import expand
from machine.renderers import get_renderer, load_tokenizer
from machine.tinker.students import load_student
from machine.trace import Row
from students import WEATHER, assistant, call, result, row, system, user

MODELS = ("HuggingFaceTB/SmolLM2-135M-Instruct", "thinkingmachines/Inkling-Small", "Qwen/Qwen3-8B")
TURNS = 3
ROUNDS = 3
SHARE = 10


def main() -> None:
    """Measures and prints."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--tokens", type=int, default=2000)
    options.add_argument("--model", action="append")
    given = options.parse_args()
    print(f"{'student':42} {'rows':>5} {'tokens a row':>12} {'seconds':>8} {'rows a minute':>14} {'against stock':>14}")
    for model in given.model or MODELS:
        student = load_student(model)
        rows = _rows(given.rows, given.tokens, len(student.encode(_words()[:4000])) / 4000)
        began = time.monotonic()
        found = audit(rows, student)
        seconds = time.monotonic() - began
        assert not found.faults, found.faults[:3]
        ratio = statistics.median(_ratio(model, rows[::SHARE]) for _ in range(ROUNDS))
        line = (
            f"{model:42} {len(rows):5} {found.tokens / len(rows):12.0f} {seconds:8.1f} {60 * len(rows) / seconds:14.0f}"
        )
        print(f"{line} {ratio:13.2f}x", flush=True)


def _ratio(model: str, rows: list[Row]) -> float:
    student = load_student(model)
    tokenizer = load_tokenizer(model)
    stock = replace(student, tokenizer=tokenizer, renderer=get_renderer(student.renderer_name, tokenizer))
    began = time.monotonic()
    for target in expand(rows):
        render(stock, target)
    between = time.monotonic()
    audit(rows, student)
    return (between - began) / (time.monotonic() - between)


def _rows(count: int, tokens: int, per_character: float) -> list[Row]:
    """Rows of source text: a system prompt, and turns of a call, its result and, at last, an answer."""
    source, rng = _words(), random.Random(0)
    characters = int(tokens / per_character)

    def text(share: float) -> str:
        length = int(characters * share)
        begin = rng.randrange(len(source) - length)
        return source[begin : begin + length]

    def made(number: int) -> Row:
        messages = [system(text(0.3)), user(text(0.05))]
        for _ in range(TURNS - 1):
            messages += [assistant("", call("weather", '{"city": "Oslo"}')), result(text(0.25))]
        return row(*messages, assistant(text(0.1)), tools=[WEATHER], number=number)

    return [made(number) for number in range(count)]


def _words() -> str:
    """The source of this project, as text that code sessions are made of; without what spells a control token."""
    files = sorted(Path(__file__).parent.parent.glob("src/machine/*/*.py"))
    return "\n".join(path.read_text() for path in files).replace("<", "(")


if __name__ == "__main__":
    main()
