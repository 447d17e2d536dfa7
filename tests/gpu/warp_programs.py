"""Programs whose threads work together: atomics whose result no order changes, and random ones with exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from ptxtemplates.kernel import Argument  # not for type checking alone: a kernel's annotations are evaluated
from ptxtemplates.references.case import Case, Input, Launch
from ptxtemplates.verification.programs import Program
from tests.emulator.program_text import text
from tests.emulator.random_programs import SLOTS, random_program
from tests.emulator.scalar import Instruction
from tests.gpu.instruction_programs import STEPS, THREADS, VERSION, Listing, seed_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ptxtemplates.kernel import Kernel

BLOCKS: Final = 3
_LARGEST: Final = (1 << 64) - 1

ATOMICS: Final[dict[str, int]] = {
    **dict.fromkeys(("add.u32", "add.s32", "add.u64", "add.f32", "add.f64"), 0),
    **dict.fromkeys(("max.u32", "max.u64", "or.b32", "or.b64", "xor.b32", "xor.b64", "inc.u32"), 0),
    **dict.fromkeys(("min.u32", "min.u64", "and.b32", "and.b64"), _LARGEST),
    "min.s32": 0x7FFFFFFF,
    "max.s32": 0x80000000,
    "min.s64": _LARGEST >> 1,
    "max.s64": 1 << 63,
    "dec.u32": 77,
}
"""What the cell of each holds first; sums of floats are of integers, which are exact in any order."""

_LIMITED: Final = ("inc.u32", "dec.u32")


class WarpProgram(NamedTuple):
    """A program and its case; the results are the buffer ``out``."""

    kernel: Kernel
    case: Case
    texts: dict[Kernel, Program]


def atomics() -> WarpProgram:
    """Return a program in which every thread of some blocks changes every cell, in global and shared memory."""
    cells = list(ATOMICS.values())
    rows = BLOCKS * THREADS
    columns = seed_of("atomics").integers(0, 1 << 64, (1, rows), np.uint64, endpoint=False)
    out = Input(np.array([cells, cells], np.uint64), changes=True)
    kernel = Listing()
    launch = Launch(kernel, ("in", "out"), (BLOCKS, 1, 1), STEPS)
    case = Case("atomics", {"in": Input(columns), "out": out}, (launch,), ())
    return WarpProgram(kernel, case, {kernel: Program(_atomics(), kernel.entry, None)})


def _atomics() -> str:
    count = len(ATOMICS)
    lines = [line for place, name in enumerate(ATOMICS) for line in _changed(name, place, count)]
    body = "\n".join(f"    {line}" for line in lines)
    return f"""\
.version {VERSION}
.target sm_75
.address_size 64
.shared .align 8 .b64 cells[{count}];

.visible .entry {Listing().entry}(.param .u64 in_ptr, .param .u64 out_ptr)
.reqntid {THREADS}, 1, 1
{{
    .reg .u64 %in, %out, %offset, %cell;
    .reg .b64 %word, %found, %wide;
    .reg .b32 %row, %block, %thread, %value, %old;
    .reg .f32 %number;
    .reg .f64 %double;
    .reg .pred %other, %own;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %row, %block, {THREADS}, %thread;
    mul.wide.u32 %offset, %row, 8;
    ld.param.u64 %in, [in_ptr];
    ld.param.u64 %out, [out_ptr];
    add.u64 %in, %in, %offset;
    ld.global.b64 %word, [%in];
    cvt.u32.u64 %value, %word;
    and.b32 %row, %value, 1023;
    cvt.rn.f32.u32 %number, %row;
    cvt.rn.f64.u32 %double, %row;
    setp.lt.u32 %own, %thread, {count};
    mov.u64 %cell, cells;
    mul.wide.u32 %offset, %thread, 8;
    add.u64 %cell, %cell, %offset;
    add.u64 %offset, %out, %offset;
    @%own ld.global.b64 %found, [%offset+{8 * count}];
    bar.sync 0;
    setp.ne.u32 %other, %block, 0;
    @%other bra done;
    @%own st.shared.b64 [%cell], %found;
    bar.sync 0;
{body}
    bar.sync 0;
    @%own ld.shared.b64 %found, [%cell];
    @%own st.global.b64 [%offset+{8 * count}], %found;
    ret;
done:
{_globally()}
    ret;
}}
"""


def _operand(name: str) -> str:
    if name in _LIMITED:
        return "1000"
    return {"f32": "%number", "f64": "%double"}.get(name[-3:], "%word" if name.endswith("64") else "%value")


def _changed(name: str, place: int, count: int) -> Iterator[str]:
    """Yield the changes of the first block: of a cell of shared memory, and of one of global memory."""
    old = {"f32": "%number", "f64": "%double"}.get(name[-3:])
    yield f"red.shared.{name} [cells+{8 * place}], {_operand(name)};"
    if old is None:
        old = "%wide" if name.endswith("64") else "%old"
        yield f"atom.global.{name} {old}, [%out+{8 * place}], {_operand(name)};"
    else:
        yield f"red.global.{name} [%out+{8 * place}], {_operand(name)};"


def _globally() -> str:
    """Return the changes of the other blocks: of the cells of global memory alone."""
    return "\n".join(
        f"    red.global.{name} [%out+{8 * place}], {_operand(name)};" for place, name in enumerate(ATOMICS)
    )


RANDOM: Final = 60
"""Seeds to choose from."""


def steady_seeds() -> list[int]:
    """Return seeds of programs in which no thread ends before the others.

    What a barrier counts once threads have ended, the ISA leaves open.
    """
    return [
        seed
        for seed in range(RANDOM)
        if not any(
            isinstance(item, Instruction) and item.opcode in ("exit", "ret")
            for function in random_program(seed, full_warps=True).functions.values()
            for item in function.body
        )
    ]


class Exchanging(Listing):
    """What launches a random program: it takes the results alone."""

    name: ClassVar = "k"
    arguments: ClassVar[tuple[Argument, ...]] = (Listing.arguments[1],)


def exchanging(seed: int) -> WarpProgram:
    """Return a random program: branches, loops, calls, shuffles, votes, matches, reductions, barriers."""
    program = random_program(seed, full_warps=True)
    grid = 1 + seed % 3
    kernel = Exchanging(threads=32 * (1 + seed % 4))
    written = text(program, kernel.block).replace(".target sm_90", ".target sm_80")
    out = Input(np.zeros((grid, kernel.threads, SLOTS), np.uint32), changes=True)
    case = Case("exchanging", {"out": out}, (Launch(kernel, ("out",), (grid, 1, 1), STEPS),), ())
    return WarpProgram(kernel, case, {kernel: Program(written, kernel.entry, None)})
