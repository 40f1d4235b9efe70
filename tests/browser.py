"""Browser: a headless Chromium that looks at a page for a test, driven by the DevTools protocol over two pipes.

`find` takes the system's browser, else the one that `make setup` put into the environment. Nothing reaches a network:
every name resolves to nothing, and the page's own requests are recorded for the test to judge.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine import bootstrap

MISSING = "no Chromium here: install one (Debian: apt install chromium); on Linux x64, make setup brings one"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
BARE = ("--single-process", "--no-zygote", "--in-process-gpu")
"""What the environment's own Chromium needs besides: it is built for places that forbid it to fork."""


def find() -> list[str] | None:
    """The command of a browser that is there, without the flags; None if there is none. A pipe needs POSIX."""
    if os.name != "posix":
        return None
    if found := bootstrap.system_browser():
        return [str(found)]
    own = bootstrap.chromium(Path(sys.prefix))
    return ["env", f"LD_LIBRARY_PATH={own.parent / 'al2023' / 'lib'}", str(own), *BARE] if own else None


@dataclass
class Page:
    """An opened page, and what happened in it so far.

    `sent` has what it asked for (url by request), `refused` what its own policy forbade of that, `complaints` what
    the console got.
    """

    _browser: "Browser"
    sent: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def requests(self) -> list[str]:
        """What it asked for and was not refused by its policy."""
        return [url for url in self.sent.values() if url not in self.refused]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self._browser.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def look(self, *, width: int, dark: bool = False) -> None:
        """Lays the page out at `width` CSS pixels, in light or dark."""
        self._browser.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._browser.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Saves what it looks like as PNG."""
        data = self._browser.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


class Browser:
    """A running browser; `with opened(folder) as browser`."""

    def __init__(self, process: "subprocess.Popen[bytes]", writing: int, reading: int) -> None:
        self._process, self._writing, self._reading = process, writing, reading
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._page = Page(self)

    def open(self, path: Path) -> Page:
        """Opens a file in a tab of its own and waits until it is loaded."""
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._page = Page(self)
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        failed = self.call("Page.navigate", url=path.as_uri()).get("errorText")
        assert not failed, failed
        self._until(lambda message: message.get("method") == "Page.loadEventFired")
        return self._page

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Asks the browser for something and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        number = self._number
        answer = self._until(lambda message: message.get("id") == number)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _until(self, wanted: Any) -> dict[str, Any]:
        while True:
            message = self._next()
            self._note(message)
            if wanted(message):
                return message

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._reading, 1 << 16)
            assert data, f"the browser ended with {self._process.wait()}"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("sessionId") != self._session:
            return
        given = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self._page.sent[given["requestId"]] = given["request"]["url"]
            case "Network.loadingFailed" if given.get("blockedReason") == "csp":
                self._page.refused.append(self._page.sent[given["requestId"]])
            case "Log.entryAdded":
                self._page.complaints.append(given["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self._page.complaints.append(json.dumps(given["args"]))
            case "Runtime.exceptionThrown":
                self._page.complaints.append(given["exceptionDetails"]["text"])


@contextlib.contextmanager
def opened(command: list[str], folder: Path) -> Iterator[Browser]:
    """Starts the browser with a profile of its own in `folder`, and ends it."""
    its_input, writing = os.pipe()
    reading, its_output = os.pipe()
    shell = f'exec "$@" 3</dev/fd/{its_input} 4>/dev/fd/{its_output}'  # a shell need not know a two-digit descriptor
    process = subprocess.Popen(
        ["sh", "-c", shell, "sh", *command, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
        pass_fds=(its_input, its_output),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "browser.log").open("wb"),
        start_new_session=True,
    )
    os.close(its_input)
    os.close(its_output)
    try:
        yield Browser(process, writing, reading)
    finally:
        os.close(writing)  # a browser whose pipe is closed ends by itself
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
        os.close(reading)
