"""What a way of interpreting data must say: how values are made, combined, kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.ptx.statements import Instruction
    from ptxtemplates.symbolic.memory import Region
    from ptxtemplates.symbolic.values import Mask, Value

    Offsets = npt.NDArray[np.int64]


class Domain(Protocol):
    """An interpretation of data."""

    program: str
    """Which program it interprets: what is undefined is another value in each."""

    def known(self, value: Value, lanes: Mask) -> bool:
        """Say whether the bits of some lanes are known."""

    def undefined(self, name: str, size: int, lanes: int) -> Value:
        """Return what a register of a size holds that was never set; a size of 0 is a predicate."""

    def constant(self, bits: npt.NDArray[Any]) -> Value:
        """Make a value that instructions have in them: it lives as long as the launch."""

    def compute(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Value]:
        """Return the results of an instruction that computes registers from registers."""

    def select(self, predicate: Value, yes: Value, no: Value) -> Value:
        """Choose in each lane by a predicate of which something is not known."""

    def where(self, mask: Mask, yes: Value, no: Value) -> Value:
        """Choose in each lane by a mask."""

    def negated(self, predicate: Value) -> Value:
        """Return the opposite of a predicate."""

    def resize(self, value: Value, size: int, *, signed: bool) -> Value:
        """Cut a value to a number of bytes, or extend it with zeros or its sign."""

    def pack(self, parts: Sequence[Value]) -> Value:
        """Put values together, the first one lowest."""

    def unpack(self, value: Value, count: int) -> list[Value]:
        """Take a value apart, the lowest part first."""

    def permuted(self, value: Value, sources: npt.NDArray[np.intp]) -> Value:
        """Return for each lane the value of another one."""

    def gathered(
        self, instruction: Instruction, value: Value, members: npt.NDArray[np.intp], size: int
    ) -> Value:
        """Return what an instruction makes of the values of a warp, the same in all its lanes.

        Parameters
        ----------
        instruction : Instruction
        value : Value
        members : numpy.ndarray of int, shape (lanes, 32)
            The lanes that each lane hears, -1 in the place of others.
        size : int
            Bytes of the result; 0 of a predicate.
        """

    def bytes_of(self, value: Value) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Return the bytes of all lanes' values: two are the same if both arrays say so."""

    def load(self, region: Region, offsets: Offsets, size: int) -> Value:
        """Return what lies at offsets, a value for each."""

    def store(self, region: Region, offsets: Offsets, value: Value) -> None:
        """Write a value at each of the offsets."""
