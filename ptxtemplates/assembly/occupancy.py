"""Theoretical occupancy: how many warps of a kernel fit on a multiprocessor at once.

The limits are those of "Technical Specifications per Compute Capability" in NVIDIA's CUDA programming guide,
which the ``arch_traits`` of NVIDIA's CCCL repeat. Barriers, and the rule by which all are allocated, are
those of the CUDA toolkit's occupancy calculator (``cuda_occupancy.h``, release 13.5).

Tests compare results with that header where one is installed, and the numbers of warps and blocks with the
assembler: it ignores ``.minnctapersm`` where that asks for more than an architecture has.
"""

from __future__ import annotations

from typing import Final, NamedTuple

WARP: Final = 32
MAX_THREADS: Final = 1024
"""Threads of a block."""

REGISTERS: Final = 64 * 1024
"""Of a multiprocessor, and at most of a block."""

REGISTER_UNIT: Final = 256
"""Registers are allocated to a warp in multiples of this."""

PARTITIONS: Final = 4
"""A multiprocessor has this many parts; a warp lives in one of them and has its registers there."""


class Limits(NamedTuple):
    """What a multiprocessor has room for.

    Attributes
    ----------
    warps, blocks : int
        Resident at once.
    shared_memory : int
        Bytes.
    shared_unit : int
        Shared memory is allocated to a block in multiples of this many bytes.
    reserved : int
        Bytes of shared memory that the driver takes for itself in each block.
    barriers : int or None
        Barriers of all resident blocks; None where they limit nothing.
    """

    warps: int
    blocks: int
    shared_memory: int
    shared_unit: int = 128
    reserved: int = 1024
    barriers: int | None = None


KIB: Final = 1024
LIMITS: Final = {
    "sm_75": Limits(32, 16, 64 * KIB, shared_unit=256, reserved=0),
    "sm_80": Limits(64, 32, 164 * KIB),
    "sm_86": Limits(48, 16, 100 * KIB),
    "sm_87": Limits(48, 16, 164 * KIB),
    "sm_88": Limits(48, 16, 100 * KIB),
    "sm_89": Limits(48, 24, 100 * KIB),
    "sm_90": Limits(64, 32, 228 * KIB, barriers=64),
    "sm_100": Limits(64, 32, 228 * KIB, barriers=64),
    "sm_103": Limits(64, 32, 228 * KIB, barriers=32),
    "sm_110": Limits(48, 24, 228 * KIB, barriers=24),
    "sm_120": Limits(48, 24, 100 * KIB, barriers=24),
    "sm_121": Limits(48, 24, 100 * KIB, barriers=24),
}
"""By plain architecture; ``a`` and ``f`` name the same hardware."""


def occupancy(
    architecture: str, *, registers: int, shared_memory: int, threads: int, barriers: int = 0
) -> float | None:
    """Return resident warps divided by the most that a multiprocessor holds.

    Parameters
    ----------
    architecture : str
        Such as ``sm_90`` or ``sm_90a``.
    registers : int
        A thread.
    shared_memory : int
        Bytes a block, static and dynamic.
    threads : int
        A block.
    barriers : int
        A block.

    Returns
    -------
    float or None
        From 0, for a block that does not fit at all, to 1; None if the architecture's limits are not known.
    """
    blocks = resident_blocks(
        architecture, registers=registers, shared_memory=shared_memory, threads=threads, barriers=barriers
    )
    return None if blocks is None else blocks * _warps(threads) / LIMITS[_plain(architecture)].warps


def resident_blocks(
    architecture: str, *, registers: int, shared_memory: int, threads: int, barriers: int = 0
) -> int | None:
    """Return how many blocks a multiprocessor holds at once; parameters as in `occupancy`."""
    limits = LIMITS.get(_plain(architecture))
    if limits is None:
        return None
    warps = _warps(threads)
    of_warp = _round_up(registers * WARP, REGISTER_UNIT)
    # a block is admitted as if its warps filled all parts of the multiprocessor evenly
    if threads > MAX_THREADS or of_warp * _round_up(warps, PARTITIONS) > REGISTERS:
        return 0
    bounds = [limits.blocks, limits.warps // warps]
    if of_warp:
        bounds.append(REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps)
    if shared := _round_up(shared_memory + limits.reserved, limits.shared_unit):
        bounds.append(limits.shared_memory // shared)
    if barriers and limits.barriers is not None:
        bounds.append(limits.barriers // barriers)
    return min(bounds)


def _plain(architecture: str) -> str:
    return architecture.rstrip("af")


def _warps(threads: int) -> int:
    return _round_up(threads, WARP) // WARP


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
