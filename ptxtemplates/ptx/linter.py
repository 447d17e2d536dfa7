"""Findings in a PTX module: what an assembler accepts in silence and a reader would not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ptxtemplates.ptx.arithmetic import ROUNDED_OPCODES, cvt_types, missing_rounding
from ptxtemplates.ptx.controlflow import END, control_flow
from ptxtemplates.ptx.dataflow import Dataflow, UnsetRead, deciding_branch
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.opcodes import has_effect
from ptxtemplates.ptx.operands import Element, Pair, Register, Vector
from ptxtemplates.ptx.statements import Function, Instruction, Location, Module, RegisterDeclaration


class Finding(NamedTuple):
    """Something the lint found.

    Attributes
    ----------
    rule : str
        Id of a rule in `RULES`.
    message : str
        What is wrong, and what would be right.
    line : int
        Line of the PTX text, from 1.
    loc : tuple of str and int, or None
        Source file and line, where a ``.loc`` gives them.
    """

    rule: str
    message: str
    line: int
    loc: tuple[str, int] | None


class Problem(NamedTuple):
    """What a rule's check yields: a `Finding` without its rule."""

    message: str
    line: int
    loc: Location | None = None


class Rule(NamedTuple):
    """A rule of the lint.

    Attributes
    ----------
    id : str
        Its name in findings, in kebab-case.
    description : str
        One sentence, for documentation.
    of_function : callable or None
        Finds problems in one function that has a body.
    of_module : callable or None
        Finds problems in a module and, where it is given, its text.
    """

    id: str
    description: str
    of_function: Callable[[Analysis], Iterator[Problem]] | None = None
    of_module: Callable[[Module, str | None], Iterator[Problem]] | None = None


class Analysis:
    """What the rules look at in one function: its control flow and its use of registers."""

    def __init__(self, function: Function, noreturn: frozenset[str]) -> None:
        self.function = function
        self.graph = control_flow(function, noreturn)
        self.flow = Dataflow(function, self.graph)
        self.reachable = self.graph.reachable()
        self.read = self.written = 0
        for registers in self.flow.reads:
            self.read |= registers
        for registers in self.flow.writes:
            self.written |= registers
        self.declarations = tuple(
            statement for statement in function.body or () if isinstance(statement, RegisterDeclaration)
        )


def lint(module: Module, text: str | None = None) -> list[Finding]:
    """Check a module against all rules.

    Parameters
    ----------
    module : Module
        A parsed module.
    text : str, optional
        The text it was parsed from; without it, rules about the text are left out.

    Returns
    -------
    list of Finding
        Sorted by line.
    """
    noreturn = frozenset(function.name for function in module.functions if "noreturn" in function.attributes)
    analyses = [Analysis(function, noreturn) for function in module.functions if function.body is not None]
    findings = []
    for rule in RULES:
        if rule.of_module is not None:
            findings += [_finding(rule, problem, module) for problem in rule.of_module(module, text)]
        if rule.of_function is not None:
            for analysis in analyses:
                findings += [_finding(rule, problem, module) for problem in rule.of_function(analysis)]
    return sorted(findings, key=lambda finding: (finding.line, finding.rule, finding.message))


def _finding(rule: Rule, problem: Problem, module: Module) -> Finding:
    loc = problem.loc
    place = None if loc is None or loc.file not in module.files else (module.files[loc.file], loc.line)
    return Finding(rule.id, problem.message, problem.line, place)


def _unset_registers(analysis: Analysis) -> Iterator[Problem]:
    names: dict[int, str] | None = None
    for read in analysis.flow.unset_reads():
        names = names or {register.number: register.name for register in _registers(analysis)}
        instruction = analysis.graph.instructions[read.instruction]
        reason = _unset_reason(analysis, read)
        yield Problem(f"{names[read.register]} is read but {reason}", instruction.line, instruction.loc)


def _registers(analysis: Analysis) -> Iterator[Register]:
    yield from (*analysis.function.inputs, *analysis.function.outputs)
    for declaration in analysis.declarations:
        yield from declaration.registers.values()


def _unset_reason(analysis: Analysis, read: UnsetRead) -> str:
    if not analysis.written >> read.register & 1:
        return "never set: set it first"
    decision = deciding_branch(analysis.graph, analysis.flow, read)
    if decision is not None:
        branch, taken = decision
        return f"not set when the branch at line {branch.line} is {'taken' if taken else 'not taken'}"
    instructions = analysis.graph.instructions
    writers = [
        index for index, registers in enumerate(analysis.flow.writes) if registers >> read.register & 1
    ]
    guard = instructions[writers[0]].guard
    if guard is not None and writers[0] < read.instruction:
        line = instructions[writers[0]].line
        return f"set at line {line} only under @{'!' if guard.negated else ''}{guard.register.name}"
    return f"set only later, at line {instructions[writers[0]].line}"


def _unused_registers(analysis: Analysis) -> Iterator[Problem]:
    used = analysis.read | analysis.written
    for declaration in analysis.declarations:
        if not any(used >> register.number & 1 for register in declaration.registers.values()):
            count = "" if declaration.range_size is None else f"<{declaration.range_size}>"
            yield Problem(
                f"{declaration.name}{count} is declared but never used: remove it", declaration.line
            )


