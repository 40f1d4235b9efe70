"""Release: a measured checkpoint in, a model that Pi may use out, reversibly.

Empty for now.
"""
