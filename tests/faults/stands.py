"""Stands: tests elsewhere that hold a fault already, so that the table runs and names them and does not do them twice."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Standing:
    """A fault that a test holds (`where`: a file of tests and the name of one), and what that test asserts."""

    fault: str
    where: str
    done: str
    kept: str
    after: str
    message: str

    def run(self) -> str | None:
        """Runs the test; None if it passes, else its last line."""
        words = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--no-header",
            "-p",
            "no:cacheprovider",
            str(TESTS / self.where),
        ]
        done = subprocess.run(words, capture_output=True, text=True, cwd=TESTS.parent, timeout=1200)
        return None if done.returncode == 0 else f"{self.where}: {(done.stdout.strip().splitlines() or ['?'])[-1]}"


ALL = [
    Standing(
        "kill -9 at every call and half-way through every write of the store",
        "store/test_fire.py::test_a_thousand_kills_lose_nothing_that_was_confirmed",
        "1,000 kills of processes that add rows, turns, images, settings",
        "what was confirmed is there, once; the rows of a turn all or none",
        "the same again adds what was missing, and nothing twice",
        "a torn line is set aside, which `machine data` says",
    ),
    Standing(
        "a power cut after `saved`",
        "store/test_fire.py::test_what_was_appended_survives_a_power_cut",
        "only what was synced is left: of a file its bytes, of a folder its names",
        "the rows, and what was set aside, are there",
        "the next row begins on a line of its own",
        "nothing is said, and nothing need be",
    ),
    Standing(
        "many processes append to one pool",
        "store/test_fire.py::test_sixteen_processes_append_and_every_row_is_there_once_and_in_order",
        "16 processes, 500 rows each, at the same time",
        "8,000 rows, each once, those of a process in their order",
        "the listing is the file",
        "nothing is said, and nothing need be",
    ),
    Standing(
        "a system call that fails (EIO, EDQUOT, EROFS, ESTALE, ENOLCK …), a write that is cut off half-way",
        "store/test_faults.py",
        "each call of each kind of write fails in turn",
        "rows, settings, refusals and images are as they were",
        "the same again works",
        "each is an error with a next step that fits it",
    ),
    Standing(
        "kill -9 of the engine while it trains, saves, loads, samples",
        "engine/test_life.py::test_killed_in_any_phase_it_starts_clean_and_training_goes_on_from_the_last_checkpoint",
        "SIGKILL at a random moment of each",
        "every checkpoint that was acknowledged is listed and loads, its optimiser too",
        "the engine starts, leaves nothing half written, trains on",
        "who waits is told `the engine was stopped`",
    ),
    Standing(
        "kill -9 at any moment of a checkpoint that replaces another",
        "engine/test_checkpoints.py::test_killed_at_any_moment_of_a_save_every_checkpoint_is_whole",
        "12 kills among thousands of saves",
        "each checkpoint is of one save, whole",
        "the next start removes what is half",
        "nothing is said, and nothing need be",
    ),
    Standing(
        "too little memory for a batch",
        "engine/test_robustness.py::test_a_batch_that_does_not_fit_in_memory_fails_and_the_engine_goes_on",
        "the engine's memory limited to 100 MiB more than it has",
        "the gradient before is still there",
        "the next step works",
        "`out of memory (send fewer or shorter rows at a time)`",
    ),
    Standing(
        "a terminal that is closed, in the middle of a training run",
        "training/test_launch.py::test_a_page_whose_reader_is_gone_is_told_to_stop",
        "the pipe, or the terminal, that the page writes to is gone",
        "the page saves its state and stops",
        "`machine train run --resume`",
        "nobody is there to be told",
    ),
    Standing(
        "the session is replaced while a dialog of `/correction` is open",
        "pi/test_correcting.py::test_the_session_is_replaced_while_a_dialog_is_open",
        "`/new` while the user is asked",
        "the bad row and the open correction are there",
        "`/corrections` lists it; Pi answers",
        "`the session was replaced …`",
    ),
]
