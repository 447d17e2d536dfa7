"""The architectures that kernels are compared for if nobody names any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ptxtemplates.ptx.targets import USUAL, runs_on

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxtemplates.review.model import Side

_TARGET: Final = re.compile(r"^[ \t]*\.target[ \t]+(sm_[0-9]+[af]?)\b", re.MULTILINE)


def usual(sides: Iterable[Side]) -> tuple[str, ...]:
    """Return the usual architectures that a text runs on, and the target of each that runs on none."""
    found: set[str] = set()
    for side in sides:
        target = _TARGET.search(side.text)
        if target is not None:
            found.update([name for name in USUAL if runs_on(target[1], name)] or [target[1]])
    return tuple(sorted(found, key=lambda name: (len(name.rstrip("af")), name)))
