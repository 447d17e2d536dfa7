"""The truth in float64, and the cases of each family: what a kernel must do, as data.

Knows no place that runs kernels. A case says which buffers to fill, what to launch, and what must hold
afterwards, with a bound derived from the arithmetic.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.errors import UnknownKernelError
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import chunk_cases, constants, reduce_cases, rope_cases
from ptxtemplates.references.case import Case, Close, Input, Output, SameBytes, Setup, Sparse, Table, launch
from ptxtemplates.references.constants import Baked
from ptxtemplates.references.telling import telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ptxtemplates.kernel import Kernel

__all__ = [
    "FAMILIES",
    "Baked",
    "Case",
    "Close",
    "Family",
    "Input",
    "Output",
    "SameBytes",
    "Setup",
    "Sparse",
    "Table",
    "baked",
    "cases",
    "family_of",
    "launch",
]


class Family(NamedTuple):
    """What is known of a kernel class.

    Attributes
    ----------
    cases : mapping of str to callable
        Name of a case, and what makes it for a kernel and a random generator.
    baked : callable
        Takes a kernel and returns what its text must hold.
    """

    cases: Mapping[str, Callable[[Any, np.random.Generator], Setup]]
    baked: Callable[[Any], Baked]


FAMILIES: Final[dict[type[Kernel], Family]] = {
    BatchedRope: Family(rope_cases.CASES, constants.of_rope),
    BatchedRopeBackward: Family(rope_cases.CASES, constants.of_rope),
    FlashDecodingReduce: Family(reduce_cases.CASES, constants.of_reduce),
    FlashDecodingChunk: Family(chunk_cases.CASES, constants.of_chunk),
}
"""By kernel class; a package with kernels of its own adds to it."""


def family_of(kernel: Kernel) -> Family:
    """Return what is known of a kernel's class.

    Raises
    ------
    UnknownKernelError
        If that is nothing.
    """
    if type(kernel) in FAMILIES:
        return FAMILIES[type(kernel)]
    raise UnknownKernelError(
        f"{kernel.name} has no cases to be verified by; a kernel of your own needs an entry in "
        "ptxtemplates.references.FAMILIES"
    )


def cases(kernel: Kernel, seed: int) -> Iterator[Case]:
    """Yield the cases of a kernel, with inputs that depend on seed, variant and case alone.

    Raises
    ------
    UnknownKernelError
        If its class is not in `FAMILIES`.
    CaseError
        If a case cannot be made.
    """
    for name, make in family_of(kernel).cases.items():
        with telling(f"{kernel.variant}: case {name}"):
            setup = _made(kernel, name, make, seed)
        yield Case(name, *setup)


def _made(kernel: Kernel, name: str, make: Callable[[Any, np.random.Generator], Setup], seed: int) -> Setup:
    words = (zlib.crc32(kernel.variant.encode()), zlib.crc32(name.encode()))
    return make(kernel, np.random.default_rng([seed, *words]))


def baked(kernel: Kernel) -> Baked:
    """Return what a kernel's text must hold: tables and constants, computed anew.

    Raises
    ------
    UnknownKernelError
        If its class is not in `FAMILIES`.
    """
    with telling(f"{kernel.variant}: what its text must hold"):
        return family_of(kernel).baked(kernel)
