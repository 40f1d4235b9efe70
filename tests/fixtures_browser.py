"""The headless browser, for the tests of a file; they are skipped where there is none."""

import pytest

import browser


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    command = browser.find()
    if command is None:
        pytest.skip(browser.MISSING)
    with browser.opened(command, tmp_path_factory.mktemp("browser")) as running:
        yield running
