"""The quick scenarios of Pi and its sidecar; `python tests/faults/table.py agents` plays the slow ones too."""

import agents
import pytest
from quick import quick


@pytest.mark.parametrize("scenario", quick(agents))
def test_survives(survives, scenario):
    survives(scenario)
