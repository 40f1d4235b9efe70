"""Machine: a coding agent's own sessions, turned into a better agent.

The rooms, in the order that data goes through them: `capture` reads a session and rebuilds the tagged turn, `store`
keeps it, `dataset` turns rows into tokens and masks, `training` trains a LoRA student over the Tinker API, `evals`
measures it, `agentic` has it work on repositories in the real Pi, `release` lets it in, `tinker` knows the service
and what Pi is told of it, `sandbox` runs what is not trusted. `engine` is a Tinker server on this machine. `commands`
holds one module a command; `cli` and `sidecar` are the two doors.
"""

__version__ = "0.1.0"
