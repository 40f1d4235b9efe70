"""The whole loop, once, on the real parts: Pi, a pool, the Tinker SDK, the embedded engine, a checkpoint, a gain.

    make demo

24 questions go through real Pi sessions, each answer is tagged with `/good --as "ANSWER: ..."`, a LoRA student is
trained on the pool that those sessions left, and 24 other questions are asked before and after. All of it lies in
`~/.machine/demo`.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from machine import bootstrap
from machine.home import machine_home, models_dir
from machine.store.files import private_folder

HERE = Path(__file__).parent
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
PROMPT = "You are a helpful assistant."
STYLE = r"regex:^ANSWER: (?!.*ANSWER)\S+(?: \S+){0,11}\.$"
SAMPLING = ("--temperature", "0", "--max-tokens", "64")
UNSEEN = "What is the capital of Portugal?"
MOST_BEFORE, LEAST_AFTER = 0.05, 0.90
"""Shares of held-out answers in the style that the demo stays under before training, and reaches after it."""
TRUNCATED = "reached its output token limit"
console = Console(highlight=False)


class DemoError(Exception):
    """A step failed; its own output, above, says why."""


@dataclass
class Demo:
    """Where the demo lies, what it runs with, and how long each stage took (seconds)."""

    root: Path
    node: Path
    pi: Path
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        """The scratch project that Pi works in."""
        return self.root / "project"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of every child: a home of the demo's own, no account, no update checks."""
        mine = {
            "MACHINE_DATA_DIR": str(self.root / "data"),
            "MACHINE_MODELS_DIR": str(models_dir()),
            "MACHINE_PYTHON": sys.executable,
            "PI_CODING_AGENT_DIR": str(self.root / "pi"),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "PATH": f"{self.node.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        account = {"TINKER_API_KEY", "TINKER_BASE_URL"}
        return {key: value for key, value in os.environ.items() if key not in account} | mine

    @contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Announces a stage and says how long it took."""
        console.print(f"\n[bold cyan]━━ {title}[/]")
        started = time.monotonic()
        yield
        self.seconds[title] = time.monotonic() - started
        console.print(f"[dim]   {self.seconds[title]:.0f} s[/]")

    def machine(self, *words: str) -> None:
        """Runs a `machine` command as a user would, and shows what it prints."""
        console.print(f"[bold]$ machine {' '.join(words)}[/]", markup=True)
        command = [sys.executable, "-m", "machine.cli", *words]
        if code := subprocess.run(command, cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL).returncode:
            raise DemoError(f"`machine {' '.join(words)}` ended with {code}")

    def data(self, *words: str) -> Any:
        """The same, for its data."""
        command = [sys.executable, "-m", "machine.cli", *words, "--json"]
        done = subprocess.run(command, cwd=self.project, env=self.environ, capture_output=True, text=True)
        if done.returncode:
            raise DemoError(f"`machine {' '.join(words)}` ended with {done.returncode}: {done.stderr or done.stdout}")
        return json.loads(done.stdout)["data"]

    def run_pi(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs the real Pi in the scratch project."""
        command = [str(self.node), str(self.pi), *words]
        done = subprocess.run(
            command, cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        # Pi's exit code also says that an answer was cut at its token limit, which `--as` mends
        if done.returncode and TRUNCATED not in done.stderr:
            raise DemoError(f"pi ended with {done.returncode}: {done.stderr.strip()[-800:]}")
        return done

    def ask(self, model: str, *prompts: str) -> subprocess.CompletedProcess[str]:
        """One headless Pi session. No tool at all: a small model must not get to run what it dreams up."""
        options = ("--no-tools", "--no-skills", "--no-context-files", "--system-prompt", PROMPT)
        return self.run_pi("-p", "--model", f"tinker/{model}", *options, *prompts)


def main() -> int:
    """Runs the demo; returns the exit code."""
    found = bootstrap.tools(Path(sys.prefix))
    if found.node is None or found.pi is None:
        console.print("Node or Pi is missing. Next: make demo (it sets both up)", style="red")
        return 1
    demo = Demo(machine_home() / "demo", found.node, found.pi)
    try:
        _scratch(demo)
        with _engine(demo):
            _learn(demo)
            engine_peak = _peak_gb(demo)
        _summary(demo, engine_peak)
    except DemoError as error:
        console.print(f"\n{error}\nNext: mend that, then `make demo` again; logs lie in {demo.root}", style="red")
        return 1
    except KeyboardInterrupt:
        console.print("\nstopped; `make demo` starts over", style="red")
        return 1
    return 0


def _scratch(demo: Demo) -> None:
    shutil.rmtree(demo.root, ignore_errors=True)
    for folder in (demo.root, demo.project, demo.root / "pi", demo.root / "data"):
        private_folder(folder)
    # a project of its own, also where the home folder is a work tree
    subprocess.run(["git", "init", "--quiet", demo.project], check=False, capture_output=True)


@contextmanager
def _engine(demo: Demo) -> Iterator[None]:
    with demo.stage("Engine: Tinker's API on this machine"):
        demo.machine("engine", "start")
    try:
        yield
    finally:
        demo.machine("engine", "stop")


def _learn(demo: Demo) -> None:
    with demo.stage("Pi: this package, and the base model"):
        demo.machine("tinker", "use", BASE, "base", *SAMPLING)
        console.print(f"[bold]$ pi install {bootstrap.PACKAGE.name}[/]")
        demo.run_pi("install", str(bootstrap.PACKAGE))
    with demo.stage("Sessions: ask, then tag"):
        _sessions(demo)
        demo.machine("tagged", "3")
    with demo.stage("Train"):
        demo.machine("train", "validate")
        demo.machine("train", "sft")
        demo.machine("train", "run", "--yes")
    with demo.stage("Evaluate"):
        demo.machine("train", "eval", "init", "--from", str(HERE / "heldout.jsonl"), "--scorer", STYLE)
        demo.machine("train", "eval", "baseline", "--max-tokens", "32", "--yes")
        demo.machine("train", "eval", "checkpoint", "--yes")
        demo.machine("train", "eval", "compare")
    with demo.stage("Chat with the checkpoint, in Pi"):
        demo.machine("tinker", "use", "latest", "checkpoint", *SAMPLING)
        answers = [(model, demo.ask(model, UNSEEN).stdout.strip()) for model in ("base", "checkpoint")]
        table = Table(box=box.SIMPLE_HEAD, title=f"{UNSEEN} (never seen in training)", title_justify="left")
        table.add_column("model")
        table.add_column("answer", overflow="fold")
        for model, answer in answers:
            table.add_row(f"tinker/{model}", answer)
        console.print(table)


def _sessions(demo: Demo) -> None:
    lines = (HERE / "questions.jsonl").read_text().splitlines()
    items = [json.loads(line) for line in lines if line.strip()]
    for number, item in enumerate(items, 1):
        done = demo.ask("base", item["question"], f'/good --as "{item["answer"]}"')
        said = " ".join(done.stdout.split())[:60]
        console.print(f"  {number:2}/{len(items)}  {item['question']}  [dim]{said}[/]  → {item['answer']}", markup=True)
        if "Saved as good" not in done.stderr:
            raise DemoError(f"/good did not save: {done.stderr.strip()[-800:] or 'Pi printed nothing'}")


def _peak_gb(demo: Demo) -> float:
    """The engine's peak memory in GB (0 where the system does not say)."""
    status = Path("/proc") / str(demo.data("engine", "status").get("pid", "")) / "status"
    if not status.exists():
        return 0.0
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1e6


def _summary(demo: Demo, engine_peak: float) -> None:
    compared = demo.data("train", "eval", "compare")
    run = demo.data("train", "runs")["runs"][0]
    table = Table(box=box.SIMPLE_HEAD, title="What you have seen", title_justify="left", show_header=False)
    table.add_column("what", style="dim")
    table.add_column("figure", overflow="fold")
    cases = compared["cases"]
    table.add_row("in the style, before", f"{compared['baseline']} of {cases} held-out questions")
    table.add_row("in the style, after", f"{compared['checkpoint']} of {cases} held-out questions")
    table.add_row("training", f"{run['state']['step']} steps, {run['tokens']} tokens")
    if engine_peak:
        other = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        table.add_row("peak memory", f"engine {engine_peak:.1f} GB, the largest process beside it {other:.1f} GB")
    for title, seconds in demo.seconds.items():
        table.add_row(title, f"{seconds:.0f} s")
    table.add_row("in all", f"{sum(demo.seconds.values()):.0f} s")
    table.add_row("where it all lies", str(demo.root))
    console.print(table)
    if compared["baseline"] > MOST_BEFORE * cases or compared["checkpoint"] < LEAST_AFTER * cases:
        raise DemoError("the style was not learnt as it should be: see the comparison above")
    console.print(
        "[bold]In a project of your own:[/] pi install . (here), then in Pi, after an answer that you liked: /good"
    )


if __name__ == "__main__":
    sys.exit(main())
