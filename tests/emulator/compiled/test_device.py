"""CUDA C++ that has no host side: compiled by nvcc, emulated, and compared with NumPy."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from ptxtemplates.emulator.operations import UnsupportedInstruction
from ptxtemplates.ptx.parser import parse
from tests.emulator.compiled.cases.device import CASES
from tests.emulator.compiled.checking import check_numpy
from tests.emulator.compiled.compilers import OPTIONS, compile_ptx

REFUSED: Final = ("tiles_of_eight", "scoped_atomics", "message")
"""Libraries of classes, not optimised, call through pointers, or ask for shared memory of the system."""

CHOSEN: Final = {"sm_80": (), "sm_80, not optimised": REFUSED, "sm_90": ()}
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
