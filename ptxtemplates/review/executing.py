"""What one launch of a text executes and moves: both texts of a kernel get the same one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import emulate
from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.references.settings import Setting, settings_of
from ptxtemplates.review.assembling import Refusal
from ptxtemplates.review.launching import for_emulator, planned, run_time_sizes
from ptxtemplates.symbolic import UndecidedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ptxtemplates.review.model import Side

    Parameters = Mapping[str, Any]

SPACE: Final = "global"

MOST_STEPS: Final = 20_000
"""Instructions of a thread after which it counts as one that does not end."""

MOST_THREADS: Final = 1 << 22
"""Of a launch."""

KEYS: Final = 32
"""Sequence length of a chunk kernel's launch: each key costs a thread dozens of instructions."""


class Executed(NamedTuple):
    """What a launch showed.

    Attributes
    ----------
    threads : int
        Thread-instructions.
    bytes : int
        Distinct bytes of global memory that the requests of warps need, read and written.
    sectors, ideal : int
        Of 32 bytes, in global memory: moved, and at least needed for those bytes.
    """

    threads: int
    bytes: int
    sectors: int
    ideal: int


def _of_rope(parameters: Parameters) -> Setting:
    return Setting("two rows", {"rows": 2})


def _of_reduce(parameters: Parameters) -> Setting:
    lengths = np.full(2, 4 * parameters["chunk_size"], np.uint32)
    return Setting("four full chunks", {"rows": 2, "max_chunks": 4}, {"seq_lens_ptr": lengths})


def _of_chunk(parameters: Parameters) -> Setting:
    keys = min(KEYS, 2 * parameters["chunk_size"], parameters["max_seq_len"])
    return Setting(
        f"{keys} keys", {"rows": 1, "max_chunks": 2}, {"seq_lens_ptr": np.full(1, keys, np.uint32)}
    )


_LAUNCHES: Final[dict[str, Callable[[Parameters], Setting]]] = {
    "batched_rope": _of_rope,
    "batched_rope_backward": _of_rope,
    "flash_decoding_reduce": _of_reduce,
    "flash_decoding_chunk": _of_chunk,
}
"""By name of a kernel; of others the largest launch is taken that meaning is compared by."""

_MISDESCRIBED: Final = (KeyError, TypeError, ValueError, ArithmeticError)
_UNDESCRIBED: Final = Refusal("n/a", "is a single file: nothing describes its arguments")


def launch_of(side: Side) -> Setting | Refusal:
    """Return the launch by which a kernel's costs are compared."""
    description = side.description
    if description is None:
        return _UNDESCRIBED
    name, parameters = description["kernel"], description["template_parameters"]
    try:
        if name in _LAUNCHES:
            return _LAUNCHES[name](parameters)
        settings = settings_of(name, parameters, run_time_sizes(description))
        return settings[min(1, len(settings) - 1)]
    except _MISDESCRIBED as error:
        return _unknown(error)


def executed(side: Side, setting: Setting) -> Executed | Refusal:
    """Execute a launch of a text in the emulator.

    Parameters
    ----------
    side : Side
        Its description says which buffers the text takes.
    setting : Setting
        Run-time sizes, and what index arguments hold. All data are one half: that decides no address.

    Returns
    -------
    Executed or Refusal
        ``n/a`` if it is not known how to launch the text; ``unreadable`` if the emulator cannot run it, or
        finds a mistake: then the figures would be those of something else.
    """
    if side.description is None:
        return _UNDESCRIBED
    try:
        plan, _ = planned(side, setting)
        arguments = for_emulator(plan)
    except UndecidedError as error:
        return Refusal("n/a", f"cannot be launched: {error}")
    except _MISDESCRIBED as error:
        return _unknown(error)
    threads = math.prod(plan.grid) * math.prod(plan.block)
    if threads > MOST_THREADS:
        return Refusal("n/a", f"has {threads:,} threads in a launch, more than {MOST_THREADS:,}")
    try:
        report = emulate(
            plan.text,
            plan.entry,
            plan.grid,
            plan.block,
            arguments,
            step_limit=MOST_STEPS,
            count=True,
        )
    except PtxTemplatesError as error:
        return Refusal("unreadable", f"cannot be emulated: {error}")
    if report.findings:
        return Refusal("unreadable", f"has a mistake: {report.findings[0].describe()}")
    counts = report.counts
    assert counts is not None
    of = {field: counts.total(field, space=SPACE) for field in ("bytes", "sectors", "ideal_sectors")}
    return Executed(counts.threads, of["bytes"], of["sectors"], of["ideal_sectors"])


def _unknown(error: Exception) -> Refusal:
    """Refuse a launch of a text that another revision describes in other words, or with other numbers."""
    if isinstance(error, KeyError):
        return Refusal("n/a", f"cannot be launched: nothing says what {error.args[0]} is")
    return Refusal("n/a", f"cannot be launched as it is described: {error}")
