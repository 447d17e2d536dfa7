"""PTX on the CPU: the very text, on NumPy arrays, with checks that a GPU cannot make.

Every thread of a launch is one lane of NumPy arrays. Takes the text of any producer, as far as its
instructions are known: one that is not is refused before anything runs.
"""

from __future__ import annotations

from importlib.util import find_spec

from ptxtemplates.errors import MissingExtraError

if any(find_spec(name) is None for name in ("numpy", "ml_dtypes")):
    raise MissingExtraError(
        "executing PTX needs numpy and ml-dtypes, which are not both installed: "
        "pip install 'ptxtemplates[emulate]'"
    )

from ptxtemplates.emulator.arguments import PointerTable, Previous, Unwritten
from ptxtemplates.emulator.counts import Counts
from ptxtemplates.emulator.findings import KINDS, Finding
from ptxtemplates.emulator.launch import EmulationReport, emulate
from ptxtemplates.emulator.memory.sparse import SparseArray

__all__ = [
    "KINDS",
    "Counts",
    "EmulationReport",
    "Finding",
    "PointerTable",
    "Previous",
    "SparseArray",
    "Unwritten",
    "emulate",
]
