"""What a kernel needs on an architecture, as the assembler and the machine code tell."""

from __future__ import annotations

import io
import re
from typing import Final, NamedTuple

from ptxtemplates.errors import AssemblyError, MissingExtraError

SLOT: Final = 16
"""Bytes of a machine instruction, on every architecture since sm_70."""

NOP: Final = 0x918
"""The low 12 bits of the instruction that pads the end of a function."""

_NAME: Final = re.compile(r"^ptxas info\s*: Function properties for '?([^'\s]+)'?$")
_STACK: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"^ptxas info\s*: Used (\d+) registers(?:, used (\d+) barriers)?(.*)$")
_SHARED: Final = re.compile(r"(\d+) bytes smem")


class Resources(NamedTuple):
    """What one entry needs.

    Attributes
    ----------
    registers : int
        A thread.
    spill_stores, spill_loads, stack : int
        Bytes a thread, in local memory.
    shared_memory : int
        Static bytes a block.
    barriers : int
        A block.
    instructions : int
        Machine instructions, without the padding behind them and without functions that it calls.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared_memory: int
    barriers: int
    instructions: int


def read_resources(log: str, cubin: bytes) -> dict[str, Resources]:
    """Read the assembler's ``ptxas info`` lines and count instructions.

    The linker prints a summary of its own behind them, which counts barriers and shared memory differently:
    it is left out.
    """
    counts = count_instructions(cubin)
    found: dict[str, Resources] = {}
    name, stack = "", (0, 0, 0)
    for line in log.split("\n"):
        if properties := _NAME.match(line):
            name = properties[1]
        elif line.startswith("ptxas") and (frame := _STACK.search(line)):
            stack = (int(frame[1]), int(frame[2]), int(frame[3]))
        elif used := _USED.match(line):
            shared = _SHARED.search(used[3])
            found[name] = Resources(
                registers=int(used[1]),
                spill_stores=stack[1],
                spill_loads=stack[2],
                stack=stack[0],
                shared_memory=int(shared[1]) if shared else 0,
                barriers=int(used[2] or 0),
                instructions=counts[name],
            )
    return found


def count_instructions(cubin: bytes) -> dict[str, int]:
    """Count the machine instructions of each function of a cubin, without trailing padding.

    Raises
    ------
    AssemblyError
        If the bytes are no cubin.
    """
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise MissingExtraError(
            "reading cubins needs pyelftools, which is not installed: pip install 'ptxtemplates[cuda]'"
        ) from error
    counts = {}
    try:
        for section in ELFFile(io.BytesIO(cubin)).iter_sections():
            if section.name.startswith(".text."):
                counts[section.name.removeprefix(".text.")] = _count(section.data())
    except ELFError as error:
        raise AssemblyError(f"this is no cubin: {error}") from error
    return counts


def _count(code: bytes) -> int:
    slots = len(code) // SLOT
    while (
        slots and int.from_bytes(code[(slots - 1) * SLOT : (slots - 1) * SLOT + 2], "little") & 0xFFF == NOP
    ):
        slots -= 1
    return slots
