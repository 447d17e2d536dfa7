"""NVIDIA's programs that this package runs, and where they lie."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from ptxtemplates.errors import MissingExtraError


def find_tool(name: str) -> Path:
    """Return the path of a program: of an installed NVIDIA package, or else on ``PATH``.

    The packages come first: they are of one release, and an older program cannot read what a newer one has
    written.

    Parameters
    ----------
    name : str
        Such as ``ptxas``; the extra ``cuda`` has all that this package runs.

    Raises
    ------
    MissingExtraError
        If there is none. The message says what to install.
    """
    for folder in (*_package_folders(), None):  # None: PATH
        if found := shutil.which(name, path=folder):
            return Path(found)
    raise MissingExtraError(
        f"this needs NVIDIA's {name}, which is neither installed nor on PATH: "
        "pip install 'ptxtemplates[cuda]'"
    )


def _package_folders() -> list[str]:
    """Return the program folders of NVIDIA's packages, such as ``nvidia/cu13/bin``, newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/bin"), reverse=True)]
