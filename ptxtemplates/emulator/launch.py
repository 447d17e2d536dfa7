"""A launch: arguments in, results in the caller's arrays, a report back."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from ptxtemplates.emulator.arguments import PointerTable, Previous, Unwritten
from ptxtemplates.emulator.counts import Counter, Counts
from ptxtemplates.emulator.findings import Finding, Lines
from ptxtemplates.emulator.instances import Placed, laid_out
from ptxtemplates.emulator.machine import Launch, Machine
from ptxtemplates.emulator.memory import Memory
from ptxtemplates.emulator.operations import Worst
from ptxtemplates.emulator.program import prepare
from ptxtemplates.emulator.scheduler import Scheduler
from ptxtemplates.emulator.sparse import SparseArray
from ptxtemplates.emulator.types import BITS, WARP
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Immediate, Symbol
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.statements import InitialAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.arguments import Buffer, Value
    from ptxtemplates.emulator.program import Program
    from ptxtemplates.ptx.statements import Function, Initializer, Module, Variable

    Block = tuple[int, int, int]

WAVE: Final = 1 << 16
"""Threads that run at once: memory stays bounded for any grid."""
WAVE_BYTES: Final = 1 << 26
"""Bytes that the shared and local memory of a wave may take."""
STEP_LIMIT: Final = 10_000_000


class EmulationReport(NamedTuple):
    """What a launch showed.

    Attributes
    ----------
    findings : tuple of Finding
        Mistakes, by PTX line; empty if there was none.
    steps : int
        Instructions that were executed, each once for all threads of a wave that run it together.
    counts : Counts or None
        What was executed, if it was asked for.
    """

    findings: tuple[Finding, ...]
    steps: int
    counts: Counts | None = None


def emulate(
    text: str,
    entry: str,
    grid: Block,
    block: Block,
    arguments: Sequence[Buffer | Value],
    *,
    blocks: Iterable[Block] | None = None,
    shared_memory: int = 0,
    accuracy: Literal["exact", "worst"] = "exact",
    seed: int = 0,
    step_limit: int = STEP_LIMIT,
    places: Sequence[tuple[str, int]] | None = None,
    count: bool = False,
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
        For each parameter a number of its type (or the bytes of a struct); or for a pointer an array, which
        the kernel reads and writes, an `Unwritten`, `Previous` or `SparseArray` one, or a `PointerTable`. An
        array that is given twice is one buffer.
    blocks : iterable of tuple of int, optional
        Run these blocks only.
    shared_memory : int
        Bytes of dynamic shared memory.
    accuracy : {"exact", "worst"}
        Whether approximate instructions are rounded correctly, or err as far as the ISA allows, up or down by
        `seed`.
    step_limit : int
        Steps of one wave after which a loop counts as endless.
    places : sequence of (str, int), optional
        Template and line of each PTX line, for findings.
    count : bool
        Count what is executed.

    Returns
    -------
    EmulationReport
        With the findings. Results are in the arrays.

    Raises
    ------
    PtxSyntaxError, UnsupportedInstruction
        If the text is no PTX, or has an instruction that is not emulated: before anything runs.
    EmulationError
        If the arguments do not fit the kernel.
    """
    prepared = _prepare(text, entry, seed if accuracy == "worst" else None)
    function, program = prepared.function, prepared.program
    _check_block(function, grid, block)
    findings: dict[tuple[str, int], Finding] = {}
    current: list[Machine] = []

    def report(kind: str, message: str, lane: int, **where: Any) -> None:
        current[0].report(kind, message, lane, **where)

    memory = Memory(report)
    memory.conflicts.granule = program.granules["global"]
    bits = bytearray(prepared.parameter_bytes)
    memory.add("parameters", np.frombuffer(bits, np.uint8), constant=True)
    for variable in prepared.variables:
        content = _content(variable, prepared.addresses)
        memory.add(variable.name, content, constant=variable.space == "const")
    _place(function, arguments, memory, bits, prepared.addresses)
    memory.share(_stored(function, program, prepared.addresses))
    shared = program.shared
    if program.dynamic is not None:
        shared = (*shared, Placed(program.dynamic, laid_out(shared), shared_memory))
    launch = Launch(
        entry,
        program,
        memory,
        shared,
        findings,
        Lines(prepared.module.files, places),
        Counter(program, block) if count else None,
    )
    steps, first = 0, 1
    at_once = _at_once(block, program, shared)
    for some in _waves(grid, blocks, at_once):
        special = _special(some, grid, block, shared_memory)
        machine = Machine(launch, special, first, steps)
        memory.conflicts.names += [str(each) for each in some]
        current[:] = [machine]
        with np.errstate(all="ignore"):
            ended = Scheduler(machine).run(step_limit)
        steps, first = machine.now, first + len(some)
        if not ended:
            break
    counts = launch.counter.counts() if launch.counter is not None else None
    return EmulationReport(tuple(sorted(findings.values(), key=lambda finding: finding.line)), steps, counts)


