"""Tinker: which service is meant, what it serves, how a student is rendered, and what Pi is told of it.

The one place that reads `TINKER_BASE_URL` and `TINKER_API_KEY`. May not know whether the service is hosted or embedded.
"""
