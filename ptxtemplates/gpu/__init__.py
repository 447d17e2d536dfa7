"""Kernels on a GPU, through cuda.core: load, launch, and a place that runs cases. Needs NVIDIA's driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.lazy import lazily

if TYPE_CHECKING:
    from ptxtemplates.gpu.availability import unavailable
    from ptxtemplates.gpu.errors import GpuError, LaunchError
    from ptxtemplates.gpu.launching import LoadedKernel, launch, load

__all__ = ["GpuError", "LaunchError", "LoadedKernel", "launch", "load", "unavailable"]

__getattr__ = lazily(
    __name__,
    {
        "GpuError": "errors",
        "LaunchError": "errors",
        "LoadedKernel": "launching",
        "launch": "launching",
        "load": "launching",
        "unavailable": "availability",
    },
)
