"""Agentic: tasks that only an agent with tools can do, run in the real Pi in a sandbox, judged by the repository's own
check.

May not import `release`.
"""
