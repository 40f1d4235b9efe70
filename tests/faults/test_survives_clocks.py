"""The quick scenarios of a clock that jumps; `python tests/faults/table.py clocks` plays the slow ones too."""

import clocks
import pytest
from quick import quick


@pytest.mark.parametrize("scenario", quick(clocks))
def test_survives(survives, scenario):
    survives(scenario)
