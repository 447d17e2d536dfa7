"""A launch: arguments in, results in the caller's arrays, a report back."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from ptxtemplates.emulator.counts import Counter, Counts
from ptxtemplates.emulator.findings import Finding, Lines
from ptxtemplates.emulator.grid import Blocks, special_registers
from ptxtemplates.emulator.loading import content_of, parameter_bytes, place
from ptxtemplates.emulator.machine import Launch, Machine
from ptxtemplates.emulator.memory.buffers import PARAMETERS, Memory
from ptxtemplates.emulator.memory.instances import Placed, laid_out
from ptxtemplates.emulator.memory.races import SHADOW
from ptxtemplates.emulator.operations import UnsupportedInstruction, Worst
from ptxtemplates.emulator.program import prepare
from ptxtemplates.emulator.scheduler import Scheduler
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.emulator.arguments import Buffer, Value
    from ptxtemplates.emulator.program import Program
    from ptxtemplates.ptx.statements import Function, Module, Variable

    Block = tuple[int, int, int]

WAVE: Final = 1 << 16
"""Threads that run at once: memory stays bounded for any grid."""
WAVE_BYTES: Final = 1 << 27
"""Bytes that the registers and the shared and local memory of a wave may take, about."""
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
    if accuracy not in ("exact", "worst"):
        raise EmulationError(f"accuracy must be 'exact' or 'worst', not {accuracy!r}")
    try:
        prepared = _prepare(text, entry, seed if accuracy == "worst" else None)
    except UnsupportedInstruction as error:
        if places is None or error.instruction is None:
            raise
        file, line = places[error.instruction.line - 1]
        raise UnsupportedInstruction(f"{file}:{line}: {error}") from None
    function, program = prepared.function, prepared.program
    _check_block(function, grid, block)
    findings: dict[tuple[str, int], Finding] = {}
    current: list[Machine] = []

    def report(kind: str, message: str, lane: int, **where: Any) -> None:
        current[0].report(kind, message, lane, **where)

    every = Blocks(grid, blocks)
    memory = Memory(report, program.granules["global"], every)
    bits = bytearray(prepared.parameter_bytes)
    memory.add(PARAMETERS, np.frombuffer(bits, np.uint8), constant=True)
    for variable in prepared.variables:
        content = content_of(variable, prepared.addresses)
        memory.add(variable.name, content, constant=variable.space == "const")
    place(function, arguments, memory, bits, prepared.addresses)
    memory.share(_stored(prepared))
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
    for some in every.waves(at_once):
        machine = Machine(launch, special_registers(some, grid, block, shared_memory), first, steps)
        current[:] = [machine]
        with np.errstate(all="ignore"):
            ended = Scheduler(machine).run(step_limit)
        steps, first = machine.now, first + len(some)
        machine.release()
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
    memory = Memory(_nothing, 1, Blocks((1, 1, 1), None))
    offsets: dict[str, int] = {}
    end = 0
    for parameter in function.parameters:
        end += -end % parameter.natural_alignment
        offsets[parameter.name] = end
        end += parameter_bytes(parameter)
    start = memory.add(PARAMETERS, np.zeros(end, np.uint8)).base
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


def _check_block(function: Function, grid: Block, block: Block) -> None:
    for name, extents in (("grid", grid), ("block", block)):
        if not isinstance(extents, tuple | list) or len(extents) != 3 or min(extents) < 1:
            raise EmulationError(f"{name} must have three extents of at least 1, not {extents}")
    required = function.attributes.get("reqntid")
    if required is not None and (*required, 1, 1)[:3] != tuple(block):
        raise EmulationError(f"{function.name} requires a block of {required}, not {block}")
    most = function.attributes.get("maxntid")
    if math.prod(block) > (math.prod(most) if most is not None else 1024):
        raise EmulationError(f"{function.name} allows a block of {most or 1024}, not {block}")


def _stored(prepared: _Prepared) -> set[str] | None:
    """Return the buffers that stores may reach, by name; None: any."""
    reached = prepared.program.slices.parameters
    if reached is None:
        return None
    ends = {each.name: parameter_bytes(each) for each in prepared.function.parameters}
    # a pointer may point behind the end of a variable
    ends |= {each.name: each.size + 1 for each in prepared.variables}
    return {
        name
        for name, start in prepared.addresses.items()
        if any(start <= address < start + ends[name] for address in reached)
    }


def _at_once(block: Block, program: Program, shared: Sequence[Placed]) -> int:
    """Return how many blocks run at once."""
    threads = math.prod(block)
    # beside every byte of shared and local memory lies what is known of it
    of_byte = 2 + -(-SHADOW // program.granules["shared"])
    of_block = of_byte * laid_out(shared) + threads * (2 * laid_out(program.local) + 4 * program.registers)
    return max(1, min(WAVE // threads, WAVE_BYTES // max(of_block, 1)))
