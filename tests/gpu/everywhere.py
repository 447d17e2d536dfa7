"""The stand-in of a GPU for a whole process, and for those that it starts: what a ``sitecustomize`` installs."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Final, NoReturn

from ptxtemplates.errors import MissingExtraError
from ptxtemplates.gpu import availability, boundary, loading
from ptxtemplates.gpu.place import GUARD
from tests.gpu.instruction_programs import Listing
from tests.gpu.standins import Machine
from tests.gpu.warp_programs import Exchanging
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

WRONG: Final = "STAND_IN_GPU_IS_WRONG"
"""Environment variable: if it is set, every launch changes a bit of each buffer."""

FREE: Final = "STAND_IN_GPU_FREE_BYTES"
"""Environment variable: how much memory it has, where that is not the stand-in's default."""


def install() -> None:
    """Let the emulator answer as a GPU: it has the machine code of nothing, and takes the texts."""
    machine = Machine(*KERNELS.values(), Listing(), Exchanging())
    machine.free = int(os.environ.get(FREE, machine.free))
    for name, function in inspect.getmembers(machine, inspect.ismethod):
        if hasattr(boundary, name):
            setattr(boundary, name, function)
    boundary.describe_driver = lambda: ((13, 0), 1)
    availability._decided[:] = [None]
    setattr(loading, "assemble", _not_installed)  # noqa: B010 - the package has no other way in
    if os.environ.get(WRONG):
        machine.after_launch = lambda: _disturb(machine)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment whose Pythons have the stand-in, by a ``sitecustomize`` in a folder."""
    (folder / "sitecustomize.py").write_text(f"from {__name__} import install\ninstall()\n", encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), **more}


def _disturb(machine: Machine) -> None:
    for memory in machine.memories.values():
        memory[GUARD] ^= 1


def _not_installed(text: str, architecture: str) -> NoReturn:
    raise MissingExtraError("ptxas is not installed")
