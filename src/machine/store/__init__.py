"""Store: the private folder of a project. Rows, settings and files in; the same, intact, out.

Knows where the folder is, and how to write to it so that nothing is lost or half-written. Knows nothing of sessions,
models or commands.
"""
