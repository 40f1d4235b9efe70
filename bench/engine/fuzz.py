"""The engine's door under 120,000 malformed inputs, and a table of what was answered.

`python bench/engine/fuzz.py` builds the engine's whole application on a small random model in this process and sends
requests that are right but for one to three changes (see `tests/malformed.py`) to every endpoint, and such bodies to
the decoders alone. It stops at the first answer that is not a 2xx, 3xx or 4xx, takes longer than 10 seconds, or holds
what another session said (see `tests/fuzzed.py`). hypothesis makes the changes, from seeds that `--seed` sets; it tells
the smallest request that fails. Needs the default model's tokenizer, 2 GB of memory, and some minutes.
"""

import os
import sys
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests"))

import argparse
import logging
import tempfile
import time
from collections import Counter

from fuzzed import Fuzzed, decode_all, resident, save_model, storm
from machine.engine import memory
from machine.engine.models.convert import ensure_model
from malformed import KINDS

MEMORY = 3 * 2**30
"""Bytes that the process may take beyond what it begins with."""


def table(counts: "Counter[tuple[str, str, int]]", slowest: "Counter[str]") -> str:
    """Inputs by endpoint and kind, statuses, and the longest time of each endpoint in milliseconds."""
    lines = [
        f"{'endpoint':26}"
        + "".join(f"{kind:>9}" for kind in KINDS)
        + f"{'all':>9}  {'2xx':>7}{'3xx':>6}{'4xx':>7}{'5xx':>5}{'slowest':>10}"
    ]
    for endpoint in [*sorted({endpoint for endpoint, _, _ in counts}), ""]:
        own = {key: n for key, n in counts.items() if endpoint in ("", key[0])}
        kinds = "".join(f"{sum(n for (_, k, _), n in own.items() if k == kind):9,}" for kind in KINDS)
        status = [sum(n for (_, _, s), n in own.items() if s // 100 == hundred) for hundred in (2, 3, 4, 5)]
        time_ms = 1000 * (slowest[endpoint] if endpoint else max(slowest.values()))
        ends = f"{status[0]:7,}{status[1]:6,}{status[2]:7,}{status[3]:5,}{time_ms:7,.0f} ms"
        lines.append(f"{endpoint or 'all':26}{kinds}{sum(own.values()):9,}  {ends}")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=60_000, help="requests to the application")
    parser.add_argument("--bodies", type=int, default=60_000, help="bodies to the decoders")
    parser.add_argument("--seed", type=int, default=0, help="other requests")
    asked = parser.parse_args()
    logging.getLogger("machine.engine").setLevel(logging.CRITICAL)
    memory.bound(MEMORY)
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder) / "model", ensure_model())
        with Fuzzed(model, Path(folder) / "state") as fuzzed:
            storm(fuzzed, 2000, asked.seed)
            before, began = resident(), time.monotonic()
            storm(fuzzed, asked.requests - 2000, asked.seed + 1)
            seconds, grown = time.monotonic() - began, resident() - before
            same = fuzzed.again() == fuzzed.before
            print(table(fuzzed.counts, fuzzed.slowest))
            counted, looked = sum(fuzzed.counts.values()), fuzzed.looked
            print(f"{counted:,} requests, {seconds:.0f} s; {fuzzed.promised:,} promised answers, 0 its own fault")
            print(f"canary sightings 0 in {looked:,} answers; memory grew by {grown / 2**20:.0f} MiB")
            print(f"good requests answered as before: {same}")
            began = time.monotonic()
            refused = decode_all(fuzzed, asked.bodies, asked.seed)
            told = ", ".join(f"{name} {n:,} ({bad:,} refused)" for name, (n, bad) in refused.items())
            bodies = sum(n for n, _ in refused.values())
            print(f"{bodies:,} bodies to the decoders, {time.monotonic() - began:.0f} s: {told}")
    if not same:
        raise SystemExit("a good request is answered otherwise than before")


if __name__ == "__main__":
    main()
