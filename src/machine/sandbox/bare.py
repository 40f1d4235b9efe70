"""No box at all, for those who say so: a private folder, an environment of its own, and the limits a process can set.

What the command may do to this machine is what its user may do: read the home, reach the network.
"""

import sys

from machine.errors import Refused
from machine.sandbox import frame, running
from machine.sandbox.job import Job, Outcome
from machine.sandbox.view import PROGRAM, interpreter


class Bare:
    """Runs jobs without a box."""

    name = "none"

    def run(self, job: Job) -> Outcome:
        """Runs the job to its end in a folder that is removed afterwards.

        Raises:
            Refused: on Windows.
        """
        if sys.platform == "win32":
            raise Refused("jobs do not run on Windows", next_step="use Linux, or the Windows Subsystem for Linux")
        with running.private_folder() as folder:
            root = folder / "root"
            (root / "tmp").mkdir(parents=True)
            socket = str(folder / "model.sock") if job.door else ""
            tasks = 8 * job.limits.processes
            place = frame.Place(str(root), str(root / "tmp"), isolated=False, socket=socket, tasks=tasks)
            command = [interpreter(), "-I", "-S", "-B", str(PROGRAM)]
            return running.run(
                job, folder, self.name, lambda: running.Plan(command, place, {"PATH": frame.DEFAULT_PATH})
            )
