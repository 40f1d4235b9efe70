"""A scripted model that repairs repositories, or breaks them: OpenAI chat completions, streamed, on loopback.

`Repairer(play)` asks `play` for the answer to each request: it is given the messages so far and returns text, or calls
(`(tool, arguments)`, the arguments as a dict or as the raw text that a model would write), or the HTTP status to fail with.
"""

import contextlib
import json
from collections.abc import Callable
from typing import Any, ClassVar

from pi.scripted import Server, _Handler, _text

Call = tuple[str, "dict[str, Any] | str"]
Play = Callable[[list[dict[str, Any]]], "str | int | list[Call]"]


class Repairer(Server):
    """The server; `play` may be set anew between attempts, `keys` holds the key of every request."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play, self.keys = play, list[str]()
        self._http.RequestHandlerClass = type("Bound", (_Repair,), {"owner": self})


class _Repair(_Handler):
    owner: ClassVar[Repairer]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.requests.append(body)
        self.owner.keys.append(self.headers.get("authorization", ""))
        answer = self.owner.play(body["messages"])
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if isinstance(answer, int):
                self._fail(answer)
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            if isinstance(answer, str):
                self._say(answer)
            else:
                self._calls(answer, len(body["messages"]))

    def _fail(self, status: int) -> None:
        text = json.dumps({"error": {"message": f"scripted {status}"}}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _calls(self, calls: list[Call], seed: int) -> None:
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": f"call_{seed}_{index}", "type": "function", "function": function}
            self._event({"role": "assistant", "tool_calls": [call]})
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._event({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        self._end("tool_calls")


def in_turn(*answers: "str | list[Call]") -> Play:
    """Gives the answers one after another, by how many the model has given in this conversation; then "done"."""
    return lambda messages: (*answers, "done")[min(sum(m["role"] == "assistant" for m in messages), len(answers))]


def results(messages: list[dict[str, Any]]) -> list[str]:
    """What the tools returned so far."""
    return [_text(message) for message in messages if message["role"] == "tool"]
