"""Score: does an answer pass its case?"""

import re

from machine.evals.suite import Case


def passes(case: Case, answer: str) -> bool:
    """Whether `answer` passes. Space around it never counts; a pattern may match anywhere unless it is anchored."""
    answer, wanted = answer.strip(), (case.scorer.value if case.scorer.value is not None else case.expected) or ""
    match case.scorer.kind:
        case "exact":
            return answer == wanted.strip()
        case "contains":
            return wanted in answer
        case "regex":
            return re.search(wanted, answer) is not None
