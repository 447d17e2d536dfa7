"""CUDA C++ kernels of the kinds that people write: compiled by nvcc, emulated, and compared with the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.ptx.parser import parse
from tests.emulator.compiled.cases import CASES
from tests.emulator.compiled.checking import check_emulator, check_host
from tests.emulator.compiled.compilers import KERNELS

if TYPE_CHECKING:
    from tests.emulator.compiled.compilers import Host

REFUSED: Final = {"recursion": "a recursion", "indirect_calls": "only calls of a function by its name are"}
"""Kernels that are not emulated, and what is said of them."""


def test_every_kernel_has_a_case() -> None:
    sources = [path.read_text() for path in KERNELS.glob("*.cu")]
    exported = {name for source in sources for name in re.findall(r"^EXPORT\((\w+)\)", source, re.MULTILINE)}
    assert exported == set(CASES)


def test_whole_output_of_the_compiler_is_read(text: str) -> None:
    names = {function.name for function in parse(text).functions}
    assert names >= set(CASES)


@pytest.mark.parametrize("kernel", CASES)
def test_host_agrees_with_numpy(host: Host, kernel: str) -> None:
    check_host(host, kernel, CASES[kernel])


@pytest.mark.parametrize("kernel", [kernel for kernel in CASES if kernel not in REFUSED])
def test_emulator_agrees_with_host(text: str, host: Host, kernel: str) -> None:
    check_emulator(text, host, kernel, CASES[kernel])


@pytest.mark.parametrize("kernel", REFUSED)
def test_what_is_not_emulated_is_refused(text: str, host: Host, kernel: str) -> None:
    with pytest.raises(UnsupportedInstruction, match=REFUSED[kernel]):
        check_emulator(text, host, kernel, CASES[kernel])
