"""Every instruction that the emulator knows, on a GPU: IEEE and integer ones bit for bit, approximate ones in bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.place import Device
from tests.gpu.approximate_programs import approximate_program, approximate_spellings
from tests.gpu.instruction_checks import approximate_faults, exact_faults, missing, warp_faults
from tests.gpu.instruction_programs import exact_program, groups
from tests.gpu.warp_programs import atomics, exchanging, steady_seeds

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.gpu

GROUPS: Final = groups(approximate=False)

SHOWN: Final = 5
"""Instructions that a message has at most."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


def skip_without(target: str, device: Device) -> None:
    if reason := missing(target, boundary.architecture(device.number)):
        pytest.skip(reason)


@pytest.mark.parametrize(("opcode", "target"), GROUPS, ids=map("-".join, GROUPS))
def test_the_emulator_has_the_same_bits(
    device: Device, opcode: str, target: str, tell: Callable[..., None]
) -> None:
    skip_without(target, device)
    program = exact_program(opcode, target)
    spellings = len(GROUPS[opcode, target])
    faults = exact_faults(program, device)
    tell(opcode=opcode, target=target, spellings=spellings, rows=program.columns.shape[1], wrong=len(faults))
    assert not faults, "\n".join([f"{len(faults)} of {spellings}:", *faults[:SHOWN]])


@pytest.mark.parametrize("spelling", approximate_spellings())
def test_results_are_inside_the_documented_bound(
    device: Device, spelling: str, tell: Callable[..., None]
) -> None:
    target = approximate_spellings()[spelling]
    skip_without(target, device)
    program = approximate_program(spelling)
    faults, share = approximate_faults(program, device)
    tell(instruction=spelling, target=target, rows=program.columns.shape[1], share_of_bound=share)
    assert not faults, "\n".join(faults)


def test_atomics(device: Device) -> None:
    assert warp_faults(atomics(), device) == []


@pytest.mark.parametrize("seed", steady_seeds())
def test_threads_that_exchange_values(device: Device, seed: int) -> None:
    """Random programs: branches, loops, calls, shuffles, votes, matches, reductions and barriers."""
    skip_without("sm_80", device)
    assert warp_faults(exchanging(seed), device) == []
