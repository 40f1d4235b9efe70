"""A model server for tests: OpenAI chat completions, streamed, on loopback. The last user message is the script.

run: CMD        calls the tool `bash` with CMD, then answers with what the tool returned
run: A && B     with ` && ` between commands: one call each, in parallel
run: crowd ...  says, with the call, that the context is nearly full, so that Pi compacts in the middle of the run
fail once: ...  HTTP 500 the first time that this message is asked, then as below
slow ...        streams for half a minute, or until the client hangs up
anything else   is echoed
"""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

MODEL = "scripted-1"


class Server:
    """Serves until closed; `requests` holds the body of every request, in order."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.failed: set[str] = set()
        handler = type("Bound", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()

    def pi_models(self) -> dict[str, Any]:
        """The content of a Pi `models.json` that names this server's model."""
        model = {"id": MODEL, "name": "Scripted", "contextWindow": 32768, "maxTokens": 2048}
        provider = {"baseUrl": self.url, "api": "openai-completions", "apiKey": "unused", "models": [model]}
        return {"providers": {"scripted": provider}}


class _Handler(BaseHTTPRequestHandler):
    owner: ClassVar[Server]

    def log_message(self, *_: object) -> None:
        """Keeps test output clean."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.requests.append(body)
        asked = next((_text(m) for m in reversed(body["messages"]) if m["role"] == "user"), "")
        if asked.startswith("fail once:") and asked not in self.owner.failed:
            self.owner.failed.add(asked)
            self.send_error(500, "scripted failure")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._stream(asked, body["messages"])

    def _stream(self, asked: str, messages: list[dict[str, Any]]) -> None:
        results = [_text(m).strip() for m in messages if m["role"] == "tool"]
        if asked.startswith("run:") and messages[-1]["role"] == "user":
            commands = [command.strip() for command in asked.removeprefix("run:").split(" && ")]
            self._call(
                [c.removeprefix("crowd ") for c in commands], len(messages), crowded=commands[0].startswith("crowd ")
            )
        elif messages[-1]["role"] == "tool":
            self._say(f"The tool said: {results[-1][:200]}")
        elif asked.startswith("slow"):
            for tick in range(300):
                self._event({"content": f"tick {tick} "})
                time.sleep(0.1)
            self._end("stop")
        else:
            self._say(f"You said: {asked}")

    def _say(self, answer: str) -> None:
        half = len(answer) // 2
        self._event({"role": "assistant", "content": answer[:half]})
        self._event({"content": answer[half:]})
        self._end("stop")

    def _call(self, commands: list[str], seed: int, crowded: bool) -> None:
        for index, command in enumerate(commands):
            arguments = json.dumps({"command": command})
            head = {"name": "bash", "arguments": ""}
            call = {"index": index, "id": f"call_{seed}_{index}", "type": "function", "function": head}
            self._event({"role": "assistant", "tool_calls": [call]})
            self._event({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
        self._end("tool_calls", 30_000 if crowded else 10)

    def _end(self, reason: str, prompt: int = 10) -> None:
        usage = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
        self._event({}, reason)
        self._send({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._send({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _send(self, chunk: dict[str, Any]) -> None:
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
        self.wfile.write(b"data: " + json.dumps(head | chunk).encode() + b"\n\n")
        self.wfile.flush()


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
