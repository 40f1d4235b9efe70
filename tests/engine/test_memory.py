import subprocess
import sys
from pathlib import Path

import pytest

from machine.engine import memory

HOARDER = """
import sys
from machine.engine import memory
memory.bound(int(sys.argv[1]))
try:
    bytearray(200 * 2**20)
    print("had it")
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
@pytest.mark.parametrize(("size", "outcome"), [(100 * 2**20, "refused"), (300 * 2**20, "had it")])
def test_what_is_beyond_the_bound_is_refused(size, outcome):
    done = subprocess.run([sys.executable, "-c", HOARDER, str(size)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == outcome


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_what_is_free_is_less_than_what_there_is():
    lines = Path("/proc/meminfo").read_text().splitlines()
    there = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("MemTotal:", "SwapTotal:")))
    assert 0 < memory.free() < there


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_a_model_that_does_not_fit_is_told(small_folder, tmp_path):
    command = ["-m", "machine.engine.server", "--model", str(small_folder), "--state", str(tmp_path), "--device", "cpu"]
    limited = ["prlimit", f"--data={900 * 2**20}", sys.executable, *command]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert "not enough memory for SmolLM2-135M-Instruct" in done.stderr
    assert "Traceback" not in done.stderr
