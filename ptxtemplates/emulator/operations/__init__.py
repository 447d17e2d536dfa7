"""What instructions compute from registers: one lane of NumPy arrays a thread.

`decode` looks an instruction up in `TABLE` once, before anything runs; the `Operation` that it returns names
the types of sources and results and computes all lanes at once. Fetching, storing, masks, memory and control
flow are the machine's.
"""

from __future__ import annotations

from ptxtemplates.emulator.operations.accuracy import Accuracy, Worst
from ptxtemplates.emulator.operations.bounds import BOUNDS, Bound
from ptxtemplates.emulator.operations.decoding import TABLE, decode, supports
from ptxtemplates.emulator.operations.values import DTYPES, Operation, UnsupportedInstruction, constant

__all__ = [
    "BOUNDS",
    "DTYPES",
    "TABLE",
    "Accuracy",
    "Bound",
    "Operation",
    "UnsupportedInstruction",
    "Worst",
    "constant",
    "decode",
    "supports",
]
