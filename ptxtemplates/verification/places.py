"""The emulator as a place that runs cases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ptxtemplates.emulator import PointerTable, SparseArray, Unwritten, emulate
from ptxtemplates.references.case import Input, Output, Table
from ptxtemplates.references.place import Observation, Ran

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.references.case import Buffer, Case, Sparse
    from ptxtemplates.references.place import Text


class Emulator:
    """The CPU, with the checks of `ptxtemplates.emulator`.

    Buffers lie in address space with gaps of 4 GiB between them: an access beside one is a finding.

    Parameters
    ----------
    accuracy : {"exact", "worst"}
        What approximate instructions give: the correctly rounded result, or either edge of their bound.
    seed : int
        Decides which edge.
    """

    def __init__(self, accuracy: Literal["exact", "worst"] = "exact", seed: int = 0) -> None:
        self._accuracy = accuracy
        self._seed = seed

    def run(self, case: Case, programs: Mapping[Kernel, Text]) -> Ran:
        """Run a case.

        Raises
        ------
        EmulationError
            If the arguments do not fit a text, or it does not end.
        UnsupportedInstruction
            If a text has an instruction that is not emulated.
        """
        buffers = case.buffers
        memories = {
            name: allocated(buffer) for name, buffer in buffers.items() if not isinstance(buffer, Table)
        }
        fresh = {name for name, buffer in buffers.items() if isinstance(buffer, Output)}
        findings: list[Observation] = []
        for launch in case.launches:
            program = programs[launch.kernel]
            report = emulate(
                program.text,
                program.entry,
                launch.grid,
                launch.kernel.block,
                [argument_of(word, buffers, memories, fresh) for word in launch.arguments],
                blocks=launch.blocks,
                step_limit=launch.steps,
                places=program.places,
                accuracy=self._accuracy,
                seed=self._seed,
            )
            fresh -= set(launch.arguments)  # written now, as far as the launch was meant to
            findings += [
                Observation(
                    found.kind, found.message, found.kernel, found.line, found.source,
                    found.block, found.thread, found.address, found.buffer,
                )
                for found in report.findings
            ]  # fmt: skip
        return Ran(lambda name, at, size: _read(memories[name], at, size), tuple(findings))


_Memory: TypeAlias = "npt.NDArray[Any] | SparseArray"


def allocated(buffer: Input | Output | Sparse) -> _Memory:
    """Return memory of the emulator, filled as a buffer is before the first launch."""
    if isinstance(buffer, Input):
        return buffer.array.copy()
    if isinstance(buffer, Output):
        return np.full(buffer.shape, np.nan, np.float32)
    innermost = buffer.shape[-1]
    array = SparseArray((math.prod(buffer.shape) // innermost, innermost), np.float32, np.nan, written=False)
    for piece in buffer.pieces:
        for number, part in enumerate(piece.array.reshape(-1, innermost), start=piece.at // innermost):
            array[number] = part
    return array


def argument_of(
    word: str | int, buffers: Mapping[str, Buffer], memories: Mapping[str, _Memory], fresh: set[str]
) -> _Memory | Unwritten | PointerTable | int:
    """Return what stands for an argument of a launch; `fresh` are the outputs that no launch has written."""
    if isinstance(word, int):
        return word
    buffer = buffers[word]
    if isinstance(buffer, Table):
        return PointerTable([memories[name] for name in buffer.buffers])
    memory = memories[word]
    return Unwritten(memory) if word in fresh and isinstance(memory, np.ndarray) else memory


def _read(memory: _Memory, at: int, size: int) -> npt.NDArray[Any]:
    if isinstance(memory, np.ndarray):
        return memory.reshape(-1)[at : at + size]
    innermost = memory.shape[-1]
    rows = range(at // innermost, -(-(at + size) // innermost))
    return np.concatenate([memory[row] for row in rows])[at % innermost :][:size]
