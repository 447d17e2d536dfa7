"""What is measured as one: a kernel, or several that one call launches in order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.config import matches
from ptxtemplates.errors import ConfigError, suggestion
from ptxtemplates.kernels import FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references.launches import run_time_sizes, sizes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxtemplates.kernel import Kernel

TOGETHER: Final[dict[tuple[type[Kernel], type[Kernel]], str]] = {
    (FlashDecodingChunk, FlashDecodingReduce): "flash_decoding"
}
"""Two kernels that compute something together, the first of them launched first, and what that is called.
Arguments of one name are one array."""

ROWS: Final = (1, 8, 64)
"""Rows of the decode steps that are measured: one request, a small batch, a large one."""

CONTEXT: Final = 4096
"""Keys of each row, as far as the kernel has room for them."""


class Unit(NamedTuple):
    """Kernels that one call launches, in order.

    Attributes
    ----------
    name : str
        The variant of a single kernel; of several, what they compute and the parameters of the first.
    family : str
        The same without parameters.
    kernels : tuple of Kernel
    """

    name: str
    family: str
    kernels: tuple[Kernel, ...]

    @property
    def parameters(self) -> dict[str, object]:
        """Parameters of all kernels; those of one name agree, but for what concerns one text alone."""
        return {name: value for kernel in self.kernels for name, value in kernel.parameters.items()}


class Workload(NamedTuple):
    """A unit and every run-time size of its launches."""

    unit: Unit
    sizes: Mapping[str, int]

    @property
    def title(self) -> str:
        """Name for a person."""
        return ", ".join([self.unit.name, *(f"{name}={value}" for name, value in self.sizes.items())])


def units_of(kernels: Sequence[Kernel], patterns: Sequence[str] = ()) -> list[Unit]:
    """Return each kernel of a list as a unit, and those that belong together.

    Parameters
    ----------
    kernels : sequence of Kernel
    patterns : sequence of str, optional
        Only units whose name or family matches one of these shell patterns.

    Raises
    ------
    ConfigError
        If a pattern matches no unit.
    """
    units = [Unit(kernel.variant, kernel.name, (kernel,)) for kernel in kernels] + [*_together(kernels)]
    for pattern in patterns:
        if not any(matches(unit.name, unit.family, pattern) for unit in units):
            names = {unit.name for unit in units} | {unit.family for unit in units}
            raise ConfigError(f"nothing listed matches {pattern!r}; {suggestion(pattern, names)}")
    if not patterns:
        return units
    return [unit for unit in units if any(matches(unit.name, unit.family, pattern) for pattern in patterns)]


def _together(kernels: Sequence[Kernel]) -> Iterator[Unit]:
    for (first, second), family in TOGETHER.items():
        for kernel in kernels:
            if type(kernel) is not first:
                continue
            for other in kernels:
                if type(other) is second and _agree(kernel, other):
                    name = family + kernel.variant.removeprefix(kernel.name)
                    yield Unit(name, family, (kernel, other))
                    break


def _agree(first: Kernel, second: Kernel) -> bool:
    """Say whether two kernels have the same values of the parameters that both have."""
    theirs = second.parameters
    return all(
        theirs.get(name, value) == value
        for name, value in first.parameters.items()
        if name not in ("entry", "target")
    )


def workloads_of(units: Sequence[Unit], asked: Mapping[str, int]) -> list[Workload]:
    """Give each unit its sizes: those asked for that it has, of the others those of decode steps.

    A size ``rows`` is each of `ROWS`, and ``max_chunks`` enough for `CONTEXT` keys; others are what
    `ptxtemplates.references.launches` calls typical.

    Raises
    ------
    ParameterError
        If a size has not the value that is asked for.
    """
    found: dict[tuple[str, tuple[tuple[str, int], ...]], Workload] = {}
    for unit in units:
        for rows in ROWS:
            chosen = {"rows": rows, **_chunks(unit), **asked}
            sizes: dict[str, int] = {}
            for kernel in unit.kernels:
                names = run_time_sizes(kernel)
                own = {name: value for name, value in chosen.items() if name in names}
                sizes |= sizes_of(kernel, own)
            found.setdefault((unit.name, (*sizes.items(),)), Workload(unit, sizes))
    return [*found.values()]


def _chunks(unit: Unit) -> dict[str, int]:
    most = most_chunks(unit, CONTEXT)
    return {} if most is None else {"max_chunks": most}


def most_chunks(unit: Unit, keys: int | None = None) -> int | None:
    """Return the chunks of the longest sequence, of at most `keys` keys; None if nothing bounds them."""
    parameters = unit.parameters
    size = parameters.get("chunk_size")
    bounds = [bound for bound in (keys, parameters.get("max_seq_len")) if isinstance(bound, int)]
    return math.ceil(min(bounds) / size) if isinstance(size, int) and bounds else None
