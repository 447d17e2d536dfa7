"""Which elements of an output belong to blocks that a case leaves out, and that a GPU runs all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptxtemplates.references.case import Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from ptxtemplates.kernel import Tensor
    from ptxtemplates.references.case import Case, Launch

    Mask = npt.NDArray[np.bool_]


def beside_the_case(case: Case) -> dict[str, Mask]:
    """Return, for each output that launches with chosen blocks write, which elements none of these writes.

    Axes of a tensor and of the grid belong together by the names of their extents; an extent of the grid that
    is a number is that of the first axis named after a parameter of that value.
    """
    masks: dict[str, Mask] = {}
    for launch in case.launches:
        for name, tensor in _outputs(launch):
            buffer = case.buffers[name]
            if isinstance(buffer, Output):  # of sparse buffers a case looks at what its blocks write, alone
                unwritten = _unwritten(launch, tensor, buffer.shape)
                masks[name] = unwritten & masks[name] if name in masks else unwritten
    return {name: mask for name, mask in masks.items() if mask.any()}


def _outputs(launch: Launch) -> Iterator[tuple[str, Tensor]]:
    for argument, word in zip(launch.kernel.arguments, launch.arguments, strict=True):
        if isinstance(word, str) and argument.tensor is not None and argument.role == "output":
            yield word, argument.tensor


def _unwritten(launch: Launch, tensor: Tensor, shape: tuple[int, ...]) -> Mask:
    if launch.blocks is None:
        return np.zeros(shape, np.bool_)
    axes = _axes(launch, tensor)
    unwritten = np.ones([shape[axis] if axis in axes else 1 for axis in range(len(shape))], np.bool_)
    for block in launch.blocks:
        unwritten[tuple(block[axes[axis]] if axis in axes else 0 for axis in range(len(shape)))] = False
    return np.broadcast_to(unwritten, shape)


def _axes(launch: Launch, tensor: Tensor) -> dict[int, int]:
    """Return the axis of the grid that belongs to each axis of a tensor, as far as one does."""
    parameters = launch.kernel.parameters
    found: dict[int, int] = {}
    for number, extent in enumerate(launch.kernel.grid):
        for axis, name in enumerate(tensor.shape):
            if axis not in found and (name == extent or (extent != 1 and parameters.get(name) == extent)):
                found[axis] = number
                break
    return found
