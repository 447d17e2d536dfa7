"""What every test has."""

from __future__ import annotations

import os

import pytest

from ptxtemplates.gpu import unavailable
from tests.gpu import reporting
from tests.gpu.reporting import tell
from tests.helpers.stubs import errors_of

__all__ = ["errors_of", "tell"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let CI on a machine with a GPU insist on it."""
    parser.addoption(
        "--require-gpu", action="store_true", help="fail tests marked gpu where there is none, not skip them"
    )
    reporting.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Write a report where one is asked for."""
    reporting.configure(config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU, or fail, with the reason why there is none."""
    if item.get_closest_marker("gpu") is None or (reason := unavailable()) is None:
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail(f"--require-gpu: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep compiled templates of tests, and of the processes they start, out of the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
