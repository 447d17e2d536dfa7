from __future__ import annotations

import pytest

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx import Function, Instruction, parse
from ptxtemplates.ptx.operands import (
    SINK,
    Address,
    Arguments,
    Element,
    Immediate,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    SpecialRegister,
    Symbol,
    Vector,
)
from ptxtemplates.ptx.statements import (
    CallPrototype,
    InitialAddress,
    Location,
    Pragma,
    RegisterDeclaration,
    TargetList,
)
from tests.ptx.programs import BODY_LINE, HEADER, OLD_STYLE, kernel


def only(text: str) -> Function:
    (entry,) = parse(text).entries
    return entry


def first(statement: str, before: str = "") -> Instruction:
    return only(kernel(statement, before)).instructions[0]


def shown(operand: Operand) -> str:
    """Write an operand back, so that tests can compare text."""
    match operand:
        case Register(name=name) | Label(name=name):
            return name
        case SpecialRegister(name, _, component):
            return name + (f".{component}" if component else "")
        case Immediate(value, type_):
            return f"{value}:{type_}"
        case Symbol(name, _, offset, element):
            return name + (f"+{offset}" if offset else "") + ("" if element is None else f"[{element}]")
        case Element(register, component):
            return f"{shown(register)}.{component}"
        case Negated(operator, inner):
            return operator + shown(inner)
        case Pair(one, two):
            return f"{shown(one)}|{shown(two)}"
        case Vector(elements):
            return "{" + ",".join(map(shown, elements)) + "}"
        case Arguments(elements):
            return "(" + ",".join(map(shown, elements)) + ")"
        case Address(base, offset, coordinates, unified):
            inside = [("" if base is None else shown(base)) + f"+{offset}", *map(shown, coordinates)]
            return "[" + ",".join(inside) + "]" + (".unified" if unified else "")
        case TargetList(name=name) | CallPrototype(name=name):
            return f"<{name}>"
    return "_" if operand == SINK else f"?{operand}"


