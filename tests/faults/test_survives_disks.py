"""The quick scenarios of a full disk; `python tests/faults/table.py disks` plays the slow ones too."""

import disks
import pytest
from quick import quick


@pytest.mark.parametrize("scenario", quick(disks))
def test_survives(survives, scenario):
    survives(scenario)
