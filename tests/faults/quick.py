"""Quick: the scenarios of a module that `make test` plays, as parameters of a test."""

from types import ModuleType
from typing import Any

import pytest
from survived import of


def quick(module: ModuleType) -> list[Any]:
    """One parameter each; what is known not to be survived yet must fail, so that its mend is noticed."""
    return [
        pytest.param(each, id=each.id, marks=[pytest.mark.xfail(reason=each.known, strict=True)] if each.known else [])
        for each in of(module)
        if not each.slow
    ]
