"""How well secrets are found, how often what is none is taken for one, and what that costs.

    python bench/privacy.py [--megabytes 60] [--repeats 9]

Recall: made-up credentials of every kind of `tests/privacy/credentials.py` in every position of a row; of kinds that
were held out while the first rules were made; and of `tests/privacy/blind.py`, a set by another author, who had not
seen the rules, in excerpts of traces. False positives: findings in code, data and documents of the
packages that are installed here. Cost: a row of 100 KB that was never looked at before, beside detect-secrets' own
scan of the same lines with all its plugins. Nothing that was found is printed, only rules and places.

The bars: 98 % found; one finding a MB; 20 ms a row. Exits 1 if one is missed.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "privacy"), str(Path(__file__).parent)]

import blind  # noqa: E402
from credentials import HELD_OUT, KINDS, POSITIONS, credential, lines_of  # noqa: E402
from real_files import real_files  # noqa: E402
from redaction import session  # noqa: E402

from machine.privacy.redact import forget, redacted  # noqa: E402
from machine.privacy.sources import Sources  # noqa: E402

RECALL, PER_MEGABYTE, MILLISECONDS = 0.98, 1.0, 20.0
NONE = Sources.of({})


def main() -> int:
    """Measures, prints, and returns 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    found = recall("kinds", KINDS)
    if HELD_OUT:
        recall("held out", list(HELD_OUT))
    unseen()
    wrong = false_positives(asked.megabytes)
    taken = cost(asked.repeats)
    print(f"bars: recall {RECALL:.0%}, {PER_MEGABYTE:.0f} finding a MB, {MILLISECONDS:.0f} ms a row of 100 KB")
    return int(found < RECALL or wrong > PER_MEGABYTE or taken > MILLISECONDS)


def recall(what: str, kinds: Iterable[str], seeds: Iterable[int] = range(3)) -> float:
    """The share of made-up credentials that are found; prints the kinds of which some are not."""
    asked, missed = Counter[str](), dict[str, Counter[str]]()
    for seed in seeds:
        dice = random.Random(seed)
        for kind in kinds:
            for position, row in POSITIONS.items():
                text, secret = credential(kind, dice)
                if position == "file name" and "\n" in text:
                    continue
                asked[kind] += 1
                if leaks(redacted(row(text), NONE)[0], secret):
                    missed.setdefault(kind, Counter())[position] += 1
    share = 1 - sum(map(Counter.total, missed.values())) / asked.total()
    print(f"recall, {what}: {share:.2%} of {asked.total()}, {len(asked)} kinds in {len(POSITIONS)} positions")
    for kind, places in missed.items():
        print(f"    {kind:<28} {1 - places.total() / asked[kind]:6.1%}   not in: {', '.join(places)}")
    return share


def leaks(row: Any, secret: str) -> bool:
    """Whether a row still holds a line of a secret, as it is or as JSON spells it."""
    written = json.dumps(row, ensure_ascii=False)
    return any(line in written or json.dumps(line)[1:-1] in written for line in lines_of(secret))


def unseen(seeds: Iterable[int] = (1, 2)) -> None:
    """Prints what is found of the set whose author had not seen the rules, and of its look-alikes."""
    asked, missed = Counter[str](), Counter[str]()
    for sample in (sample for seed in seeds for sample in blind.secrets(seed)):
        group = sample.episode.partition("/")[0]
        asked[group] += 1
        missed[group] += sample.secret in redacted({"text": sample.text}, NONE)[0]["text"]
    share = 1 - missed.total() / asked.total()
    print(f"blind set: {share:.2%} of {asked.total()} found; of", end=" ")
    print(", ".join(f"{group} {1 - missed[group] / asked[group]:.0%}" for group in asked))
    found = [bool(redacted({"text": text}, NONE)[1]) for _, text in blind.look_alikes()]
    print(f"    its look-alikes: {sum(found)} of {len(found)} flagged")


def false_positives(megabytes: int) -> float:
    """Findings per MB of real files; prints how many of each rule, and in which files."""
    rules, files, size = Counter[str](), dict[str, Counter[str]](), 0
    for name, text in real_files(megabytes * 1_000_000, seed=1, share=5_000_000):
        size += len(text)
        for finding in redacted({"content": text}, NONE)[1]:
            rules[finding.rule] += 1
            files.setdefault(finding.rule, Counter())[name] += 1
    share = rules.total() / (size / 1e6)
    print(f"real files: {rules.total()} findings in {size / 1e6:.1f} MB, {share:.2f} a MB")
    for rule, count in rules.most_common():
        print(f"    {rule:<28} {count:4}   {', '.join(f'{name} ({n})' for name, n in files[rule].most_common(4))}")
    return share


def cost(repeats: int) -> float:
    """The median milliseconds of this process for a first look at a row of 100 KB; prints them, and detect-secrets'."""
    row = {"messages": [{"role": "user", "content": text} for text in session(random.Random(3), 100_000)]}
    texts = [message["content"] for message in row["messages"]]
    redacted(row, NONE)
    ours = list[float]()
    for _ in range(repeats):
        forget()
        ours.append(milliseconds(lambda: redacted(row, NONE)))
    plain = milliseconds(lambda: detect_secrets(texts))
    median = statistics.median(ours)
    print(f"a row of {sum(map(len, texts)) / 1e3:.0f} KB: ours {median:.1f} ms", end=" ")
    print(f"({min(ours):.1f} to {max(ours):.1f}), detect-secrets {plain:.0f} ms")
    return median


def detect_secrets(texts: Iterable[str]) -> int:
    """How many secrets detect-secrets finds with all its plugins, line by line, as its own scan does."""
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    with default_settings():
        return sum(1 for text in texts for line in text.splitlines() for _ in scan_line(line))


def milliseconds(work: Callable[[], object]) -> float:
    """How long it kept the processor, whatever else runs on this machine."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


if __name__ == "__main__":
    sys.exit(main())
