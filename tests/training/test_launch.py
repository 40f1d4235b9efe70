import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from machine.training.launch import Page

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


def launch(path, arguments, progress):
    with Page(path, arguments) as child:
        return child.run(progress)


def page(tmp_path, text):
    path = tmp_path / "page.py"
    path.write_text(text)
    return path


def test_its_lines_are_shown_in_order(tmp_path):
    lines = []
    assert launch(page(tmp_path, ENDS_WELL), [], lines.append) is None
    assert lines == ["step 1", "step 2"]


def test_nothing_of_a_page_runs_before_it_is_told(tmp_path):
    path = page(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')\nimport base64\nprint(base64.__name__)")
    with Page(path, [], ["json", "base64", "no.such.module"]) as child:
        time.sleep(1)
        assert child._child.poll() is None
        assert not (tmp_path / "ran").exists()
    assert child._child.returncode
    assert not (tmp_path / "ran").exists()
    lines = []
    with Page(path, [], ["base64"]) as child:
        assert child.run(lines.append) is None
    assert lines == ["base64"]


def test_a_page_is_given_what_was_rendered_though_it_is_more_than_a_pipe_holds(tmp_path):
    given = msgspec.msgpack.encode([[b"key", "id", "session", 0, list(range(200_000)), 3, [0.5]]])
    lines = []
    text = "from machine.training.handover import _given; print(len(_given[b'key'].tokens), _given[b'key'].weights)"
    with Page(page(tmp_path, text), []) as child:
        assert child.run(lines.append, given) is None
    assert lines == ["200000 [0.0, 0.0, 0.0, 0.5]"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
def test_a_page_that_waits_ends_with_whoever_started_it(tmp_path):
    path = page(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    code = (
        "import os, sys, time\nfrom pathlib import Path\nfrom machine.training.launch import Page\n"
        f"child = Page(Path({str(path)!r}), [])\nprint(child._child.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and Path(f"/proc/{pid}/exe").exists():
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}/exe").exists()
    assert not (tmp_path / "ran").exists()


def test_a_page_sees_its_own_arguments_name_and_folder(tmp_path):
    lines = []
    text = "import sys, pathlib; print(sys.argv[1:], __name__, pathlib.Path(__file__) == pathlib.Path(sys.argv[0]))"
    assert launch(page(tmp_path, text), ["--rank=3", "x y"], lines.append) is None
    assert lines == ["['--rank=3', 'x y'] __main__ True"]


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
