"""Two small kernels of the bench's own: one that does nothing, and one that reads memory."""

from __future__ import annotations

from typing import Final

EMPTY_ENTRY: Final = "ptxtemplates_empty"

EMPTY: Final = f"""\
// {EMPTY_ENTRY}: return at once, on any grid
.version 6.3
.target sm_75
.address_size 64

.visible .entry {EMPTY_ENTRY}()
{{
    ret;
}}
"""
"""What a launch costs when there is nothing to compute."""

SWEEP_ENTRY: Final = "ptxtemplates_sweep"

SWEEP_THREADS: Final = 256

SWEEP_BYTES: Final = 16 * SWEEP_THREADS
"""That a block reads."""

SWEEP: Final = f"""\
// {SWEEP_ENTRY}: read 16 bytes a thread, so that a cache holds them and nothing else.
// The loads are volatile, or they would be removed: nothing uses what they load.
.version 6.3
.target sm_75
.address_size 64

.visible .entry {SWEEP_ENTRY}(
    .param .u64 .ptr .global .align 16 memory_ptr
)
.reqntid {SWEEP_THREADS}, 1, 1
{{
    .reg .u32 %block, %thread;
    .reg .u64 %number, %memory;
    .reg .b32 %a, %b, %c, %d;

    // number = block * {SWEEP_THREADS} + thread
    mov.u32      %block, %ctaid.x;
    mov.u32      %thread, %tid.x;
    cvt.u64.u32  %number, %thread;
    mad.wide.u32 %number, %block, {SWEEP_THREADS}, %number;

    // memory[number], in vectors of 16 bytes
    ld.param.u64 %memory, [memory_ptr];
    mad.lo.u64   %memory, %number, 16, %memory;
    ld.volatile.global.v4.b32 {{ %a, %b, %c, %d }}, [%memory];
    ret;
}}
"""
"""Reading leaves nothing in the cache that would have to be written back while something is timed."""
