"""What a contributor answers in tests."""

import json


def answer(reasoning: str, message: int = 2) -> str:
    """An answer of the contract."""
    diagnosis = {"did": "It read setup.py.", "wanted": "The runner that is configured.", "message": message}
    return json.dumps({"contract": "reasoning/1", "diagnosis": diagnosis, "reasoning": reasoning})
