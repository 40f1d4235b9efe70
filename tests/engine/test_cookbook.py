"""The unmodified cookbook's training loops against the running engine."""

import asyncio
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from cookbook_parts import (
    WORDS,
    VowelBuilder,
    advantage_gain,
    common,
    comparison,
    conversation,
    divergence,
    final_sampler,
    last_checkpoint,
    logprobs,
    metrics,
    nll,
    rendering,
    write_rows,
)
from peft import PeftModel
from safetensors.torch import load_file
from tinker_cookbook import weights
from tinker_cookbook.checkpoint_utils import CheckpointRecord, load_checkpoints_file
from tinker_cookbook.completers import TinkerMessageCompleter, TinkerTokenCompleter
from tinker_cookbook.distillation import sdft, train_off_policy
from tinker_cookbook.distillation.datasets import TeacherConfig
from tinker_cookbook.exceptions import WeightsDownloadError
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.preference.dpo_datasets import DPODatasetBuilderFromComparisons
from tinker_cookbook.preference.preference_datasets import ComparisonBuilderFromJsonl
from tinker_cookbook.recipes.decisions.decision import Decision, DecisionRenderer, sample_decision
from tinker_cookbook.recipes.sdft.datasets import SDFTDataset
from tinker_cookbook.rl import train as rl
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.supervised import train as supervised
from tinker_cookbook.supervised.data import FromConversationFileBuilder
from tinker_cookbook.supervised.nll_evaluator import NLLEvaluator
from tinker_cookbook.tokenizer_utils import register_tokenizer, unregister_tokenizer
from transformers import AutoModelForCausalLM

import tinker
from machine.renderers import CHATML, get_renderer, load_tokenizer

