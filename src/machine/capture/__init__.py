"""Capture: a Pi session file or live branch in, the tagged turn as the model saw it out (a `trace.Row`).

May not write anything, nor import a later room. Session files are untrusted data.
"""
