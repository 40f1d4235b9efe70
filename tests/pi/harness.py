"""Drives the real Pi for tests: in RPC mode, where a program can answer its dialogs, and headless.

`NODE_BIN` (a node >= 22.19) and `PI_BIN` (Pi's script) name the tools; by default they are the ones that set-up made.
"""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from machine import bootstrap

PACKAGE = bootstrap.PACKAGE
PATIENCE = 60.0
"""Seconds that anything may take before a test fails; what is slow on a busy machine is not broken."""

Record = dict[str, Any]
Answer = dict[str, Any] | Callable[[Record], dict[str, Any]] | None


def node_and_pi() -> tuple[str, str] | None:
    """Node, and the script that it runs as Pi; None where there is none."""
    found = bootstrap.tools(Path(sys.prefix))
    node, pi = os.environ.get("NODE_BIN") or found.node, os.environ.get("PI_BIN") or found.pi
    return (str(node), str(pi)) if node and pi else None


@dataclass
class World:
    """A scratch user: own home, Pi folder, Machine folder and project, and one scripted model."""

    base: Path
    models: dict[str, Any]
    extra: dict[str, str] = field(default_factory=dict)
    package: Path = PACKAGE

    def __post_init__(self) -> None:
        for folder in (self.home, self.agent, self.project):
            folder.mkdir(parents=True, exist_ok=True)
        (self.agent / "models.json").write_text(json.dumps(self.models))
        settings = {"defaultProvider": "scripted", "defaultModel": "scripted-1", "retry": {"baseDelayMs": 50}}
        (self.agent / "settings.json").write_text(json.dumps({**settings, "packages": [str(self.package)]}))

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def agent(self) -> Path:
        return self.base / "agent"

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def machine(self) -> Path:
        """Machine's folder."""
        return self.base / "machine"

    def rows(self) -> list[Record]:
        """The rows of the pool."""
        pools = list(self.machine.glob("*/traces.jsonl"))
        return [json.loads(line) for pool in pools for line in pool.read_bytes().splitlines()]

    def configure(self, **settings: Any) -> None:
        """Changes Pi's settings."""
        file = self.agent / "settings.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))

    def shell(self, *words: str) -> Record:
        """What `machine WORDS --json` prints."""
        machine = [sys.executable, "-m", "machine.cli", *words, "--json"]
        done = subprocess.run(
            machine, cwd=self.project, env=self.env(), capture_output=True, text=True, timeout=PATIENCE
        )
        report: Record = json.loads(done.stdout)
        return report

    def env(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        tools = node_and_pi()
        assert tools is not None
        offline = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
        mine = {"HOME": str(self.home), "PI_CODING_AGENT_DIR": str(self.agent), "MACHINE_DATA_DIR": str(self.machine)}
        path = f"{Path(tools[0]).parent}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, **offline, **mine, "MACHINE_PYTHON": sys.executable, **self.extra}

    def headless(self, *args: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Runs `pi -p ARGS` to its end."""
        return subprocess.run(
            command("-p", *args),
            cwd=self.project,
            env=self.env(),
            timeout=timeout,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )


class Pi:
    """The real Pi in RPC mode. `answers` maps a dialog's method to what to answer it with, in order."""

    def __init__(self, world: World, *args: str, answers: dict[str, Sequence[Answer]] | None = None) -> None:
        pipe, words = subprocess.PIPE, command("--mode", "rpc", *args)
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=world.project, env=world.env())
        self.records: list[Record] = []
        self.broken: list[bytes] = []
        self.stderr = b""
        self._answers = {method: list(given) for method, given in (answers or {}).items()}
        self._news = threading.Condition()
        self._asked = 0
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_stderr)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Pi":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self, timeout: float = PATIENCE) -> float:
        """Ends Pi as a client does, by closing its input, and returns how long it took in seconds."""
        assert self.process.stdin is not None
        started = time.monotonic()
        self.process.stdin.close()
        try:
            self.process.wait(timeout)
        finally:
            self.process.kill()
        for reader in self._readers:
            reader.join(5)
        return time.monotonic() - started

    def prompt(self, text: str, timeout: float = PATIENCE) -> Record:
        """Sends a prompt or a slash command; returns Pi's response once the command, or the whole run, is over."""
        start = len(self.records)
        response = self.request("prompt", message=text, timeout=timeout)
        if response["success"] and response["data"].get("disposition") == "started":
            self.wait(lambda record: record["type"] == "agent_settled", start=start, timeout=timeout)
        return response

    def request(self, kind: str, timeout: float = PATIENCE, **fields: Any) -> Record:
        """Sends an RPC command and waits for its response."""
        start = len(self.records)
        name = self.send(kind, **fields)
        return self.wait(lambda r: r["type"] == "response" and r.get("id") == name, start=start, timeout=timeout)

    def send(self, kind: str, **fields: Any) -> str:
        """Sends an RPC command and returns its id."""
        self._asked += 1
        name = f"t{self._asked}"
        self._write({"id": name, "type": kind, **fields})
        return name

    def wait(self, wanted: Callable[[Record], bool], *, start: int = 0, timeout: float = PATIENCE) -> Record:
        """The first record from `start` on that is `wanted`."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                for record in self.records[start:]:
                    if wanted(record):
                        return record
                start = len(self.records)
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    seen = "\n".join(json.dumps(record)[:300] for record in self.records[-8:])
                    raise TimeoutError(f"Pi did not say it; last:\n{seen}\n{self.stderr[-2000:].decode()}")

    def dialog(self, method: str, start: int = 0, timeout: float = PATIENCE) -> Record:
        """The next dialog, notification or status of a kind, waiting for it if need be."""
        return self.wait(lambda r: _is_ui(r, method), start=start, timeout=timeout)

    def said(self, method: str = "notify", start: int = 0) -> list[Record]:
        """Every dialog, notification or status of a kind so far."""
        return [record for record in self.records[start:] if _is_ui(record, method)]

    def messages(self, start: int = 0) -> list[str]:
        """Every notification so far."""
        return [record["message"] for record in self.said("notify", start)]

    def status(self) -> str | None:
        """What the footer says now."""
        texts = [r.get("statusText") for r in self.said("setStatus") if r["statusKey"] == "machine"]
        return texts[-1] if texts else None

    def _write(self, record: Record) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(record).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                record = json.loads(line)
            except ValueError:
                self.broken.append(line)
                continue
            self._respond(record)
            with self._news:
                self.records.append(record)
                self._news.notify_all()

    def _respond(self, record: Record) -> None:
        given = self._answers.get(record.get("method", ""))
        if record["type"] != "extension_ui_request" or not given:
            return
        answer = given.pop(0)
        if answer is not None:
            fields = answer(record) if callable(answer) else answer
            self._write({"type": "extension_ui_response", "id": record["id"], **fields})

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr += line


class Terminal:
    """The real Pi in a terminal. Its screen is not drawn: `seen` is what Pi wrote, without what steers a terminal."""

    def __init__(self, world: World, *args: str) -> None:
        self._master, slave = pty.openpty()
        env = {**world.env(), "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(
            command(*args),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=world.project,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(5)
        os.close(self._master)

    @property
    def seen(self) -> str:
        return re.sub(
            r"\x1b(\[[0-9;?<>=]*[a-zA-Z]|[\]_P^].*?(\x1b\\|\x07))", "", self._written.decode(errors="replace")
        )

    def type(self, text: str) -> None:
        """Types a line, then Enter."""
        for keys in (text, "\r"):
            os.write(self._master, keys.encode())
            time.sleep(0.1)  # at once, they would be a paste

    def wait(self, text: str, timeout: float = PATIENCE) -> None:
        """Waits until Pi has written `text`."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Pi did not write {text!r}:\n{self.seen[-2000:]}")
            time.sleep(0.05)

    def quit(self, timeout: float = PATIENCE) -> float:
        """Quits as a user does, and returns how long it took in seconds."""
        started = time.monotonic()
        self.type("/quit")
        self.process.wait(timeout)
        return time.monotonic() - started

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # EIO: Pi is gone
            while written := os.read(self._master, 65536):
                self._written += written


def command(*args: str) -> list[str]:
    """The words that run Pi."""
    tools = node_and_pi()
    assert tools is not None
    return [*tools, *args]


def _is_ui(record: Record, method: str) -> bool:
    return record["type"] == "extension_ui_request" and record["method"] == method
