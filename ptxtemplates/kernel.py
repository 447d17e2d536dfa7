"""What a kernel is: parameters, arguments, launch geometry. Built-in and users' kernels derive from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, get_args, get_type_hints

from ptxtemplates.errors import DeclarationError, ParameterError
from ptxtemplates.parameters import DERIVED, Identifier, Parameter, Target, shown
from ptxtemplates.ptx.targets import TARGETS
from ptxtemplates.sources import BUILT_IN_TEMPLATES

Role = Literal["index", "data", "output"]
"""`index` decides addresses or control (lengths, tables, pointers); `data` and `output` do not."""

SCALAR_SIZES: Final = {"u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}
"""Bytes of each PTX type that an argument can have."""


class Tensor(NamedTuple):
    """A contiguous array behind a pointer.

    Attributes
    ----------
    element : str
        PTX type of an element; ``u64`` with `points_to` for a table of pointers.
    shape : tuple of str
        Extents, outermost first: names of parameters, of run-time sizes, or sums of a name and an integer.
    alignment : int
        Bytes that the pointer must be aligned to.
    role : {"index", "data", "output"}
        What the kernel does with the elements.
    points_to : Tensor, optional
        What each element of a table of pointers points to.
    """

    element: str
    shape: tuple[str, ...]
    alignment: int
    role: Role
    points_to: Tensor | None = None

    def describe(self) -> dict[str, Any]:
        """Return the tensor as JSON values."""
        description: dict[str, Any] = {
            "element": self.element,
            "shape": list(self.shape),
            "alignment": self.alignment,
            "role": self.role,
        }
        if self.points_to is not None:
            description["points_to"] = self.points_to.describe()
        return description


class Argument(NamedTuple):
    """One argument of a kernel, in the order in which a launch passes them.

    Attributes
    ----------
    name, type : str
        As the PTX ``.param`` declares it.
    role : {"index", "data", "output"}
        For a pointer, the role of what it points to.
    tensor : Tensor, optional
        What a pointer points to.
    """

    name: str
    type: str
    role: Role
    tensor: Tensor | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return SCALAR_SIZES[self.type]


def pointer(
    name: str, element: str, *shape: str, role: Role, alignment: int, points_to: Tensor | None = None
) -> Argument:
    """Describe an argument that points to a contiguous tensor in global memory."""
    tensor = Tensor(element=element, shape=shape, alignment=alignment, role=role, points_to=points_to)
    return Argument(name=name, type="u64", role=role, tensor=tensor)


Entry = Annotated[
    str,
    Parameter(
        Identifier(),
        "name of the entry; variants that link into one module need different ones",
        "entry-",
        derived=lambda kernel: kernel.name,
        derived_text="the kernel's name",
    ),
]
TargetArchitecture = Annotated[
    str, Parameter(Target("sm_75"), "lowest architecture that can load the text", "")
]


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel with every parameter chosen. Constructing it checks it.

    Its fields are exactly the parameters baked into the text, so a text belongs to one value of this class.
    A family derives from it as a frozen, keyword-only dataclass whose fields are annotated with names of
    module-level ``Annotated[type, Parameter(...)]``.

    Attributes
    ----------
    name : str
        Name of the kernel, as a list of variants and the command line give it.
    summary : str
        One line for a person.
    template : str
        Name of its template in `template_folder`; imports are looked up there, then among the built-in ones.
    arguments : tuple of Argument
        The ABI.
    extents : mapping of str to int
        Largest legal value of each run-time size that the grid uses.

    Raises
    ------
    ParameterError
        If a parameter is out of its domain or two contradict each other.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    template: ClassVar[str]
    template_folder: ClassVar[Path] = BUILT_IN_TEMPLATES
    arguments: ClassVar[tuple[Argument, ...]]
    extents: ClassVar[Mapping[str, int]] = {}
    shared_memory: ClassVar[int] = 0

    entry: Entry = DERIVED
    target: TargetArchitecture = "sm_75"

    def __post_init__(self) -> None:
        """Bring every parameter into its canonical form, or refuse it."""
        for field, parameter, declared in parameters_of(type(self)):
            value = getattr(self, field)
            if value is DERIVED and parameter.derived is not None:
                value = parameter.default_of(self, declared)
            try:
                value = parameter.domain.convert(value)
            except ValueError:
                raise self.refusal(
                    field, f"must be {parameter.domain.describe()}, not {shown(value)}"
                ) from None
            object.__setattr__(self, field, value)

    def refusal(self, field: str, reason: str) -> ParameterError:
        """Make the error for parameter `field`."""
        return ParameterError(f"{self.name}: {field} {reason}", field=field)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads a block, in x, y, z."""
        # rendering and the command line refuse such a class earlier (`declaration`); the geometry of a kernel
        # can be asked for without either, and no default would be right
        raise NotImplementedError(f"{type(self).__name__} has no block")

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        """Blocks in x, y, z: a number, or the name of a run-time size (see `extents`)."""
        # refused earlier, and without a default, as the block is
        raise NotImplementedError(f"{type(self).__name__} has no grid")

    def constants(self) -> dict[str, object]:
        """Return what the template sees beside the parameters: tables and values that follow from them."""
        return {}

    @property
    def ptx_version(self) -> str:
        """Lowest PTX version that knows the target."""
        return TARGETS[self.target]

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter and its canonical value."""
        return {field: getattr(self, field) for field, _, _ in parameters_of(type(self))}

    @property
    def variables(self) -> dict[str, object]:
        """What the template sees: parameters, ``ptx_version`` and constants."""
        return {**self.parameters, "ptx_version": self.ptx_version, **self.constants()}

    @property
    def variant(self) -> str:
        """Name of this variant, the same everywhere: file names, snapshots, manifest, test ids.

        The kernel's name, then each parameter that has no default or differs from it, in the order of
        declaration with `entry` and `target` last.
        """
        parts = [self.name]
        for field, parameter, declared in parameters_of(type(self)):
            value = getattr(self, field)
            if declared is dataclasses.MISSING or value != parameter.default_of(self, declared):
                parts.append(f"{parameter.tag}{parameter.domain.label(value)}")
        return ".".join(parts)

    def contract(self) -> dict[str, Any]:
        """Return what a caller must know to launch the kernel, as JSON values."""
        arguments = []
        offset = 0
        for argument in self.arguments:
            offset += -offset % argument.size
            description: dict[str, Any] = {
                "name": argument.name,
                "type": argument.type,
                "size": argument.size,
                "offset": offset,
                "role": argument.role,
            }
            if argument.tensor is not None:
                description["tensor"] = argument.tensor.describe()
            arguments.append(description)
            offset += argument.size
        return {
            "kernel": self.name,
            "entry": self.entry,
            "parameters": arguments,
            "template_parameters": self.parameters,
            "block": list(self.block),
            "grid": list(self.grid),
            "grid_limits": {name: self.extents[name] for name in self.grid if isinstance(name, str)},
            "shared_memory": self.shared_memory,
        }


def parameters_of(kernel: type[Kernel]) -> tuple[tuple[str, Parameter, object], ...]:
    """Return (field, what is known of it, declared default) for each parameter of a kernel class.

    Those of the family come first, `entry` and `target` last. A parameter without a default has
    ``dataclasses.MISSING``.
    """
    if kernel not in _PARAMETERS:
        _PARAMETERS[kernel] = tuple(_read_parameters(kernel))
    return _PARAMETERS[kernel]


_PARAMETERS: Final[dict[type[Kernel], tuple[tuple[str, Parameter, object], ...]]] = {}


def _read_parameters(kernel: type[Kernel]) -> list[tuple[str, Parameter, object]]:
    hints = get_type_hints(kernel, include_extras=True)
    found = []
    for field in dataclasses.fields(kernel):
        annotated = [extra for extra in get_args(hints[field.name]) if isinstance(extra, Parameter)]
        if not annotated:
            raise DeclarationError(
                f"{kernel.__name__}.{field.name}: a parameter needs the type Annotated[..., Parameter(...)]"
            )
        found.append((field.name, annotated[0], field.default))
    common = {field.name for field in dataclasses.fields(Kernel)}
    return sorted(found, key=lambda entry: entry[0] in common)
