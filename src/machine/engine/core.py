"""The engine's state: one base model, the adapters in training, the samplers, and the thread that runs them.

`api`, `rest` and `chat` call it from the event loop. What touches tensors is queued for the model thread: methods whose
names begin with `do_` run there.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from machine.engine import checkpoints, wire
from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints
from machine.engine.faults import Fault, Gone, NotFound
from machine.engine.futures import PROTOBUF, Answer, Future, Futures, Job, Queue, Worker, guarded
from machine.engine.lora import ATTENTION, MLP, Lora
from machine.engine.model import Llama
from machine.engine.sampling import MAX_BATCH, Decoder, PrefixCache, SampleRequest
from machine.engine.trainer import Trainee, forward_backward
from machine.renderers import get_renderer, load_tokenizer, renderer_name

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Renderer
    from transformers import PreTrainedTokenizerFast as Tokenizer

BASE = "base"
"""The fingerprint of the weights that no adapter changed."""
MERGED = 2
"""Merged adapters kept in memory; each is some 0.8 of the base model's size."""
IDLE_SECONDS = 900.0
"""A session that is silent for so long has ended (the SDK sends a heartbeat every 10 s)."""
EPHEMERAL_SECONDS = 86400
"""How long weights live that were saved without a name."""


@dataclass(frozen=True)
class Source:
    """Weights to sample from: the base (`path` None) or a checkpoint as it is on disk at this moment."""

    path: CheckpointPath | None
    version: tuple[int, int] = (0, 0)


@dataclass
class Session:
    """A client's session: what it created dies with it, checkpoints apart."""

    id: str
    metadata: dict[str, str] | None
    display_name: str | None
    last_seen: float = field(default_factory=time.monotonic)
    models: list[str] = field(default_factory=list)
    samplers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """What is told about an adapter in training."""

    model_id: str
    rank: int
    modules: tuple[str, ...]
    metadata: dict[str, str] | None


