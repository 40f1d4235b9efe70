"""The first process in a box: lays the files, runs the command, watches the limits, kills all that is left, reports.

Runs alone, by a bare `python -I -S` with this folder's parent on the path: standard library only, no other module of
Machine in reach. On stdin comes a frame (see `machine.sandbox.frame`) with the job, after it the control channel: the
letter `r` ends the job because its requests are used up, the end of the file because nobody listens any more. On stdout
goes one frame with the result. The command sees neither: its streams are pipes of its own, and this process cannot be
traced, read or signalled by others in its namespace, where it is process 1. Without a box (`isolated` false) it does
what a process can do about its descendants.

    main.py         from the job to its result
    wire.py         the two frames, as this side reads and writes them
    door.py         the port in the box that leads to the relay outside
    run.py          the command, its output and its limits
    processes.py    what runs in the box: counted, weighed, ended
    tree.py         what lies in the box: weighed, and read as the work of an enemy
"""
