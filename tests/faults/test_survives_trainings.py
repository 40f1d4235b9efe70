"""The quick scenarios of a training run and its engine; `python tests/faults/table.py trainings` plays the slow ones too."""

import pytest
import trainings
from quick import quick

SHARED = trainings.SHARED


@pytest.mark.parametrize("scenario", quick(trainings))
def test_survives(survives, scenario):
    survives(scenario)
