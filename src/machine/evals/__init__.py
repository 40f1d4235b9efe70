"""Evals: a suite and a model in, recorded samples, scores and a paired comparison out.

Every result proves which weights answered. May not import `release`.
"""
