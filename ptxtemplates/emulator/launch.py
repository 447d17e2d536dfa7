"""A launch: arguments in, results in the caller's arrays, a report back."""

from __future__ import annotations

import math
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.machine import Finding, Machine, Wave
from ptxtemplates.emulator.memory import Memory
from ptxtemplates.emulator.program import prepare
from ptxtemplates.emulator.types import BITS, WARP
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.operands import Immediate
from ptxtemplates.ptx.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from ptxtemplates.ptx.statements import Function, Variable

    Block = tuple[int, int, int]

WAVE: Final = 1 << 16
"""Lanes that run at once: memory stays bounded for any grid."""

STEP_LIMIT: Final = 10_000_000


class Unwritten(NamedTuple):
    """An array argument no one has written: reading an element before a thread writes it is a finding."""

    array: npt.NDArray[Any]


class PointerTable(NamedTuple):
    """An argument that points to an array of pointers to arrays."""

    arrays: Sequence[npt.NDArray[Any]]


class EmulationReport(NamedTuple):
    """What a launch showed.

    Attributes
    ----------
    findings : tuple of Finding
        Mistakes, by PTX line; empty if there was none.
    steps : int
        Instructions that were executed, each once for all lanes of a wave.
    """

    findings: tuple[Finding, ...]
    steps: int


def emulate(
    text: str,
    entry: str,
    grid: Block,
    block: Block,
    arguments: Sequence[npt.NDArray[Any] | Unwritten | PointerTable | int],
    *,
    blocks: Iterable[Block] | None = None,
    step_limit: int = STEP_LIMIT,
) -> EmulationReport:
    """Execute a kernel on the CPU.

    Parameters
    ----------
    text : str
        PTX.
    entry : str
        Name of the kernel.
    grid, block : tuple of int
        Blocks and threads, in x, y, z.
    arguments : sequence
        For each parameter an integer, or for a pointer an array (which the kernel reads and writes), an
        `Unwritten` one, or a `PointerTable`.
    blocks : iterable of tuple of int, optional
        Run these blocks only.
    step_limit : int
        Steps of one wave after which a loop counts as endless.

    Returns
    -------
    EmulationReport
        With the findings. Results are in the arrays.

    Raises
    ------
    PtxSyntaxError, UnsupportedInstruction
        If the text is no PTX, or has an instruction that is not emulated: before anything runs.
    EmulationError
        If the arguments do not fit the kernel, or it does not end.
    """
    module = parse(text)
    try:
        function = module.function(entry)
    except KeyError:
        raise EmulationError(f"the text has no entry {entry!r}") from None
    program = prepare(function)
    _check_block(function, block)
    findings: dict[tuple[str, int], Finding] = {}
    current: list[Machine] = []
    memory = Memory(lambda kind, message, lane: current[0].report(kind, message, lane))
    addresses = {
        variable.name: memory.add(variable.name, _content(variable)) for variable in module.variables
    }
    parameters = _place(function, arguments, memory)
    steps = 0
    for some in _waves(grid, block, blocks):
        machine = Machine(program, _wave(some, grid, block), memory, addresses, parameters, findings)
        current[:] = [machine]
        machine.run(step_limit)
        steps += machine.steps
    return EmulationReport(tuple(sorted(findings.values(), key=lambda finding: finding.line)), steps)


def _check_block(function: Function, block: Block) -> None:
    required = function.attributes.get("reqntid")
    if required is not None and (*required, 1, 1)[:3] != block:
        raise EmulationError(f"{function.name} requires a block of {required}, not {block}")


def _content(variable: Variable) -> npt.NDArray[Any]:
    """Return a module variable as the loader leaves it."""
    if variable.space not in ("global", "const"):
        raise EmulationError(f"line {variable.line}: a .{variable.space} variable is not emulated")
    element = np.dtype(f"u{BITS[variable.type] // 8}")
    content = np.zeros(math.prod(variable.dimensions) * variable.width, element)
    values = variable.initializer if isinstance(variable.initializer, tuple) else (variable.initializer,)
    for index, value in enumerate(values):
        if isinstance(value, Immediate):
            content[index] = value.value % (1 << BITS[variable.type])
        elif value is not None:
            raise EmulationError(f"line {variable.line}: this initialiser is not emulated")
    return content


def _place(
    function: Function,
    arguments: Sequence[npt.NDArray[Any] | Unwritten | PointerTable | int],
    memory: Memory,
) -> dict[str, int]:
    """Give every argument its place in memory; return the bits of each parameter."""
    if len(arguments) != len(function.parameters):
        raise EmulationError(
            f"{function.name} has {len(function.parameters)} parameters, not {len(arguments)}"
        )
    bits = {}
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        name = parameter.name
        if isinstance(argument, Unwritten):
            bits[name] = memory.add(name, argument.array, written=False)
        elif isinstance(argument, np.ndarray):
            bits[name] = memory.add(name, argument)
        elif isinstance(argument, PointerTable):
            inner = [memory.add(f"{name}[{index}]", array) for index, array in enumerate(argument.arrays)]
            bits[name] = memory.add(name, np.array(inner, np.uint64))
        else:
            bits[name] = int(argument)
    return bits


def _waves(grid: Block, block: Block, blocks: Iterable[Block] | None) -> Iterator[list[Block]]:
    """Yield the blocks, as many at a time as fit a wave."""
    every = blocks if blocks is not None else _all(grid)
    at_once = max(1, WAVE // _lanes(block))
    remaining = iter(every)
    while some := list(islice(remaining, at_once)):
        yield some


def _all(grid: Block) -> Iterator[Block]:
    for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
        yield x, y, z


def _lanes(block: Block) -> int:
    return -(-math.prod(block) // WARP) * WARP


def _wave(blocks: list[Block], grid: Block, block: Block) -> Wave:
    lanes = _lanes(block)
    thread = np.arange(lanes, dtype=np.uint32)
    inside = {
        "x": thread % block[0],
        "y": thread // block[0] % block[1],
        "z": thread // (block[0] * block[1]),
    }
    count = len(blocks)
    special = {f"%tid.{axis}": np.tile(values.astype(np.uint32), count) for axis, values in inside.items()}
    for number, axis in enumerate("xyz"):
        special[f"%ctaid.{axis}"] = np.repeat(np.array([each[number] for each in blocks], np.uint32), lanes)
        special[f"%ntid.{axis}"] = np.full(lanes * count, block[number], np.uint32)
        special[f"%nctaid.{axis}"] = np.full(lanes * count, grid[number], np.uint32)
    special["%laneid"] = np.tile(thread % WARP, count)
    return Wave(special, np.tile(thread < math.prod(block), count))
