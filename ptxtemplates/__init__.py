"""GPU kernels as readable PTX templates: rendered without a CUDA toolkit, linted, snapshot-tested.

The public names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ptxtemplates.version import VERSION as __version__

if TYPE_CHECKING:
    from ptxtemplates.artifacts import build, check
    from ptxtemplates.config import load
    from ptxtemplates.errors import PtxTemplatesError
    from ptxtemplates.kernel import Kernel
    from ptxtemplates.registry import find, register, registered
    from ptxtemplates.rendering import RenderedKernel, render

_HOMES = {
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
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
