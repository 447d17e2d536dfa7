"""GPU kernels as readable PTX templates: rendered without a CUDA toolkit, linted, snapshot-tested.

The public names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.lazy import lazily
from ptxtemplates.version import VERSION as __version__

if TYPE_CHECKING:
    from ptxtemplates.artifacts import build, check
    from ptxtemplates.config import load
    from ptxtemplates.errors import PtxTemplatesError
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.registry import find, register, registered
    from ptxtemplates.rendering import RenderedKernel, render

__all__ = [
    "Kernel",
    "PtxTemplatesError",
    "RenderedKernel",
    "__version__",
    "build",
    "check",
    "find",
    "load",
    "register",
    "registered",
    "render",
]

__getattr__ = lazily(
    __name__,
    {
        "Kernel": "kernel",
        "PtxTemplatesError": "errors",
        "RenderedKernel": "rendering",
        "build": "artifacts",
        "check": "artifacts",
        "find": "registry",
        "load": "config",
        "register": "registry",
        "registered": "registry",
        "render": "rendering",
    },
)
