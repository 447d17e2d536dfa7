"""Parsing PTX text (ISA, chapters "Syntax" and "Directives")."""

from __future__ import annotations

import re

from ptxtemplates.errors import PtxSyntaxError
from ptxtemplates.ptx.bodies import BodyParser, expand
from ptxtemplates.ptx.declarations import declaration_syntax, header_syntax, pragma_text
from ptxtemplates.ptx.operands import Symbol
from ptxtemplates.ptx.scanner import Top, locate, malformed, module_pattern
from ptxtemplates.ptx.scopes import Names, Scope
from ptxtemplates.ptx.statements import Function, Location, Module, Pragma, Redeclaration, Variable
from ptxtemplates.ptx.tokens import Tokens


def parse(text: str) -> Module:
    """Parse the text of a PTX module.

    Opcodes are not checked: an unknown one parses like any other. Names that nothing declares, and names
    declared twice, are kept in the result for the lint.

    Parameters
    ----------
    text : str
        PTX, of any ISA version and from any producer.

    Returns
    -------
    Module
        Its functions and variables, every name resolved to what it means in its block.

    Raises
    ------
    PtxSyntaxError
        If the text is malformed; with the line, what was found there and what would be right.
    """
    if text.startswith(_MARKS):
        raise PtxSyntaxError("begins with a byte order mark: save it as plain UTF-8", line=1)
    return _ModuleParser(text).parse()


# as a decoder leaves it, and as bytes that were taken for Latin-1
_MARKS = ("\ufeff", "\xef\xbb\xbf", "\xff\xfe", "\xfe\xff")


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._counted = 0
        self._names = Names()
        self._scope = Scope(self._names)
        # By name: the line, and whether it is a definition rather than a declaration.
        self._defined: dict[str, tuple[int, bool]] = {}
        self._version = ""
        self._targets: tuple[str, ...] = ()
        self._address_size = 32
        self._files: dict[int, str] = {}
        self._variables: list[Variable] = []
        self._functions: list[Function] = []
        self._aliases: dict[str, str] = {}
        self._pragmas: list[Pragma] = []
        self._loc: Location | None = None

    def parse(self) -> Module:
        text = self._text
        match = module_pattern().match
        position = 0
        while (found := match(text, position)) is not None:
            group = found.lastindex or Top.BAD
            self._advance(found.start(Top.FUNCTION if group == Top.BRACE else group))
            position = found.end()
            if group == Top.BRACE:
                position = self._function(found)
            else:
                self._item(group, found)
        if not self._version:
            raise PtxSyntaxError("no .version directive: a module starts with one, then .target", line=1)
        if not self._targets:
            raise PtxSyntaxError("no .target directive: it follows .version, as in '.target sm_80'", line=1)
        return Module(
            self._version,
            self._targets,
            self._address_size,
            self._files,
            tuple(self._variables),
            tuple(self._functions),
            self._aliases,
            tuple(self._pragmas),
            tuple(self._names.undeclared),
            tuple(self._names.redeclared),
        )

    def _advance(self, offset: int) -> None:
        self._line += self._text.count("\n", self._counted, offset)
        self._counted = offset

    def _item(self, group: int, found: re.Match[str]) -> None:
        if group == Top.STATEMENT:
            self._statement(found[group][:-1])
        elif group == Top.FILE:
            self._files[int(found[Top.FILE_INDEX])] = found[Top.FILE_NAME]
        elif group == Top.VERSION:
            self._version = found[group]
        elif group == Top.TARGET:
            self._targets += tuple(name.strip() for name in found[group].split(","))
        elif group == Top.ADDRESS_SIZE:
            self._address_size = int(found[group])
        elif group == Top.LOC:
            self._loc = Location(int(found[Top.LOC_FILE]), int(found[Top.LOC_LINE]))
        elif group == Top.BAD:
            raise malformed(
                self._text, found.start(group), self._line, "a directive such as '.entry' or '.global'"
            )

    def _statement(self, statement: str) -> None:
        try:
            if statement.startswith(".pragma"):
                self._pragmas.append(Pragma(pragma_text(Tokens(statement)), self._line))
                return
            if statement.startswith(".alias"):
                self._alias(Tokens(statement))
                return
            declaration = declaration_syntax(statement)
        except PtxSyntaxError as error:
            raise locate(error, self._line) from None
        for declarator in declaration.declarators:
            line = self._line + declarator.line
            for name in expand(declarator.name, declarator.range_size, line):
                variable = declaration.variable(declarator, name, line, self._scope.__getitem__)
                self._names.report_missing(line)
                self._define(name, line, complete=variable.linkage != "extern")
                self._scope[name] = Symbol(name, variable)
                self._variables.append(variable)

    def _alias(self, tokens: Tokens) -> None:
        tokens.take()
        alias = tokens.identifier("the alias")
        tokens.expect(",")
        self._aliases[alias] = tokens.identifier("the function it stands for")
        if tokens.peek:
            raise tokens.error("';'")

    def _define(self, name: str, line: int, *, complete: bool) -> None:
        first_line, defined = self._defined.get(name, (line, False))
        if defined and complete:
            self._names.redeclared.append(Redeclaration(name, line, first_line))
        elif complete or name not in self._defined:
            self._defined[name] = line, complete

    def _function(self, found: re.Match[str]) -> int:
        """Parse a function and return where it ends."""
        text = self._text
        line = self._line
        has_body = found[Top.BRACE] == "{"
        try:
            header = header_syntax(found[Top.FUNCTION])
        except PtxSyntaxError as error:
            raise locate(error, line) from None
        self._define(header.name, line, complete=has_body)
        self._scope[header.name] = Symbol(header.name, None)
        self._advance(found.end())
        body = BodyParser(text, self._scope, self._line, self._loc)
        parameters = tuple(body.declare_parameter(parameter, line) for parameter in header.parameters)
        returns = tuple(body.declare_parameter(parameter, line) for parameter in header.returns)
        inputs = tuple(body.registers_of(parameters))
        outputs = tuple(body.registers_of(returns))
        end = found.end()
        if has_body:
            end = body.parse(end)
            self._line, self._counted, self._loc = body.line, end, body.loc
        self._functions.append(
            Function(
                header.kind,
                header.name,
                header.linkage,
                parameters,
                returns,
                header.attributes,
                tuple(body.statements) if has_body else None,
                inputs,
                outputs,
                body.names.registers,
                tuple(body.names.undeclared),
                tuple(body.names.redeclared),
                line,
                body.line,
            )
        )
        return end
