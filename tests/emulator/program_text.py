"""PTX of the programs that the reference in `scalar` runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tests.emulator.random_programs import SLOTS, Program
from tests.emulator.scalar import LOCAL_WORDS, TABLE, Function, Instruction

_HEAD: Final = f""".version 8.0
.target sm_90
.address_size 64
.shared .u32 swapped[1024];
.global .u32 table[{len(TABLE)}] = {{ {", ".join(map(str, TABLE))} }};
"""
_KERNEL: Final = f""".visible .entry k(.param .u64 out)
{{
    .reg .u64 %out, %mine;
    .reg .u32 %row;
    ld.param.u64 %out, [out];
    mov.u32 %r1, %ctaid.x;
    mad.lo.u32 %row, %r1, THREADS, %r0;
    mad.wide.u32 %out, %row, {4 * SLOTS}, %out;
    mov.u64 %mine, swapped;
    mad.wide.u32 %mine, %r0, 4, %mine;
    st.shared.u32 [%mine], 0;
    bar.sync 0;
"""


def text(program: Program, block: tuple[int, int, int]) -> str:
    """Return the PTX of a program: %r0 is the number of the thread in its block, %r1 that of the block."""
    parts = [_HEAD]
    for function in program.functions.values():
        lines = list(_lines(function))
        if function.name == "k":
            x, y, _ = block
            start = [
                "mov.u32 %r0, %tid.z;",
                "mov.u32 %r1, %tid.y;",
                f"mad.lo.u32 %r0, %r0, {y}, %r1;",
                "mov.u32 %r1, %tid.x;",
                f"mad.lo.u32 %r0, %r0, {x}, %r1;",
            ]
            head, _, rest = _KERNEL.partition("    ld.param")
            parts += [head, _declared(function), *start, "    ld.param" + rest, *lines, "ret;", "}"]
        else:
            parts += [
                _signature(function),
                _declared(function),
                *_loaded(function),
                *lines,
                *_returned(function),
                "}",
            ]
    return "\n".join(parts).replace("THREADS", str(math.prod(block))) + "\n"


def _declared(function: Function) -> str:
    """Declare every register but those of the signature."""
    names = {"%a"} | {
        name
        for item in function.body
        if isinstance(item, Instruction)
        for name in (item.result, *item.sources)
        if isinstance(name, str) and name.startswith("%")
    }
    names |= {function.result, *function.parameters}
    if function.name != "k" and not function.in_memory:
        names -= {function.result, *function.parameters}
    predicates = sorted(name for name in names if name[1] in "pq")
    numbers = sorted(names - set(predicates))
    return (
        f"    .local .align 4 .b32 words[{LOCAL_WORDS}];\n    .reg .u64 %at, %wide;\n"
        f"    .reg .u32 {', '.join(numbers)};\n    .reg .pred {', '.join([*predicates, '%unused'])};\n"
    ) + "".join(f"    st.local.u32 [words+{4 * word}], 0;\n" for word in range(LOCAL_WORDS))


def _signature(function: Function) -> str:
    if function.in_memory:
        parameters = ", ".join(f".param .u32 given{number}" for number in range(len(function.parameters)))
        return f".func (.param .u32 result) {function.name}({parameters})\n{{"
    parameters = ", ".join(f".reg .u32 {name}" for name in function.parameters)
    return f".func (.reg .u32 {function.result}) {function.name}({parameters})\n{{"


def _loaded(function: Function) -> Iterator[str]:
    if function.in_memory:
        for number, register in enumerate(function.parameters):
            yield f"ld.param.u32 {register}, [given{number}];"


def _returned(function: Function, guard: str = "") -> Iterator[str]:
    if function.in_memory:
        yield f"{guard} st.param.u32 [result], {function.result};"
    yield f"{guard} ret;"


def _lines(function: Function) -> Iterator[str]:
    for number, item in enumerate(function.body):
        if isinstance(item, str):
            yield f"{item}:"
            continue
        opcode, result, sources, guard = item
        listed = ", ".join(map(str, sources))
        match opcode:
            case "ret":
                yield from _returned(function, guard)
            case "bra" | "exit":
                yield f"{guard} {opcode} {listed};"
            case "brx":
                yield f"T{number}: .branchtargets {', '.join(map(str, sources[1:]))};"
                yield f"brx.idx {sources[0]}, T{number};"
            case "out":
                yield f"{guard} st.global.u32 [%out + {4 * int(sources[0])}], {sources[1]};"
            case "stl":
                yield from _indexed(guard, sources[0], "words", LOCAL_WORDS)
                yield f"{guard} st.local.u32 [%at], {sources[1]};"
            case "ldl" | "ldt":
                name, count, space = (
                    ("words", LOCAL_WORDS, "local") if opcode == "ldl" else ("table", len(TABLE), "global")
                )
                yield from _indexed(guard, sources[0], name, count)
                yield f"{guard} ld.{space}.u32 {result}, [%at];"
            case "call":
                yield from _called(item)
            case "swap":
                yield f"st.shared.u32 [%mine], {sources[0]};"
                yield f"rem.u32 %a, {sources[1]}, THREADS;"
                yield "mov.u64 %at, swapped;"
                yield "mad.wide.u32 %at, %a, 4, %at;"
                yield "bar.sync 0;"
                yield f"ld.shared.u32 {result}, [%at];"
                yield "bar.sync 0;"
            case "bar.red.popc.u32" | "bar.red.and.pred" | "bar.red.or.pred":
                yield f"{opcode} {result}, 0, {listed};"
            case _:
                yield f"{guard} {opcode} {result}, {listed};"


def _indexed(guard: str, index: str | int, name: str, count: int) -> Iterator[str]:
    yield f"{guard} and.b32 %a, {index}, {count - 1};"
    yield f"{guard} mov.u64 %at, {name};"
    yield f"{guard} mul.wide.u32 %wide, %a, 4;"
    yield f"{guard} add.u64 %at, %at, %wide;"


def _called(call: Instruction) -> Iterator[str]:
    name, *given = call.sources
    if name != "h":
        yield f"{call.guard} call ({call.result}), {name}, ({', '.join(map(str, given))});"
        return
    yield "{"
    yield ".param .u32 back;"
    for number, source in enumerate(given):
        yield f".param .u32 to{number};"
        yield f"st.param.u32 [to{number}], {source};"
    yield f"call (back), {name}, ({', '.join(f'to{number}' for number in range(len(given)))});"
    yield f"ld.param.u32 {call.result}, [back];"
    yield "}"
