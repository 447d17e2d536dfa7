"""What a sidecar or a manifest says of kernels: read, and held to its shape before anything relies on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Description = dict[str, Any]
    Check = Callable[[object], bool]


def read_sidecar(content: bytes, file: str) -> dict[str, Description]:
    """Return the description of each variant.

    Parameters
    ----------
    content : bytes
        JSON.
    file : str
        What messages call it.

    Raises
    ------
    PtxTemplatesError
        If it is no JSON, or not of the right shape. The message names the variant and the key.
    """
    try:
        values = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise PtxTemplatesError(f"{file} is not JSON that can be read: {error}") from error
    if not isinstance(values, dict):
        raise PtxTemplatesError(f"{file} is no sidecar: an object with a description for each variant is")
    return {variant: checked(value, f"{file}: {variant!r}") for variant, value in values.items()}


def checked(value: object, where: str) -> Description:
    """Return the keys of a description that this version knows, held to their shapes.

    Raises
    ------
    PtxTemplatesError
        If one is missing or of another shape. The message begins with `where`.
    """
    if not isinstance(value, dict):
        raise PtxTemplatesError(f"{where} is not described by an object")
    for key, (fits, shape) in SHAPES.items():
        if key not in value:
            raise PtxTemplatesError(f"{where} has no {key!r}")
        if not fits(value[key]):
            raise PtxTemplatesError(f"{where}: {key!r} must be {shape}")
    return {key: value[key] for key in SHAPES}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_extent(value: object) -> bool:
    return _is_text(value) or _is_count(value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float)


def _each(fits: Check, length: int | None = None) -> Check:
    return lambda value: (
        isinstance(value, list) and (length is None or len(value) == length) and all(map(fits, value))
    )


def _values(fits: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _has(table: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    return lambda value: (
        isinstance(value, dict)
        and all(key in value and fits(value[key]) for key, fits in table.items())
        and all(key not in value or fits(value[key]) for key, fits in optional.items())
    )


def _is_tensor(value: object) -> bool:
    return _has(_TENSOR, {"points_to": _is_tensor})(value)


_TENSOR: Final[dict[str, Check]] = {
    "alignment": _is_count,
    "element": _is_text,
    "role": _is_text,
    "shape": _each(_is_text),
}
_PARAMETER: Final[dict[str, Check]] = {
    "name": _is_text,
    "offset": _is_count,
    "role": _is_text,
    "size": _is_count,
    "type": _is_text,
}

SHAPES: Final[dict[str, tuple[Check, str]]] = {
    "block": (_each(_is_count, 3), "three numbers of threads"),
    "entry": (_is_text, "a name"),
    "grid": (_each(_is_extent, 3), "three numbers, or names of sizes, of blocks"),
    "grid_limits": (_values(_is_count), "an object of numbers"),
    "kernel": (_is_text, "a name"),
    "parameters": (
        _each(_has(_PARAMETER, {"tensor": _is_tensor})),
        "a list of arguments, each with name, offset, role, size, type and what it points to",
    ),
    "shared_memory": (_is_count, "a number of bytes"),
    "target": (_is_text, "an architecture"),
    "template_parameters": (_values(_is_scalar), "an object of numbers, texts and truth values"),
}
"""Each key of a description, what it is held to, and what that is in words."""
