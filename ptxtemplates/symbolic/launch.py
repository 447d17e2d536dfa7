"""A launch with symbolic data: buffers in, what the outputs hold out."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.grid import Blocks
from ptxtemplates.emulator.loading import content_of, parameter_bytes
from ptxtemplates.emulator.memory.buffers import FIRST_ADDRESS
from ptxtemplates.emulator.program import prepare
from ptxtemplates.ptx.parser import parse
from ptxtemplates.symbolic.instructions import handler_of
from ptxtemplates.symbolic.machine import Machine
from ptxtemplates.symbolic.memory import Memory
from ptxtemplates.symbolic.values import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.program import Program
    from ptxtemplates.symbolic.domain import Domain
    from ptxtemplates.symbolic.instructions import Handler
    from ptxtemplates.symbolic.memory import Region

    Block = tuple[int, int, int]


BUFFERS: Final = 1 << 45
"""Where buffers begin: behind the parameters and variables of any text, so that every text has them there."""

PARAMETERS: Final = "parameters"


class Data(NamedTuple):
    """A buffer whose elements are data: each a value of its own.

    Attributes
    ----------
    name : str
        Equal names stand for equal contents.
    size : int
        Bytes of the buffer.
    kind : str
        PTX type of an element.
    """

    name: str
    size: int
    kind: str


class Fixed(NamedTuple):
    """A buffer whose content is known."""

    name: str
    array: npt.NDArray[np.generic]


class Pointers(NamedTuple):
    """A table of pointers."""

    name: str
    buffers: tuple[Data | Fixed, ...]


def run(
    text: str,
    entry: str,
    grid: Block,
    block: Block,
    arguments: Sequence[Data | Fixed | Pointers | int],
    domain: Domain,
    *,
    blocks: Iterable[Block] | None = None,
) -> dict[str, Region]:
    """Run a kernel.

    Parameters
    ----------
    text, entry, grid, block, blocks
        As `ptxtemplates.emulator.emulate` takes them.
    arguments : sequence
        For each parameter a number or a buffer; one that is given twice is one buffer. The same ones have the
        same addresses in every text.
    domain : Domain
        How data is interpreted.

    Returns
    -------
    dict of str to Region
        The buffers, by name, for ``domain.contents``.

    Raises
    ------
    UndecidedError
        If control or addresses depend on data, or an instruction cannot be followed.
    """
    prepared = _prepared(text, entry)
    memory = Memory(BUFFERS)
    regions: dict[str, Region] = {}

    def added(buffer: Data | Fixed) -> int:
        if buffer.name not in regions:
            if isinstance(buffer, Data):
                regions[buffer.name] = memory.add(buffer.name, buffer.size, None, buffer.kind)
            else:
                content = np.frombuffer(buffer.array.tobytes(), np.uint8).copy()
                regions[buffer.name] = memory.add(buffer.name, content.size, content)
        return regions[buffer.name].base

    words = []
    for argument in arguments:
        if isinstance(argument, int):
            words.append(argument)
        elif isinstance(argument, Pointers):
            addresses = [added(buffer) for buffer in argument.buffers]
            words.append(added(Fixed(argument.name, np.array(addresses, np.uint64))))
        else:
            words.append(added(argument))
    if len(words) != len(prepared.sizes):
        raise UndecidedError(f"{entry} has {len(prepared.sizes)} parameters, not {len(words)}")
    content = bytearray(prepared.bytes)
    for word, offset, size in zip(words, prepared.offsets, prepared.sizes, strict=True):
        content[offset : offset + size] = (word % (1 << 8 * size)).to_bytes(size, "little")
    own = Memory(FIRST_ADDRESS)
    own.add(PARAMETERS, prepared.bytes, np.frombuffer(content, np.uint8))
    variables = [own.add(name, initial.size, initial) for name, initial in prepared.variables]
    chosen = Blocks(grid, blocks)
    [rows] = chosen.waves(len(chosen))
    machine = Machine(prepared.program, prepared.handlers, own.joined(memory), domain, rows, grid, block)
    machine.storable = _storable(prepared, own, regions.values(), machine)
    with np.errstate(all="ignore"):
        machine.run()
    for variable in variables:
        if variable.written:
            raise UndecidedError(f"it stores to {variable.name}, a variable that outlives the launch")
    return regions


def _storable(
    prepared: _Prepared, own: Memory, regions: Iterable[Region], machine: Machine
) -> frozenset[Region]:
    """Return the buffers that stores may reach: loads from others need not be watched."""
    of_lanes = {region for region, _, _ in machine.instances.values()}
    reached = prepared.program.slices.parameters
    if reached is None:
        return frozenset({*regions, *of_lanes})
    content = own.content(PARAMETERS)
    starts = {FIRST_ADDRESS + offset for offset in prepared.offsets} & reached
    pointers = {int.from_bytes(content[start - FIRST_ADDRESS :][:8], "little") for start in starts}
    return frozenset({*(region for region in regions if region.base in pointers), *of_lanes})


class _Prepared(NamedTuple):
    """A kernel made ready: its parameters and variables have the same addresses in every launch."""

    program: Program
    handlers: tuple[Handler | None, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    bytes: int
    variables: tuple[tuple[str, npt.NDArray[np.uint8]], ...]


@lru_cache(maxsize=16)
def _prepared(text: str, entry: str) -> _Prepared:
    module = parse(text)
    function = module.function(entry)
    offsets, end = [], 0
    sizes = tuple(parameter_bytes(parameter) for parameter in function.parameters)
    for parameter, size in zip(function.parameters, sizes, strict=True):
        end += -end % parameter.natural_alignment
        offsets.append(end)
        end += size
    memory = Memory(FIRST_ADDRESS)
    start = memory.add(PARAMETERS, end, None).base
    names = [parameter.name for parameter in function.parameters]
    known = {name: start + offset for name, offset in zip(names, offsets, strict=True)}
    variables = [
        variable
        for variable in (*module.variables, *(each for one in module.functions for each in one.variables))
        if variable.space in ("global", "const")
    ]
    known |= {each.name: memory.add(each.name, each.size, None).base for each in variables}
    program = prepare(module, function, known)
    handlers = tuple(None if step.execute is None else handler_of(step.instruction) for step in program.steps)
    contents = tuple((each.name, content_of(each, known)) for each in variables)
    return _Prepared(program, handlers, tuple(offsets), sizes, end, contents)
