"""CUDA C++ of this folder, compiled twice: to PTX, and for the host as the truth to compare with."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    Block = tuple[int, int, int]

KERNELS: Final = Path(__file__).parent / "kernels"

OPTIONS: Final = {
    "sm_80": ("-arch=sm_80",),
    "sm_80, debug": ("-arch=sm_80", "-G"),
    "sm_80, not optimised": ("-arch=sm_80", "-Xcicc", "-O0"),
    "sm_90": ("-arch=sm_90", "-lineinfo"),
}
"""Ways to compile: optimising decides between registers and local memory, jumps and calls."""

_DEBUGGING: Final = re.compile(r"^\s*\.section\b.*\Z", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"\.entry (\w+)\(")


def _tool(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no {' or '.join(names)} here: kernels in CUDA C++ cannot be compiled")


def _compile(*command: str | Path) -> None:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"


def compile_ptx(source: str, folder: Path, options: Sequence[str]) -> str:
    """Return the PTX of a file of `KERNELS`; skip the test where there is no nvcc.

    Without contraction, so that sums and products round as they do on the host.
    """
    target = folder / f"{source}.ptx"
    _compile(
        _tool("nvcc"), "-ptx", "-std=c++17", "-fmad=false", *options, KERNELS / source, "-o", target
    )  # fmt: skip
    return target.read_text()


def only_entry(text: str, entry: str) -> str:
    """Return a module without its other kernels and its debugging data, each line where it was.

    A text is parsed for every launch: it saves most of that.
    """
    lines, depth, skipping = [], 0, False
    for line in _DEBUGGING.sub("", text).split("\n"):
        if match := _ENTRY.search(line):
            skipping = match[1] != entry
        lines.append("" if skipping else line)
        depth += line.count("{") - line.count("}")
        if line == "}" and not depth:
            skipping = False
    return "\n".join(lines)


class Launch(ctypes.Structure):
    """``host::Launch``."""

    _fields_ = (("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_size_t))


class Host:
    """The kernels as functions of a library for the host.

    Parameters
    ----------
    folder : Path
        Where the library is built; the test is skipped where there is no compiler, or no nvcc beside it.
    """

    def __init__(self, folder: Path) -> None:
        _tool("nvcc")
        target = folder / "host.so"
        _compile(
            _tool("g++", "clang++"), "-std=c++17", "-O1", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC",
            "-x", "c++", KERNELS / "all.cu", "-o", target,
        )  # fmt: skip
        self._library = ctypes.CDLL(str(target))

    def run(self, kernel: str, grid: Block, block: Block, arguments: Sequence[Any], shared: int) -> None:
        """Run a kernel on arrays, which it reads and writes, and NumPy scalars."""
        values = [
            np.array(argument.ctypes.data, np.uint64)
            if isinstance(argument, np.ndarray)
            else np.array(argument)
            for argument in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        launch = Launch(grid, block, shared)
        stuck: int = self._library[f"host_{kernel}"](ctypes.byref(launch), pointers)
        assert not stuck, f"{kernel}: threads of a block wait for each other"
