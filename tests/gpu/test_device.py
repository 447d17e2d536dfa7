"""Every variant of the repository's list on a GPU: ``pytest -m gpu``, and ``--require-gpu`` where there is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ptxtemplates.gpu import load
from ptxtemplates.gpu.place import Device
from ptxtemplates.gpu.sanitizer import TOOLS, find_sanitizer, run
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.references.rope import rotated
from tests.gpu.holding import hold
from tests.gpu.sanitized import families
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.holding import Held

pytestmark = pytest.mark.gpu

PATIENCE_S = 120
"""How long the cases of `tests.gpu.sanitized` may take under a tool."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.mark.parametrize("variant", KERNELS)
def test_every_case_holds(device: Device, variant: str, tell: Callable[..., None]) -> None:
    """Within its bounds, twice the same, and of kernels of IEEE operations the emulator's bits."""

    def record(held: Held) -> None:
        tell(variant=variant, **held._asdict())

    faults, reasons = hold(KERNELS[variant], device, record)
    assert faults == []
    if reasons:
        pytest.skip(f"all others hold, but {'; '.join(reasons)}")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_sanitizer_finds_nothing(tool: str, tell: Callable[..., None]) -> None:
    """One process a tool for all families: starting it takes longer than the cases."""
    sanitizer = find_sanitizer()
    if sanitizer is None:
        pytest.skip("compute-sanitizer is neither in a CUDA toolkit here, nor installed, nor on PATH")
    program = [sys.executable, "-m", "tests.gpu.sanitized"]
    result = run(sanitizer, tool, program, timeout=PATIENCE_S, folder=ROOT)
    tell(tool=tool, families=list(families()), findings=result.findings, exit_code=result.code)
    assert result.ok, result.describe()


def test_numpy_arrays(device: Device) -> None:
    from cuda.core import Device as Core

    kernel = BatchedRope(num_heads=4, head_dim=64, theta=1e4)
    core = Core(device.number)
    core.set_current()
    stream = core.create_stream()
    x = np.random.default_rng(0).standard_normal((3, 4, 64), np.float32)
    positions = np.array([0, 7, 4_000_000_000], np.uint32)
    out = np.empty_like(x)
    load(kernel, device.number).launch(stream, x, out, positions)
    exact, bound = rotated(kernel, x, [int(position) for position in positions])
    assert (np.abs(out - exact) <= bound).all()
    load(kernel, device.number).launch(stream, x, x, positions)
    assert np.array_equal(x, out)


def test_a_graph_of_a_launch(device: Device) -> None:
    """A captured launch allocates and waits for nothing, and runs once for each replay."""
    from cuda.core import Device as Core

    kernel = BatchedRope(num_heads=2, head_dim=8, theta=1e4)
    core = Core(device.number)
    core.set_current()
    loaded = load(kernel, device.number)
    stream = core.create_stream()
    x = np.random.default_rng(0).standard_normal((2, 2, 8), np.float32)
    positions = np.array([3, 4], np.uint32)
    exact, bound = rotated(kernel, x, [int(position) for position in positions])
    once = np.empty_like(x)
    loaded.launch(stream, x, once, positions)

    memory = core.allocate(x.nbytes, stream=stream)
    at = core.allocate(positions.nbytes, stream=stream)
    from ptxtemplates.gpu import boundary

    boundary.copy_to_device(int(memory.handle), x.ctypes.data, x.nbytes, stream)
    boundary.copy_to_device(int(at.handle), positions.ctypes.data, positions.nbytes, stream)
    builder = stream.create_graph_builder().begin_building()
    address = int(memory.handle)
    loaded.launch(builder, address, address, int(at.handle), checked=False, rows=2)
    graph = builder.end_building().complete()
    for replays in range(3):
        if replays:
            graph.launch(stream)
        boundary.copy_to_host(x.ctypes.data, address, x.nbytes, stream)
        boundary.synchronise(stream)
        if replays == 0:
            assert not np.array_equal(x, once), "a launch that is captured does nothing yet"
        if replays == 1:
            assert np.array_equal(x, once)
            assert (np.abs(x - exact) <= bound).all()
    loaded.launch(stream, once, once, positions)
    assert np.array_equal(x, once), "each replay rotates further"
