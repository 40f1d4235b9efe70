"""One evaluation of a name at a time, among real processes."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from machine.errors import Refused
from machine.evals.claim import claimed

HOLDS = """
import sys, time
from pathlib import Path
from machine.evals.claim import claimed
with claimed(Path(sys.argv[1]), "baseline"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def another(evals):
    """A process that holds `baseline`."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(evals)], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"held\n"
            yield child
        finally:
            child.kill()


def test_the_second_is_told_who_is_first(tmp_path):
    with another(tmp_path / "evals") as first:
        with (
            pytest.raises(Refused, match=f"baseline is already being evaluated by process {first.pid}, since 20") as no,
            claimed(tmp_path / "evals", "baseline"),
        ):
            pytest.fail("two at once")
        assert "no answer is lost" in no.value.next_step
        with claimed(tmp_path / "evals", "checkpoint-a"):
            pass


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_dead_process_is_in_nobody_s_way(tmp_path):
    with another(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert (tmp_path / "baseline.holder").exists()
        with claimed(tmp_path, "baseline"):
            pass
    assert not (tmp_path / "baseline.holder").exists()


def test_threads_exclude_each_other_and_a_claim_ends(tmp_path):
    found = []

    def work():
        try:
            with claimed(tmp_path, "baseline"):
                found.append("held")
        except Refused as error:
            found.append(error.message)

    def run():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(10)

    with contextlib.suppress(ZeroDivisionError), claimed(tmp_path, "baseline"):
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
        run()
        raise ZeroDivisionError
    run()
    assert str(os.getpid()) in found[0]
    assert found[1:] == ["held"]
