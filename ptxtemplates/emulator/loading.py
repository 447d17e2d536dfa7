"""What a launch puts into memory: the initial values of variables, the buffers, and the parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ptxtemplates.emulator.arguments import PointerTable, Previous, Unwritten
from ptxtemplates.emulator.memory.sparse import SparseArray
from ptxtemplates.emulator.operations import DTYPES, constant
from ptxtemplates.emulator.types import BITS
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Immediate, Symbol
from ptxtemplates.ptx.statements import InitialAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.arguments import Buffer, Value
    from ptxtemplates.emulator.memory.buffers import Memory
    from ptxtemplates.ptx.statements import Function, Initializer, Variable


def parameter_bytes(parameter: Variable) -> int:
    """Return the bytes that a parameter takes."""
    return parameter.size or TYPE_BITS.get(parameter.type, 64) // 8


def content_of(variable: Variable, addresses: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    """Return a module variable as the loader leaves it: what has no initial value is zero."""
    content = np.zeros(variable.size, np.uint8)
    if variable.initializer is not None:
        size = BITS[variable.type] // 8
        values = list(_flat(variable.initializer, variable.dimensions or (1,)))
        if values and size * (max(index for index, _ in values) + 1) > variable.size:
            raise EmulationError(
                f"line {variable.line}: {variable.name} has more values than its {variable.size} bytes hold"
            )
        for index, value in values:
            number = _initial(variable, value, addresses) % (1 << 8 * size)
            content[index * size : (index + 1) * size] = np.frombuffer(
                number.to_bytes(size, "little"), np.uint8
            )
    return content


def constant_bits(value: Immediate, kind: str) -> int:
    """Return the bits of a constant as a value of a type; in a float type a number is rounded to it."""
    if value.type not in ("f32", "f64") and kind in ("f16", "bf16", "f32", "f64"):
        typed = np.asarray(value.value, np.float64).astype(DTYPES[kind])
    else:
        typed = constant(value, kind)
    return int(typed.reshape(1).view(f"u{typed.dtype.itemsize}")[0])


def _flat(initializer: Initializer, dimensions: tuple[int, ...]) -> Iterator[tuple[int, Initializer]]:
    """Yield each value and its index; inner lists may be shorter than their dimension."""
    inner = math.prod(dimensions[1:])
    if not isinstance(initializer, tuple) or isinstance(initializer, Immediate | InitialAddress):
        yield 0, initializer
        return
    for number, part in enumerate(initializer):
        if isinstance(part, tuple) and not isinstance(part, Immediate | InitialAddress):
            for index, value in _flat(part, dimensions[1:]):
                yield number * inner + index, value
        else:
            yield number, part


def _initial(variable: Variable, value: Initializer, addresses: Mapping[str, int]) -> int:
    if isinstance(value, Immediate):
        return constant_bits(value, variable.type)
    if isinstance(value, InitialAddress) and isinstance(value.symbol, Symbol) and value.mask is None:
        base = addresses.get(value.symbol.name)
        if base is not None:
            return base + value.symbol.offset + value.offset
    raise EmulationError(f"line {variable.line}: this initialiser of {variable.name} is not emulated")


def place(
    function: Function,
    arguments: Sequence[Buffer | Value],
    memory: Memory,
    bits: bytearray,
    addresses: Mapping[str, int],
) -> None:
    """Give every buffer its place in memory, and write the parameters."""
    if len(arguments) != len(function.parameters):
        raise EmulationError(
            f"{function.name} has {len(function.parameters)} parameters, not {len(arguments)}"
        )
    start = min(addresses.values(), default=0)
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        content = _parameter(parameter, argument, memory)
        size = parameter_bytes(parameter)
        if len(content) != size:
            raise EmulationError(f"{parameter.name} takes {size} bytes, not {len(content)}")
        offset = addresses[parameter.name] - start
        bits[offset : offset + size] = content


def _parameter(parameter: Variable, argument: Buffer | Value, memory: Memory) -> bytes:
    size = parameter_bytes(parameter)
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.generic):
        return bytes(argument.tobytes())
    if isinstance(argument, float):
        if parameter.type not in ("f32", "f64"):
            raise EmulationError(f"{parameter.name} is a {parameter.type}: pass a NumPy scalar of its type")
        return bytes(np.array(argument, f"f{size}").tobytes())
    if isinstance(argument, int):
        if parameter.type in ("f32", "f64"):
            raise EmulationError(f"{parameter.name} is a {parameter.type}: pass a float, not {argument}")
        if not -(1 << 8 * size - 1) <= argument < 1 << 8 * size:
            raise EmulationError(f"{parameter.name} is a {parameter.type}, which {argument} does not fit")
        return (int(argument) % (1 << 8 * size)).to_bytes(size, "little")
    try:
        return _buffer(parameter.name, argument, memory).to_bytes(8, "little")
    except ValueError as error:
        raise EmulationError(str(error)) from error


def _buffer(name: str, argument: Buffer, memory: Memory) -> int:
    """Return the address of a buffer."""
    if isinstance(argument, PointerTable):
        inner = [_buffer(f"{name}[{index}]", array, memory) for index, array in enumerate(argument.arrays)]
        return memory.add(name, np.array(inner, np.uint64)).base
    if isinstance(argument, Unwritten):
        return memory.add(name, argument.array, written=False).base
    if isinstance(argument, Previous):
        return memory.add(name, argument.array, previous=True).base
    if isinstance(argument, np.ndarray):
        return memory.add(name, argument, constant=not argument.flags.writeable).base
    if isinstance(argument, SparseArray):
        return memory.add(name, argument).base
    raise EmulationError(f"{name}: a parameter is a number, an array or a table of arrays, not {argument!r}")
