"""Real files: code, data and documents of the packages that are installed here, to look for secrets that are none."""

import os
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

CODE = {".py", ".pyi", ".js", ".mjs", ".cjs", ".ts", ".sh", ".css", ".html"}
DATA = {".json", ".lock", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".md", ".rst", ".txt"}
LARGEST = 2_000_000
ROOT = Path(__file__).parents[2]


def real_files(size: int, seed: int, share: int) -> Iterator[tuple[str, str]]:
    """Names and texts in an order that the seed gives: `size` bytes in all, or what there is, at most `share` of one
    package.
    """
    dice = random.Random(seed)
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")] + [ROOT / "node_modules"]
    packages = [path for folder in folders for path in sorted(folder.iterdir()) if path not in folders]
    dice.shuffle(packages)
    for package in packages:
        left = min(share, size)
        for path in _shuffled(package, dice):
            if left <= 0:
                break
            text = path.read_text(errors="replace")
            left, size = left - len(text), size - len(text)
            yield str(path.relative_to(package.parent)), text


def _shuffled(package: Path, dice: random.Random) -> list[Path]:
    inside = [package] if package.is_file() else [Path(at, name) for at, _, names in os.walk(package) for name in names]
    found = sorted(path for path in inside if path.suffix in CODE | DATA and 0 < path.stat().st_size <= LARGEST)
    dice.shuffle(found)
    return found
