"""Data as terms: every loaded element a number of its own, every result a number made of those it came from.

A lane's value is known (its number is 0), or a term as a whole (an array of shape (lanes,)), or known and
terms byte by byte (shape (lanes, bytes)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.symbolic.hashing import OPAQUE, STEP, combined, mixed, number_of
from ptxtemplates.symbolic.memory import page_bytes
from ptxtemplates.symbolic.spelling import COMMUTING, comparison_of, is_symmetric, name_of, rank_of
from ptxtemplates.symbolic.values import Value, plain, resized

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.ptx.statements import Instruction
    from ptxtemplates.symbolic.hashing import Numbers
    from ptxtemplates.symbolic.memory import Region
    from ptxtemplates.symbolic.values import Mask

    Offsets = npt.NDArray[np.int64]

_CONSTANT, _BYTES, _SELECT, _NEGATED, _SIGN = map(
    number_of, ("constant", "bytes", "select", "negated", "sign extension")
)
_NEGATED &= OPAQUE
_SUM: Final = np.uint64((1 << 54) - 1)
"""Bits of the sum in a number of a minimum or maximum; above it are two ones and which of these it is."""
_PLACES: Final = np.arange(16, dtype=np.uint64) * STEP


class Terms:
    """The domain of terms.

    Parameters
    ----------
    program : str
        Which of the two programs that are compared this is.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        self._names: dict[Instruction, np.uint64] = {}
        self._constants: dict[int, tuple[npt.NDArray[Any], Numbers]] = {}
        """Numbers of constants, by the identity of their bits."""

    def known(self, value: Value, lanes: Mask) -> bool:
        """Say whether the bits of some lanes are known."""
        return value.shadow is None or not value.shadow[lanes].any()

    def constant(self, bits: npt.NDArray[Any]) -> Value:
        """Make a value that instructions have in them."""
        self._constants[id(bits)] = (bits, combined(_CONSTANT, bits.astype(np.uint64)))
        return Value(bits)

    def is_constant(self, value: Value) -> bool:
        """Say whether a value is one that `constant` made."""
        return id(value.bits) in self._constants

    def _whole(self, value: Value) -> Numbers:
        kept = self._constants.get(id(value.bits)) if value.shadow is None else None
        return whole(value) if kept is None else kept[1]

    def compute(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Value]:
        """Return the results of an instruction that computes registers from registers."""
        known = _known_lanes(sources)
        if known is True:
            return computed(operation, sources)
        exact = computed(operation, sources) if known is not False else None
        results = []
        kinds = (*operation.result_types, *(("pred",) if operation.writes_carry else ()))
        for number, (tags, kind) in enumerate(
            zip(self.numbers(instruction, operation, sources), kinds, strict=True)
        ):
            bits = np.zeros(tags.shape, np.bool_ if kind == "pred" else f"u{DTYPES[kind].itemsize}")
            if exact is not None:
                bits, tags = np.where(known, exact[number].bits, bits), np.where(known, np.uint64(0), tags)
            results.append(Value(bits, tags, exact is None))
        return results

    def numbers(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Numbers]:
        """Return the numbers of an instruction's results, as if nothing were known."""
        if instruction not in self._names:
            self._names[instruction] = number_of(name_of(instruction, self.program))
        operator = self._names[instruction]
        numbers = [self._whole(source) for source in sources]
        comparison = comparison_of(instruction)
        if comparison is not None:
            if comparison.exchanged:
                numbers.reverse()
            if is_symmetric(comparison):
                numbers = [np.minimum(*numbers), np.maximum(*numbers)]
            tags = combined(operator, *numbers)
            return [
                tags ^ _NEGATED if comparison.negated != (number == 1) else tags
                for number in range(len(operation.result_types))
            ]
        if (rank := rank_of(instruction)) is not None:
            return [_gathered(operator, rank, numbers)]
        if instruction.opcode in COMMUTING and operation.source_types[0] == operation.source_types[1]:
            numbers[:2] = [np.minimum(*numbers[:2]), np.maximum(*numbers[:2])]
        count = len(operation.result_types) + operation.writes_carry
        return [combined(operator ^ np.uint64(number), *numbers) for number in range(count)]

    def select(self, predicate: Value, yes: Value, no: Value) -> Value:
        """Choose in each lane by a predicate of which something is not known."""
        assert predicate.shadow is not None
        tags = predicate.shadow
        exchanged = (tags ^ _NEGATED) < tags
        first, second = self._whole(yes), self._whole(no)
        numbers = (
            np.where(exchanged, tags ^ _NEGATED, tags),
            np.where(exchanged, second, first),
            np.where(exchanged, first, second),
        )
        chosen = Value(np.zeros_like(yes.bits), combined(_SELECT, *numbers))
        chosen = self.where(first == second, yes, chosen)
        certain = tags == 0
        if certain.any():
            chosen = self.where(certain, self.where(predicate.bits, yes, no), chosen)
        return chosen

    def where(self, mask: Mask, yes: Value, no: Value) -> Value:
        """Choose in each lane by a mask."""
        bits = np.where(mask, yes.bits, no.bits)
        if yes.shadow is None and no.shadow is None:
            return Value(bits)
        if yes.full and no.full:
            assert yes.shadow is not None
            assert no.shadow is not None
            return Value(bits, np.where(mask, yes.shadow, no.shadow), full=True)
        if all(value.shadow is None or value.shadow.ndim == 1 for value in (yes, no)):
            first, second = (np.uint64(0) if each.shadow is None else each.shadow for each in (yes, no))
            return _simplified(bits, np.where(mask, first, second))
        return _simplified(bits, np.where(mask[:, None], by_byte(yes), by_byte(no)))

    def negated(self, predicate: Value) -> Value:
        """Return the opposite of a predicate."""
        if predicate.shadow is None:
            return Value(~predicate.bits)
        tags = predicate.shadow
        return Value(~predicate.bits & (tags == 0), np.where(tags == 0, tags, tags ^ _NEGATED))

    def resize(self, value: Value, size: int, *, signed: bool) -> Value:
        """Cut a value to a number of bytes, or extend it with zeros or its sign."""
        if value.size == size or value.bits.dtype == np.bool_:
            return value
        bits = resized(value.bits, size, signed=signed)
        if value.shadow is None:
            return Value(bits)
        if size > value.size and signed:
            tags = combined(_SIGN ^ np.uint64(value.size * 16 + size), whole(value))
            return _simplified(bits, np.where(unknown(value), tags, np.uint64(0)))
        if size < value.size and value.shadow.ndim == 1:
            return Value(bits, value.shadow)
        tags = by_byte(value)[:, :size]
        if size > value.size:
            tags = np.pad(tags, ((0, 0), (0, size - value.size)))
        return _simplified(bits, tags)

    def pack(self, parts: Sequence[Value]) -> Value:
        """Put values together, the first one lowest."""
        bits = np.stack([part.bits for part in parts], axis=1)
        joined = bits.view(f"u{parts[0].size * len(parts)}").reshape(-1)
        if all(part.shadow is None for part in parts):
            return Value(joined)
        return _simplified(joined, np.concatenate([by_byte(part) for part in parts], axis=1))

    def unpack(self, value: Value, count: int) -> list[Value]:
        """Take a value apart, the lowest part first."""
        size = value.size // count
        bits = np.ascontiguousarray(value.bits).view(f"u{size}").reshape(-1, count)
        columns = [np.ascontiguousarray(bits[:, number]) for number in range(count)]
        if value.shadow is None:
            return [Value(column) for column in columns]
        tags = by_byte(value)
        return [
            _simplified(column, tags[:, number * size : (number + 1) * size])
            for number, column in enumerate(columns)
        ]

    def permuted(self, value: Value, sources: npt.NDArray[np.intp]) -> Value:
        """Return for each lane the value of another one."""
        shadow = None if value.shadow is None else value.shadow[sources]
        return Value(value.bits[sources], shadow, value.full)

    def bytes_of(self, value: Value) -> tuple[npt.NDArray[np.uint8], Numbers]:
        """Return the bytes of all lanes' values: where they are known, and which terms they are."""
        return np.ascontiguousarray(value.bits).view(np.uint8).reshape(-1), by_byte(value).reshape(-1)

    def gathered(
        self, instruction: Instruction, value: Value, members: npt.NDArray[np.intp], size: int
    ) -> Value:
        """Return what an instruction makes of the values of a warp, the same in all its lanes."""
        heard = np.where(members < 0, np.uint64(0), whole(value)[members])
        tags = combined(number_of(name_of(instruction, self.program)), *heard.T)
        return Value(np.zeros(tags.shape, f"u{size}" if size else np.bool_), tags)

    def undefined(self, name: str, size: int, lanes: int) -> Value:
        """Return what a register holds that was never set: another value in each program."""
        tags = combined(number_of(f"{self.program}: {name}"), np.arange(lanes, dtype=np.uint64))
        return Value(np.zeros(lanes, f"u{size}" if size else np.bool_), tags, full=True)

    def load(self, region: Region, offsets: Offsets, size: int) -> Value:
        """Return what lies at offsets, a value for each."""
        places = offsets[:, None] + np.arange(size)
        if region.written:
            kept = region.pages.kept(places)
            if kept.all():
                bits, tags = region.pages.read("bits", places), region.pages.read("tags", places)
            else:
                bits, tags = self._content(region, places)
                bits = np.where(kept, region.pages.read("bits", places), bits)
                tags = np.where(kept, region.pages.read("tags", places), tags)
            return _simplified(np.ascontiguousarray(bits).view(f"u{size}").reshape(-1), tags)
        if region.bits is not None:
            return Value(region.bits[places].view(f"u{size}").reshape(-1))
        bits = np.zeros(offsets.size, f"u{size}")
        if size == region.element and not (offsets % size).any():
            return Value(bits, self.leaves(region, offsets), full=True)
        return _simplified(bits, self._leaf_bytes(region, places))

    def store(self, region: Region, offsets: Offsets, value: Value) -> None:
        """Write a value at each of the offsets."""
        places = offsets[:, None] + np.arange(value.size)
        for page in region.pages_for(places):
            bits, tags = self._content(region, page_bytes(region, page))
            region.pages.open(page, {"bits": bits, "tags": tags})
        region.pages.write(
            "bits", places, np.ascontiguousarray(value.bits).view(np.uint8).reshape(-1, value.size)
        )
        region.pages.write("tags", places, by_byte(value))

    def leaves(self, region: Region, offsets: Offsets) -> Numbers:
        """Return the terms of elements."""
        return combined(number_of(f"element of {region.name}"), (offsets // region.element).astype(np.uint64))

    def _leaf_bytes(self, region: Region, places: Offsets) -> Numbers:
        """Return the terms of bytes of elements."""
        return self.leaves(region, places) + (places % region.element).astype(np.uint64) * STEP

    def _content(self, region: Region, places: Offsets) -> tuple[npt.NDArray[np.uint8], Numbers]:
        """Return the bits and the numbers of bytes as they were before the launch."""
        if region.bits is None:
            return np.zeros(places.shape, np.uint8), self._leaf_bytes(region, places)
        return region.bits[places], np.zeros(places.shape, np.uint64)

    def contents(self, region: Region, page: int) -> Numbers:
        """Return a number for each byte of a page."""
        places = page_bytes(region, page)
        bits, tags = self._content(region, places)
        if region.written and region.pages.kept(places[:1]).all():
            bits, tags = region.pages.read("bits", places), region.pages.read("tags", places)
        return np.where(tags == 0, combined(_CONSTANT, bits.astype(np.uint64)), tags)


def whole(value: Value) -> Numbers:
    """Return one number for each lane's value."""
    tags = value.shadow
    if tags is not None and (value.full or (tags.ndim == 1 and tags.all())):
        return tags
    constants = combined(_CONSTANT, value.bits.astype(np.uint64))
    if tags is None:
        return constants
    if tags.ndim == 1:
        return np.where(tags == 0, constants, tags)
    each = np.ascontiguousarray(value.bits).view(np.uint8).reshape(-1, value.size).astype(np.uint64)
    bytes_ = np.where(tags == 0, combined(_CONSTANT, each), tags)
    joined = np.where(_is_whole(tags), tags[:, 0], combined(_BYTES, *bytes_.T))
    return np.where((tags == 0).all(axis=1), constants, joined)


def _gathered(operator: np.uint64, rank: int, numbers: Sequence[Numbers]) -> Numbers:
    """Return the number of the least or greatest of all that was gathered so far: their order is the same."""
    prefix = np.uint64(3 << 62 | rank << 54)
    total = np.zeros_like(numbers[0])
    for number in numbers:
        more = np.where(number & ~_SUM == prefix, number, mixed(number * STEP + operator))
        total = total + (more & _SUM)
    return prefix | (total & _SUM)


def by_byte(value: Value) -> Numbers:
    """Return a number for each byte of each lane's value, 0 where it is known."""
    tags = value.shadow
    if tags is None:
        return np.zeros((value.bits.size, value.size), np.uint64)
    if tags.ndim == 2:
        return tags
    return np.where(tags[:, None] == 0, np.uint64(0), tags[:, None] + _PLACES[: value.size])


def _is_whole(tags: Numbers) -> Mask:
    """Say which lanes hold the bytes of one term, in order."""
    whole_: Mask = (tags == tags[:, :1] + _PLACES[: tags.shape[1]]).all(axis=1) & (tags[:, 0] != 0)
    return whole_


def _simplified(bits: npt.NDArray[Any], tags: Numbers) -> Value:
    """Make a value in its shortest form."""
    if not tags.any():
        return Value(bits)
    if tags.ndim == 2 and (_is_whole(tags) | (tags == 0).all(axis=1)).all():
        return Value(bits, tags[:, 0])
    return Value(bits, tags)


def unknown(value: Value) -> Mask:
    """Say in which lanes not all bits of a value are known, if there are any."""
    assert value.shadow is not None
    found: Mask = value.shadow != 0
    return found if found.ndim == 1 else np.logical_or.reduce(found, axis=1)


def _known_lanes(sources: Sequence[Value]) -> Mask | bool:
    """Return which lanes have all their sources, True for all, False for none."""
    if any(source.full for source in sources):
        return False
    uncertain = [unknown(source) for source in sources if source.shadow is not None]
    if not uncertain:
        return True
    known = ~np.logical_or.reduce(uncertain)
    return known if known.any() else False


def computed(operation: Operation, sources: Sequence[Value]) -> list[Value]:
    """Return the results of an operation on bits that are known."""
    typed = [source.typed(kind) for source, kind in zip(sources, operation.source_types, strict=False)]
    typed += [source.bits for source in sources[len(typed) :]]  # the carry
    return [plain(np.asarray(result)) for result in operation.compute(*typed)]
