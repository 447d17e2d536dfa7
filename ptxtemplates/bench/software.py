"""What times depend on beside the GPU: the assembler, and the versions of libraries."""

from __future__ import annotations

from importlib import metadata
from typing import Final, NamedTuple

from ptxtemplates.assembly import toolchain
from ptxtemplates.errors import MissingExtraError

LIBRARIES: Final = ("cuda-core", "flashinfer-python", "torch", "triton", "vllm")
"""Distributions whose version is reported."""


class Software(NamedTuple):
    """What is installed.

    Attributes
    ----------
    toolchain : str
        What assembles our kernels.
    versions : dict of str to str or None
        Of each of `LIBRARIES`; None if it is not installed.
    """

    toolchain: str
    versions: dict[str, str | None]


def software() -> Software:
    """Return what is installed here.

    Raises
    ------
    AssemblyError
        If there is an assembler that cannot be run.
    """
    try:
        assembler = toolchain()
    except MissingExtraError:
        assembler = "the driver"
    return Software(assembler, {name: _version(name) for name in LIBRARIES})


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
