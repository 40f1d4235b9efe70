import threading
import time

import pytest

from machine.errors import StoreError
from machine.store import files
from machine.store.files import append_line, locked


def test_what_a_crash_left_of_a_line_is_cut_off_and_whole_lines_stay(tmp_path):
    log = tmp_path / "log.jsonl"
    for left in (b"", b"one\n", b"one\ntwo\nthr", b"x" * 70000 + b"\n" + b"y" * 70000, b"z" * 70000):
        log.write_bytes(left)
        append_line(log, b"new", cut_torn=True)
        assert log.read_bytes() == left[: left.rfind(b"\n") + 1] + b"new\n"


def test_a_lock_that_goes_round_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.3)
    done = []

    def take():
        with locked(tmp_path / "lock"):
            time.sleep(0.1)
            done.append(True)

    crowd = [threading.Thread(target=take) for _ in range(10)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert len(done) == 10


def test_a_lock_that_one_holds_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.2)
    held, over = threading.Event(), threading.Event()

    def hold():
        with locked(tmp_path / "lock"):
            held.set()
            over.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(StoreError, match="held by another process"), locked(tmp_path / "lock"):
            pass
        assert time.monotonic() - began < 8
    over.set()
    holder.join()
    with locked(tmp_path / "lock"):
        pass
