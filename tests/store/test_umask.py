"""Whatever the umask: every folder that the commands leave in Machine's home is 0700, every file 0600, and none is a link."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sessions import TOOL, Script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")
PAGE = """
import json, pathlib, sys
from machine.store.project import Project
from machine.cli import ShellHost
from machine.commands import run
codes = []
for words in json.load(sys.stdin):
    words = [Project.at(pathlib.Path()).pool.recent(1, "good")[0].id if word == "ID" else word for word in words]
    codes.append(run(words, ShellHost(quiet=True)).exit_code)
print(json.dumps(codes))
"""
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def session(folder):
    script = Script(cwd=str(folder), tools=[TOOL])
    for number in range(4):
        script.message(role="user", content=[{"type": "text", "text": f"Question {number}"}, {"type": "image", "mimeType": "image/png", "data": PNG}])  # fmt: skip
        script.assistant("", [(f"c{number}", {})])
        script.result(f"c{number}", f"result {number}")
        script.assistant(f"Answer {number}")
    return script.save(folder / "s.jsonl")


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777], ids=oct)
def test_what_the_commands_write_is_private(tmp_path, home, umask):
    file = str(session(tmp_path))
    fine = [["auto", "on"], ["good", "a note", "--session", file], ["tagged"], ["data"], ["privacy"]]
    fine += [["correction", "wrong", "--session", file], ["import", file, "--tag", "good"], ["corrections"]]
    if not umask:  # these wait for a tokenizer
        fine += [["train", "sft"], ["train", "validate", "--show", "ID"]]
    refused = [["good", "--session", file, "--leaf", "nowhere"], ["tagged", "t_none"]]
    done = subprocess.run(
        [sys.executable, "-c", PAGE], input=json.dumps(fine + refused), capture_output=True, text=True, cwd=tmp_path,
        umask=umask, env=os.environ | {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0] * len(fine) + [2] * len(refused)
    found = [home, *home.rglob("*")]
    kinds = {".jsonl", ".index", ".lock", ".json", "blobs"} | ({".py", ".yaml", ".html"} if not umask else set())
    assert kinds <= {path.suffix or path.name for path in found}
    assert {str(path): oct(stat.S_IMODE(path.lstat().st_mode)) for path in found if open_to_others(path)} == {}


def open_to_others(path: Path) -> bool:
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        return stat.S_IMODE(status.st_mode) != 0o700
    return not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != 0o600 or status.st_nlink != 1
