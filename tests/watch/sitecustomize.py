"""Python loads this by itself where its folder is on PYTHONPATH: notes every host that a process asks for by Python's
own sockets, loopback but for, in the file that `WATCH_FILE` names, a line each. What libraries do by themselves, in
Rust or C, is not seen here.
"""

import os
import sys
from pathlib import Path
from typing import Any

FILE = os.environ.get("WATCH_FILE")
EVENTS = ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
HOME = ("localhost", "::1", "", "0.0.0.0", "::")


def note(event: str, args: tuple[Any, ...]) -> None:
    """Notes what an event of the interpreter is about, where it is about another machine."""
    if event not in EVENTS:
        return
    about = args[0] if event.startswith("socket.get") else args[1]
    host = about[0] if isinstance(about, tuple) else about if event.startswith("socket.get") else None
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str) and name not in HOME and not name.startswith("127."):
        with Path(FILE or os.devnull).open("a") as file:
            file.write(f"{event} {name}\n")


if FILE:
    sys.addaudithook(note)
