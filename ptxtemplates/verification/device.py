"""A GPU as a place: what `ptxtemplates.gpu` runs, in the terms of this room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.gpu.place import Device
from ptxtemplates.verification.outcomes import Observation, SkippedCase
from ptxtemplates.verification.places import Ran

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references.case import Case
    from ptxtemplates.verification.programs import Program


class Gpu:
    """The GPU of this thread's current context, or the first.

    Raises
    ------
    GpuError
        If none can be used; with the reason.
    """

    def __init__(self) -> None:
        self._device = Device()

    @property
    def name(self) -> str:
        """What NVIDIA calls it."""
        return self._device.name

    def run(self, case: Case, programs: Mapping[Kernel, Program]) -> Ran:
        """Run a case, twice.

        Raises
        ------
        SkippedCase
            If its buffers do not fit the memory.
        GpuError
            If the driver reports an error.
        """
        obstacle = self._device.obstacle(case)
        if obstacle is not None:
            raise SkippedCase(obstacle)
        ran = self._device.run(case, programs)
        return Ran(ran.contents, tuple(Observation(*finding) for finding in ran.findings))
