"""Kernels are compiled once a session."""

from __future__ import annotations

import pytest

from tests.emulator.compiled.compilers import OPTIONS, Host, compile_ptx


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Return the kernels, built for the host."""
    return Host(tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="session", params=("sm_80", "sm_80, debug", "sm_90"))
def text(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the PTX of the kernels, for several sets of options."""
    return compile_ptx("all.cu", tmp_path_factory.mktemp("ptx"), OPTIONS[request.param])
