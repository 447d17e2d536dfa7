"""Data as chosen numbers: a launch as it would run, for examples and differences of rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxtemplates.symbolic.memory import page_bytes
from ptxtemplates.symbolic.terms import computed
from ptxtemplates.symbolic.values import UndecidedError, Value, resized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.ptx.statements import Instruction
    from ptxtemplates.symbolic.memory import Region
    from ptxtemplates.symbolic.values import Mask

    Offsets = npt.NDArray[np.int64]
    Contents = Callable[[str, str, npt.NDArray[np.int64]], npt.NDArray[Any]]


class Numbers:
    """The domain of numbers.

    Parameters
    ----------
    program : str
        Which of the two programs that are compared this is.
    contents : callable
        Takes the name of a buffer, the PTX type of its elements and indices; returns those elements, of the
        type's NumPy type.
    """

    def __init__(self, program: str, contents: Contents) -> None:
        self.program = program
        self._contents = contents

    def known(self, value: Value, lanes: Mask) -> bool:
        """Say that all bits are known."""
        return True

    def undefined(self, name: str, size: int, lanes: int) -> Value:
        """Return what a register holds that was never set: another value in each program."""
        kind = f"b{size * 8}" if size else "b8"
        bits = self._contents(f"{self.program}: {name}", kind, np.arange(lanes))
        return Value(bits if size else bits % 2 != 0)

    def constant(self, bits: npt.NDArray[Any]) -> Value:
        """Make a value that instructions have in them."""
        return Value(bits)

    def compute(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Value]:
        """Return the results of an instruction that computes registers from registers."""
        return computed(operation, sources)

    def select(self, predicate: Value, yes: Value, no: Value) -> Value:
        """Choose in each lane."""
        return self.where(predicate.bits, yes, no)

    def where(self, mask: Mask, yes: Value, no: Value) -> Value:
        """Choose in each lane by a mask."""
        return Value(np.where(mask, yes.bits, no.bits))

    def negated(self, predicate: Value) -> Value:
        """Return the opposite of a predicate."""
        return Value(~predicate.bits)

    def resize(self, value: Value, size: int, *, signed: bool) -> Value:
        """Cut a value to a number of bytes, or extend it with zeros or its sign."""
        return Value(resized(value.bits, size, signed=signed))

    def pack(self, parts: Sequence[Value]) -> Value:
        """Put values together, the first one lowest."""
        bits = np.stack([part.bits for part in parts], axis=1)
        return Value(bits.view(f"u{parts[0].size * len(parts)}").reshape(-1))

    def unpack(self, value: Value, count: int) -> list[Value]:
        """Take a value apart, the lowest part first."""
        bits = np.ascontiguousarray(value.bits).view(f"u{value.size // count}").reshape(-1, count)
        return [Value(np.ascontiguousarray(bits[:, number])) for number in range(count)]

    def permuted(self, value: Value, sources: npt.NDArray[np.intp]) -> Value:
        """Return for each lane the value of another one."""
        return Value(value.bits[sources])

    def bytes_of(self, value: Value) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Return the bytes of all lanes' values; all are known."""
        bits = np.ascontiguousarray(value.bits).view(np.uint8).reshape(-1)
        return bits, np.zeros(bits.size, np.uint64)

    def gathered(
        self, instruction: Instruction, value: Value, members: npt.NDArray[np.intp], size: int
    ) -> Value:
        """Refuse: nothing that is compared by numbers needs it."""
        raise UndecidedError(f"PTX line {instruction.line}: {instruction.text} is not followed with numbers")

    def load(self, region: Region, offsets: Offsets, size: int) -> Value:
        """Return what lies at offsets, a value for each."""
        places = offsets[:, None] + np.arange(size)
        if not region.written:
            return Value(self._content(region, places).view(f"u{size}").reshape(-1))
        kept = region.pages.kept(places)
        bits = region.pages.read("bits", places)
        if not kept.all():
            bits = np.where(kept, bits, self._content(region, places))
        return Value(np.ascontiguousarray(bits).view(f"u{size}").reshape(-1))

    def store(self, region: Region, offsets: Offsets, value: Value) -> None:
        """Write a value at each of the offsets."""
        places = offsets[:, None] + np.arange(value.size)
        for page in region.pages_for(places):
            region.pages.open(page, {"bits": self._content(region, page_bytes(region, page))})
        bits = np.ascontiguousarray(value.bits).view(np.uint8).reshape(-1, value.size)
        region.pages.write("bits", places, bits)

    def contents(self, region: Region, page: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of a page."""
        places = page_bytes(region, page)
        if region.written and region.pages.kept(places[:1]).all():
            return region.pages.read("bits", places)
        return self._content(region, places)

    def _content(self, region: Region, places: Offsets) -> npt.NDArray[np.uint8]:
        """Return bytes as they were before the launch."""
        if region.bits is not None:
            return np.ascontiguousarray(region.bits[places])
        if places.shape[-1] == region.element and not (places[..., 0] % region.element).any():
            values = self._contents(region.name, region.kind, places[..., 0] // region.element)
            return np.ascontiguousarray(values).view(np.uint8).reshape(places.shape)
        values = self._contents(region.name, region.kind, (places // region.element).reshape(-1))
        content = np.ascontiguousarray(values).view(np.uint8).reshape(-1, region.element)
        chosen = content[np.arange(places.size), (places % region.element).reshape(-1)]
        return np.ascontiguousarray(chosen.reshape(places.shape))
