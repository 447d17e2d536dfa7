"""CUDA C++ that has no host side: compiled by nvcc, emulated, and compared with NumPy."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.ptx.parser import parse
from tests.emulator.compiled.cases.device import CASES
from tests.emulator.compiled.checking import check_numpy
from tests.emulator.compiled.compilers import OPTIONS, compile_ptx

CHOSEN: Final[dict[str, tuple[str, ...]]] = {
    "sm_80": (),
    # libraries of classes call through pointers, or ask for shared memory of the system
    "sm_80, not optimised": ("tiles_of_eight", "scoped_atomics"),
    # conversions to eight bits are instructions
    "sm_90": ("eight_bits",),
}
"""Options, and kernels that are not emulated with them. bfloat16 is arithmetic of its own from sm_90 on."""


class Compiled(NamedTuple):
    """The PTX of the kernels, and those of them that are refused."""

    text: str
    refused: tuple[str, ...]


@pytest.fixture(scope="module", params=CHOSEN)
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    text = compile_ptx("device.cu", tmp_path_factory.mktemp("device"), OPTIONS[request.param])
    return Compiled(text, CHOSEN[request.param])


def test_every_kernel_has_a_case(compiled: Compiled) -> None:
    entries = {function.name for function in parse(compiled.text).functions if function.kind == "entry"}
    assert entries == set(CASES)


@pytest.mark.parametrize("kernel", CASES)
def test_emulator_agrees_with_numpy(compiled: Compiled, kernel: str) -> None:
    if kernel in compiled.refused:
        with pytest.raises(UnsupportedInstruction):
            check_numpy(compiled.text, kernel, CASES[kernel])
    else:
        check_numpy(compiled.text, kernel, CASES[kernel])


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_the_isa_hold_however_instructions_err(compiled: Compiled, seed: int) -> None:
    check_numpy(compiled.text, "approximations", CASES["approximations"], accuracy="worst", seed=seed)