@pytest.mark.parametrize(
    ("statement", "text", "operands"),
    [
        ("ret;", "ret", []),
        ("mov.b32 r, s;", "mov.b32", ["r", "s"]),
        ("mov /* why */ .b32\n  r, // here\n  s;", "mov.b32", ["r", "s"]),
        ("mov.b32 r, 0x1F;", "mov.b32", ["r", "31:s64"]),
        ("mov.b32 r, 0X1fU;", "mov.b32", ["r", "31:u64"]),
        ("mov.b32 r, 017;", "mov.b32", ["r", "15:s64"]),
        ("mov.b32 r, 0b101;", "mov.b32", ["r", "5:s64"]),
        ("mov.b32 r, 0;", "mov.b32", ["r", "0:s64"]),
        ("mov.b32 r, -1;", "mov.b32", ["r", "-1:s64"]),
        ("mov.b32 r, - 2147483648;", "mov.b32", ["r", "-2147483648:s64"]),
        ("mov.b64 rd, 0xFFFFFFFFFFFFFFFF;", "mov.b64", ["rd", f"{2**64 - 1}:u64"]),
        ("mov.b32 r, ~5;", "mov.b32", ["r", f"{2**64 - 6}:u64"]),
        ("mov.b32 r, (1 + 2) * 4 - WARP_SZ / 2;", "mov.b32", ["r", "-4:s64"]),
        ("mov.b32 r, 1 ? 7 >> 1 | 8 : 2;", "mov.b32", ["r", "11:s64"]),
        ("mov.b32 r, WARP_SZ;", "mov.b32", ["r", "32:s64"]),
        ("mov.f32 f, 0F3f800000;", "mov.f32", ["f", f"{0x3F800000}:f32"]),
        ("mov.f32 f, 0d3FF0000000000000;", "mov.f32", ["f", f"{0x3FF << 52}:f64"]),
        ("mov.f32 f, 1.0;", "mov.f32", ["f", f"{0x3FF << 52}:f64"]),
        ("mov.f32 f, .5;", "mov.f32", ["f", f"{0x3FE << 52}:f64"]),
        ("mov.f32 f, -1.5E0;", "mov.f32", ["f", f"{0xBFF8 << 48}:f64"]),
        ("mov.u32 r, %tid.x;", "mov.u32", ["r", "%tid.x"]),
        ("mov.u32 r, %tid.r;", "mov.u32", ["r", "%tid.x"]),
        ("mov.u32 r, %laneid;", "mov.u32", ["r", "%laneid"]),
        ("ld.global.nc.L2::128B.v2.b32 { r, s }, [rd];", "ld.global.nc.L2::128B.v2.b32", ["{r,s}", "[rd+0]"]),
        ("ld.global.b32 {r}, [ rd + 0 ];", "ld.global.b32", ["{r}", "[rd+0]"]),
        ("ld.global.b32 r, [rd+-8];", "ld.global.b32", ["r", "[rd+-8]"]),
        ("ld.global.b32 r, [rd-8];", "ld.global.b32", ["r", "[rd+-8]"]),
        ("ld.global.b32 r, [rd+(4*2)].unified;", "ld.global.b32", ["r", "[rd+8].unified"]),
        ("ld.local.b32 r, [16];", "ld.local.b32", ["r", "[+16]"]),
        ("ld.param.u64 rd, [a];", "ld.param.u64", ["rd", "[a+0]"]),
        ("ld.param.u32 r, [a + 4];", "ld.param.u32", ["r", "[a+4]"]),
        ("mov.b64 { r, _ }, rd;", "mov.b64", ["{r,_}", "rd"]),
        (
            "shfl.sync.bfly.b32 r|p, s, 1, 31, -1;",
            "shfl.sync.bfly.b32",
            ["r|p", "s", "1:s64", "31:s64", "-1:s64"],
        ),
        ("setp.eq.and.s32 p|_, r, 0, !q;", "setp.eq.and.s32", ["p|_", "r", "0:s64", "!q"]),
        ("vmad.s32.s32.u32 r, -s.b0, s.h1, t;", "vmad.s32.s32.u32", ["r", "-s.b0", "s.h1", "t"]),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile [r], [rd, {s, t}], [r];",
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile",
            ["[r+0]", "[rd+0,{s,t}]", "[r+0]"],
        ),
        ("frobnicate.xyz r, [s+2], {t, 3};", "frobnicate.xyz", ["r", "[s+2]", "{t,3:s64}"]),
        ("call k, (r, 5);", "call", ["k", "(r,5:s64)"]),
        ("call.uni (r), k, (s);", "call.uni", ["(r)", "k", "(s)"]),
        ("call (r), k, ();", "call", ["(r)", "k", "()"]),
        ("bra.uni L$1; L$1:", "bra.uni", ["L$1"]),
    ],
)
def test_instructions(statement: str, text: str, operands: list[str]) -> None:
    instruction = first(statement)
    assert instruction.text == text
    assert (instruction.opcode, *instruction.modifiers) == tuple(text.split("."))
    assert [shown(operand) for operand in instruction.operands] == operands


@pytest.mark.parametrize(
    ("statement", "operands"),
    [
        ("mov.u64 rd, G;", ["rd", "G"]),
        ("mov.u64 rd, G+8;", ["rd", "G+8"]),
        ("mov.u64 rd, G[1];", ["rd", "G[1]"]),
        ("ld.global.b32 r, [G+4];", ["r", "[G+4]"]),
        ("mov.u64 rd, k;", ["rd", "k"]),
    ],
)
def test_symbols(statement: str, operands: list[str]) -> None:
    assert [shown(operand) for operand in first(statement, ".global .b32 G[4]; ").operands] == operands


def test_a_symbol_is_the_variable_it_names() -> None:
    module = parse(kernel("mov.u64 rd, G;", ".global .b32 G[4]; "))
    symbol = module.entries[0].instructions[0].operands[1]
    assert isinstance(symbol, Symbol)
    assert symbol.variable is module.variables[0]


