"""The port in the box that leads to the relay outside."""

import contextlib
import socket
import threading

SLOTS = 32
"""Connections to the model at once."""


def listen(port: int) -> socket.socket:
    """Listens on 127.0.0.1 at `port`, 0 for any."""
    return socket.create_server(("127.0.0.1", port), backlog=SLOTS)


def serve(listener: socket.socket, path: str) -> None:
    """Joins, from now on, each connection to the listener with one to the Unix socket `path`."""
    threading.Thread(target=_serve, args=(listener, path), daemon=True).start()


def _serve(listener: socket.socket, path: str) -> None:
    """Accepts without end; beyond `SLOTS` connections it hangs up."""
    slots = threading.BoundedSemaphore(SLOTS)
    while True:
        near, _ = listener.accept()
        if not slots.acquire(blocking=False):
            near.close()
            continue
        try:
            threading.Thread(target=_join, args=(near, path, slots), daemon=True).start()
        except RuntimeError:
            near.close()
            slots.release()


def _join(near: socket.socket, path: str, slots: threading.BoundedSemaphore) -> None:
    try:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(path)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
    except (OSError, RuntimeError):
        pass
    finally:
        slots.release()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
