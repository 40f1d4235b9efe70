"""Training: rendered data in, a run folder with metrics and checkpoints out, over the Tinker API.

May not know whether the service is hosted or embedded, and may not import `evals` or `release`.
"""