@pytest.mark.parametrize(
    ("guard", "negated"), [("@p", False), ("@!p", True), ("@ p", False), ("@! p", True), ("@ !p", True)]
)
def test_guards(guard: str, negated: bool) -> None:
    found = first(f"{guard} mov.b32 r, 1;").guard
    assert found is not None
    assert (found.register.name, found.negated) == ("p", negated)


def test_lines_and_several_statements_on_a_line() -> None:
    entry = only(kernel("mov.b32 r, 1; mov.b32 s,\n r;\n\n/* a\nb */ L: @p bra L;"))
    assert [(i.text, i.line - BODY_LINE) for i in entry.instructions] == [
        ("mov.b32", 0),
        ("mov.b32", 0),
        ("bra", 4),
        ("ret", 5),
    ]


def test_registers_of_inner_blocks_are_others() -> None:
    text = kernel("{ .reg .f32 r; mov.f32 r, s; { .reg .b64 r; mov.b64 r, 1; } neg.f32 r, r; } mov.b32 r, 2;")
    registers = [i.operands[0] for i in only(text).instructions[:-1]]
    assert all(isinstance(register, Register) for register in registers)
    assert [register.type for register in registers if isinstance(register, Register)] == [
        "f32",
        "b64",
        "f32",
        "b32",
    ]
    assert registers[0] is registers[2]
    assert len({register.number for register in registers if isinstance(register, Register)}) == 3


def test_a_register_is_what_is_declared_above() -> None:
    entry = only(kernel("{ mov.b32 r, 1; .reg .f32 r; mov.f32 r, r; }"))
    before, after = (i.operands[0] for i in entry.instructions[:2])
    assert isinstance(before, Register)
    assert isinstance(after, Register)
    assert (before.type, after.type) == ("b32", "f32")


def test_ranges_make_only_the_registers_used() -> None:
    entry = only(kernel(".reg .b32 %r<1000000>, %r1x<3>; mov.b32 %r7, %r999999; mov.b32 %r1x2, %r7;"))
    ranges = [s for s in entry.body or () if isinstance(s, RegisterDeclaration)]
    assert [(r.name, r.range_size, sorted(r.registers)) for r in ranges] == [
        ("%r", 1000000, ["%r7", "%r999999"]),
        ("%r1x", 3, ["%r1x2"]),
    ]
    assert entry.registers == 3
    assert not entry.undeclared


def test_a_range_shadows_names_it_covers() -> None:
    entry = only(
        kernel(
            ".reg .b32 x<4>; mov.b32 x1, 1; { .reg .f32 x<2>; mov.f32 x1, 1.0; mov.b32 x3, 1; }"
            " mov.b32 x1, 2;"
        )
    )
    types = [i.operands[0].type for i in entry.instructions[:-1] if isinstance(i.operands[0], Register)]
    assert types == ["b32", "f32", "b32", "b32"]


def test_names_outside_a_range_do_not_exist() -> None:
    entry = only(kernel(".reg .b32 x<4>; mov.b32 x4, x03;"))
    assert [u.name for u in entry.undeclared] == ["x4", "x03"]


def test_labels_belong_to_their_block() -> None:
    entry = only(kernel("{ @p bra L; L: }\n{ @p bra L; L: }\n{ @p bra OUT; }\nOUT: { L: { @p bra L; } }"))
    targets = [i.operands[0] for i in entry.instructions if i.opcode == "bra"]
    assert all(isinstance(target, Label) for target in targets)
    assert [target.line - BODY_LINE for target in targets if isinstance(target, Label)] == [0, 1, 3, 3]
    assert targets[0] != targets[1]


@pytest.mark.parametrize("body", ["bra L; { L: }", "{ bra L; } { L: }", "bra nowhere;"])
def test_labels_of_other_blocks_are_unknown(body: str) -> None:
    assert len(only(kernel(body)).undeclared) == 1


def test_a_label_may_be_named_like_a_variable() -> None:
    entry = only(kernel("G: @p bra G;", ".global .b32 G; "))
    assert isinstance(entry.instructions[0].operands[0], Label)


