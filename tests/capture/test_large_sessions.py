"""A session of any size is read in bounded memory: what nobody asks for is not kept."""

import json
import subprocess
import sys

import pytest

from sessions import TOOL, Script

LINE = 5_000_000
MOST = 120_000_000
"""Bytes at once: some 50 MB of interpreter and libraries, and a few of the longest lines."""

PROGRAM = """
import sys
from machine.cli import main
try:
    main()
finally:
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel tells a process's own peak in /proc")
def test_a_session_of_many_long_lines_is_tagged_in_a_fraction_of_its_size(tmp_path):
    s = Script(cwd=str(tmp_path), tools=[TOOL])
    for number in range(4):
        s.user(f"Question {number}")
        for call in range(8):
            s.assistant("", [(f"c{number}-{call}", {})])
            s.message(
                role="toolResult", toolCallId=f"c{number}-{call}", toolName="read", isError=False,
                content=[{"type": "text", "text": "short"}], details={"transcript": "x" * LINE},
            )  # fmt: skip
        s.assistant(f"Answer {number}")
    file = s.save(tmp_path / "s.jsonl")
    assert file.stat().st_size > MOST
    command = [sys.executable, "-c", PROGRAM, "good", "--session", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert json.loads(done.stdout)["data"]["target"], done.stderr
    peak = int(done.stderr.split()[-1]) * 1024
    assert peak < MOST, f"{peak / 1e6:.0f} MB"