def _never_read(analysis: Analysis) -> Iterator[Problem]:
    unread = analysis.written & ~analysis.read
    for register in (*analysis.function.inputs, *analysis.function.outputs):
        unread &= ~(1 << register.number)
    if not unread:
        return
    writers: dict[int, list[Instruction]] = {}
    for instruction, registers in zip(analysis.graph.instructions, analysis.flow.writes, strict=True):
        unwanted = registers & unread
        while unwanted:
            register_index = unwanted.bit_length() - 1
            unwanted ^= 1 << register_index
            writers.setdefault(register_index, []).append(instruction)
    for register in _registers(analysis):
        setters = writers.get(register.number)
        if setters and not any(_is_by_product(setter) for setter in setters):
            yield Problem(f"{register.name} is set but never read", setters[0].line, setters[0].loc)


def _is_by_product(instruction: Instruction) -> bool:
    return has_effect(instruction.text) or isinstance(instruction.operands[0], Pair | Vector | Element)


def _missing_rounding(analysis: Analysis) -> Iterator[Problem]:
    for instruction in analysis.graph.instructions:
        if instruction.opcode in ROUNDED_OPCODES:
            missing = missing_rounding(instruction.text)
            if missing is not None:
                yield Problem(f"{instruction.text} lacks {missing}", instruction.line, instruction.loc)


def _wide_sources(analysis: Analysis) -> Iterator[Problem]:
    for instruction in analysis.graph.instructions:
        if instruction.opcode != "cvt" or (types := cvt_types(instruction.modifiers)) is None:
            continue
        expected = TYPE_BITS[types[1]]
        if expected < 16:
            continue  # no register is that narrow: compilers narrow with it, from any
        for source in instruction.operands[1:]:
            if isinstance(source, Register) and TYPE_BITS.get(source.type, 0) * source.width > expected:
                yield Problem(
                    f"{source.name} is .{source.type}, but {instruction.text} reads only its low"
                    f" {TYPE_BITS[types[1]]} bits: convert from .{source.type}",
                    instruction.line,
                    instruction.loc,
                )


def _falls_off_end(analysis: Analysis) -> Iterator[Problem]:
    if END in analysis.reachable:
        function = analysis.function
        ending = "ret or exit" if function.kind == "entry" else "ret"
        yield Problem(
            f"a path through {function.name} reaches its closing brace: end it with {ending}",
            function.end_line,
        )


def _unreachable(analysis: Analysis) -> Iterator[Problem]:
    before = True
    for number, block in enumerate(analysis.graph.blocks):
        reached = number in analysis.reachable or block.start == block.stop
        if before and not reached:
            instruction = analysis.graph.instructions[block.start]
            yield Problem(f"no path reaches this {instruction.opcode}", instruction.line, instruction.loc)
        before = reached


def _undeclared_in_function(analysis: Analysis) -> Iterator[Problem]:
    for undeclared in analysis.function.undeclared:
        yield Problem(_undeclared_message(undeclared.name), undeclared.line)


def _undeclared_in_module(module: Module, text: str | None) -> Iterator[Problem]:
    for undeclared in module.undeclared:
        yield Problem(_undeclared_message(undeclared.name), undeclared.line)


def _undeclared_message(name: str) -> str:
    return f"{name} is not declared above its use, and is no special register or label that is visible here"


def _duplicates_in_function(analysis: Analysis) -> Iterator[Problem]:
    for name, line, first_line in analysis.function.redeclared:
        yield Problem(f"{name} is already declared in this scope, at line {first_line}", line)


def _duplicates_in_module(module: Module, text: str | None) -> Iterator[Problem]:
    for name, line, first_line in module.redeclared:
        yield Problem(f"{name} is already defined in this module, at line {first_line}", line)


def _non_ascii(module: Module, text: str | None) -> Iterator[Problem]:
    # The first test is nearly free; only what fails it needs a search.
    if text is None or (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        return
    for line, content in enumerate(text.split("\n"), 1):
        found = re.search(r"[^\t -~]", content.removesuffix("\r"))
        if found is not None:
            character, column = found[0], found.start() + 1
            yield Problem(f"character {character!a} in column {column}: PTX is ASCII text", line)


RULES: tuple[Rule, ...] = (
    Rule(
        "unset-register",
        "A register is read on a path that has not set it.",
        of_function=_unset_registers,
    ),
    Rule(
        "unused-register",
        "A register, or a whole range of them, is declared and never used.",
        of_function=_unused_registers,
    ),
    Rule(
        "never-read",
        "A register is set and never read, and the instruction does nothing else.",
        of_function=_never_read,
    ),
    Rule(
        "undeclared-name",
        "A register, variable, function, label or special register does not exist where it is named.",
        of_function=_undeclared_in_function,
        of_module=_undeclared_in_module,
    ),
    Rule(
        "duplicate-name",
        "A name is declared twice in one scope.",
        of_function=_duplicates_in_function,
        of_module=_duplicates_in_module,
    ),
    Rule(
        "missing-rounding",
        "A floating-point operation has no rounding modifier, so that the assembler may contract it.",
        of_function=_missing_rounding,
    ),
    Rule(
        "wide-source",
        "A cvt reads a register wider than its source type, and silently drops the upper bits.",
        of_function=_wide_sources,
    ),
    Rule(
        "falls-off-end",
        "A path reaches the closing brace of a function without ret, exit, trap or a branch.",
        of_function=_falls_off_end,
    ),
    Rule(
        "unreachable",
        "No path reaches an instruction.",
        of_function=_unreachable,
    ),
    Rule(
        "non-ascii",
        "The text contains a byte above 126 or a control character other than tab and newline.",
        of_module=_non_ascii,
    ),
)
"""All rules, in the order of the documentation."""
