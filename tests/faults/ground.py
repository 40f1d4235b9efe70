"""Ground: where a scenario takes place. A scratch user with a project of his own, and the parts that scenarios share.

The parts are the real ones: Pi, the sidecar, the shell's commands, an engine process with a small random model that has
the default model's name and tokenizer, so that a run takes seconds.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from smalldisk import SmallDisk

from machine.engine import life
from machine.home import models_dir
from machine.store.project import Project
from machine.training.run import Run, runs
from pi.harness import World
from pi.scripted import Server
from sessions import Script
from students import assistant, questions, row, system, user

SHELL = [sys.executable, "-m", "machine.cli"]
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


class Shared:
    """What scenarios share: the scripted model server, and the folder of the small model. Made when first asked for."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="faults-"))
        self._server: Server | None = None

    def __enter__(self) -> "Shared":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.__exit__(None, None, None)
        shutil.rmtree(self.base, ignore_errors=True)

    @property
    def server(self) -> Server:
        """The scripted model server of Pi."""
        if self._server is None:
            self._server = Server().__enter__()
        return self._server

    @property
    def models(self) -> Path:
        """A folder of models with the one small model in it (see `MACHINE_MODELS_DIR`)."""
        folder = self.base / "models"
        if not folder.exists():
            _small_model(folder / MODEL.rpartition("/")[2])
        return folder


def _small_model(folder: Path) -> None:
    """A random Llama of 3 million parameters, most of them its vocabulary's, as Hugging Face writes it."""
    import numpy
    from safetensors.numpy import save_file

    from machine.engine.models.convert import ensure_model

    hidden, inner, layers, vocabulary = 48, 96, 2, 49152
    shapes = {"q": (48, 48), "k": (16, 48), "v": (16, 48), "o": (48, 48)}
    tensors = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        tensors |= {f"{at}.self_attn.{name}_proj.weight": shape for name, shape in shapes.items()}
        tensors |= {f"{at}.mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        tensors |= {f"{at}.mlp.down_proj.weight": (hidden, inner)}
        tensors |= {f"{at}.{name}_layernorm.weight": (hidden,) for name in ("input", "post_attention")}
    draw = numpy.random.default_rng(0).normal
    folder.mkdir(parents=True)
    save_file({name: draw(0, 0.1, shape).astype("float32") for name, shape in tensors.items()}, folder / "model.safetensors")  # fmt: skip
    source = ensure_model()
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": 6, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": inner, "head_dim": 8, "max_position_embeddings": 2048}
    config = json.loads((source / "config.json").read_text()) | sizes
    (folder / "config.json").write_text(json.dumps(config))
    for file in source.glob("tokenizer*"):
        (folder / file.name).symlink_to(file)


@dataclass(frozen=True)
class Said:
    """What a command said: its exit code, and its last words on either stream."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it wrote."""
        return self.out + self.err

    @property
    def crashed(self) -> bool:
        """Whether it ended on a bug."""
        return "Traceback" in self.text


