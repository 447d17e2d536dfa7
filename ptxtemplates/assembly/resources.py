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

_COMPILING: Final = re.compile(r"^ptxas info\s*: Compiling entry function '([^']+)'", re.MULTILINE)
_FRAMES: Final = re.compile(
    r"^ptxas info\s*: Function properties for (\S+)\n"
    r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
    re.MULTILINE,
)
_USED: Final = re.compile(r"^ptxas info\s*: Used (\d+) registers(.*)$", re.MULTILINE)
_AMOUNTS: Final = {
    "barriers": re.compile(r"used (\d+) barriers"),
    "cumulative": re.compile(r"(\d+) bytes cumulative stack size"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


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
        Machine instructions, with those of functions that it calls and without the padding behind them.
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

    The figures of an entry include what the functions need that it may call: registers, shared memory,
    barriers and stack by the assembler's own account, spills as a sum over the functions of the text.
    """
    counts = count_instructions(cubin)
    starts = [*_COMPILING.finditer(log)]
    entries = {start[1] for start in starts}
    frames = {
        name: (int(stack), int(stores), int(loads)) for name, stack, stores, loads in _FRAMES.findall(log)
    }
    called = [frame for name, frame in frames.items() if name not in entries]
    found = {}
    ends = [start.start() for start in starts[1:]] + [len(log)]
    for start, end in zip(starts, ends, strict=False):  # a text without entries has an end and no start
        used = _USED.search(log, start.end(), end)
        if used is None or start[1] not in counts:
            raise AssemblyError(f"the assembler does not say what {start[1]} needs: {log.strip()}")
        amounts = {name: pattern.search(used[2]) for name, pattern in _AMOUNTS.items()}
        numbers = {name: int(amount[1]) if amount else 0 for name, amount in amounts.items()}
        stack, stores, loads = frames.get(start[1], [0, 0, 0])
        found[start[1]] = Resources(
            registers=int(used[1]),
            spill_stores=stores + sum(frame[1] for frame in called),
            spill_loads=loads + sum(frame[2] for frame in called),
            stack=max(stack, numbers["cumulative"]),
            shared_memory=numbers["shared"],
            barriers=numbers["barriers"],
            instructions=counts[start[1]],
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
