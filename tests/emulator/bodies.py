"""Kernels of a few lines: a body over one array, with registers at hand, and what running it shows."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np

from ptxtemplates.emulator import EmulationReport, Finding, emulate

_TEXT: Final = """.version 8.6
.target sm_100a
.address_size 64
{module}
.visible .entry k(.param .u64 x_ptr, .param .u32 n{parameters})
{{
    .reg .u32 %t, %block, %n, %a, %b, %c, %d, %i;
    .reg .u64 %x, %y, %p, %e;
    .reg .pred %q, %r, %s;
    .reg .f32 %f<4>;
    mov.u32 %t, %tid.x;
    mov.u32 %block, %ctaid.x;
    ld.param.u64 %x, [x_ptr];
    ld.param.u32 %n, [n];
    mov.u32 %i, %ntid.x;
    mad.lo.u32 %i, %block, %i, %t;
    mad.wide.u32 %p, %i, 4, %x;
{body}
}}
"""
START: Final = _TEXT.count("\n", 0, _TEXT.index("{body}"))
"""PTX lines before a body."""
LANES: Final = np.arange(32, dtype=np.uint32)


class Outcome(NamedTuple):
    """What a body left in its array, and what running it showed."""

    array: Any
    report: EmulationReport

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings

    @property
    def kinds(self) -> list[str]:
        """The kind of each finding."""
        return [finding.kind for finding in self.report.findings]

    def only(self, kind: str, line: int) -> Finding:
        """Return the one finding, which must be of a kind and at a line of the body, from 1."""
        assert [(finding.kind, finding.line - START) for finding in self.findings] == [(kind, line)]
        return self.findings[0]


def text(body: str, *, module: str = "", parameters: str = "") -> str:
    """Return the PTX of a body; `module` is one line before the kernel, `parameters` more of them."""
    assert "\n" not in module
    return _TEXT.format(module=module, parameters=parameters, body=body.strip("\n"))


def run(
    body: str,
    *,
    threads: int | tuple[int, int, int] = 32,
    blocks: int = 1,
    x: Any = None,
    n: int = 0,
    more: tuple[Any, ...] = (),
    module: str = "",
    parameters: str = "",
    **options: Any,
) -> Outcome:
    """Run a body. `%t` is the thread, `%i` its number in the launch, `%x` the array, `%p` its own word of it.

    Parameters
    ----------
    body, module, parameters : str
        As `text` takes them.
    x : array, optional
        The first argument; a zero u32 for each thread if it is not given.
    n, more
        The other arguments.
    **options
        Of `emulate`.
    """
    block = threads if isinstance(threads, tuple) else (threads, 1, 1)
    array = np.zeros(math.prod(block) * blocks, np.uint32) if x is None else x
    ptx = text(body, module=module, parameters=parameters)
    return Outcome(array, emulate(ptx, "k", (blocks, 1, 1), block, [array, n, *more], **options))
