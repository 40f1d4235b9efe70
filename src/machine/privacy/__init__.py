"""Privacy: any JSON value in, the same value with secrets replaced by typed placeholders out, and where they were.

May not write, print or keep what it finds.
"""
