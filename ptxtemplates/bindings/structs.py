"""What the C header and the Rust module share: identifiers, parameter structs, descriptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ptxtemplates.manifest import Entry

MAX_GRID: Final = 2**31 - 1
"""Largest extent that any dimension of a CUDA grid can have."""


class Struct(NamedTuple):
    """The parameters of one kernel, or of one variant where those of a kernel differ.

    Attributes
    ----------
    owner : str
        The kernel or the variant.
    parameters : tuple of dict
        As the manifest has them.
    """

    owner: str
    parameters: tuple[Mapping[str, Any], ...]

    @property
    def size(self) -> int:
        """Bytes of the parameter block: up to the end of the last parameter."""
        last = self.parameters[-1]
        return int(last["offset"] + last["size"])

    @property
    def padded_size(self) -> int:
        """Bytes of the struct: whole multiples of its alignment."""
        alignment = max(parameter["size"] for parameter in self.parameters)
        return self.size + -self.size % int(alignment)


def structs_of(entries: Iterable[Entry]) -> dict[str, Struct | None]:
    """Return the struct of each variant, None for one without parameters.

    The variants of a kernel share one, unless their parameters differ.
    """
    entries = list(entries)
    lists: dict[str, list[object]] = {}
    for entry in entries:
        known = lists.setdefault(entry["kernel"], [])
        if entry["parameters"] not in known:
            known.append(entry["parameters"])
    return {
        entry["variant"]: Struct(
            entry["kernel"] if len(lists[entry["kernel"]]) == 1 else entry["variant"],
            tuple(entry["parameters"]),
        )
        if entry["parameters"]
        else None
        for entry in entries
    }


def distinct(structs: Mapping[str, Struct | None]) -> dict[str, Struct]:
    """Return each struct of `structs_of` once, by owner."""
    return {struct.owner: struct for struct in structs.values() if struct is not None}


def identifier(name: str, reserved: Iterable[str] = ()) -> str:
    """Make a name one that C and Rust allow: other characters become ``_``, a reserved word gets one."""
    result = re.sub("[^A-Za-z0-9_]", "_", name)
    if not re.match("[A-Za-z_]", result):
        result = f"k_{result}"
    return f"{result}_" if result in reserved else result


def refuse_twins(identifiers: Sequence[tuple[str, str]], where: str) -> None:
    """Check pairs of a name and the identifier made of it.

    Raises
    ------
    ArtifactError
        If two names would get one identifier.
    """
    names: dict[str, str] = {}
    for name, made in identifiers:
        other = names.setdefault(made, name)
        if other != name:
            raise ArtifactError(f"{where}: {other} and {name} would both be named {made}; rename one")


def members_of(struct: Struct, reserved: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of a struct by identifier.

    Raises
    ------
    ArtifactError
        If two would get one identifier.
    """
    members = [(identifier(item["name"], reserved), item) for item in struct.parameters]
    refuse_twins([(item["name"], made) for made, item in members], struct.owner)
    return dict(members)


def sizes_of(entry: Entry, reserved: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return the run-time sizes in an entry's grid: by name, the identifier and the largest legal value.

    Raises
    ------
    ArtifactError
        If two would get one identifier.
    """
    names = [extent for extent in entry["grid"] if isinstance(extent, str)]
    sizes = {name: (identifier(name, reserved), min(entry["grid_limits"][name], MAX_GRID)) for name in names}
    refuse_twins([(name, made) for name, (made, _) in sizes.items()], entry["variant"])
    return sizes


def grid_rule(entry: Entry) -> str:
    """Describe the grid: ``(32, rows, 1), rows at most 65535``."""
    limits = [f", {name} at most {limit}" for name, (_, limit) in sizes_of(entry, ()).items()]
    return f"({', '.join(map(str, entry['grid']))}){''.join(limits)}"


def description(parameter: Mapping[str, Any], quote: str = "") -> str:
    """Describe a parameter: role, and for a pointer what it points to; `quote` goes around tensors."""
    if "tensor" not in parameter:
        return f"{parameter['role']}: {parameter['type']}"
    tensor: Mapping[str, Any] | None = parameter["tensor"]
    parts = []
    while tensor is not None:
        shape = f"{quote}{tensor['element']} [{', '.join(tensor['shape'])}]{quote}"
        parts.append(f"{shape}, aligned to {tensor['alignment']} bytes")
        tensor = tensor.get("points_to")
    return f"{parameter['role']}: pointer to {', of pointers to '.join(parts)}"


def ascii_only(lines: Iterable[str]) -> str:
    """Join lines; what is not ASCII (names of sizes, in comments) is escaped."""
    return "".join(f"{line}\n" for line in lines).encode("ascii", "backslashreplace").decode()
