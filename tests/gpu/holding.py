"""What must hold of a kernel on a device: for the GPU itself, and for the stand-in that shows these tests work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptxtemplates.gpu.place import results_of
from ptxtemplates.references import cases
from ptxtemplates.verification.judging import judge
from ptxtemplates.verification.places import Emulator
from ptxtemplates.verification.programs import program_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.gpu.place import Device
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case
    from ptxtemplates.verification.programs import Program


def programs(case: Case) -> dict[Kernel, Program]:
    return {launch.kernel: program_of(launch.kernel) for launch in case.launches}


def cases_for(kernel: Kernel, device: Device, reasons: list[str]) -> Iterator[Case]:
    """Yield the cases that fit a device, and say of the others why they do not."""
    for case in cases(kernel, 0):
        if reason := device.obstacle(case):
            reasons.append(reason)
        else:
            yield case


def hold_every_case(kernel: Kernel, device: Device) -> list[str]:
    """Run all cases; return why some could not be run."""
    reasons: list[str] = []
    for case in cases_for(kernel, device, reasons):
        _hold(case, device)
    return reasons


def _hold(case: Case, device: Device) -> None:
    """Run a case; its buffers, which may be large, are gone when this returns."""
    ran = device.run(case, programs(case))
    assert ran.findings == (), f"{case.name}: {ran.findings}"
    judgement = judge(case, ran.contents)
    assert not judgement.mismatches, f"{case.name}: {judgement.mismatches}"


def has_ieee_operations_alone(kernel: Kernel) -> bool:
    """Say whether every result of a kernel is specified to the bit."""
    return ".approx" not in program_of(kernel).text


def have_the_bits_of_the_emulator(kernel: Kernel, device: Device) -> list[str]:
    """Compare results with the emulator's, bit for bit; return why some cases could not be run."""
    reasons: list[str] = []
    for case in cases_for(kernel, device, reasons):
        _have_the_bits(case, device)
    return reasons


def _have_the_bits(case: Case, device: Device) -> None:
    texts = programs(case)
    expected = Emulator().run(case, texts).contents
    got = device.run(case, texts).contents
    for part in results_of(case):
        ours, theirs = got(*part), expected(*part)
        # a NaN is a NaN: which bits it has is not specified
        differs = (ours.view(np.uint32) != theirs.view(np.uint32)) & ~(np.isnan(ours) & np.isnan(theirs))
        assert not differs.any(), f"{case.name}: {part[0]}[{part[1] + int(differs.argmax())}]"
