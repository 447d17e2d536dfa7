"""A parsed module: what `ptxtemplates.ptx.parser.parse` returns."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple, TypeAlias, TypeVar

from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.ptx.operands import Immediate, Label, Operand, Register, Symbol, Unresolved

_Class = TypeVar("_Class", bound=type)


def _by_identity(cls: _Class) -> _Class:
    """Let objects of a class be equal only to themselves: two statements of one text are still two."""
    for method in ("__eq__", "__ne__", "__hash__"):
        setattr(cls, method, getattr(object, method))
    return cls


class InitialAddress(NamedTuple):
    """An address in an initialiser: ``table``, ``generic(table)+8``, ``0xff(table)``.

    Attributes
    ----------
    symbol : Symbol or Unresolved
        The variable or function; offsets within the inner parentheses are its `offset`.
    offset : int
        Bytes added outside ``generic(...)``.
    generic : bool
        Whether the address is a generic one.
    mask : int or None
        The mask of the form ``mask(...)``, which keeps the masked byte.
    """

    symbol: Symbol | Unresolved
    offset: int
    generic: bool
    mask: int | None


Initializer: TypeAlias = "Immediate | InitialAddress | tuple[Initializer, ...]"


@_by_identity
class Variable(NamedTuple):
    """A variable in memory, or a parameter. Compared by identity.

    Attributes
    ----------
    name : str
        As written; ``_`` for a parameter without a name.
    space : str
        ``global``, ``const``, ``shared``, ``local``, ``param`` or ``tex``; ``reg`` for a function's register
        parameters.
    type : str
        Element type, without the dot.
    width : int
        2 or 4 for ``.v2`` and ``.v4``, else 1.
    dimensions : tuple of int
        Array extents, outermost first; 0 where the size is left open; empty for a scalar.
    alignment : int or None
        Bytes given by ``.align``; None leaves the natural one (`natural_alignment`).
    pointer_space, pointer_alignment : str or None, int or None
        For a ``.ptr`` parameter: the space it points to (``generic`` if none is named), and its alignment.
    initializer : Immediate, InitialAddress, nested tuple of them, or None
        The initial value.
    linkage : str or None
        ``extern``, ``visible``, ``weak`` or ``common``.
    attributes : tuple of str
        The contents of ``.attribute(...)``, e.g. ``managed``.
    line : int
        Where it is declared.
    """

    name: str
    space: str
    type: str
    width: int
    dimensions: tuple[int, ...]
    alignment: int | None
    pointer_space: str | None
    pointer_alignment: int | None
    initializer: Initializer | None
    linkage: str | None
    attributes: tuple[str, ...]
    line: int

    @property
    def size(self) -> int:
        """Bytes it takes; 0 while its size is open, and for texture, sampler and surface references."""
        return TYPE_BITS.get(self.type, 0) // 8 * self.width * prod(self.dimensions)

    @property
    def natural_alignment(self) -> int:
        """Bytes it is aligned to: what ``.align`` says, else the size of one element or vector."""
        return self.alignment or TYPE_BITS.get(self.type, 64) // 8 * self.width


class Guard(NamedTuple):
    """A guard ``@p`` or ``@!p``."""

    register: Register | Unresolved
    negated: bool


class Location(NamedTuple):
    """A place in a source file, from ``.loc``: an index into `Module.files`, and a line."""

    file: int
    line: int


@_by_identity
class Instruction(NamedTuple):
    """An instruction. Compared by identity.

    Attributes
    ----------
    guard : Guard or None
        Its predicate.
    opcode : str
        First part of the opcode, e.g. ``ld``.
    modifiers : tuple of str
        The other parts, without dots: ``("global", "v2", "f32")``.
    text : str
        The whole opcode, e.g. ``ld.global.v2.f32``.
    operands : tuple of Operand
        In the order they are written.
    line : int
        PTX line on which it starts, from 1.
    loc : Location or None
        The ``.loc`` in force.
    """

    guard: Guard | None
    opcode: str
    modifiers: tuple[str, ...]
    text: str
    operands: tuple[Operand, ...]
    line: int
    loc: Location | None


class RegisterDeclaration(NamedTuple):
    """One name of a ``.reg`` directive.

    Attributes
    ----------
    name : str
        The name, or the prefix of a range.
    type, width : str, int
        As in `Register`.
    range_size : int or None
        N of a range ``%r<N>``, else None.
    line : int
        Where it is declared.
    registers : Mapping of str to Register
        The register; of a range, those that are used.
    """

    name: str
    type: str
    width: int
    range_size: int | None
    line: int
    registers: Mapping[str, Register]


class TargetList(NamedTuple):
    """A labelled ``.branchtargets`` or ``.calltargets``: kind, and the labels or functions in order."""

    name: str
    kind: str
    targets: tuple[Operand, ...]
    line: int


class CallPrototype(NamedTuple):
    """A labelled ``.callprototype``."""

    name: str
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    attributes: Mapping[str, tuple[int, ...]]
    line: int


class Pragma(NamedTuple):
    """A ``.pragma`` and its string."""

    text: str
    line: int


Statement: TypeAlias = (
    "Instruction | Label | RegisterDeclaration | Variable | TargetList | CallPrototype | Pragma"
)


class Undeclared(NamedTuple):
    """A use of a name that nothing visible declares."""

    name: str
    line: int


class Redeclaration(NamedTuple):
    """A name declared a second time in one scope, and the line of the first."""

    name: str
    line: int
    first_line: int


@_by_identity
class Function(NamedTuple):
    """An ``.entry`` or ``.func``.

    Attributes
    ----------
    kind : str
        ``entry`` or ``func``.
    name : str
        Its name.
    linkage : str or None
        ``extern``, ``visible`` or ``weak``.
    parameters, returns : tuple of Variable
        In order.
    attributes : Mapping of str to tuple of int
        Directives after the parameters, without dots: ``{"reqntid": (64, 1, 1)}``.
    body : tuple of Statement or None
        All statements in order, blocks flattened (names are resolved); None for a declaration.
    inputs, outputs : tuple of Register
        Parameters and results that are registers (``.func (.reg .b32 r) f (.reg .b32 a)``).
    registers : int
        How many registers the body uses: one more than the highest `Register.number`.
    undeclared : tuple of Undeclared
        Uses of unknown names.
    redeclared : tuple of Redeclaration
        Names declared twice in one scope.
    line, end_line : int
        Where the header starts and where the closing brace (or semicolon) is.
    """

    kind: str
    name: str
    linkage: str | None
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    attributes: Mapping[str, tuple[int, ...]]
    body: tuple[Statement, ...] | None
    inputs: tuple[Register, ...]
    outputs: tuple[Register, ...]
    registers: int
    undeclared: tuple[Undeclared, ...]
    redeclared: tuple[Redeclaration, ...]
    line: int
    end_line: int

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables declared in the body: shared and local memory, parameters of calls."""
        return tuple(statement for statement in self.body or () if isinstance(statement, Variable))

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions of the body, in order."""
        return tuple(statement for statement in self.body or () if isinstance(statement, Instruction))


@_by_identity
class Module(NamedTuple):
    """A PTX module.

    Attributes
    ----------
    version : str
        PTX ISA version, e.g. ``6.3``.
    targets : tuple of str
        The architecture, then options: ``("sm_90", "debug")``.
    address_size : int
        Bits of an address; 32 where the module does not say.
    files : Mapping of int to str
        Source files that `Location.file` refers to.
    variables : tuple of Variable
        Of module scope, in order.
    functions : tuple of Function
        Declarations and definitions, in order.
    aliases : Mapping of str to str
        ``.alias`` names and the functions they stand for.
    pragmas : tuple of Pragma
        Of module scope.
    undeclared, redeclared : tuple of Undeclared, tuple of Redeclaration
        As in `Function`, for module scope.
    """

    version: str
    targets: tuple[str, ...]
    address_size: int
    files: Mapping[int, str]
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    aliases: Mapping[str, str]
    pragmas: tuple[Pragma, ...]
    undeclared: tuple[Undeclared, ...]
    redeclared: tuple[Redeclaration, ...]

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels that have a body."""
        return tuple(f for f in self.functions if f.kind == "entry" and f.body is not None)

    def function(self, name: str) -> Function:
        """Return the function of a name: its definition, or its declaration if there is no definition.

        Raises
        ------
        KeyError
            If the module neither declares nor defines it.
        """
        name = self.aliases.get(name, name)
        found = [function for function in self.functions if function.name == name]
        if not found:
            raise KeyError(name)
        return next((function for function in found if function.body is not None), found[-1])
