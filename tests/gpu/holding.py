"""What must hold of a kernel on a device: for the GPU itself, and for the stand-in that shows these tests work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxtemplates.gpu.place import results_of
from ptxtemplates.references import cases
from ptxtemplates.verification.judging import judge
from ptxtemplates.verification.places import Emulator
from ptxtemplates.verification.programs import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ptxtemplates.gpu.place import Device
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case
    from ptxtemplates.references.place import Contents
    from ptxtemplates.verification.programs import Program


class Held(NamedTuple):
    """What became of a case.

    Attributes
    ----------
    case : str
        Its name.
    worst : float or None
        Largest error, divided by its bound; None if it was not run.
    seconds : float
        Time, inputs, exact results and the emulator included.
    skipped : str or None
        Why it was not run.
    repeatable : bool or None
        Whether a second run gave the same bits; None if it was not run.
    same_bits : bool or None
        Whether these are the emulator's; None where an instruction is approximate, too.
    """

    case: str
    worst: float | None
    seconds: float
    skipped: str | None = None
    repeatable: bool | None = None
    same_bits: bool | None = None


def programs(case: Case) -> dict[Kernel, Program]:
    return {launch.kernel: program_of(launch.kernel) for launch in case.launches}


def has_ieee_operations_alone(kernel: Kernel) -> bool:
    """Say whether every result of a kernel is specified to the bit."""
    return ".approx" not in program_of(kernel).text


def hold(
    kernel: Kernel, device: Device, record: Callable[[Held], None] = lambda held: None
) -> tuple[list[str], list[str]]:
    """Run every case once on the device, and judge it; compare with the emulator's bits where they must be the same.

    Returns
    -------
    faults, reasons : list of str
        What is wrong, and why some cases could not be run.
    """
    ieee = has_ieee_operations_alone(kernel)
    faults: list[str] = []
    reasons: list[str] = []
    started = time.perf_counter()
    for case in cases(kernel, 0):  # making a case counts: its exact results are computed there
        if reason := device.obstacle(case):
            reasons.append(reason)
            held = Held(case.name, None, 0.0, skipped=reason)
        else:
            held, found = _held(case, device, ieee=ieee)
            faults += found
        finished = time.perf_counter()
        record(held._replace(seconds=finished - started))
        started = finished
    return faults, reasons


def _held(case: Case, device: Device, *, ieee: bool) -> tuple[Held, list[str]]:
    """Run a case; its buffers, which may be large, are gone when this returns."""
    texts = programs(case)
    ran = device.run(case, texts)
    judgement = judge(case, ran.contents)
    found = [f"{case.name}: {each}" for each in (*ran.findings, *judgement.mismatches)]
    kinds = {finding.kind for finding in ran.findings}
    different = None
    if ieee:
        different = _first_difference(case, ran.contents, Emulator().run(case, texts).contents)
        if different:
            found.append(f"{case.name}: {different} has not the bits of the emulator")
    same_bits = not different if ieee else None
    repeatable = "not reproducible" not in kinds
    return Held(case.name, judgement.worst, 0.0, None, repeatable, same_bits), found


def _first_difference(case: Case, got: Contents, expected: Contents) -> str:
    """Name the first element that differs; empty if none does."""
    for name, at, size in results_of(case):
        differing = np.flatnonzero(differ(got(name, at, size), expected(name, at, size)))
        if differing.size:
            return f"{name}[{at + int(differing[0])}]"
    return ""


def differ(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Say which elements differ in their bits; a NaN is a NaN: which bits it has is not specified."""
    bits = f"u{ours.dtype.itemsize}"
    different: npt.NDArray[np.bool_] = ours.view(bits) != theirs.view(bits)
    if ours.dtype.kind not in "iub":
        different &= ~(np.isnan(ours) & np.isnan(theirs))
    return different
