"""The sidecar's requests and its life: `hello`, `command`, `event`, `wake`, `ctx.dead`, and the end of the pipe."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine.errors import MachineError
from machine.rpc import GONE, UNKNOWN_METHOD, Peer, RpcError, take_pipes
from machine.sidecar.observer import Observer
from machine.slash import as_typed_in_pi

if TYPE_CHECKING:
    from machine.report import Report
    from machine.sidecar.host import PiHost

REQUIRED = ("click", "filelock", "msgspec", "rich", "ulid", "detect_secrets", "yaml", "gcld3")
"""What every command needs; an interpreter that lacks one is told to the user before any command runs."""

FINISH_SECONDS = 60.0
"""How long turns that ended before Pi did are still captured."""


class Sidecar:
    """Answers the extension's requests: `hello`, `command`, `event`, `wake`, `ctx.dead`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._footers = ThreadPoolExecutor(1)  # one thread: an older footer cannot come after a newer one
        self._observer = Observer(on_changed=self._refresh_footer, on_said=self._say)
        self._methods = {
            "hello": self._hello,
            "command": self._command,
            "event": self._event,
            "wake": self._wake,
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
        self._footers.submit(self._show_footer).result()

    def _event(self, params: dict[str, Any]) -> None:
        capture = params.get("capture")
        if capture:
            self._observer.look(capture)
        if not capture or capture["session"]["hasUI"]:
            self._refresh_footer()

    def _wake(self, params: dict[str, Any]) -> None:
        from machine.commands.common import tinker_service
        from machine.sidecar.host import SESSION, PiHost

        host = PiHost(self._peer, SESSION)
        try:
            tinker_service(host)
        except MachineError as fault:
            host.notify(f"{fault.message}\nNext: {as_typed_in_pi(fault.next_step)}", "warning")

    def _session_replaced(self, params: dict[str, Any]) -> None:
        self._peer.fail_waiting("the session was replaced")

    def _say(self, words: str) -> None:
        """Tells the user something that nobody asked for, in whichever session Pi is in."""
        with contextlib.suppress(RpcError, OSError):  # Pi may be gone
            self._peer.call("ui.notify", ctx="session", message=words, level="warning")

    def _refresh_footer(self) -> None:
        self._footers.submit(self._show_footer)

    def _show_footer(self) -> None:
        try:
            info = self._peer.call("session.info")
            if info["hasUI"]:
                self._peer.call("ui.setFooter", session=info["id"], text=_footer(info))
        except RpcError as error:
            if error.code != GONE:
                raise

    def finish(self) -> None:
        """Looks at the turns that had ended when Pi did, and waits for nothing else."""
        self._peer.fail_waiting("Pi has ended")
        self._observer.finish(FINISH_SECONDS)

    def terminate(self, number: int, _: object) -> None:
        """On SIGTERM: ends the process, unless turns are being captured; it then ends after them, and with Pi."""
        if not self._observer.busy:
            os._exit(128 + number)


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


def _footer(info: dict[str, Any]) -> str:
    from machine.footer import footer

    try:
        return footer(Path(info["cwd"]), info["id"], _taggable(info["answer"]), student=info["student"])
    except MachineError as fault:
        return f"machine: {fault.message}"


def _taggable(answer: dict[str, str] | None) -> str | None:
    if answer is None or answer["stopReason"] in ("error", "aborted"):
        return None
    return answer["id"]


def main() -> None:
    """Serves Pi until it closes the pipe."""
    gc.set_threshold(100_000, 20, 100)  # a command makes much and lets go of it all; looking for cycles costs more
    peer = Peer(*take_pipes())
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is Pi's; a handler, unlike SIG_IGN, is not inherited
    sidecar = Sidecar(peer)
    signal.signal(signal.SIGTERM, sidecar.terminate)
    peer.serve(sidecar.handle)
    sidecar.finish()
    os._exit(0)  # threads may hang in a dialog or a training step: Pi is gone, none may keep the process


if __name__ == "__main__":
    main()