pytestmark = [
    pytest.mark.filterwarnings("ignore:DEPRECATED:FutureWarning"),  # how the cookbook calls this SDK
    pytest.mark.filterwarnings("ignore:.*NLLEvaluator:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def tokenizer(engine):
    """The model's tokenizer, known to the cookbook by the model's name."""
    found = load_tokenizer(str(engine.model_path))
    register_tokenizer(engine.model, lambda: found)
    yield found
    unregister_tokenizer(engine.model)


@pytest.fixture(scope="module")
def renderer(tokenizer):
    return get_renderer(CHATML, tokenizer)


@pytest.fixture(autouse=True)
def account(home, engine, renderer, monkeypatch) -> None:
    """The key, where the SDK looks for it; the address is in each loop's configuration."""
    monkeypatch.setenv("TINKER_API_KEY", engine.key)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """The loops set up the root logger for themselves."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture(scope="module")
def base(service, engine):
    return service.create_sampling_client(base_model=engine.model).result()


@dataclass(frozen=True)
class Taught:
    """A finished run of the supervised loop: two calls of it, the second of which went on from the first."""

    log: Path
    first: CheckpointRecord
    last: CheckpointRecord


@pytest.fixture(scope="module")
def lessons(engine, renderer, tmp_path_factory):
    rows = write_rows(tmp_path_factory.mktemp("data") / "rows.jsonl", [conversation(word) for word in WORDS])
    return FromConversationFileBuilder(common_config=rendering(engine, 2), file_path=rows, test_size=1)


@pytest.fixture(scope="module")
def held_out(lessons):
    """The datums of the test set."""
    return lessons()[1].get_batch(0)


@pytest.fixture(scope="module")
def taught(engine, lessons, held_out, tmp_path_factory) -> Taught:
    log = tmp_path_factory.mktemp("supervised")
    records = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_API_KEY", engine.key)
        for epochs in (1, 2):
            config = supervised.Config(
                **common(engine, log), dataset_builder=lessons, learning_rate=2e-3, lr_schedule="constant",
                num_epochs=epochs, eval_every=2, save_every=2, rolling_save_every=1,
                evaluator_builders=[lambda: NLLEvaluator(held_out, name="trainer")],
            )  # fmt: skip
            asyncio.run(supervised.main(config))
            records.append(last_checkpoint(log))
    return Taught(log, *records)


@pytest.fixture(scope="module")
def student(service, taught):
    """A sampler with what the supervised run has learnt."""
    return service.create_sampling_client(model_path=taught.last.sampler_path).result()


def test_supervised_learning_goes_on_from_its_checkpoint(service, taught, held_out):
    rows = metrics(taught.log)
    assert [(row["step"], row["epoch"]) for row in rows] == [(step, step // 2) for step in range(4)]
    assert rows[-1]["train_mean_nll"] < 0.3 * rows[0]["train_mean_nll"]
    evaluated = [row for row in rows if "test/nll" in row]
    assert [row["step"] for row in evaluated] == [0, 2]
    for row in evaluated:  # by the sampler's log-probabilities, and by the trainer's
        assert row["test/nll"] == pytest.approx(row["trainer/nll"], abs=1e-4)
    between_the_calls = service.create_sampling_client(model_path=taught.first.sampler_path).result()
    assert evaluated[1]["test/nll"] == pytest.approx(nll(between_the_calls, held_out), abs=1e-4)
    assert evaluated[1]["test/nll"] < 0.7 * evaluated[0]["test/nll"]


def test_what_the_supervised_run_leaves_behind(rest, taught, student, renderer):
    run = rest.get_training_run_by_tinker_path(taught.last.state_path).result()
    assert run.user_metadata["renderer_name"] == CHATML
    found = {c.checkpoint_id: c.expires_at for c in rest.list_checkpoints(run.training_run_id).result().checkpoints}
    names = {name for name in found if "ephemeral" not in name}
    assert names == {f"{kind}/{name}" for kind in ("weights", "sampler_weights") for name in ("000002", "final")}
    assert all((found[name] is None) == name.endswith("final") for name in names)  # the rolling ones are gone
    completer = TinkerMessageCompleter(student, renderer, max_tokens=6, temperature=0.0)
    answer = asyncio.run(completer([{"role": "user", "content": "Say wolf."}]))
    assert answer["content"].startswith("ANSWER: ")


def test_direct_preference_optimization(engine, tmp_path):
    rows = write_rows(tmp_path / "pairs.jsonl", [comparison(word) for word in WORDS[:2]])
    pairs = DPODatasetBuilderFromComparisons(
        common_config=rendering(engine, 1), comparison_builder=ComparisonBuilderFromJsonl(train_path=rows)
    )
    config = train_dpo.Config(
        **common(engine, tmp_path / "log"), dataset_builder=pairs, learning_rate=5e-4, num_epochs=1, eval_every=0,
        infrequent_eval_every=0, save_every=0,
    )  # fmt: skip
    train_dpo.main(config)
    found = metrics(tmp_path / "log")
    assert [row["num_pairs"] for row in found] == [1] * 2
    assert found[0]["dpo_loss"] == pytest.approx(math.log(2), abs=1e-4)  # the policy is the reference still
    assert found[0]["margin"] == pytest.approx(0.0, abs=1e-4)
    assert (found[1]["margin"] > 0, found[1]["accuracy"]) == (True, 1.0)
    assert found[1]["dpo_loss"] < 0.8 * math.log(2)  # on a pair that was not trained on


def test_reinforcement_learning(engine, service, tmp_path):
    journal = []
    config = rl.Config(
        **common(engine, tmp_path), dataset_builder=VowelBuilder(model_name=engine.model, journal=journal),
        loss_fn="ppo", loss_fn_config={"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}, learning_rate=5e-5,
        max_tokens=8, eval_every=0, save_every=1,
    )  # fmt: skip
    asyncio.run(rl.main(config))
    rows = metrics(tmp_path)
    assert [(row["step"], row["env/all/total_episodes"]) for row in rows] == [(0, 4), (1, 4)]
    for row in rows:  # what the trainer says of the samples is what the sampler said
        assert row["optim/kl_sample_train_v2"] < 1e-6
    after_a_step = service.create_sampling_client(model_path=load_checkpoints_file(str(tmp_path))[0].sampler_path)
    assert advantage_gain(after_a_step.result(), journal[0]) > 0


QUESTIONS = [f"Say {word}." for word in WORDS[:2]]
GOLDEN = [f"ANSWER: {word}!" for word in WORDS[:2]]


@pytest.fixture(scope="module")
def untaught(service, base, renderer, engine):
    """The base model's likeliest answers with a shown model's soft targets, and how far from those the base model is."""
    builders, questions, golden = SDFTDataset(QUESTIONS, GOLDEN, 2, 1, renderer).get_batch(0)
    prompts = [sdft.build_sdft_teacher_prompt(*pair, renderer) for pair in zip(questions, golden, strict=True)]
    policy = TinkerTokenCompleter(base, max_tokens=8, temperature=0.0)

    async def rows() -> list[tinker.Datum]:
        groups = await asyncio.gather(*(do_group_rollout(builder, policy) for builder in builders))
        data, where = assemble_training_data(groups, compute_advantages(groups))
        return (await sdft.build_topk_distillation_datums(data, where, base, prompts, topk=8))[0]

    found = asyncio.run(rows())
    client = service.create_lora_training_client(engine.model, rank=8).result()
    return found, divergence(client, found)


@pytest.mark.parametrize("reverse", [False, True])
def test_self_distillation(engine, service, renderer, untaught, tmp_path, reverse):
    """At temperature 0 the loop's first batch is `untaught`: what it trains on is what is measured."""
    rows, before = untaught
    config = sdft.Config(
        **common(engine, tmp_path), max_tokens=8, temperature=0.0, learning_rate=2e-4, topk=8, reverse=reverse,
        eval_every=0, save_every=0,
    )  # fmt: skip
    asyncio.run(sdft.main(config, SDFTDataset(QUESTIONS, GOLDEN, 2, 1, renderer)))
    [row] = metrics(tmp_path)
    assert (row["sdft/topk"], row["sdft/num_datums"]) == (8, 2)
    client = service.create_training_client_from_state(last_checkpoint(tmp_path).state_path).result()
    after = divergence(client, rows)
    if reverse:
        assert row["sdft/reverse_kl_loss"] == pytest.approx(before.reverse_kl, rel=1e-4)
        assert after.reverse_kl < 0.8 * before.reverse_kl
    else:
        assert after.forward_kl < 0.8 * before.forward_kl


def test_distillation_from_a_teacher_on_given_rows(engine, service, taught, lessons, held_out, tmp_path):
    teacher = TeacherConfig(base_model=engine.model, load_checkpoint_path=taught.last.sampler_path)
    config = train_off_policy.Config(
        **common(engine, tmp_path), learning_rate=2e-3, batch_size=2, n_teacher_targets=5,
        dataset_configs=[train_off_policy.DatasetWithTeacher(dataset_builder=lessons, teacher_config=teacher)],
    )  # fmt: skip
    asyncio.run(train_off_policy.main(config))
    losses = [row["train/loss:sum"] for row in metrics(tmp_path)]
    assert len(losses) == 2
    assert losses[1] < 0.8 * losses[0]
    untaught = metrics(taught.log)[0]["test/nll"]
    assert nll(final_sampler(service, tmp_path), held_out) < 0.5 * untaught


def test_exported_weights_are_those_that_the_sampler_uses(engine, service, taught, student, renderer, tmp_path):
    client = service.create_training_client_from_state(taught.last.state_path).result()
    exported = client.save_weights_external("elsewhere").result().path
    adapter = weights.download(tinker_path=exported, output_dir=str(tmp_path / "adapter"), base_url=engine.url)
    given = {"base_model": str(engine.model_path), "adapter_path": adapter}
    weights.build_lora_adapter(**given, output_path=str(tmp_path / "peft"))
    weights.build_hf_model(**given, output_path=str(tmp_path / "merged"), dtype="float32", merge_strategy="full")
    adapted = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(engine.model_path, dtype=torch.float32), str(tmp_path / "peft")
    )
    row = renderer.build_supervised_example(conversation("wolf")["messages"])[0]
    tokens = torch.tensor([row.to_ints()])
    with torch.inference_mode():
        scores = adapted(tokens).logits[0, :-1].log_softmax(-1).gather(1, tokens[0, 1:, None])[:, 0]
    assert scores.tolist() == pytest.approx(student.compute_logprobs(row).result()[1:], abs=1e-4)
    expected = adapted.merge_and_unload().state_dict()
    found = load_file(tmp_path / "merged" / "model.safetensors")
    assert expected.keys() - found.keys() <= {"lm_head.weight"}  # tied to the embedding
    assert all(torch.allclose(found[name], expected[name], atol=1e-6) for name in found)


def test_an_encrypted_export_is_refused(engine, taught, tmp_path):
    """The cookbook would have a checkpoint of this kind encrypted on its way."""
    with pytest.raises(WeightsDownloadError, match="age_encryption_recipients"):
        weights.download(tinker_path=taught.last.state_path, output_dir=str(tmp_path), base_url=engine.url)


def test_a_decision_is_scored_for_every_choice_at_once(base, renderer):
    choice = Decision("What colour is the sky on a clear day?", [("blue", ""), ("plaid", "")])
    rendering = DecisionRenderer(renderer).render(choice)
    found = asyncio.run(sample_decision(base, rendering))
    rows = [rendering.with_label(label) for label in rendering.labels]
    scores = torch.tensor(logprobs(base, [(row[:-1], row[-1:]) for row in rows]))
    assert list(found) == ["blue", "plaid"]
    assert list(found.values()) == pytest.approx(scores.softmax(0).tolist(), abs=1e-4)
