"""Sampling: the engine against transformers and llama.cpp in one run. `python bench/engine/sampling.py`

The same model in float32 (llama.cpp: its float16 GGUF, written from the same weights; skipped without `xllamacpp`).
Everything is greedy and of a fixed length. The contestants take turns, round by round, and the best round of each
counts, since what else runs on the machine only makes a round slower. Decoding is timed from the first token on.

"random" is a prompt of random tokens, answered without guesses: nothing in it comes from speculation. "edit" asks for a
file back with a change, as agents do: there the engine answers with guesses (prompt lookup) and without. "student" is
the random prompt for an adapter of rank 32, against PEFT's merged one. The machine's limits are measured too, and the
share that decoding reaches: of the memory's speed for one request (all weights are read for each token), of the matrix
peak for eight. Needs the default model; 1 to 3 minutes.
"""

import os

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"

import argparse
import importlib.util
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from llama_cpp import LlamaCpp, write_f16
from peft import PeftModel
from timing import matrix_peak, seconds
from transformers import AutoModelForCausalLM

from machine.engine.models.attention import attention
from machine.engine.models.convert import ensure_model
from machine.engine.models.llama import Llama
from machine.engine.models.lora import Lora
from machine.engine.sampling import lookup
from machine.engine.sampling.decoding import Decoder
from machine.engine.sampling.passes import Pass, for_decoding
from machine.engine.sampling.prefixes import PrefixCache
from machine.engine.sampling.requests import SampleRequest, SamplingParams
from machine.renderers import load_tokenizer

ANSWER, PREFIX, LONG_ANSWER, RANK = 32, 2000, 128, 32
EDIT = """<|im_start|>user
Rename the class Lookup to Guesser. Answer with the whole file.

{}<|im_end|>
<|im_start|>assistant
"""


@dataclass
class Timed:
    """How many tokens came after the first, in how many seconds and passes over the weights; the first answer."""

    count: int
    seconds: float
    passes: int
    tokens: list[int]
    logprobs: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.count / self.seconds


def random_tokens(count: int, model: Llama, seed: int = 0) -> list[int]:
    """A prompt that says nothing."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, model.config.vocabulary, (count,), generator=generator).tolist()


def engine(model: Pass, prompts: list[list[int]], tokens: int, *, guessing: bool = False) -> Timed:
    """All prompts answered in one batch; the time runs from when all have their first token."""
    decoder = Decoder(model, "base", PrefixCache(), str, guessing=guessing)
    requests = [SampleRequest(prompt, SamplingParams(tokens, temperature=0.0)) for prompt in prompts]
    for request in requests:
        decoder.admit(request)
    while not all(request.draws for request in requests):
        decoder.step()
    had = sum(len(request.draws[0].tokens) for request in requests)
    began, passes = time.perf_counter(), 0
    while decoder.active:
        decoder.step()
        passes += 1
    taken = time.perf_counter() - began
    drawn = sum(len(request.draws[0].tokens) for request in requests) - had
    return Timed(drawn, taken, passes, requests[0].draws[0].tokens, requests[0].draws[0].logprobs)


def generate(model: torch.nn.Module, prompt: list[int], tokens: int) -> Timed:
    """An answer by transformers; the time of an answer of one token is subtracted."""
    given = torch.tensor([prompt])

    def run(count: int) -> tuple[list[int], float]:
        began = time.perf_counter()
        out = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=count, min_new_tokens=count,
                             do_sample=False, pad_token_id=0)  # fmt: skip
        return out[0, len(prompt) :].tolist(), time.perf_counter() - began

    _, first = run(1)
    answer, whole = run(tokens)
    return Timed(tokens - 1, whole - first, tokens - 1, answer)


def student(model: Llama) -> Lora:
    """A random adapter that changes what the model says."""
    lora = Lora.new(model.config, RANK, 0)
    generator = torch.Generator().manual_seed(1)
    for name, factor in lora.parameters.items():
        if name.endswith("B"):
            factor.data.normal_(0, 0.01, generator=generator)
    return lora


def merged_by_peft(folder: Path, adapter: Lora) -> torch.nn.Module:
    """The adapter merged into transformers' model by PEFT, which would change a tied embedding too."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "adapter_config.json").write_bytes(adapter.config_file(str(folder)))
        Path(place, "adapter_model.safetensors").write_bytes(adapter.weights_file())
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        base.lm_head.weight = torch.nn.Parameter(base.lm_head.weight.detach().clone())
        return PeftModel.from_pretrained(base, place).merge_and_unload()


def first_token(model: Pass, prompts: list[list[int]]) -> list[float]:
    """Seconds until the first token of each prompt, one after the other, with one prefix cache."""
    prefixes, taken = PrefixCache(), []
    for prompt in prompts:
        decoder = Decoder(model, "base", prefixes, str)
        began = time.perf_counter()
        decoder.admit(SampleRequest(prompt, SamplingParams(1, temperature=0.0)))
        while decoder.active:
            decoder.step()
        taken.append(time.perf_counter() - began)
    return taken