class Engine:
    """Everything that a request may need."""

    def __init__(self, folder: Path, state: Path, dtype: torch.dtype = torch.float32) -> None:
        self.folder = folder
        self.model = Llama.load(folder, dtype)
        self.name = self.model.config.name
        self.tokenizer: Tokenizer = load_tokenizer(str(folder))
        self.renderer: Renderer = get_renderer(renderer_name(str(folder)), self.tokenizer)
        self.checkpoints = Checkpoints(state / "checkpoints")
        self.queue = Queue()
        self.futures = Futures(self.queue)
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, Run] = {}
        self.samplers: dict[str, Source] = {}
        self._trainees: dict[str, Trainee] = {}
        self._merged: OrderedDict[Source, tuple[Llama, str]] = OrderedDict()
        self._prefixes = PrefixCache()
        self._worker = Worker(self.queue, self.do_sample)

    @property
    def context(self) -> int:
        """Tokens that the model can hold."""
        return self.model.config.context

    def start(self) -> None:
        """Starts the model thread."""
        self._worker.start()

    def stop(self) -> None:
        """Ends the model thread after the job or the decoding step that it is at."""
        self.queue.close()
        self._worker.join(timeout=5.0)

    def session(self, id: str) -> Session:
        """A session by id; asking for it is a sign of life.

        Raises:
            Gone: it has ended, or the engine was started anew.
        """
        if (session := self.sessions.get(id)) is None:
            raise Gone(f"session_id: there is no session {id!r}", next_step="create a new client")
        session.last_seen = time.monotonic()
        return session

    def end_session(self, id: str) -> None:
        """Forgets a session with its models and samplers."""
        session = self.sessions.pop(id, None)
        if session is None:
            return
        for sampler in session.samplers:
            self.samplers.pop(sampler, None)
        for model_id in session.models:
            self.runs.pop(model_id, None)
            self._trainees.pop(model_id, None)
            self.futures.forget_order(model_id)

    def end_idle_sessions(self) -> None:
        """Ends the sessions whose client is gone."""
        oldest = time.monotonic() - IDLE_SECONDS
        for session in list(self.sessions.values()):
            if session.last_seen < oldest:
                self.end_session(session.id)

    def known_model(self, name: str | None) -> bool:
        """Whether `name` is this engine's base model."""
        return name in (self.name, str(self.folder))

    def run(self, model_id: str) -> Run:
        """What is known of a model in training.

        Raises:
            NotFound: there is none of this id.
        """
        if (run := self.runs.get(model_id)) is None:
            raise NotFound(f"model_id: there is no model {model_id!r}", next_step="create a training client first")
        return run

    def source(self, path: str | None) -> Source:
        """The weights at a tinker path, or the base.

        Raises:
            Fault: the path is malformed, or there is no such checkpoint.
        """
        if path is None:
            return Source(None)
        parsed = CheckpointPath.parse(path)
        return Source(parsed, self.checkpoints.version(parsed))

    def add_run(self, run: Run, session: Session) -> None:
        """Makes a model known; its first job must follow."""
        self.runs[run.model_id] = run
        session.models.append(run.model_id)

    def sample(
        self, id: str, request: SampleRequest, source: Source, answer: Callable[[SampleRequest], Answer]
    ) -> Future:
        """Queues a request for the weights at `source`; `answer` is called on the model's thread when it is done."""
        return self.futures.submit(id, lambda: answer(request), group=source, request=request)

    def do_create(self, run: Run, seed: int | None) -> Answer:
        """A fresh adapter."""
        self._trainees[run.model_id] = Trainee(run.model_id, Lora.new(self.model.config, run.rank, seed, run.modules))
        self._save_run(run)
        return Answer.json({"type": "create_model", "model_id": run.model_id})

    def do_forward_backward(self, request: wire.ForwardBackward) -> Answer:
        """Log-probabilities and, unless forward only, gradients."""
        trainee = self._trainee(request.model_id)
        data = wire.datums(request, self.model.config.vocabulary, self.context)
        outcome = forward_backward(self.model, trainee.lora, data, request.loss, backward=request.backward)
        return Answer(wire.encode_outcome(outcome), PROTOBUF)

    def do_optim_step(self, request: wire.OptimStep) -> Answer:
        """One step of the optimiser."""
        return Answer.json({"metrics": self._trainee(request.model_id).step(request.adam_params)})

    def do_save(self, run: Run, path: CheckpointPath, metadata: dict[str, str] | None, ttl: int | None) -> None:
        """Writes a checkpoint of the adapter as it is now."""
        trainee = self._trainee(run.model_id)
        state = trainee.optimizer.state_file() if path.kind == "weights" else None
        files = CheckpointFiles(trainee.lora.config_file(self.name), trainee.lora.weights_file(), state)
        facts = {"base_model": self.name, "user_metadata": metadata, "expires_at": checkpoints.expiry(ttl)}
        self.checkpoints.save(path, files, facts)
        self._save_run(run)

    def do_load(self, run: Run, path: CheckpointPath, *, optimizer: bool) -> Answer:
        """Puts a checkpoint in the place of the adapter (and, if asked, of the optimiser's state)."""
        files = self.checkpoints.read(path, optimizer=optimizer)
        trainee = Trainee(run.model_id, Lora.read(self.model.config, files.config, files.weights))
        if trainee.lora.rank != run.rank:
            raise Fault(f"path: the checkpoint has rank {trainee.lora.rank}, the model {run.rank}")
        if files.optimizer is not None:
            trainee.optimizer.load_state(files.optimizer)
        self._trainees[run.model_id] = trainee
        self._save_run(run)
        return Answer.json({"type": "load_weights", "path": str(path), "model_id": run.model_id})

    def do_sample(self, group: Hashable, more: Callable[[int], list[Job]]) -> None:
        """Answers the sample jobs of one source, those that arrive meanwhile too (see `futures.Batcher`)."""
        assert isinstance(group, Source)
        jobs, running = more(MAX_BATCH), list[Job]()
        try:
            model, weights = self._loaded(group)
            decoder = Decoder(model, weights, self._prefixes, self.tokenizer.decode)
            while jobs or running:
                running += [job for job in jobs if _admitted(decoder, job)]
                jobs = []
                decoder.step()
                for job in [job for job in running if job.request is not None and job.request.done]:
                    running.remove(job)
                    job.future.resolve(guarded(job.run))
                jobs = more(MAX_BATCH - decoder.active)
        except Exception as error:  # the boundary between these requests and the engine's life
            _fail(running + jobs, error)

    def _loaded(self, source: Source) -> tuple[Llama, str]:
        """The merged model of a source and its fingerprint."""
        if source.path is None:
            return self.model, BASE
        if source not in self._merged:
            files = self.checkpoints.read(source.path)
            while len(self._merged) >= MERGED:
                _, (_, weights) = self._merged.popitem(last=False)
                self._prefixes.drop(weights)
            lora = Lora.read(self.model.config, files.config, files.weights)
            self._merged[source] = (lora.merged(self.model), checkpoints.fingerprint(files.weights))
        self._merged.move_to_end(source)
        return self._merged[source]

    def _trainee(self, model_id: str) -> Trainee:
        if (trainee := self._trainees.get(model_id)) is None:
            raise NotFound(f"model_id: the model {model_id!r} is not loaded")
        return trainee

    def _save_run(self, run: Run) -> None:
        facts: dict[str, Any] = {"base_model": self.name, "rank": run.rank, "modules": run.modules}
        self.checkpoints.save_run(run.model_id, facts | {"user_metadata": run.metadata})


def modules_of(config: wire.LoraConfig) -> tuple[str, ...]:
    """The layers to train.

    Raises:
        Fault: neither attention nor MLP.
    """
    modules = (ATTENTION if config.train_attn else ()) + (MLP if config.train_mlp else ())
    if not modules:
        raise Fault("lora_config: train_attn and train_mlp are both false; there is nothing to train")
    return modules


def _admitted(decoder: Decoder, job: Job) -> bool:
    assert job.request is not None
    if job.future.cancelled or job.request.cancelled():
        job.future.resolve(Answer.failure("the request was cancelled", category="user"))
        return False
    try:
        decoder.admit(job.request)
    except Exception as error:  # the boundary between this request and the engine's life
        _fail([job], error)
        return False
    return True


def _fail(jobs: list[Job], error: Exception) -> None:
    def reraise() -> Answer:
        raise error

    answer = guarded(reraise)
    for job in jobs:
        job.future.resolve(answer)
