"""What the addresses of a program depend on, without regard to the order of instructions.

Two checks need it only there: which buffers a store may reach (others cannot be fought over), and which
arithmetic must not exceed 32 bits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ptxtemplates.emulator.instructions.effect import each_of, type_of
from ptxtemplates.emulator.memory.buffers import FIRST_ADDRESS
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.opcodes import result_count
from ptxtemplates.ptx.operands import Address, Immediate, Register

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction

_WRITES: Final = frozenset({"st", "atom", "red"})
_ACCESSES: Final = _WRITES | {"ld", "cp"}
_ELSEWHERE: Final = frozenset({"shared", "local", "param"})


class Slices:
    """What the addresses of global accesses depend on.

    Attributes
    ----------
    parameters : frozenset of int or None
        Addresses of bytes of the kernel's parameters, and in variables, that the addresses of stores come
        from; None where one comes from memory, so that it may lead anywhere.
    arithmetic : frozenset of int
        Places of the instructions whose results addresses are made of.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions
        self._setters = _setters(instructions)
        stores = [address for instruction in instructions for address in _addresses(instruction, _WRITES)]
        _, sources, anywhere = self._behind(stores)
        self.parameters = None if anywhere else frozenset(sources)
        accesses = [address for instruction in instructions for address in _addresses(instruction, _ACCESSES)]
        self.arithmetic = frozenset(self._behind(accesses)[0])

    def _behind(self, addresses: Iterable[Address]) -> tuple[set[int], set[int], bool]:
        """Return the places, the constants, and whether memory is among what addresses are made of."""
        places: set[int] = set()
        constants: set[int] = set()
        anywhere = False
        seen: set[int] = set()
        todo: list[Operand] = [address.base for address in addresses if address.base is not None]
        while todo:
            operand = todo.pop()
            if isinstance(operand, Immediate):
                constants.add(operand.value)
                continue
            for register in _registers((operand,)):
                if register.number in seen:
                    continue
                seen.add(register.number)
                for place in self._setters[register.number]:
                    if place in places:
                        continue
                    places.add(place)
                    instruction = self._instructions[place]
                    results = result_count(instruction.text)
                    if instruction.opcode in ("ld", "atom"):
                        loaded = _parameter_bytes(instruction)
                        constants |= loaded
                        anywhere = anywhere or not loaded
                        continue
                    todo += [
                        source
                        for source in instruction.operands[results:]
                        if not (isinstance(source, Register) and source.type == "pred")
                    ]
        return places, constants, anywhere


def _parameter_bytes(instruction: Instruction) -> set[int]:
    """Return the addresses of the kernel's parameters that an instruction loads; none of a function's."""
    address = next((each for each in instruction.operands if isinstance(each, Address)), None)
    if address is None or "param" not in instruction.modifiers or not isinstance(address.base, Immediate):
        return set()
    start = address.base.value + address.offset
    if start < FIRST_ADDRESS:
        return set()
    count = sum(1 for _ in _registers(instruction.operands[:1]))
    size = TYPE_BITS[type_of(instruction)] // 8
    return set(range(start, start + max(count, 1) * size))


def loads_that_begin_a_loop(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Return the places of loads whose value a compare-and-swap expects.

    Such a loop begins with a plain load: whether the value is still there, the swap finds out.
    """
    setters = _setters(instructions)
    todo = [
        register.number
        for instruction in instructions
        if instruction.opcode == "atom" and "cas" in instruction.modifiers
        for register in _registers(instruction.operands[2:3])
    ]
    seen = set(todo)
    loads = set()
    while todo:
        for place in setters[todo.pop()]:
            instruction = instructions[place]
            if instruction.opcode == "ld" and "nc" not in instruction.modifiers:
                loads.add(place)
            if instruction.opcode in ("mov", "selp", "cvt"):
                new = {register.number for register in _registers(instruction.operands[1:])} - seen
                seen |= new
                todo += new
    return frozenset(loads)


def _addresses(instruction: Instruction, opcodes: frozenset[str]) -> Iterator[Address]:
    """Yield the addresses of global memory that an instruction accesses."""
    if instruction.opcode not in opcodes:
        return
    spaces = {modifier.partition("::")[0] for modifier in instruction.modifiers}
    if spaces & _ELSEWHERE and not (instruction.opcode == "cp" and "global" in spaces):
        return
    for operand in instruction.operands:
        if isinstance(operand, Address):
            yield operand


def _registers(operands: Iterable[Operand]) -> Iterator[Register]:
    return (operand for operand in each_of(operands) if isinstance(operand, Register))


def _setters(instructions: Sequence[Instruction]) -> dict[int, list[int]]:
    """Return the places that set each register, by its number."""
    setters: dict[int, list[int]] = defaultdict(list)
    for place, instruction in enumerate(instructions):
        for register in _registers(instruction.operands[: result_count(instruction.text)]):
            setters[register.number].append(place)
    return setters
