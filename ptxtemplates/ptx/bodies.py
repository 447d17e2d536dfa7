"""Parsing the body of a function: statements in order, names resolved block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.declarations import (
    DeclarationSyntax,
    declaration_syntax,
    pragma_text,
    prototype_syntax,
    range_size,
)
from ptxtemplates.ptx.operands import Arguments, Label, Operand, Register, Symbol, Unresolved
from ptxtemplates.ptx.scanner import Body, body_pattern, locate, malformed
from ptxtemplates.ptx.scopes import Names, Scope
from ptxtemplates.ptx.statements import (
    CallPrototype,
    Guard,
    Instruction,
    Location,
    Pragma,
    Statement,
    TargetList,
    Undeclared,
    Variable,
)
from ptxtemplates.ptx.syntax import InstructionSyntax, Lookup, OperandSyntax, instruction_syntax, resolve
from ptxtemplates.ptx.tokens import Tokens

# ``name<N>`` outside registers makes N variables at once; more than this is a slip of the pen.
_MAX_NAMES = 65536


class BodyParser:
    """Parses one function's body.

    Parameters
    ----------
    text : str
        The module.
    around : Scope
        Names of module scope.
    line : int
        Line on which the body starts.
    loc : Location or None
        The ``.loc`` in force there.
    """

    def __init__(self, text: str, around: Scope, line: int, loc: Location | None) -> None:
        self.line = line
        self.loc = loc
        self.names = Names()
        self.statements: list[Statement] = []
        self._text = text
        self._label_count = 0
        self._scope = Scope(self.names, around)
        self._around: list[Scope] = []
        # Statements that name a label: labels may stand below their use, so these wait for the end.
        self._waiting: list[tuple[int, tuple[OperandSyntax, ...], Scope]] = []

    def declare_parameter(self, declaration: DeclarationSyntax, line: int) -> Variable:
        """Declare a parameter in the scope of the body."""
        declarator = declaration.declarators[0]
        line += declarator.line
        variable = declaration.variable(declarator, declarator.name, line, self._scope.__getitem__)
        if variable.name == "_":
            return variable
        if variable.space == "reg":
            self._scope.declare_register(variable.name, variable.type, variable.width, line)
        else:
            self._scope.declare(variable.name, Symbol(variable.name, variable), line)
        return variable

    def registers_of(self, parameters: tuple[Variable, ...]) -> Iterator[Register]:
        """Find the registers of parameters in register space."""
        for parameter in parameters:
            register = self._scope.get(parameter.name)
            if parameter.space == "reg" and isinstance(register, Register):
                yield register

    def parse(self, position: int) -> int:
        """Parse from behind the opening brace; return the offset behind the closing one."""
        text = self._text
        count = text.count
        counted = position
        start = self.line
        for found in body_pattern().finditer(text, position):
            group = found.lastindex or Body.BAD
            offset = found.start(group)
            self.line += count("\n", counted, offset)
            counted = offset
            if group == Body.STATEMENT:
                self._statement(text[offset : found.end() - 1])
            elif group == Body.LABEL:
                self._label(found[group])
            elif group == Body.LOC:
                self.loc = Location(int(found[Body.LOC_FILE]), int(found[Body.LOC_LINE]))
            elif group == Body.OPEN:
                self._around.append(self._scope)
                self._scope = Scope(self.names, self._scope)
            elif group == Body.CLOSE:
                if not self._around:
                    self._resolve_labels()
                    return found.end()
                self._scope = self._around.pop()
            elif group == Body.BAD:
                raise malformed(
                    text, offset, self.line, "an instruction, directive or label, ended by ';' or ':'"
                )
        raise PtxSyntaxError("the body that starts here is never closed: add '}'", line=start)

    def _statement(self, statement: str) -> None:
        try:
            if statement[0] == ".":
                self._directive(statement)
            else:
                self._instruction(instruction_syntax(statement))
        except PtxSyntaxError as error:
            raise locate(error, self.line) from None

    def _instruction(self, syntax: InstructionSyntax) -> None:
        scope = self._scope
        if syntax.labelled:
            self._waiting.append((len(self.statements), syntax.operands, scope))
            self._append(syntax, scope.find_or_unresolved)
            return
        self._append(syntax, scope.__getitem__)
        if self.names.missing:
            self.names.report_missing(self.line)

    def _append(self, syntax: InstructionSyntax, look: Lookup) -> None:
        name, negated, opcode, modifiers, text, operands, _ = syntax
        guard = None
        if name is not None:
            register = self._scope[name]
            guard = Guard(register if isinstance(register, Register) else Unresolved(name), negated)
        resolved = [
            look(operand) if operand.__class__ is str else resolve(operand, look) for operand in operands
        ]
        self.statements.append(
            Instruction(guard, opcode, modifiers, text, tuple(resolved), self.line, self.loc)
        )

    def _label(self, name: str) -> None:
        label = Label(name, self._label_count, self.line)
        self._label_count += 1
        self._scope.declare_label(name, label, self.line)
        self.statements.append(label)

    def _directive(self, statement: str) -> None:
        for keyword, parse in self._DIRECTIVES.items():
            if statement.startswith(keyword):
                parse(self, Tokens(statement))
                return
        self._declare(declaration_syntax(statement))

    def _pragma(self, tokens: Tokens) -> None:
        self.statements.append(Pragma(pragma_text(tokens), self.line))

    def _declare(self, declaration: DeclarationSyntax) -> None:
        scope = self._scope
        for declarator in declaration.declarators:
            line = self.line + declarator.line
            name = declarator.name
            if declaration.space == "reg" and declarator.range_size is None:
                self.statements.append(
                    scope.declare_register(name, declaration.type, declaration.width, line)
                )
            elif declaration.space == "reg":
                count = declarator.range_size or 0
                self.statements.append(
                    scope.declare_range(name, declaration.type, declaration.width, count, line)
                )
            else:
                for each in expand(name, declarator.range_size, line - self.line):
                    variable = declaration.variable(declarator, each, line, scope.__getitem__)
                    self.names.report_missing(line)
                    scope.declare(each, Symbol(each, variable), line)
                    self.statements.append(variable)

    def _targets(self, tokens: Tokens) -> None:
        kind = tokens.take()[1:]
        label = self._own_label(kind)
        names: list[str] = []
        while not names or tokens.accept(","):
            line = tokens.line
            name = tokens.identifier("a label or function")
            names += expand(name, range_size(tokens, name), line)
        if tokens.peek:
            raise tokens.error("',' or ';'")
        self._waiting.append((len(self.statements), tuple(names), self._scope))
        targets = TargetList(label.name, kind, tuple(map(self._scope.find_or_unresolved, names)), label.line)
        self._scope.name_label(label.name, targets)
        self.statements.append(targets)

    def _prototype(self, tokens: Tokens) -> None:
        syntax = prototype_syntax(tokens)
        label = self._own_label(syntax.kind)
        returns, parameters = (
            tuple(
                declaration.variable(declarator, declarator.name, self.line, self._scope.__getitem__)
                for declaration in declarations
                for declarator in declaration.declarators
            )
            for declarations in (syntax.returns, syntax.parameters)
        )
        prototype = CallPrototype(label.name, returns, parameters, syntax.attributes, label.line)
        self._scope.name_label(label.name, prototype)
        self.statements.append(prototype)

    _DIRECTIVES: ClassVar[dict[str, Callable[[BodyParser, Tokens], None]]] = {
        ".pragma": _pragma,
        ".branchtargets": _targets,
        ".calltargets": _targets,
        ".callprototype": _prototype,
    }

    def _own_label(self, kind: str) -> Label:
        """Take back the label that names a directive: it is no place to branch to."""
        label = self.statements.pop() if self.statements else None
        if not isinstance(label, Label):
            raise PtxSyntaxError(f"a .{kind} needs a label before it, as in 'name: .{kind} ...;'", line=0)
        return label

    def _resolve_labels(self) -> None:
        for index, syntax, scope in self._waiting:
            statement = self.statements[index]
            if isinstance(statement, Instruction):
                operands = self._with_labels(syntax, statement.operands, statement.line, scope)
                self.statements[index] = Instruction(
                    statement.guard,
                    statement.opcode,
                    statement.modifiers,
                    statement.text,
                    operands,
                    statement.line,
                    statement.loc,
                )
            elif isinstance(statement, TargetList):
                targets = self._with_labels(syntax, statement.targets, statement.line, scope)
                resolved = statement._replace(targets=targets)
                self.statements[index] = resolved
                scope.name_label(statement.name, resolved)
        self.names.undeclared.sort(key=lambda undeclared: undeclared.line)

    def _with_labels(
        self, syntax: tuple[OperandSyntax, ...], operands: tuple[Operand, ...], line: int, scope: Scope
    ) -> tuple[Operand, ...]:
        resolved = []
        for name, operand in zip(syntax, operands, strict=True):
            label = scope.label(name) if isinstance(name, str) else None
            resolved.append(operand if label is None else label)
            self._report_unresolved(resolved[-1], line)
        return tuple(resolved)

    def _report_unresolved(self, operand: Operand, line: int) -> None:
        for part in operand.elements if isinstance(operand, Arguments) else (operand,):
            if isinstance(part, Unresolved):
                self.names.undeclared.append(Undeclared(part.name, line))


def expand(name: str, count: int | None, line: int) -> list[str]:
    """List the names that ``name`` or ``name<count>`` declares."""
    if count is None:
        return [name]
    if count > _MAX_NAMES:
        raise PtxSyntaxError(f"{name}<{count}> declares too many names: at most {_MAX_NAMES}", line=line)
    return [f"{name}{index}" for index in range(count)]
