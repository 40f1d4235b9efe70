"""Dataset: rows of the pool in, tokens with loss weights out, plus an audit that says whether they are fit to train on.

Imports no service: it renders with the student's renderer and tokenizer, and never opens a connection.
"""
