"""A launch of every kernel that runs on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.emulator.compiled.cases import atomics, control, integers, memory, reductions, warps

if TYPE_CHECKING:
    from tests.emulator.compiled.checking import Case

CASES: Final[dict[str, Case]] = {
    **reductions.CASES,
    **warps.CASES,
    **memory.CASES,
    **atomics.CASES,
    **integers.CASES,
    **control.CASES,
}
