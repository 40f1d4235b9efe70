"""The sidecar's requests and its life: `hello`, `command`, `event`, `ctx.dead`, and the end of the pipe."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine.errors import MachineError
from machine.rpc import GONE, UNKNOWN_METHOD, Peer, RpcError, take_pipes

if TYPE_CHECKING:
    from machine.report import Report
    from machine.sidecar.host import PiHost

REQUIRED = ("click", "filelock", "msgspec", "rich", "ulid", "detect_secrets", "yaml")
"""What every command needs; an interpreter that lacks one is told to the user before any command runs."""


class Sidecar:
    """Answers the extension's requests: `hello`, `command`, `event`, `ctx.dead`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._methods = {
            "hello": self._hello,
            "command": self._command,
            "event": self._event,
            "ctx.dead": self._session_replaced,
        }

    def handle(self, method: str, params: dict[str, Any]) -> Any:
        """Answers one request.

        Raises:
            RpcError: there is no such method.
        """
        if method not in self._methods:
            raise RpcError(UNKNOWN_METHOD, f"unknown method {method}")
        return self._methods[method](params)

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"pid": os.getpid(), "missing": [name for name in REQUIRED if find_spec(name) is None]}

    def _command(self, params: dict[str, Any]) -> None:
        from machine.sidecar.host import PiHost

        host = PiHost(self._peer, params["ctx"])
        if host.cwd.is_dir():
            os.chdir(host.cwd)
        host.show(_run(params["name"], params["args"], host))
        self._refresh_footer()

    def _event(self, params: dict[str, Any]) -> None:
        self._refresh_footer()

    def _session_replaced(self, params: dict[str, Any]) -> None:
        self._peer.fail_waiting("the session was replaced")

    def _refresh_footer(self) -> None:
        from machine.footer import footer

        try:
            info = self._peer.call("session.info")
            if info["hasUI"]:
                text = footer(Path(info["cwd"]), info["id"], _taggable(info["answer"]))
                self._peer.call("ui.setStatus", text=text)
        except MachineError as fault:
            self._peer.call("ui.setStatus", text=f"machine: {fault.message}")
        except RpcError as error:
            if error.code != GONE:
                raise


def _run(name: str, text: str, host: PiHost) -> Report:
    """Runs `/name text` as the shell command of the same words. A bug becomes a report too: Pi's user is waiting."""
    from machine.commands import help_text, run
    from machine.report import Report
    from machine.slash import argv

    words = argv(name, text) or ["--help"]
    try:
        wanted = help_text(words)
        return run(words, host) if wanted is None else Report(title=wanted)
    except (Exception, SystemExit) as bug:
        traceback.print_exc(file=sys.stderr)
        title = f"/{name} stopped on a fault of Machine's own: {type(bug).__name__}: {bug}"
        return Report(title=title, next_step="machine doctor", exit_code=1)


def _taggable(answer: dict[str, str] | None) -> str | None:
    if answer is None or answer["stopReason"] in ("error", "aborted"):
        return None
    return answer["id"]


def main() -> None:
    """Serves Pi until it closes the pipe."""
    peer = Peer(*take_pipes())
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is Pi's; a handler, unlike SIG_IGN, is not inherited
    peer.serve(Sidecar(peer).handle)
    os._exit(0)  # threads may hang in a dialog or a training step: Pi is gone, none may keep the process


if __name__ == "__main__":
    main()