def test_branch_targets() -> None:
    entry = only(kernel("A0: A1: ts: .branchtargets A<2>, B;\n brx.idx r, ts; B:"))
    targets = entry.instructions[0].operands[1]
    assert isinstance(targets, TargetList)
    assert (targets.kind, [shown(target) for target in targets.targets]) == (
        "branchtargets",
        ["A0", "A1", "B"],
    )
    assert not entry.undeclared


def test_indirect_calls() -> None:
    entry = only(
        kernel(
            "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _) .noreturn;\n"
            " call (r), rd, (s), P;"
        )
    )
    prototype = entry.instructions[0].operands[-1]
    assert isinstance(prototype, CallPrototype)
    assert ([v.type for v in prototype.returns], [v.type for v in prototype.parameters]) == (
        ["b32"],
        ["b32", "b64"],
    )
    assert prototype.attributes == {"noreturn": ()}
    assert [shown(operand) for operand in entry.instructions[0].operands] == ["(r)", "rd", "(s)", "<P>"]


def test_locations() -> None:
    module = parse(
        '.version 8.0\n.target sm_80, debug\n.file 1 "a.cu"\n.entry k() {\n ret;\n .loc 1 7 3\n ret;\n'
        " .loc 2 9 1, function_name $L__info_string0, inlined_at 1 7 3\n ret; .loc 1 8 1 ret; }\n"
        '.file 2 "b.h", 1339013327, 64118\n'
    )
    assert [i.loc for i in module.entries[0].instructions] == [
        None,
        Location(1, 7),
        Location(2, 9),
        Location(1, 8),
    ]
    assert module.files == {1: "a.cu", 2: "b.h"}
    assert module.targets == ("sm_80", "debug")
    assert module.address_size == 32


def test_dwarf_is_skipped() -> None:
    module = parse(
        HEADER
        + '@@DWARF .section .debug_x, "", @progbits\n@@DWARF .4byte .debug_info\n.entry k() { ret; }\n'
        + "\t.section\t.debug_str\n\t{\n$L__s0:\n.b8 95,0x5f\n.b32 L1-L0\n}\n.section .debug_loc { }\n"
        + ".entry l() { ret; }\n"
    )
    assert [entry.name for entry in module.entries] == ["k", "l"]
    assert module.entries[1].line == 14


def test_pragmas_are_kept() -> None:
    module = parse(kernel('.pragma "nounroll";', '.pragma "a;b"; '))
    assert [pragma.text for pragma in module.pragmas] == ["a;b"]
    assert [s.text for s in module.entries[0].body or () if isinstance(s, Pragma)] == ["nounroll"]


def test_entries() -> None:
    module = parse(
        HEADER
        + """.visible .entry k( // a kernel
    .param .u64 .ptr .global .align 16 x,
    .param .u64 .ptr.shared y, .param .u64 .ptr .align 8 z, .param .u64 .ptr w,
    .param .align 8 .b8 s[16],
    .param .u8 c
)
.reqntid 64, 2, 1 .minnctapersm 2
.maxnreg 32
{ ret; }
"""
    )
    (entry,) = module.entries
    assert entry.linkage == "visible"
    assert entry.attributes == {"reqntid": (64, 2, 1), "minnctapersm": (2,), "maxnreg": (32,)}
    assert [
        (p.name, p.pointer_space, p.pointer_alignment, p.size, p.natural_alignment) for p in entry.parameters
    ] == [
        ("x", "global", 16, 8, 8),
        ("y", "shared", None, 8, 8),
        ("z", "generic", 8, 8, 8),
        ("w", "generic", None, 8, 8),
        ("s", None, None, 16, 8),
        ("c", None, None, 1, 1),
    ]
    assert [p.line for p in entry.parameters] == [5, 6, 6, 6, 7, 8]
    assert (entry.line, entry.end_line) == (4, 12)


