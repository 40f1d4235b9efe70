import itertools
import os
import subprocess
import sys
import threading

from machine.engine import logs
from machine.engine.logs import BEFORE, LOG


def write(state, text):
    with (state / LOG).open("a") as log:
        log.write(text)


def test_the_log_before_is_kept_once(tmp_path):
    for n in range(3):
        os.write(descriptor := logs.open_new(tmp_path), f"life {n}\n".encode())
        os.close(descriptor)
    assert (tmp_path / LOG).read_text() == "life 2\n"
    assert (tmp_path / BEFORE).read_text() == "life 1\n"
    assert (tmp_path / LOG).stat().st_mode & 0o777 == 0o600
    assert logs.tail(tmp_path, 1) == ["life 2"]
    assert logs.tail(tmp_path, 9) == ["life 1", "life 2"]


def test_there_may_be_no_log(tmp_path):
    assert logs.tail(tmp_path, 5) == []
    logs.bound(tmp_path)
    assert list(tmp_path.iterdir()) == []


CHATTERER = """
import logging, pathlib, sys
from machine.engine import logs
state = pathlib.Path(sys.argv[1])
logs.configure()
for n in range(1000):
    logging.getLogger("machine.engine.x").info("line %d", n)
    logs.bound(state, max_bytes=5000)
print("plain", flush=True)
"""


def test_a_process_cannot_fill_the_disk_and_loses_no_recent_line(tmp_path):
    log = logs.open_new(tmp_path)
    subprocess.run([sys.executable, "-c", CHATTERER, str(tmp_path)], stdout=log, stderr=log, check=True)
    os.close(log)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 11000
    assert {file.name for file in tmp_path.iterdir()} == {LOG, BEFORE}
    last = logs.tail(tmp_path, 100)
    assert last[-1] == "plain"
    assert [line.rpartition(" ")[2] for line in last[:-1]] == [str(n) for n in range(901, 1000)]


def test_a_process_on_a_terminal_leaves_the_log_alone(tmp_path):
    write(tmp_path, "x" * 9000)
    done = subprocess.run([sys.executable, "-c", CHATTERER, str(tmp_path)], capture_output=True, check=True)
    assert done.stderr.count(b"line") == 1000
    assert (tmp_path / LOG).stat().st_size == 9000


def test_following_shows_whole_lines_and_goes_on_in_the_next_log(tmp_path):
    write(tmp_path, "old\n")
    lines = logs.follow(tmp_path, every=0.01)
    first = []
    reader = threading.Thread(target=lambda: first.append(next(lines)))
    reader.start()
    reader.join(0.1)
    write(tmp_path, "half")
    reader.join(0.1)
    assert first == []
    write(tmp_path, " a line\n")
    reader.join(5)
    assert first == ["half a line"]
    os.close(logs.open_new(tmp_path))
    write(tmp_path, "new\nnewer\n")
    assert list(itertools.islice(lines, 2)) == ["new", "newer"]
