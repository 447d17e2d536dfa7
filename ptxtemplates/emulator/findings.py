"""What an execution showed to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ptxtemplates.ptx.statements import Instruction

KINDS: Final = {
    "out of bounds": "an address outside every buffer, or reaching over the end of one",
    "misaligned": "an address that is no multiple of the bytes that the instruction accesses",
    "read-only memory": "a store to a constant, a parameter, or what ld.global.nc reads",
    "unwritten memory": "a read of memory that nobody wrote",
    "unset register": "a read of a register that was not set on the way there",
    "32-bit wrap": "an address computed from a product, sum or shift that did not fit 32 bits",
    "conflict between blocks": "two blocks that write one place, or one that reads what another writes",
    "shared-memory race": "two threads that access one place, one of them writing, without a barrier between",
    "cp.async": "an access to where an asynchronous copy, not yet waited for, writes",
    "griddepcontrol": "a use of the previous kernel's results before griddepcontrol.wait",
    "shuffle": "a lane that a warp instruction names or reads, and that does not take part in it",
    "barrier": "a barrier that not all threads reach, or not together",
    "outside the documented range": "an operand for which the ISA promises no accuracy",
    "trap": "an executed trap",
    "step limit": "a loop that does not end",
}
"""Every kind of finding, and what it means."""


class Finding(NamedTuple):
    """A mistake that an execution showed: the first of its kind on its line.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    line : int
        PTX line.
    message : str
        What happened.
    block, thread : tuple of int
        Who did it, in x, y, z.
    kernel : str
        Name of the entry.
    source : tuple of (str, int) or None
        Template (or other source) and line that the PTX line comes from, if that is known.
    address : int or None
        Of a mistake in an access to memory.
    buffer : str or None
        Name of the buffer that is nearest to the address.
    """

    kind: str
    line: int
    message: str
    block: tuple[int, ...]
    thread: tuple[int, ...]
    kernel: str
    source: tuple[str, int] | None = None
    address: int | None = None
    buffer: str | None = None

    def describe(self) -> str:
        """Return the finding as one line for a person."""
        source = f" ({self.source[0]}:{self.source[1]})" if self.source is not None else ""
        return (
            f"{self.kernel}: PTX line {self.line}{source}: {self.kind}: {self.message};"
            f" block {self.block}, thread {self.thread}"
        )


class Lines:
    """Where PTX lines come from.

    Parameters
    ----------
    files : mapping of int to str
        Of the module's ``.file`` directives.
    places : sequence of (str, int), optional
        Template and line of each PTX line; goes before what ``.loc`` says.
    """

    def __init__(self, files: Mapping[int, str], places: Sequence[tuple[str, int]] | None) -> None:
        self._files = files
        self._places = places

    def source_of(self, instruction: Instruction) -> tuple[str, int] | None:
        """Return the file and line that an instruction comes from."""
        if self._places is not None:
            return self._places[instruction.line - 1] if instruction.line <= len(self._places) else None
        if instruction.loc is None:
            return None
        return self._files.get(instruction.loc.file, "?"), instruction.loc.line
