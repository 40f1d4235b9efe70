"""The engine's state: one base model, the adapters in training, the samplers, and the thread that runs them.

`api`, `rest` and `chat` call it from the event loop. What touches tensors is queued for the model thread: methods whose
names begin with `do_` run there.
"""

import asyncio
import copy
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from machine.engine import checkpoints
from machine.engine.checkpoints import CheckpointFiles, CheckpointPath, Checkpoints
from machine.engine.faults import Fault, Gone, NotFound
from machine.engine.models.llama import Llama
from machine.engine.models.lora import ATTENTION, MLP, UNEMBED, Lora, tells_unembed, trained
from machine.engine.samplers import Samplers, Source, naming, read_adapter
from machine.engine.sampling.requests import SampleRequest
from machine.engine.training.optimizer import AdamParams
from machine.engine.training.trainer import Trainee, forward_backward
from machine.engine.wire import requests as wire
from machine.engine.wire import training as wire_training
from machine.engine.work.futures import PROTOBUF, Answer, Future
from machine.engine.work.intake import Intake, Limits
from machine.engine.work.scheduling import Queue, Worker
from machine.renderers import get_renderer, load_tokenizer, renderer_name

if TYPE_CHECKING:
    from tinker_cookbook.renderers import Renderer
    from transformers import PreTrainedTokenizerFast as Tokenizer

_T = TypeVar("_T")
CHAT = "chat"
"""The owner of requests that belong to no session."""
IDLE_SECONDS = 900.0
"""A session that is silent for so long has ended (the SDK sends a heartbeat every 10 s)."""
MAX_SESSIONS, MAX_MODELS, MAX_SAMPLERS = 1024, 1024, 65536
"""Sessions at a time, and models in training and samplers of one session."""
EPHEMERAL_SECONDS = 86400
"""How long weights live that were saved without a name."""
STOP_SECONDS = 3.0
"""How long `stop` waits for the model thread."""


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

    @property
    def session_id(self) -> str:
        """The session that it belongs to."""
        return self.model_id.partition(":")[0]


