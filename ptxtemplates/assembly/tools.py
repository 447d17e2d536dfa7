"""NVIDIA's programs that this package runs, and where they lie."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Final

from ptxtemplates.errors import MissingExtraError

PACKAGES: Final = {"nvdisasm": "'ptxtemplates[cuda]'", "fatbinary": "nvidia-cuda-nvcc"}
"""What to install for each program."""


def find_tool(name: str) -> Path:
    """Return the path of a program: of an installed NVIDIA package, or else on ``PATH``.

    The packages come first: the nvJitLink that assembles is of the same release, and an older program
    cannot read what a newer one has written.

    Parameters
    ----------
    name : str
        ``nvdisasm`` or ``fatbinary``.

    Raises
    ------
    MissingExtraError
        If there is none. The message says what to install.
    """
    for folder in (*_package_folders(), None):  # None: PATH
        if found := shutil.which(name, path=folder):
            return Path(found)
    raise MissingExtraError(
        f"this needs NVIDIA's {name}, which is neither installed nor on PATH: pip install {PACKAGES[name]}"
    )


def _package_folders() -> list[str]:
    """Return the program folders of NVIDIA's packages, such as ``nvidia/cu13/bin``, newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/bin"), reverse=True)]