class _Prepared(NamedTuple):
    module: Module
    function: Function
    program: Program
    variables: tuple[Variable, ...]
    addresses: Mapping[str, int]
    """Of variables in global and constant memory, and of the parameters."""
    parameter_bytes: int


@lru_cache(maxsize=64)
def _prepare(text: str, entry: str, seed: int | None) -> _Prepared:
    """Parse a text and make a kernel of it ready; addresses depend on the text alone."""
    module = parse(text)
    try:
        function = module.function(entry)
    except KeyError:
        raise EmulationError(f"the text has no entry {entry!r}") from None
    if function.kind != "entry" or function.body is None:
        raise EmulationError(f"{entry} is no entry that the text defines")
    memory = Memory(_nothing)
    offsets: dict[str, int] = {}
    end = 0
    for parameter in function.parameters:
        end += -end % parameter.natural_alignment
        offsets[parameter.name] = end
        end += _parameter_bytes(parameter)
    start = memory.add("parameters", np.zeros(end, np.uint8)).base
    addresses = {name: start + offset for name, offset in offsets.items()}
    variables = [
        variable
        for variable in (*module.variables, *(each for f in module.functions for each in f.variables))
        if variable.space in ("global", "const")
    ]
    for variable in variables:
        addresses[variable.name] = memory.add(variable.name, np.zeros(variable.size, np.uint8)).base
    program = prepare(module, function, addresses, None if seed is None else Worst(seed))
    return _Prepared(module, function, program, tuple(variables), addresses, end)


def _nothing(*_: object, **__: object) -> None:
    """Stand in for a report while addresses are given out."""


def _parameter_bytes(parameter: Variable) -> int:
    return parameter.size or TYPE_BITS.get(parameter.type, 64) // 8


def _check_block(function: Function, grid: Block, block: Block) -> None:
    for name, extents in (("grid", grid), ("block", block)):
        if len(extents) != 3 or min(extents) < 1:
            raise EmulationError(f"{name} must have three extents of at least 1, not {extents}")
    required = function.attributes.get("reqntid")
    if required is not None and (*required, 1, 1)[:3] != block:
        raise EmulationError(f"{function.name} requires a block of {required}, not {block}")
    most = function.attributes.get("maxntid")
    if math.prod(block) > (math.prod(most) if most is not None else 1024):
        raise EmulationError(f"{function.name} allows a block of {most or 1024}, not {block}")


