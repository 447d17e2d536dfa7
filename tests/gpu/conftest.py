"""A machine with two GPUs that are none: see `tests.gpu.standins`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.errors import MissingExtraError
from ptxtemplates.gpu import arrays, availability, boundary, launching, loading
from tests.gpu.standins import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.kernel import Kernel


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    """Return what puts a stand-in in the place of the boundary, with nothing loaded yet."""

    def installing(*executed: Kernel) -> Machine:
        made = Machine(*executed)
        for name, function in inspect.getmembers(made, inspect.ismethod):
            if hasattr(boundary, name):
                monkeypatch.setattr(boundary, name, function)
        monkeypatch.setattr(availability, "_decided", [None])
        monkeypatch.setattr(loading, "_loaded", {})
        monkeypatch.setattr(launching, "_launched", {})
        monkeypatch.setattr(arrays, "READERS", type(arrays.READERS)())
        monkeypatch.setattr(launching, "READERS", arrays.READERS)
        if executed:  # the emulator takes PTX: as if no assembler were installed
            monkeypatch.setattr(loading, "assemble", _not_installed)
        return made

    return installing


@pytest.fixture
def machine(install: Callable[..., Machine]) -> Machine:
    """A machine that records."""
    return install()


def _not_installed(text: str, architecture: str) -> None:
    raise MissingExtraError("ptxas is not installed")
