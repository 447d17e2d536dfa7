"""Can a GPU be used? Decided once in a process, before anything that fails or hangs without a driver."""

from __future__ import annotations

import threading
from typing import Final

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.errors import GpuError

PATIENCE_S: Final = 60.0
"""How long the driver may take to start: seconds a GPU on a machine that keeps none of them awake."""

_deciding: Final = threading.Lock()
_decided: list[str | None] = []


def unavailable() -> str | None:
    """Return why no GPU can be used here, or None if one can.

    The first call may take seconds on a machine with many GPUs; later ones, of any thread, have its answer.
    """
    if not _decided:
        with _deciding:
            if not _decided:
                _decided.append(_reason())
    return _decided[0]


def require() -> None:
    """Raise `GpuError` if no GPU can be used."""
    reason = unavailable()
    if reason is not None:
        raise GpuError(reason)


def _reason() -> str | None:
    try:
        made_for = boundary.packages()
    except Exception as error:  # whatever a package does that is not whole
        return _not_whole(error)
    answer: list[str | None] = []
    # a driver whose kernel module is stuck never answers; a thread of its own can be left behind
    thread = threading.Thread(target=lambda: answer.append(_ask(made_for)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    if not answer:
        return f"the NVIDIA driver has not answered within {PATIENCE_S:.0f} s"
    if answer[0] is None:
        try:
            boundary.load_core()
        except Exception as error:
            return _not_whole(error)
    return answer[0]


def _not_whole(error: Exception) -> str:
    return f"cuda.core is not installed or cannot be loaded ({error}): pip install 'ptxtemplates[cuda]'"


def _ask(made_for: tuple[int, int]) -> str | None:
    try:
        version, count = boundary.describe_driver()
    except GpuError as error:
        return str(error)
    except Exception as error:
        return f"the NVIDIA driver cannot be used: {error!r}"
    if not count:
        return "the NVIDIA driver sees no GPU; is CUDA_VISIBLE_DEVICES set?"
    if version[0] < made_for[0]:
        return (
            f"the NVIDIA driver is too old: it supports CUDA {version[0]}.{version[1]}, and the installed "
            f"cuda-python needs one for {made_for[0]}.0 or later"
        )
    return None