def _content(variable: Variable, addresses: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    """Return a module variable as the loader leaves it: what has no initial value is zero."""
    content = np.zeros(variable.size, np.uint8)
    if variable.initializer is not None:
        size = BITS[variable.type] // 8
        values = list(_flat(variable.initializer, variable.dimensions or (1,)))
        for index, value in values:
            number = _initial(variable, value, addresses) % (1 << 8 * size)
            content[index * size : (index + 1) * size] = np.frombuffer(
                number.to_bytes(size, "little"), np.uint8
            )
    return content


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
        return value.value
    if isinstance(value, InitialAddress) and isinstance(value.symbol, Symbol) and value.mask is None:
        base = addresses.get(value.symbol.name)
        if base is not None:
            return base + value.symbol.offset + value.offset
    raise EmulationError(f"line {variable.line}: this initialiser of {variable.name} is not emulated")


def _place(
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
        size = _parameter_bytes(parameter)
        if len(content) != size:
            raise EmulationError(f"{parameter.name} takes {size} bytes, not {len(content)}")
        offset = addresses[parameter.name] - start
        bits[offset : offset + size] = content


def _parameter(parameter: Variable, argument: Buffer | Value, memory: Memory) -> bytes:
    size = _parameter_bytes(parameter)
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.generic):
        return bytes(argument.tobytes())
    if isinstance(argument, float):
        if parameter.type not in ("f32", "f64"):
            raise EmulationError(f"{parameter.name} is a {parameter.type}: pass a NumPy scalar of its type")
        return bytes(np.array(argument, f"f{size}").tobytes())
    if isinstance(argument, int):
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
    if isinstance(argument, np.ndarray | SparseArray):
        return memory.add(name, argument).base
    raise EmulationError(f"{name}: a parameter is a number, an array or a table of arrays, not {argument!r}")


def _stored(function: Function, program: Program, addresses: Mapping[str, int]) -> set[str] | None:
    """Return the buffers that stores may reach, by name; None: any."""
    reached = program.slices.parameters
    if reached is None:
        return None
    return {name for name, address in addresses.items() if address in reached}


def _at_once(block: Block, program: Program, shared: Sequence[Placed]) -> int:
    """Return how many blocks run at once."""
    threads = math.prod(block)
    of_block = laid_out(shared) * (3 if shared else 0) + laid_out(program.local) * 2 * threads
    return max(1, min(WAVE // threads, WAVE_BYTES // max(of_block, 1)))


def _waves(grid: Block, blocks: Iterable[Block] | None, at_once: int) -> Iterator[list[Block]]:
    """Yield the blocks, as many at a time as fit a wave."""
    remaining = iter(blocks if blocks is not None else _all(grid))
    while some := list(islice(remaining, at_once)):
        yield some


def _all(grid: Block) -> Iterator[Block]:
    for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
        yield x, y, z


def _special(
    blocks: list[Block], grid: Block, block: Block, shared_memory: int
) -> dict[str, npt.NDArray[Any]]:
    """Return the special registers: shape (blocks, 1), (1, threads) or (1, 1)."""
    thread = np.arange(math.prod(block), dtype=np.uint32)[None]
    lane = thread % WARP
    one = np.uint32(1)
    special: dict[str, npt.NDArray[Any]] = {
        # the number of the thread in its block: no register of PTX, but what the others are made of
        "%tid": thread.astype(np.int64),
        "%tid.x": thread % block[0],
        "%tid.y": thread // block[0] % block[1],
        "%tid.z": thread // (block[0] * block[1]),
        "%laneid": lane,
        "%warpid": thread // WARP,
        "%lanemask_eq": one << lane,
        "%lanemask_lt": (one << lane) - one,
        "%lanemask_le": ((one << lane) - one) | one << lane,
        "%lanemask_gt": ~(((one << lane) - one) | one << lane),
        "%lanemask_ge": ~((one << lane) - one),
    }
    numbers = np.array(blocks, np.uint32)
    constants = {
        "%nwarpid": -(-thread.size // WARP),
        "%smid": 0,
        "%nsmid": 1,
        "%gridid": 0,
        "%dynamic_smem_size": shared_memory,
        "%clusterid.x": 0,
        "%cluster_ctarank": 0,
        "%cluster_nctarank": 1,
    }
    for number, axis in enumerate("xyz"):
        special[f"%ctaid.{axis}"] = numbers[:, number : number + 1]
        constants |= {f"%ntid.{axis}": block[number], f"%nctaid.{axis}": grid[number]}
        constants |= {f"%cluster_ctaid.{axis}": 0, f"%cluster_nctaid.{axis}": 1}
    special |= {name: np.array([[value]], np.uint32) for name, value in constants.items()}
    return special
