"""How the parameters of a kernel changed, and what that means for who launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.review.model import ContractChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxtemplates.review.declared import Parameter


def parameter_changes(old: Sequence[Parameter], new: Sequence[Parameter]) -> Iterator[ContractChange]:
    """Compare the parameters of two kernels.

    Launches pass arguments by position, so a name alone that changes breaks none of them. A parameter counts
    as renamed if one name went and one came at the same place between the others.
    """
    pairs = _paired(old, new)
    paired_old, paired_new = {before for before, _ in pairs}, {after for _, after in pairs}
    for index, parameter in enumerate(old):
        if index not in paired_old:
            yield ContractChange(
                _title(index, parameter), _signature(parameter), "", True, "launches must no longer pass it"
            )
    for index, parameter in enumerate(new):
        if index not in paired_new:
            yield ContractChange(
                _title(index, parameter), "", _signature(parameter), True, "launches must pass it"
            )
    order = [after for _, after in pairs]
    if order != sorted(order):
        yield ContractChange(
            "parameters: order",
            ", ".join(parameter.name for parameter in old),
            ", ".join(parameter.name for parameter in new),
            True,
            "launches pass arguments by position: pass them in the new order",
        )
    moved = len(pairs) < max(len(old), len(new)) or order != sorted(order)
    for before, after in pairs:
        yield from _of_one(after, old[before], new[after], moved=moved)


def _paired(old: Sequence[Parameter], new: Sequence[Parameter]) -> list[tuple[int, int]]:
    """Pair parameters by name, and one that went with one that came where the same ones are before both."""
    places = {parameter.name: index for index, parameter in enumerate(new)}
    names = {parameter.name for parameter in old}
    pairs = {index: places[each.name] for index, each in enumerate(old) if each.name in places}
    if len(old) == len(new):
        pairs |= {
            index: index
            for index, each in enumerate(old)
            if each.name not in places and new[index].name not in names
        }
    return sorted(pairs.items())


def _title(index: int, parameter: Parameter) -> str:
    return f"parameter {index + 1} ({parameter.name})"


def _signature(parameter: Parameter) -> str:
    tensor = _tensor(parameter.tensor)
    return f"{parameter.type}, {tensor}" if tensor else parameter.type


def _tensor(tensor: Mapping[str, Any] | None) -> str:
    if not tensor:
        return ""
    shape = tensor.get("shape")
    extents = ", ".join(map(str, shape)) if isinstance(shape, list | tuple) else "?"
    return f"{tensor.get('element', '?')} [{extents}]"


def _of_one(index: int, old: Parameter, new: Parameter, *, moved: bool) -> Iterator[ContractChange]:
    title = _title(index, new)
    if old.name != new.name:
        why = "launches pass arguments by position; only code that finds parameters by name must follow"
        yield ContractChange(f"{title}: name", old.name, new.name, False, why)
    comparable = old.type == new.type
    if not comparable:
        comparable = old.size == new.size and "b" in (old.type[:1], new.type[:1])
        why = "launches must pass a value of the new type"
        if comparable:
            why = "as many bytes, and untyped on one side: launches pass the same"
        yield ContractChange(f"{title}: type", old.type, new.type, not comparable, why)
    if old.size != new.size:
        why = "launches must pass that many bytes"
        yield ContractChange(f"{title}: size", f"{old.size} bytes", f"{new.size} bytes", True, why)
    if old.offset != new.offset and not moved:
        yield ContractChange(
            f"{title}: offset",
            f"{old.offset} bytes",
            f"{new.offset} bytes",
            True,
            "whoever packs the parameter block must use the new offset",
        )
    if comparable and old.space != new.space:
        yield ContractChange(f"{title}: state space", old.space, new.space, *_spaces(old.space, new.space))
    if comparable:
        yield from _alignment(title, old.alignment, new.alignment)
    if old.role and new.role and old.role != new.role:
        meaning = _ROLES.get((old.role, new.role), (True, "callers must see what the kernel does with it"))
        yield ContractChange(f"{title}: role", old.role, new.role, *meaning)
    yield from _of_tensors(title, old.tensor, new.tensor, bool(old.role and new.role))


def _spaces(old: str, new: str) -> tuple[bool, str]:
    if new in _ANY:
        return False, "pointers may point anywhere"
    if new == "global" and old in _ANY:
        return False, "the pointers that a launch can pass are to global memory"
    return True, "pointers must point into that space"


_ANY: Final = ("", "generic")

_WRITTEN: Final = (True, "the kernel writes to it now: pass memory that may be overwritten")
_READ: Final = (True, "the kernel reads it now and fills it no longer: pass values")
_ROLES: Final = {
    ("data", "output"): _WRITTEN,
    ("index", "output"): _WRITTEN,
    ("output", "data"): _READ,
    ("output", "index"): _READ,
    ("data", "index"): (True, "it decides addresses or control now: only valid values are right"),
    ("index", "data"): (False, "values that were right still are"),
}


def _alignment(title: str, old: int | None, new: int | None) -> Iterator[ContractChange]:
    if old == new:
        return
    stricter = (new or 1) > (old or 1)
    why = "pointers must be aligned to it" if stricter else "pointers that were aligned enough still are"
    before, after = (f"{each} bytes" if each else "" for each in (old, new))
    yield ContractChange(f"{title}: alignment", before, after, stricter, why)


def _of_tensors(
    title: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None, described: bool
) -> Iterator[ContractChange]:
    if not described or (not old and not new):
        return
    if not old or not new:
        why = "launches must pass a pointer" if new else "launches must pass a value, not a pointer"
        yield ContractChange(f"{title}: what it points to", _tensor(old), _tensor(new), True, why)
        return
    if _tensor(old) != _tensor(new):
        key = "element" if old.get("element") != new.get("element") else "shape"
        why = f"the memory that launches pass must hold that {key}"
        yield ContractChange(f"{title}: {key}", _tensor(old), _tensor(new), True, why)
    inner = old.get("points_to"), new.get("points_to")
    before, after = (each if isinstance(each, dict) else None for each in inner)
    if before and after:
        yield from _alignment(f"{title}: each pointer", before.get("alignment"), after.get("alignment"))
    yield from _of_tensors(f"{title}: each pointer", before, after, described)
