"""What runs cases, and what it returns. Today the emulator, and a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references.case import Case


class SkippedCase(PtxTemplatesError):
    """A case that a place cannot run, through no fault of the text."""


class Observation(NamedTuple):
    """A finding of the place that ran the case: a mistake in an execution, whatever the results.

    Attributes
    ----------
    kind, message : str
        What is wrong, and how.
    kernel : str
        Entry that did it.
    line : int
        PTX line; 0 where the place cannot tell, as a GPU.
    source : tuple of (str, int) or None
        Template line that it comes from.
    block, thread : tuple of int
        Who did it; empty where the place cannot tell.
    address : int or None
        Of a wrong access.
    buffer : str or None
        The one nearest to it.
    """

    kind: str
    message: str
    kernel: str
    line: int
    source: tuple[str, int] | None
    block: tuple[int, ...]
    thread: tuple[int, ...]
    address: int | None
    buffer: str | None


class Text(Protocol):
    """The PTX of a kernel."""

    @property
    def text(self) -> str:
        """PTX."""

    @property
    def entry(self) -> str:
        """Name of the kernel in it."""

    @property
    def places(self) -> Sequence[tuple[str, int]] | None:
        """Template line of each line, if it was rendered."""


Contents: TypeAlias = "Callable[[str, int, int], npt.NDArray[Any]]"
"""Takes a buffer's name, a flat index and a size, and returns those elements as they are after a case."""


class Ran(NamedTuple):
    """What a place returns: the buffers after the last launch, and what it found on the way."""

    contents: Contents
    findings: tuple[Observation, ...]


class Place(Protocol):
    """Where cases run."""

    def run(self, case: Case, programs: Mapping[Kernel, Text]) -> Ran:
        """Allocate and fill the buffers of a case, launch its kernels in order, give access to the results.

        Outputs are filled with NaN before. `programs` has the text of every kernel that the case launches.
        """
