"""Every variant of the repository's list on a GPU: ``pytest -m gpu``, and ``--require-gpu`` where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from ptxtemplates.gpu import load
from ptxtemplates.gpu.place import Device
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.references.rope import rotated
from tests.gpu.holding import has_ieee_operations_alone, have_the_bits_of_the_emulator, hold_every_case
from tests.helpers.variants import KERNELS

pytestmark = pytest.mark.gpu

IEEE = [variant for variant, kernel in KERNELS.items() if has_ieee_operations_alone(kernel)]


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.mark.parametrize("variant", KERNELS)
def test_every_case_holds(device: Device, variant: str) -> None:
    if reasons := hold_every_case(KERNELS[variant], device):
        pytest.skip(f"all others hold, but {'; '.join(reasons)}")


@pytest.mark.parametrize("variant", IEEE)
def test_the_emulator_has_the_same_bits(device: Device, variant: str) -> None:
    if reasons := have_the_bits_of_the_emulator(KERNELS[variant], device):
        pytest.skip(f"all others are the same, but {'; '.join(reasons)}")


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
    expected = x.copy()
    for _ in range(2):
        loaded.launch(stream, expected, expected, positions)

    memory = core.allocate(x.nbytes, stream=stream)
    at = core.allocate(positions.nbytes, stream=stream)
    from ptxtemplates.gpu import boundary

    boundary.copy_to_device(int(memory.handle), x.ctypes.data, x.nbytes, stream)
    boundary.copy_to_device(int(at.handle), positions.ctypes.data, positions.nbytes, stream)
    builder = stream.create_graph_builder().begin_building()
    address = int(memory.handle)
    loaded.launch(builder, address, address, int(at.handle), checked=False, rows=2)
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    boundary.copy_to_host(x.ctypes.data, address, x.nbytes, stream)
    boundary.synchronise(stream)
    assert np.array_equal(x, expected)
