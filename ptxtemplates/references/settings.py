"""Launches that a comparison of two texts of a kernel tries: what sizes and index arguments are there.

They follow from what ``snapshots.json`` says of a kernel, not from its class: the texts may be of another
revision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Parameters = Mapping[str, Any]

LONG_LOOP: Final = 64
"""Keys of a chunk beyond which following them takes long."""

LONGEST_LOOP: Final = 512
"""Keys that one chunk is followed over."""

MOST_ROWS: Final = 2_000
"""Of a launch whose rows have buffers of their own."""

_MOST: Final = 2**32 - 1
_MAX_GRID: Final = 65_535


class Setting(NamedTuple):
    """A launch.

    Attributes
    ----------
    title : str
        What is particular of it.
    sizes : mapping of str to int
        Run-time sizes.
    contents : mapping of str to numpy.ndarray
        Elements of each index tensor, by the argument's name.
    same : mapping of str to str
        Arguments that point to the buffer of another one.
    long : bool
        Whether it takes many steps: fewer blocks run.
    heavy : bool
        Whether it takes thousands of steps: what is said over the real numbers rests on chosen numbers there.
    planes : tuple of int, optional
        Blocks in z that run; all or some by `chosen_blocks` without it.
    """

    title: str
    sizes: Mapping[str, int]
    contents: Mapping[str, npt.NDArray[Any]] = {}
    same: Mapping[str, str] = {}
    planes: tuple[int, ...] | None = None
    long: bool = False
    heavy: bool = False


def _lengths(title: str, lengths: list[int], max_chunks: int, *planes: int) -> Setting:
    clipped = [min(length, _MOST) for length in lengths]
    return Setting(
        f"{title}: max_chunks {max_chunks}, lengths {', '.join(map(str, clipped))}",
        {"rows": len(lengths), "max_chunks": max_chunks},
        {"seq_lens_ptr": np.array(clipped, np.uint32)},
        planes=planes or None,
    )


def _of_rope(parameters: Parameters) -> list[Setting]:
    return [
        Setting("one row", {"rows": 1}),
        Setting("one row, in place", {"rows": 1}, same={"out_ptr": "x_ptr"}),
        Setting("three rows", {"rows": 3}),
        Setting("three rows, in place", {"rows": 3}, same={"out_ptr": "x_ptr"}),
        Setting("65,535 rows", {"rows": 65_535}),
    ]


def _of_reduce(parameters: Parameters) -> list[Setting]:
    size = parameters["chunk_size"]
    return [
        _lengths("no keys", [0], 1),
        _lengths("one key", [1], 1),
        _lengths("full chunks", [2 * size], 2),
        _lengths("ragged rows", [size + 1, 0, 3 * size, 2 * size], 3),
        _lengths("longer than the chunks", [2 * size + 1, _MOST], 2),
        _lengths(
            "as many chunks as a warp has lanes, and more", [n * size for n in (31, 32, 33, 64, 65)], 70
        ),
        *_beyond_4_gib(parameters, 4096, [3 * size]),
    ]


def _of_chunk(parameters: Parameters) -> list[Setting]:
    size, room = parameters["chunk_size"], parameters["max_seq_len"]
    settings = [
        _lengths("no keys", [0], 1),
        _lengths("one key", [1], 1),
        _lengths("ragged rows", [2, 0, 7], 1),
    ]
    chunks = min(-(-room // size) + 1, _MAX_GRID)
    if room > size:
        settings.append(_lengths("a few keys of the second chunk", [size + 3, size + 1, size], 2, 1))
    if size <= LONGEST_LOOP:
        # the longest row there is, in its first chunk, its last one, and behind that
        planes = sorted({0, min(2, chunks - 1), chunks // 2, max(chunks - 2, 0), chunks - 1})
        full = _lengths("full chunks, to the last one", [_MOST], chunks, *planes)
        settings.append(full._replace(long=True, heavy=size > LONG_LOOP))
    settings += _beyond_4_gib(parameters, chunks, [3], 0, 1 if chunks > 1 else 0)
    return settings


def _beyond_4_gib(parameters: Parameters, max_chunks: int, last: list[int], *planes: int) -> list[Setting]:
    """Return a launch whose last row of partial results lies beyond 4 GiB, where all others are empty."""
    row = 4 * parameters["num_heads"] * max_chunks * (parameters["head_dim"] + 2)
    rows = 2**32 // row + 2
    if rows > MOST_ROWS:
        return []
    lengths = np.zeros(rows, np.uint32)
    lengths[-1:] = last
    return [
        Setting(
            f"partial results beyond 4 GiB: max_chunks {max_chunks}, rows {rows}, lengths 0 ... 0, {last[0]}",
            {"rows": rows, "max_chunks": max_chunks},
            {"seq_lens_ptr": lengths},
            planes=tuple(sorted(set(planes))) or None,
        )
    ]


SETTINGS: Final[dict[str, Callable[[Parameters], list[Setting]]]] = {
    "batched_rope": _of_rope,
    "batched_rope_backward": _of_rope,
    "flash_decoding_reduce": _of_reduce,
    "flash_decoding_chunk": _of_chunk,
}
"""By name of a kernel: from its template parameters, the smallest launch first. A kernel that is not here
needs no entry if it has no index tensors."""


def settings_of(name: str, parameters: Parameters, sizes: list[str]) -> list[Setting]:
    """Return the launches that are tried; of an unknown kernel with all run-time sizes 1, then 3, then 67."""
    if name in SETTINGS:
        return SETTINGS[name](parameters)
    numbers = (1, 3, 67) if sizes else (1,)
    return [
        Setting(", ".join(f"{size} {number}" for size in sizes) or "one launch", dict.fromkeys(sizes, number))
        for number in numbers
    ]


def chosen_blocks(
    grid: tuple[int, int, int], planes: tuple[int, ...] | None, most: int
) -> list[tuple[int, int, int]]:
    """Return the blocks that run: all, or of each axis the first two and the last if these are too many."""
    axes = [list(range(extent)) if extent <= most else [] for extent in grid]
    axes[2] = list(planes) if planes is not None else axes[2]
    if not all(axes) or len(axes[0]) * len(axes[1]) * len(axes[2]) > most:
        ends = [sorted({0, min(1, extent - 1), extent - 1}) for extent in grid]
        axes = [*ends[:2], list(planes) if planes is not None else ends[2]]
    return [(x, y, z) for x in axes[0] for y in axes[1] for z in axes[2]]
