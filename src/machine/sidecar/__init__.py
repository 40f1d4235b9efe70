"""Sidecar: Pi's door. One process beside Pi: the extension starts it, has it run commands, answers what they ask.

`python -P -m machine.sidecar` speaks JSON-RPC over its pipes. It ends when its stdin does, at once and whatever it is
doing, so it cannot outlive Pi; only turns that had ended, where those are captured, are still seen to. Nothing heavy is
imported before the hello: Pi and its user are waiting.
"""