class Ground:
    """One user, one project. What it starts ends with it."""

    def __init__(self, base: Path, shared: Shared) -> None:
        self.base, self.shared = base, shared
        self.world = World(base, shared.server.pi_models())
        self.engine_state = self.world.machine / "engine"
        self.disk: SmallDisk | None = None
        self.losses: list[float] = []
        """Of a training run that nothing happens to."""
        self._sessions = 0
        self._engines: set[int] = set()

    def __enter__(self) -> "Ground":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in self._engines:  # its folder may be gone by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def env(self) -> dict[str, str]:
        """The environment of the user's shell."""
        quiet = {"OMP_WAIT_POLICY": "PASSIVE", "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1"}
        kernels = str(models_dir() / ".kernels")  # compiled once for all
        return {**self.world.env(), **quiet, "MACHINE_MODELS_DIR": str(self.shared.models), "NUMBA_CACHE_DIR": kernels}

    @property
    def project(self) -> Project:
        """The user's project, as the commands find it."""
        with environment(MACHINE_DATA_DIR=str(self.world.machine)):
            return Project.at(self.world.project)

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Starts `machine WORDS`."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {"cwd": self.world.project, "env": self.env, "text": True, **pipes, **options}
        return subprocess.Popen([*SHELL, *words], **given)

    def machine(self, *words: str, timeout: float = 240, **options: Any) -> Said:
        """Runs `machine WORDS` to its end."""
        with self.start(*words, **options) as process:
            out, err = process.communicate(timeout=timeout)
        return Said(process.returncode, out or "", err or "")

    def session(self, question: str = "Capital of France?", answer: str = "Paris.") -> Path:
        """A new session of Pi in the project, with one turn."""
        self._sessions += 1
        script = Script(str(self.world.project))
        script.header["id"] = f"typed-{self._sessions}"
        script.entries[0]["id"] = f"{self._sessions:04x}0000"
        script.leaf = script.entries[0]["id"]
        for make in (script.user, script.assistant):
            make(question if make == script.user else answer)
            script.entries[-1]["id"] = script.leaf = f"{self._sessions:04x}{len(script.entries):04x}"
        return script.save(self.base / f"session-{self._sessions}.jsonl")

    def engine(self, **options: Any) -> life.Found:
        """The user's engine, started with the small model unless it runs."""
        said = self.machine("engine", "start", preexec_fn=_first, **options)
        assert said.code == 0, said.text
        found = life.status(state=self.engine_state)
        assert found is not None
        self._engines.add(found.pid)
        return found

    @staticmethod
    def losses_of(run: Run) -> list[float]:
        """The loss of each step, as exactly as two runs agree."""
        return [round(line["loss"], 3) for line in run.metrics()]

    def kill_engine(self) -> None:
        """Ends the user's engine with SIGKILL, and waits until it is gone."""
        found = life.status(state=self.engine_state)
        if found is not None:
            os.kill(found.pid, signal.SIGKILL)
            self._engines.discard(found.pid)
            until(lambda: life.status(state=self.engine_state) is None)

    def ready_to_train(self) -> None:
        """Has an engine run, and sees that the pool holds rows and that page and recipe are written."""
        self.engine()
        project = self.project
        if (project.train / "tinker.yaml").exists():
            return
        project.make()
        project.pool.append_all(conversations(8, words=30))
        figures = {"steps": 6, "batch-size": 2, "rank": 4, "test-size": 0, "save-every": 2}
        said = self.machine("train", "sft", *(f"--{name}={value}" for name, value in figures.items()))
        assert said.code == 0, said.text
        page = project.train / "train_sft.py"  # it is the user's to edit: gives a service up after 5 s, not 20
        patience = "import machine.tinker.service; machine.tinker.service.PATIENCE = 5.0\n        "
        page.write_text(page.read_text().replace("model = opened(", f"{patience}model = opened(", 1))

    def training(self, *figures: str, after_step: int = 3, **options: Any) -> "subprocess.Popen[str]":
        """Starts `machine train run`, and returns once that many steps are done."""
        self.ready_to_train()
        if not self.losses:
            said = self.machine("train", "run", "--yes")
            assert said.code == 0, said.text
            self.losses = self.losses_of(self.run)
        before = len(self.runs)
        process = self.start("train", "run", "--yes", *figures, **options)
        reached = until(lambda: len(self.runs) > before and len(self.run.metrics()) >= after_step, 120)
        assert reached, process.communicate()
        return process

    @property
    def runs(self) -> list[Run]:
        """The training runs, newest first."""
        return runs(self.project.runs)

    @property
    def run(self) -> Run:
        """The newest training run."""
        return self.runs[0]


def _first() -> None:
    """Lets the engine, which gives way to all else, take as much of a busy machine as the tests do."""
    with contextlib.suppress(OSError):
        os.nice(-10)


def conversations(count: int, words: int) -> Sequence[Any]:
    """Rows to train on, whose answers have so many words."""
    if words <= 4:
        return questions(count)
    text = " ".join(f"word{n}" for n in range(words))
    return [
        row(
            system("You are brief."), user(f"What is {i}?"), assistant(f"{i}: {text}"), number=i, session=f"session-{i}"
        )
        for i in range(count)
    ]


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def until(condition: Callable[[], Any], seconds: float = 20, every: float = 0.02) -> bool:
    """Waits until it holds; whether it did in time."""
    deadline = time.monotonic() + seconds
    while not (held := bool(condition())) and time.monotonic() < deadline:
        time.sleep(every)
    return held


def line_with(stream: IO[str], text: str) -> str:
    """Reads lines until one has `text`, and returns it; the last line where the stream ends before."""
    line = ""
    for line in stream:
        if text in line:
            break
    return line


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has reaped yet has."""
    status = Path(f"/proc/{pid}/status")
    try:
        return "\nState:\tZ" in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def children(pid: int) -> list[int]:
    """The processes that it started."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [int(child) for child in found]
