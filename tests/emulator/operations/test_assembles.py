"""The table holds legal PTX alone: every spelling is accepted by the assembler."""

from __future__ import annotations

import pytest

from ptxtemplates.emulator.operations import TABLE
from tests.emulator.operations.running import guessed, spellings
from tests.helpers.assembler import assemble

# registers that hold a type which has none of its own, or that `cvt` may have wider
REGISTERS = {"u8": "b32", "s8": "b32", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}

MORE = """
    mov.b16 { %c0, %c1 }, %h0;
    mov.b16 %h0, { %c0, %c1 };
    mov.b32 { %h0, _ }, %r0;
    mov.b32 { %r0 }, %r1;
    mov.b64 { %h0, %h1, %h2, %h3 }, %d0;
    mov.b64 %d0, { %r0, %r1 };
    setp.lt.and.s32 _|%p0, %r0, %r1, !%p1;
    setp.lt.f16x2 %p0, %r0, %r1;
    setp.lt.f16x2 %p0|%p1, %r0, %r1;
    selp.b32 %r0, %r1, %r2, !%p0;
    lop3.or.b32 _|%p0, %r0, %r1, %r2, 0x1a, %p1;
    min.f32 %f0, %f1, %f2, %f3;
    max.ftz.NaN.f32 %f0, %f1, %f2, %f3;
    add.ftz.rn.f32 %f0, %f1, 0d3ff8000000000000;
"""


def module(body: str) -> str:
    return f".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry kernel() {{\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("opcode", sorted(TABLE))
def test_every_spelling_assembles(opcode: str) -> None:
    lines = []
    for text in spellings(opcode):
        operation, _ = guessed(text)
        results = [f"%d{place}" for place, _ in enumerate(operation.result_types)]
        sources = [f"%s{place}" for place, _ in enumerate(operation.source_types)]
        declared = zip(results + sources, operation.result_types + operation.source_types, strict=True)
        lines += ["{", *(f".reg .{REGISTERS.get(type_, type_)} {name};" for name, type_ in declared)]
        if opcode == "lop3":
            sources[3] = "0x96"
        lines += [f"{text} {', '.join(['|'.join(results), *sources])};", "}"]
    assemble(module("\n".join(lines)), "sm_100")


def test_other_operands_assemble() -> None:
    registers = "".join(
        f".reg .{type_} %{name}<4>;"
        for name, type_ in {"c": "b8", "h": "b16", "r": "b32", "d": "b64", "f": "f32", "p": "pred"}.items()
    )
    assemble(module(registers + MORE), "sm_100")
