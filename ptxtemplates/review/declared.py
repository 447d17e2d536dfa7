"""What callers of a kernel rely on, as its text declares it and as its description says it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ptxtemplates.ptx.statements import Variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.ptx.statements import Function, Module


class Parameter(NamedTuple):
    """An argument of a launch.

    Attributes
    ----------
    name, type : str
        As declared; the type with array extents, without the dot.
    size, offset : int
        Bytes.
    space : str
        That a pointer points into; empty of a scalar or where nothing is said.
    alignment : int or None
        Bytes that a pointer must be aligned to.
    role : str
        Empty where nothing is said.
    tensor : mapping or None
        What a pointer points to, as descriptions have it.
    """

    name: str
    type: str
    size: int
    offset: int
    space: str = ""
    alignment: int | None = None
    role: str = ""
    tensor: Mapping[str, Any] | None = None


class Contract(NamedTuple):
    """What is known of one entry. None where nothing is known.

    Attributes
    ----------
    entry : str or None
    linkage : str or None
        ``visible``, ``weak``, or empty.
    parameters : tuple of Parameter or None
    block : tuple of int or None
        Threads in x, y, z; empty where any is right.
    most_threads : int or None
        A block; 0 where no limit is declared.
    cluster : str or None
        Directives on clusters.
    shared_memory : int or None
        Static bytes a block.
    dynamic : bool or None
        Whether there is shared memory whose size the launch chooses.
    target, version : str or None
    options : tuple of str or None
        Of the target.
    address_size : int or None
    """

    entry: str | None = None
    linkage: str | None = None
    parameters: tuple[Parameter, ...] | None = None
    block: tuple[int, ...] | None = None
    most_threads: int | None = None
    cluster: str | None = None
    shared_memory: int | None = None
    dynamic: bool | None = None
    target: str | None = None
    version: str | None = None
    options: tuple[str, ...] | None = None
    address_size: int | None = None


_CLUSTER = ("reqnctapercluster", "explicitcluster", "maxclusterrank", "blocksareclusters")


def declared(module: Module, entry: Function) -> Contract:
    """Return what a text declares of one of its entries."""
    attributes = entry.attributes
    block, most = attributes.get("reqntid", ()), attributes.get("maxntid")
    shared = [variable for variable in (*module.variables, *entry.variables) if variable.space == "shared"]
    return Contract(
        entry.name,
        entry.linkage or "",
        tuple(_declared_parameters(entry.parameters)),
        (*block, 1, 1)[:3] if block else (),
        prod(most) if most else 0,
        " ".join(
            f".{name} {', '.join(map(str, attributes[name]))}".strip()
            for name in _CLUSTER
            if name in attributes
        ),
        sum(variable.size for variable in shared if variable.linkage != "extern"),
        any(variable.linkage == "extern" for variable in shared),
        module.targets[0],
        module.version,
        module.targets[1:],
        module.address_size,
    )


def _declared_parameters(variables: tuple[Variable, ...]) -> list[Parameter]:
    parameters: list[Parameter] = []
    offset = 0
    for variable in variables:
        offset += -offset % variable.natural_alignment
        extents = "".join(f"[{extent}]" for extent in variable.dimensions)
        vector = f"v{variable.width}." if variable.width > 1 else ""
        parameters.append(
            Parameter(
                variable.name,
                f"{vector}{variable.type}{extents}",
                variable.size,
                offset,
                variable.pointer_space or "",
                variable.pointer_alignment,
            )
        )
        offset += variable.size
    return parameters


def described(description: Mapping[str, Any]) -> Contract:
    """Return what a description says; what it lacks, or has in another form, stays None."""
    return Contract(
        entry=_of(str, description.get("entry")),
        parameters=_described_parameters(description.get("parameters")),
        block=_block(description.get("block")),
        shared_memory=_of(int, description.get("shared_memory")),
        target=_of(str, description.get("target")),
        version=_of(str, description.get("ptx_version")),
    )


def _of(kind: type, value: Any) -> Any:
    return value if isinstance(value, kind) else None


def _block(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list | tuple) or not all(isinstance(extent, int) for extent in value):
        return None
    return tuple(value)


def _described_parameters(values: Any) -> tuple[Parameter, ...] | None:
    if not isinstance(values, list | tuple):
        return None
    parameters = []
    for value in values:
        if not isinstance(value, dict) or not all(isinstance(value.get(key), kind) for key, kind in _KINDS):
            return None
        tensor = _of(dict, value.get("tensor"))
        alignment = _of(int, tensor.get("alignment")) if tensor else None
        space, role = "global" if tensor else "", _of(str, value.get("role")) or ""
        fixed = (value["name"], value["type"], value["size"], value["offset"])
        parameters.append(Parameter(*fixed, space, alignment, role, tensor))
    return tuple(parameters)


_KINDS = (("name", str), ("type", str), ("size", int), ("offset", int))


def both(text: Contract, description: Contract) -> Contract:
    """Return what is known from both: the text's word where it has one."""
    fields = {
        field: getattr(description, field) if getattr(text, field) is None else getattr(text, field)
        for field in Contract._fields
    }
    known = Contract(**fields)._replace(block=text.block or description.block or text.block)
    if text.parameters is None or description.parameters is None:
        return known
    by_name = {parameter.name: parameter for parameter in description.parameters}
    return known._replace(
        parameters=tuple(
            _with_description(parameter, by_name.get(parameter.name)) for parameter in text.parameters
        )
    )


def _with_description(parameter: Parameter, said: Parameter | None) -> Parameter:
    if said is None:
        return parameter
    alignment = said.alignment if parameter.alignment is None else parameter.alignment
    return parameter._replace(
        space=parameter.space or said.space, alignment=alignment, role=said.role, tensor=said.tensor
    )
