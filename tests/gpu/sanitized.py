"""What runs under compute-sanitizer: a few small cases of one variant of each family, on a bare device."""

from __future__ import annotations

import sys
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final

from ptxtemplates.gpu.place import Device
from ptxtemplates.references import cases
from ptxtemplates.references.case import Table
from ptxtemplates.verification.programs import program_of
from tests.helpers.variants import KERNELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references import Case

CASES: Final = 4
"""Of each family: every access costs a hundred times as much as without."""

ELEMENTS: Final = 1 << 27
"""That the buffers of a case have at most."""

WORK: Final = 1 << 27
"""Threads of a case, times the many instructions of each, at most."""


def families() -> dict[str, Kernel]:
    """Return the first variant of each kernel."""
    chosen: dict[str, Kernel] = {}
    for kernel in KERNELS.values():
        chosen.setdefault(kernel.name, kernel)
    return chosen


def small_cases(kernel: Kernel) -> Iterator[Case]:
    """Yield the first cases that are small."""

    def small(case: Case) -> bool:
        shapes = [buffer.shape for buffer in case.buffers.values() if not isinstance(buffer, Table)]
        work = sum(prod(launch.grid) * prod(launch.kernel.block) * launch.steps for launch in case.launches)
        return sum(map(prod, shapes)) <= ELEMENTS and work <= WORK

    yield from islice(filter(small, cases(kernel, 0)), CASES)


def main(names: list[str]) -> None:
    """Run the families of the given names; all of them without any."""
    device = Device(bare=True)
    for name, kernel in families().items():
        if names and name not in names:
            continue
        for case in small_cases(kernel):
            if reason := device.obstacle(case):
                print(f"skipped: {reason}")
                continue
            print(f"{kernel.variant}: {case.name}", flush=True)  # above what the tool says of it
            device.run(case, {launch.kernel: program_of(launch.kernel) for launch in case.launches})


if __name__ == "__main__":
    main(sys.argv[1:])