def difference(model: Llama, prompt: list[int], timed: Timed) -> float:
    """Mean difference of the sampler's log-probabilities from those of one pass over everything, as in training."""
    row = torch.tensor(prompt + timed.tokens)
    with torch.no_grad():
        hidden = model.forward(row, torch.arange(len(row)), lambda _, q, k, v: attention(q, k, v))
        scores = model.logits(hidden[len(prompt) - 1 : -1])
    own = scores.gather(1, row[len(prompt) :, None])[:, 0] - scores.logsumexp(-1)
    return float((own - torch.tensor(timed.logprobs)).abs().mean())


def limits() -> tuple[float, float]:
    """What the machine can do: bytes read a second, float32 operations a second."""
    much = torch.ones(60_000_000)
    return 4 * len(much) / seconds(much.sum, 6), matrix_peak()


def main() -> None:
    """Measures and prints, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a Hugging Face folder; default SmolLM2-135M-Instruct")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    folder = asked.model or ensure_model(print)
    base = Llama.load(folder, device=torch.device("cpu"))
    ours, theirs = for_decoding(base), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    adapter = student(base)
    ours_student, theirs_student = ours.adapted(adapter), merged_by_peft(folder, adapter)
    prompt = random_tokens(64, base)
    eight = [random_tokens(64, base, seed) for seed in range(8)]
    edit = load_tokenizer(str(folder)).encode(EDIT.format(Path(lookup.__file__).read_text("utf-8")))
    yardstick = None
    if importlib.util.find_spec("xllamacpp") is not None:
        path = Path(tempfile.mkdtemp()) / "f16.gguf"
        write_f16(base, folder, path)
        yardstick = LlamaCpp(path, torch.get_num_threads())
    engine(ours, eight, 3)  # compiles the kernels
    engine(ours, [prompt], 3)

    memory, peak = limits()
    alone, together, theirs_alone, cpp = list[Timed](), list[Timed](), list[Timed](), list[float]()
    students, theirs_students = list[Timed](), list[Timed]()
    for _ in range(asked.rounds):
        alone.append(engine(ours, [prompt], ANSWER))
        theirs_alone.append(generate(theirs, prompt, ANSWER))
        students.append(engine(ours_student, [prompt], ANSWER))
        theirs_students.append(generate(theirs_student, prompt, ANSWER))
        if yardstick is not None:
            cpp.append(yardstick.answer(prompt, ANSWER)["timings"]["predicted_per_second"])
        together.append(engine(ours, eight, ANSWER))
        again = limits()
        memory, peak = max(memory, again[0]), max(peak, again[1])
    one, many, other = (max(rounds, key=lambda timed: timed.speed) for rounds in (alone, together, theirs_alone))
    pupil, other_pupil = (max(rounds, key=lambda timed: timed.speed) for rounds in (students, theirs_students))
    guessed, plain = engine(ours, [edit], LONG_ANSWER, guessing=True), engine(ours, [edit], LONG_ANSWER)
    other_edit = generate(theirs, edit, ANSWER)
    shared = random_tokens(PREFIX, base)
    cold, warm = first_token(ours, [[*shared, 5, 6, 7], [*shared, 8, 9, 10]])

    weights = Pass(base).weight_bytes // 4
    figures = {
        "random: engine, tokens/s": one.speed,
        "random: generate, tokens/s": other.speed,
        "random: engine / generate": one.speed / other.speed,
        "student: engine, tokens/s": pupil.speed,
        "student: generate, tokens/s": other_pupil.speed,
        "student: engine / generate": pupil.speed / other_pupil.speed,
        "student: engine / random: engine": pupil.speed / one.speed,
        "8 requests, tokens/s": many.speed,
        "8 requests / 1": many.speed / one.speed,
        "edit: engine with guesses, tokens/s": guessed.speed,
        "edit: engine without, tokens/s": plain.speed,
        "edit: generate, tokens/s": other_edit.speed,
        "edit: tokens for each pass": guessed.count / guessed.passes,
        "edit: with guesses / generate": guessed.speed / other_edit.speed,
        "edit: without / generate": plain.speed / other_edit.speed,
        f"first token after {PREFIX} tokens, s": cold,
        "the same prefix again, s": warm,
        "again / first": warm / cold,
        "mean logp difference from one pass": difference(base, edit, guessed),
        "memory read, GB/s": memory / 1e9,
        "share reached by 1 request": ours.weight_bytes * one.passes / one.seconds / memory,
        "matrix peak, GFlop/s": peak / 1e9,
        "share reached by 8 requests": 2 * weights * many.count / many.seconds / peak,
    }
    if cpp:
        figures |= {"random: llama.cpp F16, tokens/s": max(cpp), "random: engine / llama.cpp F16": one.speed / max(cpp)}
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {folder.name}, float32\n")
    for name, value in figures.items():
        print(f"{name:<44}{value:>12.3g}")
    if not cpp:
        print("llama.cpp: skipped, xllamacpp is not installed (pip install xllamacpp)")
    print("\n" + json.dumps({name: float(f"{value:.4g}") for name, value in figures.items()}))


if __name__ == "__main__":
    main()
