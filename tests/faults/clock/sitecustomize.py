"""Shifts the wall clock of every Python that finds this file first, by the seconds that the file `FAULTS_CLOCK` holds.

The file may change at any time. Clocks that only run (`time.monotonic`) stay, as they do when a real clock is set.
"""

import ctypes
import datetime
import gc
import os
import time
from pathlib import Path

_time, _time_ns, _now = time.time, time.time_ns, datetime.datetime.now


def _shift() -> float:
    try:
        with Path(os.environ["FAULTS_CLOCK"]).open() as file:
            return float(file.read() or 0)
    except (KeyError, OSError):
        return 0.0


def _now_shifted(cls: type, tz: datetime.tzinfo | None = None) -> datetime.datetime:
    return _now(tz) + datetime.timedelta(seconds=_shift())


time.time = lambda: _time() + _shift()
time.time_ns = lambda: _time_ns() + int(_shift() * 1e9)
# The type itself: libraries look at it by identity, so that no subclass may take its place.
[members] = (found for found in gc.get_referents(datetime.datetime.__dict__) if isinstance(found, dict))
members["now"] = classmethod(_now_shifted)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
