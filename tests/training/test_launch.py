import os
import signal
import subprocess
import sys
import threading

import pytest

from machine.training.launch import launch

ENDS_WELL = "print('step 1'); print('step 2')"
ENDS_BADLY = "import sys; print('error: no data\\nnext: tag a turn', file=sys.stderr); sys.exit(2)"
BREAKS = "raise RuntimeError('boom')"
WAITS = """
import signal, sys, time
def stop(*_):
    print('saved', flush=True); sys.exit(1)
signal.signal(signal.SIGINT, stop)
print('ready', flush=True)
time.sleep(60)
"""


def page(tmp_path, text):
    path = tmp_path / "page.py"
    path.write_text(text)
    return path


def test_its_lines_are_shown_in_order(tmp_path):
    lines = []
    assert launch(page(tmp_path, ENDS_WELL), [], lines.append) is None
    assert lines == ["step 1", "step 2"]


def test_a_fault_keeps_its_words_and_its_code(tmp_path):
    fault = launch(page(tmp_path, ENDS_BADLY), [], print)
    assert (fault.message, fault.next_step, fault.exit_code) == ("no data", "tag a turn", 2)


def test_a_crash_is_told_by_its_last_lines(tmp_path):
    fault = launch(page(tmp_path, BREAKS), [], print)
    assert "RuntimeError: boom" in fault.message
    assert "machine train sft --force" in fault.next_step


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_is_passed_on_and_waited_for(tmp_path):
    lines = []

    def seen(line):
        lines.append(line)
        if line == "ready":
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()

    fault = launch(page(tmp_path, WAITS), [], seen)
    assert "saved" in lines
    assert fault.exit_code == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_before_the_page_is_ready_is_no_fault_of_the_page(tmp_path):
    def seen(line):
        if line == "ready":
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()

    fault = launch(page(tmp_path, "import time; print('ready'); time.sleep(60)"), [], seen)
    assert fault.message.startswith("stopped")


@pytest.mark.skipif(os.name == "nt", reason="terminals")
@pytest.mark.parametrize("channel", [os.pipe, os.openpty])
def test_a_page_whose_reader_is_gone_is_told_to_stop(channel):
    code = (
        "import signal, time\n"
        "from machine.training.script import say\n"
        "signal.signal(signal.SIGINT, lambda *_: (_ for _ in ()).throw(SystemExit(7)))\n"
        "while True: say('line'); time.sleep(0.01)\n"
    )
    reading, writing = channel()
    child = subprocess.Popen([sys.executable, "-c", code], stdout=writing)
    os.close(writing)
    os.read(reading, 4)
    os.close(reading)
    assert child.wait(timeout=20) == 7
