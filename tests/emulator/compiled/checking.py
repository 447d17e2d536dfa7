"""One kernel on the host and in the emulator, on the same arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import emulate
from tests.emulator.compiled.compilers import Host, only_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from ptxtemplates.emulator import Finding

    Block = tuple[int, int, int]
    Arguments = list[Any]
    Expected = Mapping[int, Any]


class Bounded(NamedTuple):
    """A result that only has to be near the truth: that in float64, and how far each element may be off."""

    truth: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]


class Case(NamedTuple):
    """A launch.

    Attributes
    ----------
    grid, block : tuple of int
        Blocks and threads, in x, y, z.
    arguments : callable
        Makes the arguments, from a generator of random numbers: arrays, and NumPy scalars of the
        parameters' types.
    expected : callable, optional
        NumPy's results from the arguments: an array, or a `Bounded` one, by the argument's place. Arrays that
        it leaves out must be the same on both sides, bit for bit.
    shared : int
        Bytes of dynamic shared memory.
    unordered : tuple of int
        Arguments whose last axis comes in an order that the threads' decides: compared sorted.
    """

    grid: Block
    block: Block
    arguments: Callable[[np.random.Generator], Arguments]
    expected: Callable[[Arguments], Expected] = lambda arguments: {}
    shared: int = 0
    unordered: tuple[int, ...] = ()


def copies(arguments: Arguments) -> Arguments:
    """Return the arguments with arrays of their own."""
    return [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]


STEP_LIMIT: Final = 20_000
"""No kernel here takes more steps: one that hangs fails at once."""


def run(text: str, kernel: str, case: Case, arguments: Arguments, **more: Any) -> tuple[Finding, ...]:
    """Emulate a launch; return the findings."""
    given = [int(value) if isinstance(value, np.integer) else value for value in arguments]
    options = {"step_limit": STEP_LIMIT, "shared_memory": case.shared} | more
    return emulate(only_entry(text, kernel), kernel, case.grid, case.block, given, **options).findings


def check_emulator(text: str, host: Host, kernel: str, case: Case) -> None:
    """Assert that a kernel's PTX does what its source does on the host, without a finding."""
    arguments = case.arguments(np.random.default_rng(0))
    on_host, emulated = copies(arguments), copies(arguments)
    host.run(kernel, case.grid, case.block, on_host, case.shared)
    _assert_none(run(text, kernel, case, emulated))
    expected = case.expected(arguments)
    for place, (ours, theirs) in enumerate(zip(emulated, on_host, strict=True)):
        wanted = expected.get(place)
        _assert_equal(ours, wanted if isinstance(wanted, Bounded) else theirs, place, place in case.unordered)


def check_host(host: Host, kernel: str, case: Case) -> None:
    """Assert that a kernel's source does on the host what NumPy says."""
    arguments = case.arguments(np.random.default_rng(0))
    on_host = copies(arguments)
    host.run(kernel, case.grid, case.block, on_host, case.shared)
    for place, wanted in case.expected(arguments).items():
        _assert_equal(on_host[place], wanted, place, place in case.unordered)


def _assert_none(findings: tuple[Finding, ...]) -> None:
    assert not findings, "\n".join(finding.describe() for finding in findings)


def _assert_equal(result: Any, wanted: Any, place: int, unordered: bool) -> None:
    if isinstance(wanted, Bounded):
        off = np.abs(result - wanted.truth) / wanted.bound
        assert (off <= 1).all(), f"argument {place} is {off.max():.2f} times its bound off"
        return
    result, wanted = (np.atleast_1d(np.asarray(each)) for each in (result, wanted))
    assert result.shape == wanted.shape
    if unordered:
        result, wanted = np.sort(result), np.sort(wanted)
    equal = result == wanted
    if result.dtype.kind == "f":  # the sign of zero counts, that of NaN does not
        equal = (equal & (np.signbit(result) == np.signbit(wanted))) | (np.isnan(result) & np.isnan(wanted))
    at = np.argwhere(~equal)[:1].tolist()
    assert equal.all(), (
        f"argument {place}: {np.count_nonzero(~equal)} of {equal.size} elements differ, first at {at}: "
        f"{result[tuple(at[0])]!r}, not {wanted[tuple(at[0])]!r}"
    )


def check_numpy(text: str, kernel: str, case: Case, **more: Any) -> None:
    """Assert that a kernel's PTX does what NumPy says, without a finding, and changes nothing else."""
    arguments = case.arguments(np.random.default_rng(0))
    emulated = copies(arguments)
    _assert_none(run(text, kernel, case, emulated, **more))
    expected = case.expected(arguments)
    for place, (result, before) in enumerate(zip(emulated, arguments, strict=True)):
        _assert_equal(result, expected.get(place, before), place, place in case.unordered)
