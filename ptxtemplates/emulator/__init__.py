"""PTX on the CPU: the very text, on NumPy arrays, with checks that a GPU cannot make.

Every thread of a launch is one lane of NumPy arrays. Takes the text of any producer, as far as its
instructions are known: one that is not is refused before anything runs.
"""

from __future__ import annotations

from ptxtemplates.emulator.launch import EmulationReport, PointerTable, Unwritten, emulate
from ptxtemplates.emulator.machine import Finding

__all__ = ["EmulationReport", "Finding", "PointerTable", "Unwritten", "emulate"]
