"""Programs that apply every spelling of an opcode to columns of operands: each thread takes a row of them.

The words of a column, and of results, are 64 bits wide whatever the type: what is wider than the type is 0.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator.operations import DTYPES, TABLE, Operation
from ptxtemplates.kernel import Argument, Kernel, pointer
from ptxtemplates.parameters import Integer, Parameter
from ptxtemplates.references.case import Case, Input, Launch
from ptxtemplates.verification.programs import Program
from tests.emulator.operations.running import guessed, spellings
from tests.emulator.operations.test_assembles import REGISTERS
from tests.emulator.operations.test_table import patterns
from tests.gpu.targets import lowest_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

VERSION: Final = "8.8"
"""Of PTX: the first that has all of the instructions."""

ROWS: Final = 256
"""Combinations of edges; random rows are half as many more."""

STEPS: Final = 1_000_000
THREADS: Final = 128


@dataclass(frozen=True, kw_only=True)
class Listing(Kernel):
    """What launches a program: its arguments and its block."""

    name: ClassVar = "listing"
    summary: ClassVar = "a program of the tests"
    template: ClassVar = "listing.ptx.jinja"
    arguments: ClassVar[tuple[Argument, ...]] = (
        pointer("in_ptr", "b64", "blocks", role="data", alignment=8),
        pointer("out_ptr", "b64", "blocks", role="output", alignment=8),
    )
    extents: ClassVar = {"blocks": 2**31 - 1}

    threads: Annotated[int, Parameter(Integer(1, 1024), "threads of a block", "t")] = THREADS

    @property
    def block(self) -> tuple[int, int, int]:
        return (self.threads, 1, 1)

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        return ("blocks", 1, 1)


class Result(NamedTuple):
    """A column of results.

    Attributes
    ----------
    spelling : str
        Opcode and modifiers.
    type : str
        How its bits are read: a PTX type, or ``carry``.
    sources : tuple of int
        Its columns of operands.
    """

    spelling: str
    type: str
    sources: tuple[int, ...]


class InstructionProgram(NamedTuple):
    """A program, its operands, and what its results are.

    Attributes
    ----------
    text : str
        PTX, with the entry `Listing` names.
    columns : array of uint64
        Shape (columns, rows).
    results : tuple of Result
    """

    text: str
    columns: Words
    results: tuple[Result, ...]

    @property
    def kernel(self) -> Listing:
        return Listing()

    @property
    def case(self) -> Case:
        """The program as a case; buffers are named ``in`` and ``out``."""
        rows = self.columns.shape[1]
        out = Input(np.zeros((len(self.results), rows), np.uint64), changes=True)
        launch = Launch(self.kernel, ("in", "out"), (rows // THREADS, 1, 1), STEPS)
        return Case("instructions", {"in": Input(self.columns), "out": out}, (launch,), ())

    @property
    def texts(self) -> dict[Kernel, Program]:
        return {self.kernel: Program(self.text, self.kernel.entry, None)}


@cache
def groups(*, approximate: bool) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the spellings of each opcode that have a lowest target: by opcode and target."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for opcode in TABLE:
        for text in spellings(opcode):
            if is_approximate(text) == approximate:
                found[opcode, lowest_target(text)].append(text)
    return {key: tuple(texts) for key, texts in found.items()}


def is_approximate(spelling: str) -> bool:
    return not {"approx", "full"}.isdisjoint(spelling.split("."))


def exact_program(opcode: str, target: str) -> InstructionProgram:
    """Return a program of the instructions whose results are specified to the bit."""
    chosen = [(text, guessed(text)[0]) for text in groups(approximate=False)[opcode, target]]
    return program_of(target, chosen, lambda types: _edges(opcode, types))


def program_of(target: str, chosen: Sequence[tuple[str, Operation]], operands: Any) -> InstructionProgram:
    """Write a program; `operands` takes types and returns as many columns, of any length."""
    columns: list[npt.NDArray[Any]] = []
    results: list[Result] = []
    lines: list[str] = []
    by_types: dict[tuple[str, ...], list[tuple[str, Operation]]] = defaultdict(list)
    for text, operation in chosen:
        # the carry flag comes last
        by_types[operation.source_types + ("pred",) * operation.reads_carry].append((text, operation))
    for types in by_types:
        columns += operands(types)
    rows = -(-max(len(column) for column in columns) // THREADS) * THREADS
    first = 0
    for types, members in by_types.items():
        places = tuple(range(first, first + len(types)))
        first += len(types)
        lines += ["{", *_loaded(types, places, rows)]
        for text, operation in members:
            lines += _applied(text, operation, len(results), rows)
            read = [*map(_read_as(text), operation.result_types), *["carry"] * operation.writes_carry]
            results += [Result(text, type_, places) for type_ in read]
        lines.append("}")
    words = np.stack([np.resize(column.astype(np.uint64), rows) for column in columns])
    return InstructionProgram(_module(target, lines), words, tuple(results))


def _read_as(spelling: str) -> Any:
    """Return what reads a result type as one with NaN, where it has them."""
    parts = spelling.split(".")
    if "f32x2" in parts:
        return lambda type_: "f32x2"
    return lambda type_: "f32" if "tf32" in parts and type_ == "b32" else type_


def _edges(opcode: str, types: tuple[str, ...]) -> list[Words]:
    columns = [np.array(column, np.uint64) for column in patterns(f"{opcode} {types}", types, ROWS)]
    if opcode in ("div", "rem") and types[1][0] in "us":
        # by zero, and of the lowest number by -1: the results are not specified
        columns[1][(columns[1] == 0) | (columns[1] == (1 << 8 * DTYPES[types[1]].itemsize) - 1)] = 3
    return columns


def register_of(type_: str) -> str:
    """Return the type of a register that holds a value: bits alone, which any instruction takes."""
    if type_ == "pred":
        return type_
    return REGISTERS.get(type_, f"b{8 * DTYPES[type_].itemsize}")


_FROM_WORD: Final = {
    "b16": "cvt.u16.u64 {0}, %word;",
    "b32": "cvt.u32.u64 {0}, %word;",
    "b64": "mov.b64 {0}, %word;",
    "pred": "setp.ne.u64 {0}, %word, 0;",
}
_TO_WORD: Final = {
    "b16": "cvt.u64.u16 %word, {0};",
    "b32": "cvt.u64.u32 %word, {0};",
    "b64": "mov.b64 %word, {0};",
    "pred": "selp.u64 %word, 1, 0, {0};",
}


def _loaded(types: Iterable[str], places: Iterable[int], rows: int) -> Iterator[str]:
    for number, (type_, place) in enumerate(zip(types, places, strict=True)):
        yield f".reg .{register_of(type_)} %s{number};"
        yield f"ld.global.b64 %word, [%in+{8 * rows * place}];"
        yield _FROM_WORD[register_of(type_)].format(f"%s{number}")


def _applied(text: str, operation: Operation, place: int, rows: int) -> Iterator[str]:
    opcode = text.partition(".")[0]
    results = [f"%d{number}" for number, _ in enumerate(operation.result_types)]
    sources = [f"%s{number}" for number, _ in enumerate(operation.source_types)]
    if opcode == "lop3":
        sources[3] = "0x96"
    yield "{"
    for name, type_ in zip(results, operation.result_types, strict=True):
        yield f".reg .{register_of(type_)} {name};"
    # the flag is a carry of additions, and a borrow of subtractions
    borrows = opcode.startswith("sub")
    if operation.reads_carry:
        yield f"selp.u32 %flag, 1, 0, %s{len(sources)};"
        yield "sub.cc.u32 %flag, 0, %flag;" if borrows else "add.cc.u32 %flag, %flag, 0xffffffff;"
    yield f"{text} {', '.join(['|'.join(results), *sources])};"
    if operation.writes_carry:
        yield f"{'subc' if borrows else 'addc'}.u32 %flag, 0, 0;"
    for number, (name, type_) in enumerate(zip(results, operation.result_types, strict=True)):
        yield _TO_WORD[register_of(type_)].format(name)
        yield f"st.global.b64 [%out+{8 * rows * (place + number)}], %word;"
    if operation.writes_carry:
        yield _TO_WORD["b32"].format("%flag")
        yield f"st.global.b64 [%out+{8 * rows * (place + len(results))}], %word;"
    yield "}"


def _module(target: str, lines: Iterable[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"""\
.version {VERSION}
.target {target}
.address_size 64

.visible .entry {Listing().entry}(.param .u64 in_ptr, .param .u64 out_ptr)
.reqntid {THREADS}, 1, 1
{{
    .reg .u64 %in, %out, %offset;
    .reg .b64 %word;
    .reg .u32 %row, %block, %flag;
    mov.u32 %row, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %row, %block, {THREADS}, %row;
    mul.wide.u32 %offset, %row, 8;
    ld.param.u64 %in, [in_ptr];
    ld.param.u64 %out, [out_ptr];
    add.u64 %in, %in, %offset;
    add.u64 %out, %out, %offset;
{body}
    ret;
}}
"""


def seed_of(text: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(text.encode()))
