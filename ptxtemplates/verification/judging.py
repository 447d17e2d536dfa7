"""Results against expectations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxtemplates.references.case import Close, Input, Sparse, Table
from ptxtemplates.verification.outcomes import Mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from ptxtemplates.references.case import Buffer, Case, SameBytes
    from ptxtemplates.references.place import Contents


class Judgement(NamedTuple):
    """Worst error by its bound, where it is, and what is wrong; as in `Outcome`."""

    worst: float
    worst_at: tuple[str, tuple[int, ...]] | None
    mismatches: tuple[Mismatch, ...]


def judge(case: Case, contents: Contents) -> Judgement:
    """Compare what the buffers hold after a case with what it expects, and that inputs have not changed."""
    worst, worst_at, mismatches = 0.0, None, []
    for expectation in case.expectations:
        if isinstance(expectation, Close):
            ratio, element, found = _close(expectation, contents, case.buffers)
            if ratio > worst or worst_at is None:
                worst, worst_at = ratio, (expectation.buffer, element)
        else:
            found = _same_bytes(expectation, contents, case.buffers)
        mismatches += found
    mismatches += _changed_inputs(case, contents)
    return Judgement(worst, worst_at, tuple(mismatches))


def _index(flat: int, buffer: Buffer) -> tuple[int, ...]:
    assert not isinstance(buffer, Table)
    return tuple(int(number) for number in np.unravel_index(flat, buffer.shape))


def _close(
    close: Close, contents: Contents, buffers: Mapping[str, Buffer]
) -> tuple[float, tuple[int, ...], list[Mismatch]]:
    """Return the largest error by its bound, its element, and the worst mismatch if there is one."""
    exact, bound = close.exact.reshape(-1), close.bound.reshape(-1)
    got = contents(close.buffer, close.at, exact.size).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = np.abs(got - exact)
        ratio = np.where(error == 0, 0.0, error / bound)
        # NaN and infinities are right or wrong, without a distance; so is a bound that is no number
        ratio = np.where(np.isfinite(exact) & np.isfinite(bound), ratio, np.where(got == exact, 0.0, np.inf))
        ratio = np.where(np.isnan(exact), np.where(np.isnan(got), 0.0, np.inf), ratio)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
    if close.free is not None:
        ratio[close.free.reshape(-1)] = 0
    place = int(ratio.argmax()) if ratio.size else 0
    element = _index(close.at + place, buffers[close.buffer]) if ratio.size else ()
    wrong = int((ratio > 1).sum())
    found = [
        Mismatch(
            close.buffer, element, float(got[place]), float(exact[place]), float(bound[place]), wrong
        )
    ] if wrong else []  # fmt: skip
    return float(ratio[place]) if ratio.size else 0.0, element, found


def _same_bytes(same: SameBytes, contents: Contents, buffers: Mapping[str, Buffer]) -> list[Mismatch]:
    got = contents(same.buffer, same.at, same.size)
    expected = contents(same.other, same.other_at, same.size)
    return _different(same.buffer, buffers[same.buffer], same.at, got, expected)


def _changed_inputs(case: Case, contents: Contents) -> Iterator[Mismatch]:
    for name, buffer in case.buffers.items():
        if isinstance(buffer, Input) and not buffer.changes:
            array = buffer.array.reshape(-1)
            yield from _different(name, buffer, 0, contents(name, 0, array.size), array)
        elif isinstance(buffer, Sparse):
            for piece in buffer.pieces:
                got = contents(name, piece.at, piece.array.size)
                yield from _different(name, buffer, piece.at, got, piece.array)


def _different(
    name: str, buffer: Buffer, at: int, got: npt.NDArray[Any], expected: npt.NDArray[Any]
) -> list[Mismatch]:
    """Return the first element whose bits differ, if there is one."""
    kind = f"u{got.dtype.itemsize}"
    differing = np.flatnonzero(got.view(kind) != expected.view(kind))
    if not differing.size:
        return []
    place = int(differing[0])
    element = _index(at + place, buffer)
    return [Mismatch(name, element, float(got[place]), float(expected[place]), 0.0, int(differing.size))]