def test_functions() -> None:
    module = parse(
        HEADER
        + ".extern .func (.param .b32 out) vprintf(.param .b64 f, .param .b64 args);\n"
        + ".func nothing\n()\n;\n"
        + ".func .attribute(.unified(0xAB, 0xCD)) (.reg .b32 d) twice(.reg .b32 n) .noreturn\n"
        + "{ add.s32 d, n, n; ret; }\n"
        + ".func g();\n.alias g, twice;\n"
    )
    vprintf, nothing, twice, _ = module.functions
    assert (vprintf.linkage, vprintf.body, len(vprintf.parameters)) == ("extern", None, 2)
    assert (nothing.parameters, nothing.line, nothing.end_line) == ((), 5, 7)
    assert twice.attributes == {"noreturn": ()}
    (add, _) = twice.instructions
    assert add.operands == (twice.outputs[0], twice.inputs[0], twice.inputs[0])
    assert module.function("g") is twice
    with pytest.raises(KeyError):
        module.function("h")


def test_variables() -> None:
    module = parse(
        HEADER
        + """.global .align 8 .u64 turns[2] = { 0x28be60db9391054a, /* } */ 1 };
.extern .shared .align 16 .b8 dyn[];
.const .f32 one = 0f3F800000, two;
.visible .global .v4 .f32 v;
.global .s32 nested[][2] = { {1, -2}, {3} };
.global .u64 p[4] = { turns, turns+8, generic(turns)+8, generic(turns+16) };
.global .u8 bytes[3] = { 0xff(turns), 0xFF00(generic(turns)), 0xff00(0x1234) };
.global .attribute(.managed) .b32 m<2>;
"""
    )
    variables = {variable.name: variable for variable in module.variables}
    assert list(variables) == ["turns", "dyn", "one", "two", "v", "nested", "p", "bytes", "m0", "m1"]
    turns = variables["turns"]
    assert turns.initializer == (Immediate(0x28BE60DB9391054A, "s64"), Immediate(1, "s64"))
    assert (turns.space, turns.type, turns.dimensions, turns.size, turns.alignment) == (
        "global",
        "u64",
        (2,),
        16,
        8,
    )
    assert (variables["dyn"].linkage, variables["dyn"].dimensions, variables["dyn"].size) == (
        "extern",
        (0,),
        0,
    )
    assert (variables["v"].width, variables["v"].size, variables["v"].natural_alignment) == (4, 16, 16)
    assert variables["nested"].dimensions == (2, 2)
    symbol = Symbol("turns", turns)
    assert variables["p"].initializer == (
        InitialAddress(symbol, 0, False, None),
        InitialAddress(symbol, 8, False, None),
        InitialAddress(symbol, 8, True, None),
        InitialAddress(Symbol("turns", turns, 16), 0, True, None),
    )
    assert variables["bytes"].initializer == (
        InitialAddress(symbol, 0, False, 0xFF),
        InitialAddress(symbol, 0, True, 0xFF00),
        Immediate(0x12, "u64"),
    )
    assert variables["m1"].attributes == ("managed",)


