"""A box for a command that is not trusted: what a model decides to run, and the check of the repository it worked on.

In: a `job.Job` (command, files, what else it may read, the model endpoint, limits). Out: a `job.Outcome` (how it ended,
what it printed, the files of its work folder, what the model was asked, what was refused). `choice.choose()` gives a
box that works on this machine: Docker where an engine runs, else bubblewrap, else a refusal; no box only on request.

    inside/         runs in the box as its first process: files, limits, watch, result; standard library only
    relay.py        the only way out: forwards chat completions to one endpoint and adds the key on this side
    question.py     what may be asked through it: one model, one answer, of bounded length
    running.py      starts a box, feeds it, listens to it and ends it, whatever happens
    bubblewrap.py, docker.py, bare.py    what each kind of box hides and shows
    frame.py        the bytes that pass the wall, read as those of an enemy
    cgroup.py       the kernel's own limits, where a group can be had

What a box cannot see: every folder of the host but system programs (`/usr`), the base Python's library, and what the
job names as visible; the network; the key of the endpoint; the caller's environment. What it can: the machine's
processor model, its kernel, and the names of its file systems.

The room imports `errors` only, keeps nothing, and leaves nothing in the
temporary folder.
"""
