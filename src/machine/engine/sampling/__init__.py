"""Sampling: requests in, drawn tokens with log-probabilities out. Knows models, and nothing of clients."""