def test_local_variables() -> None:
    entry = only(kernel(".shared .align 4 .b8 tile[512]; .local .b8 depot[8]; mov.u32 r, tile;"))
    assert [(v.name, v.space, v.size) for v in entry.variables] == [
        ("tile", "shared", 512),
        ("depot", "local", 8),
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no .version directive"),
        (".version 8.0\n", 1, "no .target directive"),
        (".version eight\n", 1, "expected a directive"),
        (HEADER + "junk", 4, "expected a directive such as '.entry'"),
        (HEADER + ".entry k() { ret;\n", 4, "never closed: add '}'"),
        (HEADER + "/* open\n", 4, "comment is never closed"),
        (HEADER + ".entry k() {\n/* open\n", 5, "comment is never closed"),
        (HEADER + ".entry () { }", 4, "expected the name of the .entry, found '('"),
        (HEADER + ".entry k(.param\n.u99 x) { }", 5, "unknown type or directive '.u99'"),
        (
            HEADER + ".entry k(.param .u32 x\n.param .u32 y) { }",
            5,
            "',' or ')' after a parameter, found '.param'",
        ),
        (HEADER + ".global .b32;", 4, "expected a name"),
        (HEADER + ".global x;", 4, "type of the .global declaration"),
        (HEADER + ".global .b32 x[-1];", 4, "must not be negative"),
        (HEADER + ".global .b32 x<70000>;", 4, "at most 65536"),
        (HEADER + ".global .b32 x = {1,\n2,};", 5, "expected an operand, found '}'"),
        (kernel("mov.b32 r, 1\n mov.b32 s, 2;"), BODY_LINE + 1, "expected ',', found 'mov'"),
        (kernel("mov.b32 r, 1,;"), BODY_LINE, "expected an operand, found the end of the statement"),
        (kernel("mov.b32 r, 08;"), BODY_LINE, "08 is no number"),
        (kernel("mov.b32 r, 99999999999999999999;"), BODY_LINE, "at most 64 bits"),
        (kernel("mov.b32 r, 1/0;"), BODY_LINE, "divides by zero"),
        (kernel("mov.b32 r, 1 + 1.5;"), BODY_LINE, "cannot mix or take floats"),
        (kernel("mov.f32 f, -0f3F800000;"), BODY_LINE, "cannot be part of an expression"),
        (kernel("mov.b32 r, " + "(" * 99 + "1" + ")" * 99 + ";"), BODY_LINE, "nested more than 32 deep"),
        (kernel("ld.global.b32 r, [rd;"), BODY_LINE, "expected ']' after the address"),
        (kernel("ld.global.b32 r, [rd+rd];"), BODY_LINE, "expected an operand, found 'rd'"),
        (kernel("ld.global.b32 r, [rd+1.5];"), BODY_LINE, "expected a byte offset, found the float 1.5"),
        (kernel("mov.b64 {r, s, rd;"), BODY_LINE, "expected an instruction, directive or label"),
        (kernel("mov.b64 {r s}, rd;"), BODY_LINE, "expected ',' or '}' in a vector, found 's'"),
        (kernel("@p { mov.b32 r, 1; }"), BODY_LINE, "expected an instruction"),
        (kernel("@1 mov.b32 r, 1;"), BODY_LINE, "expected an instruction such as"),
        (kernel(".branchtargets L;"), BODY_LINE, "needs a label before it"),
        (kernel(".reg .b32 _;"), BODY_LINE, "'_' names nothing"),
        (kernel(".pragma nounroll;"), BODY_LINE, "expected a string such as"),
        (kernel("ts: .branchtargets L<x>;"), BODY_LINE, "a number of names, as in 'L<10>'"),
        (HEADER + ".alias f;", 4, "expected ',', found the end"),
        (kernel(";"), BODY_LINE, "expected an instruction"),
    ],
)
def test_malformed_text_is_an_error_with_a_line(text: str, line: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.line == line


def test_a_program_without_scopes() -> None:
    entry = only(OLD_STYLE)
    assert len(entry.instructions) == 20
    assert not entry.undeclared
    assert not entry.redeclared


@pytest.mark.parametrize("comment", ["// a comment", "/* a comment */", "/* on\ntwo lines */ // and more"])
@pytest.mark.parametrize(
    "place",
    ["{c}\n.visible .entry f(", "f( {c}\n", ".param .u64 x {c}\n", ") {c}\n", ".reqntid 1, 1, 1 {c}\n"],
)
def test_comments_around_a_function_header(comment: str, place: str) -> None:
    header = ".visible .entry f(\n.param .u64 x\n)\n.reqntid 1, 1, 1\n{ ret; }\n"
    plain = place.replace(" {c}", "").replace("{c}\n", "")
    assert plain in header
    text = f".version 6.3\n.target sm_75\n.address_size 64\n{header.replace(plain, place.replace('{c}', comment))}"
    [entry] = parse(text).entries
    assert [parameter.name for parameter in entry.parameters] == ["x"]
    assert entry.attributes == {"reqntid": (1, 1, 1)}
