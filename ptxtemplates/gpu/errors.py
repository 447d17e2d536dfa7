"""What can be wrong with a launch, and with the machine that it is to run on."""

from __future__ import annotations

from ptxtemplates.errors import PtxTemplatesError


class GpuError(PtxTemplatesError):
    """No GPU can be used, or the driver refuses what it is asked.

    Attributes
    ----------
    name : str
        Of the driver's error, such as ``CUDA_ERROR_OUT_OF_MEMORY``; empty if it is none of the driver's.
    """

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class LaunchError(PtxTemplatesError):
    """The arguments of a launch do not fit the kernel.

    Attributes
    ----------
    argument : str
        Name of the argument or run-time size at fault; empty if it is none in particular.
    """

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument
