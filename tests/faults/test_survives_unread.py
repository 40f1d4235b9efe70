"""The quick scenarios of a full pipe; `python tests/faults/table.py unread` plays the slow ones too."""

import pytest
import unread
from quick import quick


@pytest.mark.parametrize("scenario", quick(unread))
def test_survives(survives, scenario):
    survives(scenario)
