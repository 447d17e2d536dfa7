"""Build directories and the stand-in of the driver, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples_loading.building import EXAMPLES, build, driver

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = EXAMPLES / "kernels.toml"


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build directory with PTX alone."""
    return build(tmp_path_factory.mktemp("texts"), CONFIG)


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build directory with fat binaries too."""
    return build(tmp_path_factory.mktemp("binaries"), CONFIG, "--arch", "sm_90", "--fatbin")


@pytest.fixture(scope="session")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda that needs no GPU."""
    return driver(tmp_path_factory.mktemp("libcuda"))


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build directory that the snippets of README.md load from, in a folder of its own."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "kernels.toml").write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = 32\nhead_dim = 128\ntheta = 1e4\n'
    )
    return build(folder / "build", folder / "kernels.toml")
