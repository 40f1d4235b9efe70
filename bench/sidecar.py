"""How long Pi's user waits for Python: spawn to hello, and one round trip after it.

    python bench/sidecar.py [--starts 25] [--calls 500]

Starts are alternated with `python -c pass`, the least that any Python process costs, so that the ratio of the two means
something on a noisy machine. The bar: a median hello within 150 ms.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from machine.rpc import Peer

PACKAGE = Path(__file__).resolve().parents[1]
BAR_MS = 150.0


def main() -> int:
    """Measures, prints, and returns 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=25)
    parser.add_argument("--calls", type=int, default=500)
    options = parser.parse_args()
    bare, hello = [], []
    for _ in range(options.starts):
        bare.append(bare_start())
        hello.append(sidecar_start())
    calls = round_trips(options.calls)
    report("python -c pass", bare)
    report("spawn to hello", hello)
    report("round trip", calls)
    median = statistics.median(hello)
    print(f"hello / bare start: {median / statistics.median(bare):.1f}   bar: {BAR_MS:.0f} ms")
    return int(median > BAR_MS)


def bare_start() -> float:
    """Milliseconds that an empty Python process takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", "pass"], check=True)
    return (time.perf_counter() - started) * 1e3


def sidecar_start() -> float:
    """Milliseconds from spawn to the answer to hello."""
    started = time.perf_counter()
    child, peer = sidecar()
    peer.call("hello")
    taken = (time.perf_counter() - started) * 1e3
    end(child)
    return taken


def round_trips(count: int) -> list[float]:
    """Milliseconds of each of `count` calls that cost a running sidecar nothing."""
    child, peer = sidecar()
    peer.call("hello")
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        peer.call("ctx.dead")
        taken.append((time.perf_counter() - started) * 1e3)
    end(child)
    return taken


def sidecar() -> tuple[subprocess.Popen[bytes], Peer]:
    """A sidecar as the extension starts it, and the line to it."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "machine.sidecar"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE / "src")},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    peer = Peer(child.stdout, child.stdin)
    threading.Thread(target=peer.serve, args=(lambda method, params: None,), daemon=True).start()
    return child, peer


def end(child: subprocess.Popen[bytes]) -> None:
    """Closes its input, which ends it."""
    assert child.stdin is not None
    child.stdin.close()
    child.wait(5)


def report(what: str, milliseconds: list[float]) -> None:
    """Prints median and 95th percentile."""
    p95 = sorted(milliseconds)[int(len(milliseconds) * 0.95)]
    print(f"{what:<16} median {statistics.median(milliseconds):7.2f} ms   p95 {p95:7.2f} ms   n {len(milliseconds)}")


if __name__ == "__main__":
    sys.exit(main())
