"""Launches of a kernel that is described, not declared: buffers for symbolic data and for the emulator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.emulator import PointerTable, SparseArray
from ptxtemplates.emulator.operations import DTYPES
from ptxtemplates.emulator.types import BITS
from ptxtemplates.ptx.datatypes import TYPE_BITS
from ptxtemplates.references.launches import extent_of
from ptxtemplates.references.settings import chosen_blocks
from ptxtemplates.symbolic import Data, Fixed, Pointers, UndecidedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.references.settings import Setting
    from ptxtemplates.review.model import Side

    Block = tuple[int, int, int]
    Description = Mapping[str, Any]

MOST_BLOCKS: Final = 96
"""That a launch runs; of a larger grid its corners."""


class Planned(NamedTuple):
    """A launch of one of the two texts.

    Attributes
    ----------
    text, entry : str
    grid, block : tuple of int
    blocks : list of tuple of int
        That run.
    arguments : list
        As `ptxtemplates.symbolic.run` takes them.
    """

    text: str
    entry: str
    grid: Block
    block: Block
    blocks: list[Block]
    arguments: list[Data | Fixed | Pointers | int]


class Shaped(NamedTuple):
    """A buffer's tensor: its PTX type and its extents."""

    element: str
    shape: tuple[int, ...]


def run_time_sizes(description: Description) -> list[str]:
    """Return the names of the sizes that a launch chooses, in the order in which they are named."""
    names = [*description["grid_limits"]]
    for parameter in description["parameters"]:
        tensor = parameter.get("tensor")
        if tensor is None and parameter["type"] in ("u32", "s32", "u64", "s64"):
            names.append(parameter["name"])
        while tensor is not None:
            names += [extent.partition(" ")[0] for extent in tensor["shape"] if not extent.isdecimal()]
            tensor = tensor.get("points_to")
    return [name for name in dict.fromkeys(names) if name not in description["template_parameters"]]


def planned(side: Side, setting: Setting) -> tuple[Planned, dict[str, Shaped]]:
    """Plan a launch; return also the tensors of its buffers, by name.

    Raises
    ------
    UndecidedError
        If the description does not say enough.
    """
    description = side.description
    assert description is not None
    sizes = {**description["template_parameters"], **setting.sizes}
    shapes: dict[str, Shaped] = {}
    arguments: list[Data | Fixed | Pointers | int] = []
    for parameter in description["parameters"]:
        name, tensor = parameter["name"], parameter.get("tensor")
        if tensor is None:
            if name not in setting.sizes:
                raise UndecidedError(f"what a launch passes for {name} is not known")
            arguments.append(setting.sizes[name])
        else:
            arguments.append(_buffer(setting.same.get(name, name), name, tensor, sizes, setting, shapes))
    extents = [sizes[extent] if isinstance(extent, str) else extent for extent in description["grid"]]
    grid, block = _three(extents), _three(description["block"])
    blocks = chosen_blocks(grid, setting.planes, MOST_BLOCKS)
    if setting.long:  # the last of each row and plane: the others have run elsewhere
        blocks = [each for each in blocks if each[0] == grid[0] - 1]
    return Planned(side.text, description["entry"], grid, block, blocks, arguments), shapes


def title_of(setting: Setting, plan: Planned) -> str:
    """Return what a reader is told of a launch."""
    named = "rows" in setting.sizes and "row" not in setting.title
    rows = f", rows {setting.sizes['rows']}" if named else ""
    if len(plan.blocks) == math.prod(plan.grid):
        return setting.title + rows
    chosen = [sorted(set(numbers)) for numbers in zip(*plan.blocks, strict=True)]
    axes = [
        f"{axis} {', '.join(map(str, numbers))}"
        for axis, numbers, extent in zip("xyz", chosen, plan.grid, strict=True)
        if len(numbers) < extent
    ]
    return f"{setting.title}{rows} (blocks {'; '.join(axes)})"


def _three(extents: list[int]) -> Block:
    x, y, z = extents
    return x, y, z


def _buffer(
    label: str,
    name: str,
    tensor: Description,
    sizes: Mapping[str, Any],
    setting: Setting,
    shapes: dict[str, Shaped],
) -> Data | Fixed | Pointers:
    names = [extent.partition(" ")[0] for extent in tensor["shape"]]
    if unknown := [each for each in names if not each.isdecimal() and each not in sizes]:
        raise UndecidedError(f"the extent {unknown[0]} of {label} is neither a parameter nor a run-time size")
    shape = tuple(extent_of(extent, sizes) for extent in tensor["shape"])
    inner = tensor.get("points_to")
    if inner is not None:
        within = [f"{label}[{index}]" for index in range(math.prod(shape))]
        buffers = [_buffer(each, each, inner, sizes, setting, shapes) for each in within]
        return Pointers(label, tuple(each for each in buffers if isinstance(each, Data)))
    kind = tensor["element"] if tensor["element"] in BITS else f"b{TYPE_BITS.get(tensor['element'], 8)}"
    shapes[label] = Shaped(kind, shape)
    if tensor["role"] == "index":
        if name not in setting.contents:
            raise UndecidedError(
                f"what {name} holds decides addresses or control, and is not known: a kernel of your own "
                "needs an entry in ptxtemplates.references.settings.SETTINGS"
            )
        return Fixed(label, setting.contents[name])
    return Data(label, math.prod(shape) * BITS[kind] // 8, kind)


def for_emulator(plan: Planned) -> list[Any]:
    """Return the arguments as the emulator takes them, with numbers that matter to nobody as data."""
    made: dict[str, Any] = {}

    def buffer(argument: Data | Fixed) -> Any:
        if argument.name not in made:
            if isinstance(argument, Fixed):
                made[argument.name] = argument.array.copy()
            else:
                dtype = DTYPES[argument.kind]
                # outputs hold something too: a kernel may work in place
                made[argument.name] = SparseArray((argument.size // dtype.itemsize,), dtype, 0.5)
        return made[argument.name]

    return [
        argument
        if isinstance(argument, int)
        else PointerTable([buffer(each) for each in argument.buffers])
        if isinstance(argument, Pointers)
        else buffer(argument)
        for argument in plan.arguments
    ]
