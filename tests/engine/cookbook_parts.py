"""Small data, an environment, and probes, for the tests of the cookbook's loops."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import chz
import torch
from tinker_cookbook.checkpoint_utils import CheckpointRecord, get_last_checkpoint
from tinker_cookbook.distillation.sdft import reverse_kl_custom_loss
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.problem_env import ProblemEnv, ProblemGroupBuilder
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RLDataset, RLDatasetBuilder, Trajectory
from tinker_cookbook.supervised.nll_evaluator import SamplerNLLEvaluator
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig
from tinker_cookbook.tokenizer_utils import get_tokenizer

import tinker
from fixtures_engine import RunningEngine
from machine.renderers import CHATML, get_renderer

WORDS = ("cat", "sun", "tree", "rain", "book")


def common(engine: RunningEngine, log: Path) -> dict[str, Any]:
    """What every loop is told."""
    return {
        "model_name": engine.model, "renderer_name": CHATML, "recipe_name": "machine_test", "base_url": engine.url,
        "lora_rank": 8, "log_path": str(log),
    }  # fmt: skip


def rendering(engine: RunningEngine, batch: int) -> ChatDatasetBuilderCommonConfig:
    """How a builder turns conversations into batches of rows."""
    return ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=engine.model, renderer_name=CHATML, max_length=128, batch_size=batch
    )


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    """A JSONL file; returns its path as the cookbook's builders take it."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def conversation(word: str) -> dict[str, Any]:
    """A question and the answer in the style to be learnt."""
    return {"messages": [_message("user", f"Say {word}."), _message("assistant", f"ANSWER: {word}!")]}


def comparison(word: str) -> dict[str, Any]:
    """A labelled pair of answers: B, in the style to be learnt, is the better one."""
    pair = {
        "prompt_conversation": [_message("user", f"Say {word}.")],
        "completion_A": [_message("assistant", f"Sure, here it is: {word}.")],
        "completion_B": [_message("assistant", f"ANSWER: {word}!")],
    }
    return {"comparison": pair, "label": "B"}


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def metrics(log: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`, one a step."""
    return [json.loads(line) for line in (log / "metrics.jsonl").read_text().splitlines()]


def last_checkpoint(log: Path) -> CheckpointRecord:
    """Where a run in this log folder would go on."""
    record = get_last_checkpoint(str(log))
    assert record is not None
    return record


def final_sampler(service: tinker.ServiceClient, log: Path) -> tinker.SamplingClient:
    """A sampler with the weights that a run has ended with."""
    return service.create_sampling_client(model_path=last_checkpoint(log).sampler_path).result()


def logprobs(sampler: tinker.SamplingClient, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """log p(answer | prompt) of each pair under a sampler's weights."""
    futures = [sampler.compute_logprobs(tinker.ModelInput.from_ints(prompt + answer)) for prompt, answer in pairs]
    return [sum(future.result()[len(prompt) :]) for future, (prompt, _) in zip(futures, pairs, strict=True)]


def nll(sampler: tinker.SamplingClient, data: list[tinker.Datum]) -> float:
    """Mean negative log-likelihood by the cookbook's evaluator."""
    return asyncio.run(SamplerNLLEvaluator(data)(sampler))["test/nll"]


def advantage_gain(sampler: tinker.SamplingClient, group: Sequence[Trajectory]) -> float:
    """By how much log p(answer), weighted by the answer's advantage, is above what it was when the group was sampled."""
    turns = [trajectory.transitions[0] for trajectory in group]
    now = logprobs(sampler, [(turn.ob.to_ints(), list(turn.ac.tokens)) for turn in turns])
    mean = sum(turn.reward for turn in turns) / len(turns)
    return sum((turn.reward - mean) * (new - sum(turn.ac.logprobs)) for turn, new in zip(turns, now, strict=True))


@dataclass(frozen=True)
class Divergence:
    """How far a student is from the teacher that gave the rows their soft targets [n, k], summed over the positions."""

    forward_kl: float
    reverse_kl: float


def divergence(client: tinker.TrainingClient, rows: list[tinker.Datum]) -> Divergence:
    """Both ways, by the cookbook's formulas on what the trainer returns."""
    output = client.forward(rows, "cross_entropy").result()
    logps = [each["logprobs"].to_torch() for each in output.loss_fn_outputs]
    entropy = sum(torch.special.entr(row.loss_fn_inputs["weights"].to_torch()).sum().item() for row in rows)
    return Divergence(output.metrics["loss:sum"] - entropy, reverse_kl_custom_loss(rows, logps)[0].item())


class VowelEnv(ProblemEnv):
    """Rewards the share of vowels among an answer's characters."""

    def __init__(self, renderer: Renderer) -> None:
        super().__init__(renderer, format_coef=0.0)

    def get_question(self) -> str:
        return "Tell me about the sun."

    def check_answer(self, sample_str: str) -> float:
        return sum(character in "aeiou" for character in sample_str) / max(1, len(sample_str))

    def check_format(self, sample_str: str) -> bool:
        return True

    def get_reference_answer(self) -> str:
        return "any vowel"


@dataclass(frozen=True)
class JournalGroup(ProblemGroupBuilder):
    """A group that writes its trajectories into `journal`."""

    journal: list[list[Trajectory]] = field(default_factory=list)

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        self.journal.append(trajectory_group)
        return await super().compute_group_rewards(trajectory_group, env_group)


class VowelDataset(RLDataset):
    """The same group in each of two batches."""

    def __init__(self, group: EnvGroupBuilder) -> None:
        self.group = group

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [self.group]

    def __len__(self) -> int:
        return 2


@chz.chz
class VowelBuilder(RLDatasetBuilder):
    """Groups of four, and no test set."""

    model_name: str
    journal: list[list[Trajectory]]

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        renderer = get_renderer(CHATML, get_tokenizer(self.model_name))
        return VowelDataset(JournalGroup(partial(VowelEnv, renderer), 4, journal=self.journal)), None
