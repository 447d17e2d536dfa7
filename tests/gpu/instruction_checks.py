"""What must hold of instructions on a device: for the GPU itself, and for the stand-in that shows these tests work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxtemplates.ptx.targets import runs_on
from ptxtemplates.references.case import Input
from ptxtemplates.verification.places import Emulator
from tests.gpu.approximate_programs import beyond, bounds_of, share, typed
from tests.gpu.holding import differ

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from ptxtemplates.gpu.place import Device
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case
    from ptxtemplates.verification.programs import Program
    from tests.gpu.instruction_programs import InstructionProgram, Result
    from tests.gpu.warp_programs import WarpProgram


def missing(target: str, architecture: str) -> str | None:
    """Return why a program cannot run on an architecture; None if it can."""
    return None if runs_on(target, architecture) else f"{architecture} has no instructions of {target}"


def exact_faults(program: InstructionProgram, device: Device) -> list[str]:
    """Compare every result with the emulator's bits: the first of each instruction that differs."""
    ours, faults = _out(program.case, program.texts, device)
    theirs = Emulator().run(program.case, program.texts).contents("out", 0, ours.size)
    rows = program.columns.shape[1]
    for place, result in enumerate(program.results):
        part = slice(place * rows, (place + 1) * rows)
        different = differ(typed(ours[part], result.type), typed(theirs[part], result.type))
        if different.any():
            row = int(different.reshape(rows, -1).any(axis=1).argmax())
            found, wanted = int(ours[part][row]), int(theirs[part][row])
            faults.append(f"{_applied(program, result, row)} is {found:#x}, and {wanted:#x} in the emulator")
    return faults


def approximate_faults(program: InstructionProgram, device: Device) -> tuple[list[str], float]:
    """Hold the results of an instruction to its bound; return what is outside, and `share`."""
    ours, faults = _out(program.case, program.texts, device)
    [result] = program.results
    bounds = bounds_of(program)
    got = typed(ours, result.type)
    outside = beyond(got, bounds)
    if outside.any():
        at = int(outside.argmax())
        row = at * ours.size // got.size
        low, high = float(bounds.low[at]), float(bounds.high[at])
        faults.append(
            f"{_applied(program, result, row)} is {float(got[at]):.9g}, and must be from {low:.9g} to "
            f"{high:.9g}; {int(outside.sum())} results are outside"
        )
    return faults, share(got, bounds)


def warp_faults(program: WarpProgram, device: Device) -> list[str]:
    """Compare the results of threads that work together with the emulator's."""
    ours, faults = _out(program.case, program.texts, device)
    theirs = Emulator().run(program.case, program.texts).contents("out", 0, ours.size)
    different = np.flatnonzero(ours != theirs)
    if different.size:
        at = int(different[0])
        faults.append(f"out[{at}] is {int(ours[at]):#x}, and {int(theirs[at]):#x} in the emulator")
    return faults


def _out(case: Case, texts: Mapping[Kernel, Program], device: Device) -> tuple[npt.NDArray[Any], list[str]]:
    ran = device.run(case, texts)
    buffer = case.buffers["out"]
    assert isinstance(buffer, Input)
    return ran.contents("out", 0, buffer.array.size), [str(finding) for finding in ran.findings]


def _applied(program: InstructionProgram, result: Result, row: int) -> str:
    operands = ", ".join(f"{int(program.columns[place][row]):#x}" for place in result.sources)
    return f"{result.spelling} of {operands} ({result.type})"
