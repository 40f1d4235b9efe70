"""The quick scenarios of the engine's checkpoints; `python tests/faults/table.py adapters` plays the slow ones too."""

import adapters
import pytest
from quick import quick


@pytest.mark.parametrize("scenario", quick(adapters))
def test_survives(survives, scenario):
    survives(scenario)
