"""Correction: a rejected turn in, reasoning that the user approved out.

Empty for now: nothing but the pending-correction link of a row exists yet.
"""
