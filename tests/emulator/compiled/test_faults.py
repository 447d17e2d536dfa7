"""CUDA C++ with one mistake a kernel: the emulator says which, and in which line of the source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

from ptxtemplates.emulator import Unwritten
from tests.emulator.compiled.checking import STEP_LIMIT, Case, run
from tests.emulator.compiled.compilers import KERNELS, OPTIONS, compile_ptx

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.emulator import Finding

SOURCE: Final = KERNELS / "faults.cu"


def _marked() -> dict[str, set[tuple[str, int]]]:
    """Return the kinds and lines of the faults of each kernel, from the comments behind the lines."""
    faults: dict[str, set[tuple[str, int]]] = {}
    kernel = ""
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if match := re.match(r'extern "C" __global__ void (\w+)', line):
            kernel = match[1]
        if match := re.search(r"[;}]  // fault: (.+)$", line):
            faults.setdefault(kernel, set()).add((match[1], number))
    return faults


FAULTS: Final = _marked()


class Launch(NamedTuple):
    """Arguments, and what is not as for most."""

    arguments: Callable[[], list[Any]]
    blocks: int = 1
    threads: int = 64
    shared: int = 0
    step_limit: int = STEP_LIMIT


def _numbers(count: int = 64) -> Any:
    return np.arange(count, dtype=np.int32)


def _zeros(count: int = 64) -> Any:
    return np.zeros(count, np.int32)


def _floats(count: int) -> Any:
    return np.ones(count, np.float32)


def _struct() -> Any:
    return np.array([(range(4),)], np.dtype([("values", "i4", 4)]))[0]


LAUNCHES: Final = {
    "no_barrier": Launch(lambda: [_numbers(), _zeros()]),
    "no_barrier_at_the_end": Launch(lambda: [_numbers(192), _zeros(), np.int32(3)]),
    "warp_synchronous": Launch(lambda: [_numbers(), _zeros()]),
    "count_without_atomics": Launch(lambda: [_numbers(), _zeros(4)]),
    "one_too_many": Launch(lambda: [_floats(1), _floats(100), np.int32(100)], blocks=2),
    "one_before": Launch(lambda: [_floats(64), _floats(64)]),
    "beyond_shared": Launch(lambda: [_numbers(), _zeros()]),
    "dynamic_too_small": Launch(lambda: [_zeros()], shared=60 * 4),
    "misaligned": Launch(lambda: [_floats(260), _floats(256), np.int32(2)]),
    "unwritten_shared": Launch(lambda: [_numbers(), _zeros()]),
    "unwritten_local": Launch(lambda: [_numbers(), _zeros()]),
    "unwritten_global": Launch(lambda: [Unwritten(_floats(64)), np.int32(64)]),
    "barrier_in_a_branch": Launch(lambda: [_numbers(), _zeros()]),
    "barriers_on_both_sides": Launch(lambda: [_numbers(), _zeros(128)]),
    "every_block_writes": Launch(lambda: [_zeros()], blocks=3),
    "every_block_writes_by_a_call": Launch(lambda: [_zeros()], blocks=3),
    "reads_what_another_block_writes": Launch(lambda: [_zeros(256)], blocks=2),
    "long_row": Launch(
        lambda: [np.zeros(64, np.uint8), np.zeros(2, np.uint8), np.uint32(2**31)], blocks=2, threads=1
    ),
    "never_ends": Launch(lambda: [_zeros(1), _zeros()], step_limit=500),
    "shuffle_in_a_branch": Launch(lambda: [_numbers(), _zeros()]),
    "mask_too_small": Launch(lambda: [_numbers(), _zeros()]),
    "no_wait": Launch(lambda: [_numbers(128), _zeros(32)], threads=32),
    "waits_for_too_few": Launch(lambda: [_numbers(256), _zeros(64)], threads=32),
    "writes_a_constant": Launch(lambda: [_zeros()]),
    "reads_its_output_as_constant": Launch(lambda: [_floats(128)]),
    "zeroes_while_others_add": Launch(lambda: [_numbers(128), _zeros(1)], blocks=2),
    "sum_used_twice": Launch(lambda: [_numbers(), _zeros(1)]),
    "unwritten_bins": Launch(lambda: [_numbers(), _zeros(4)]),
    "shuffle_after_return": Launch(lambda: [_numbers(), _zeros(), np.int32(60)]),
    "barrier_waits_for_too_many": Launch(lambda: [_zeros()]),
    "barrier_in_uneven_loops": Launch(lambda: [_numbers(), _zeros()]),
    "atomic_beyond": Launch(lambda: [_numbers(), _zeros(4)]),
    "index_of_a_struct": Launch(lambda: [_numbers(), _zeros(), _struct()]),
    "traps": Launch(lambda: [_numbers(), _zeros()]),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_ptx(SOURCE.name, tmp_path_factory.mktemp("faults"), ("-arch=sm_80", "-lineinfo"))


@pytest.fixture(scope="module")
def plain_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the PTX without optimisation: generic addresses, everything in local memory, and no lines."""
    return compile_ptx(SOURCE.name, tmp_path_factory.mktemp("plain"), OPTIONS["sm_80, not optimised"])


def test_every_fault_is_marked() -> None:
    assert list(FAULTS) == list(LAUNCHES)


def _line_of_source(text: str, line: int) -> int:
    """Return the line of the kernel that a PTX line comes from, past functions of headers within it."""
    before = "\n".join(text.split("\n")[:line])
    locations = re.findall(r"\.loc\s+(\d+ \d+ \d+)(?:, function_name \S+, inlined_at (\d+ \d+ \d+))?", before)
    callers: dict[str, str] = dict(locations)  # of a place that is put in several times, the last
    place: str = locations[-1][0]
    while callers.get(place):
        place = callers[place]
    return int(place.split()[1])


def _findings(text: str, kernel: str) -> tuple[Finding, ...]:
    launch = LAUNCHES[kernel]
    case = Case((launch.blocks, 1, 1), (launch.threads, 1, 1), lambda rng: [], shared=launch.shared)
    return run(text, kernel, case, launch.arguments(), step_limit=launch.step_limit)


def _described(findings: tuple[Finding, ...]) -> str:
    return "\n".join(finding.describe() for finding in findings)


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_fault_is_found_where_it_is(text: str, kernel: str) -> None:
    findings = _findings(text, kernel)
    places = {(finding.kind, _line_of_source(text, finding.line)) for finding in findings}
    assert places == FAULTS[kernel], _described(findings)


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_fault_is_found_in_code_that_is_not_optimised(plain_text: str, kernel: str) -> None:
    findings = _findings(plain_text, kernel)
    assert {finding.kind for finding in findings} == {kind for kind, _ in FAULTS[kernel]}, _described(
        findings
    )
