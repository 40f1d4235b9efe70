"""How fast secrets are looked for: our scan beside its rules, run one by one over the same texts.

    python bench/redaction.py [--repeats 5]

The corpora, 2 MB each: what an agent's session holds (code of the standard library, JSON, logs, prose), the same with
a secret in every third text, and a text of nothing but the beginnings of secrets. The two scans must find the same;
each repeat runs both, and the medians count. The bar, for a session that was looked at before: 15 ms.
"""

import argparse
import json
import random
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from machine.privacy.forms.anchors import Anchors
from machine.privacy.forms.patterns import rules
from machine.privacy.redact import Finding, forget, redacted
from machine.privacy.sources import Sources

NONE = Sources.of({})
SIZE = 2_000_000
BAR_MS = 15.0
BEGINNINGS = [
    "AKIA",
    "ghp_",
    " AKC",
    " APA",
    "xoxb-",
    "glpat-",
    "aws",
    "://",
    "@",
    "SG.",
    "-us1",
    "-----BEGIN ",
    "cl_key=",
]


def main() -> int:
    """Measures, prints, and returns 1 if the bar is missed or the two scans differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    dice = random.Random(7)
    plain = session(dice)
    secret = [f"{text}\n{token(dice)} \n" if number % 3 == 0 else text for number, text in enumerate(plain)]
    rules()
    within = report("session", plain, repeats) <= BAR_MS
    report("many secrets", secret, repeats)
    report("beginnings", ["".join(dice.choices(BEGINNINGS, k=250)) for _ in range(SIZE // 1250)], repeats)
    print(f"bar: the session, again, within {BAR_MS:.0f} ms")
    return int(not within)


def session(dice: random.Random, size: int = SIZE) -> list[str]:
    """Texts of 200 to 8,000 characters, `size` in all, a quarter of each kind."""
    library = Path(sysconfig.get_path("stdlib"))
    code = "".join(file.read_text(errors="replace") for file in sorted(library.glob("*.py"))[:60])
    words = sorted(word for word in set(code.split()) if word.isalpha())
    found: list[str] = []
    while sum(map(len, found)) < size:
        length = dice.randint(200, 3800)
        start = dice.randrange(len(code) - length)
        found += [code[start : start + length], records(dice, length), log(dice, length), prose(dice, words, length)]
    return found


def records(dice: random.Random, length: int) -> str:
    """JSON of a tool: ids, paths, digests, addresses."""
    one = [
        {
            "id": f"{dice.getrandbits(128):032x}",
            "path": f"/srv/app/src/components/module_{dice.randrange(999)}/index.tsx",
            "sha": f"{dice.getrandbits(160):040x}",
            "url": f"https://example.org/api/v1/items/{dice.randrange(10**6)}?page=2",
            "mail": f"user{dice.randrange(99)}@example.org",
        }
        for _ in range(length // 250 + 1)
    ]
    return json.dumps(one)[:length]


def log(dice: random.Random, length: int) -> str:
    """Lines with a time, a level and a request."""
    line = "2024-05-01T12:{:02}:{:02}.123Z INFO  worker-{} GET /api/v1/items/{} 200 in {} ms ✓\n"
    return "".join(line.format(*(dice.randrange(60) for _ in range(5))) for _ in range(length // 75 + 1))[:length]


def prose(dice: random.Random, words: list[str], length: int) -> str:
    """Short words in lines."""
    return " ".join(dice.choices(words, k=length // 5))[:length]


def token(dice: random.Random) -> str:
    """A secret of one of five kinds."""
    digits = "".join(dice.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", k=36))
    kinds = [
        "AKIA" + digits[:16],
        "ghp_" + digits,
        f"https://me:{digits}@host",
        "xoxb-12-34-" + digits,
        "eyJ" + digits + ".x",
    ]
    return dice.choice(kinds)


def one_by_one(texts: list[str]) -> list[Finding]:
    """What every rule finds in every text, none left out."""
    forget()
    with patch.object(Anchors, "possible", lambda anchors, text: [(rule, None) for rule in rules()]):
        return redacted(texts, NONE)[1]


def ours(texts: list[str]) -> list[Finding]:
    """What our scan finds, without the secrets of this machine's environment."""
    return redacted(texts, NONE)[1]


def report(what: str, texts: list[str], repeats: int) -> float:
    """Prints a corpus's figures of both scans and returns our median of a second look, in milliseconds."""
    size = sum(map(len, texts)) / 1e6
    taken: dict[str, list[float]] = {"ours": [], "ours, again": [], "one by one": []}
    for _ in range(repeats):
        expected, milliseconds = timed(one_by_one, texts)
        taken["one by one"].append(milliseconds)
        forget()
        for again in ("ours", "ours, again"):
            found, milliseconds = timed(ours, texts)
            taken[again].append(milliseconds)
        assert found == expected, f"{what}: {len(found)} findings, not the {len(expected)} of the plain scan"
    for how, milliseconds in taken.items():
        median = statistics.median(milliseconds)
        print(f"{what:<13} {size:4.1f} MB  {how:<11} median {median:8.1f} ms  {size / median * 1e3:7.1f} MB/s")
    ratio = statistics.median(taken["one by one"]) / statistics.median(taken["ours"])
    print(f"{what:<13} findings {len(found)}, equal   {ratio:.1f} times as fast")
    return statistics.median(taken["ours, again"])


def timed(scan: Callable[[list[str]], list[Finding]], texts: list[str]) -> tuple[list[Finding], float]:
    """What a scan found, and its milliseconds."""
    started = time.perf_counter()
    found = scan(texts)
    return found, (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    sys.exit(main())