class Engine:
    """Everything that a request may need."""

    def __init__(
        self,
        folder: Path,
        state: Path,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.folder, self.state = folder, state
        self.model = Llama.load(folder, dtype, device)
        self.name = self.model.config.name
        self.tokenizer: Tokenizer = load_tokenizer(str(folder))
        self.renderer: Renderer = get_renderer(renderer_name(str(folder)), self.tokenizer)
        self.writer: Renderer = get_renderer(renderer_name(str(folder)), copy.deepcopy(self.tokenizer))
        self._writing = ThreadPoolExecutor(1, "prompts")
        self.checkpoints = Checkpoints(state / "checkpoints")
        self.sessions: dict[str, Session] = {}
        self.runs: dict[str, Run] = {}
        self.samplers: dict[str, Source] = {}
        self._trainees: dict[str, Trainee] = {}
        queue = Queue()
        self.futures = Intake(queue, limits)
        samplers = Samplers(self.model, self.checkpoints, self.tokenizer.decode)
        self._worker = Worker(queue, samplers.step, samplers.prepare)

    @property
    def context(self) -> int:
        """Tokens that the model can hold."""
        return self.model.config.context

    @functools.cached_property
    def longest_token(self) -> int:
        """Bytes of the longest text that is one token."""
        return max(len(token.encode()) for token in self.tokenizer.get_vocab())

    async def write(self, make: Callable[[], _T]) -> _T:
        """What `make` makes of a prompt with `writer`, alone in its thread: no tokenizer serves two at once."""
        return await asyncio.get_running_loop().run_in_executor(self._writing, make)

    def start(self) -> None:
        """Starts the model thread."""
        self._worker.start()

    def stop(self) -> None:
        """Answers all who wait, and ends the model thread after the pass or token that it is at, if that is soon."""
        self.futures.close()
        self._writing.shutdown(wait=False, cancel_futures=True)
        self._worker.join(STOP_SECONDS)

    @property
    def busy(self) -> bool:
        """Whether the model thread lives."""
        return self._worker.is_alive()

    def tend(self) -> None:
        """What is done every few seconds: ends the sessions whose client is gone, and tends the futures."""
        oldest = time.monotonic() - IDLE_SECONDS
        for session in list(self.sessions.values()):
            if session.last_seen < oldest:
                self.end_session(session.id)
        self.futures.tend()

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
        """Forgets a session with its models and samplers; what it has asked for is given up."""
        session = self.sessions.pop(id, None)
        if session is None:
            return
        for sampler in session.samplers:
            self.samplers.pop(sampler, None)
        for model_id in session.models:
            self.runs.pop(model_id, None)
            self._trainees.pop(model_id, None)
        self.futures.end(id)

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

    def add_sampler(self, session: Session, id: str, source: Source) -> None:
        """Makes a sampler known for as long as its session lives; from any thread.

        Raises:
            Fault: the session has too many.
        """
        if id not in self.samplers:
            _check_room(session.samplers, MAX_SAMPLERS, "samplers")
            session.samplers.append(id)
        self.samplers[id] = source
        if session.id not in self.sessions:
            self.samplers.pop(id, None)

    def create(self, run: Run, session: Session, make: Callable[[], Answer]) -> Future:
        """Makes a model known and queues the work that makes it.

        Raises:
            Fault: the session has too many.
            Busy: too much is waiting.
        """
        if run.model_id not in self.runs:
            _check_room(session.models, MAX_MODELS, "models")
        future = self.futures.submit(f"{run.model_id}:create", make, owner=session.id)
        if run.model_id not in self.runs:
            self.runs[run.model_id] = run
            session.models.append(run.model_id)
        return future

    def train(self, model_id: str, seq_id: int, work: Callable[[], Answer], weight: int = 0) -> Future:
        """Queues work on a model for when it is its turn; `weight` is the request's bytes.

        Raises:
            NotFound: there is no such model.
            Busy: too much is waiting.
        """
        owner = self.session(self.run(model_id).session_id).id
        id = f"{model_id}:{seq_id}"
        return self.futures.submit(id, work, owner=owner, weight=weight, order=model_id, seq=seq_id)

    def sample(
        self,
        id: str,
        request: SampleRequest,
        source: Source,
        answer: Callable[[SampleRequest], Answer],
        owner: str = CHAT,
    ) -> Future:
        """Queues a request for the weights at `source`; `answer` is called on the model's thread when it is done."""
        return self.futures.submit(id, lambda: answer(request), owner=owner, group=source, request=request)

    def do_create(self, run: Run, seed: int | None) -> Answer:
        """A fresh adapter; a model that is there stays as it is."""
        if run.model_id not in self._trainees:
            lora = Lora.new(self.model.config, run.rank, seed, run.modules, self.model.device)
            self._save_run(run)
            self._put(Trainee(run.model_id, lora))
        return Answer.json({"type": "create_model", "model_id": run.model_id})

    def do_create_from(self, run: Run, path: CheckpointPath, *, optimizer: bool) -> Answer:
        """A model from a checkpoint; one that is there stays as it is."""
        if run.model_id not in self._trainees:
            return self.do_load(run, path, optimizer=optimizer)
        return Answer.json({"type": "load_weights", "path": str(path), "model_id": run.model_id})

    def do_forward_backward(self, request: wire_training.ForwardBackward) -> Answer:
        """Log-probabilities and, unless forward only, gradients."""
        trainee = self._trainee(request.model_id)
        data = wire_training.datums(request, self.model.config.vocabulary, self.context)
        outcome = forward_backward(
            self.model, trainee.lora, data, request.loss, backward=request.backward, pause=self._worker.pause
        )
        return Answer(wire_training.encode_outcome(outcome), PROTOBUF)

    def do_optim_step(self, model_id: str, params: AdamParams) -> Answer:
        """One step of the optimiser."""
        return Answer.json({"metrics": self._trainee(model_id).step(params)})

    def do_save(self, run: Run, path: CheckpointPath, metadata: dict[str, str] | None, ttl: int | None) -> None:
        """Writes a checkpoint of the adapter as it is now."""
        trainee = self._trainee(run.model_id)
        state = trainee.optimizer.state_file() if path.kind == "weights" else None
        files = CheckpointFiles(trainee.lora.config_file(self.name), trainee.lora.weights_file(), state)
        facts = {"base_model": self.name, "user_metadata": metadata, "expires_at": checkpoints.expiry(ttl)}
        self.checkpoints.save(path, files, facts)
        self._save_run(run)

    def do_load(self, run: Run, path: CheckpointPath, *, optimizer: bool) -> Answer:
        """Puts a checkpoint in the place of the adapter (and, if asked, of the optimiser's state).

        A checkpoint of an engine that did not train unembeddings, whatever it was asked for, has no say in
        `train_unembed`: a model that trains its own begins it anew. Its optimiser's state is refused then.
        """
        files = self.checkpoints.read(path, optimizer=optimizer)
        lora = read_adapter(self.model, path, files)
        if UNEMBED in run.modules and not tells_unembed(files.config):
            lora = lora.with_unembed(self.model.config)
        trainee = Trainee(run.model_id, lora)
        if (lora.rank, lora.modules) != (run.rank, run.modules):
            theirs, ours = (_shape(x.rank, x.modules) for x in (lora, run))
            raise Fault(f"path: {path} has {theirs}; the model has {ours}", next_step="load it as a model of its own")
        if files.optimizer is not None:
            with naming(path):
                trainee.optimizer.load_state(files.optimizer)
        self._save_run(run)
        self._put(trainee)
        return Answer.json({"type": "load_weights", "path": str(path), "model_id": run.model_id})

    def _put(self, trainee: Trainee) -> None:
        """Keeps an adapter for as long as its session lives, which may have ended a moment ago."""
        self._trainees[trainee.model_id] = trainee
        if trainee.model_id not in self.runs:
            self._trainees.pop(trainee.model_id, None)

    def _trainee(self, model_id: str) -> Trainee:
        if (trainee := self._trainees.get(model_id)) is None:
            raise NotFound(f"model_id: the model {model_id!r} is not loaded")
        return trainee

    def _save_run(self, run: Run) -> None:
        facts: dict[str, Any] = {"base_model": self.name, "rank": run.rank, "modules": run.modules}
        self.checkpoints.save_run(run.model_id, facts | {"user_metadata": run.metadata})


def _check_room(have: list[str], most: int, what: str) -> None:
    if len(have) >= most:
        raise Fault(f"session_id: the session has {len(have)} {what}, the limit", next_step="create a new client")


def _shape(rank: int, modules: tuple[str, ...]) -> str:
    """Rank and parts of an adapter, by the names of the fields that ask for them."""
    return ", ".join([f"rank {rank}", *(f"{field} {value}" for field, value in trained(modules).items())])


def modules_of(config: wire.LoraConfig) -> tuple[str, ...]:
    """What to train.

    Raises:
        Fault: nothing.
    """
    parts = {ATTENTION: config.train_attn, MLP: config.train_mlp, (UNEMBED,): config.train_unembed}
    modules = tuple(module for part, asked in parts.items() if asked for module in part)
    if not modules:
        raise Fault(
            "lora_config: train_attn, train_mlp and train_unembed are all false; there is nothing to train",
            next_step="set one of them",
        )
    return modules
