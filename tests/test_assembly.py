"""Every variant is accepted by the assembler on every supported architecture, without spilling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.ptx.targets import TARGETS
from ptxtemplates.rendering import render
from tests.helpers.assembler import assemble
from tests.helpers.variants import KERNELS

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")

EXTREMES: list[Kernel] = [
    BatchedRope(num_heads=1, head_dim=2, theta=1e4),
    BatchedRope(num_heads=65_535, head_dim=512, theta=0.5),
    BatchedRopeBackward(num_heads=65, head_dim=192, theta=1e8),
    *(FlashDecodingReduce(head_dim=head_dim, num_heads=96, chunk_size=1) for head_dim in (8, 72, 504, 512)),
    *(
        FlashDecodingChunk(
            head_dim=head_dim, num_heads=65_535, num_kv_heads=65_535, chunk_size=65_536, max_seq_len=2**31
        )
        for head_dim in (8, 72, 504, 512)
    ),
]


@pytest.mark.parametrize("kernel", [*KERNELS.values(), *EXTREMES], ids=lambda kernel: kernel.variant)
def test_assembles(kernel: Kernel) -> None:
    rendered = render(kernel)
    rendered.check()
    for architecture in ARCHITECTURES:
        assert assemble(rendered.text, architecture).spills == 0, architecture


@pytest.mark.parametrize(
    "kernel", list({kernel.name: kernel for kernel in KERNELS.values()}.values()), ids=lambda k: k.name
)
def test_lineinfo_assembles(kernel: Kernel) -> None:
    text = render(kernel, lineinfo=True).text
    informed = assemble(text, "sm_90").cubin
    assert informed  # that .loc changes no instruction is the assembler's promise, not ours
    for architecture in ARCHITECTURES:
        assemble(text, architecture)


def test_two_variants_link_into_one_module() -> None:
    texts = [
        render(kernel).text
        for kernel in (
            BatchedRope(num_heads=32, head_dim=128, theta=1e4),
            BatchedRope(num_heads=32, head_dim=128, theta=5e5, entry="rope_llama3"),
            BatchedRopeBackward(num_heads=32, head_dim=128, theta=1e4),
        )
    ]
    cubin = assemble(texts[0], "sm_90", *texts[1:]).cubin
    for entry in (b"batched_rope\0", b"rope_llama3\0", b"batched_rope_backward\0"):
        assert entry in cubin


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_assembles_for_itself(target: str) -> None:
    """The lowest PTX version of each target is one that the assembler takes for it."""
    if target.startswith("sm_101"):
        pytest.skip("sm_101 is called sm_110 since PTX 9.0; today's assembler knows only that name")
    assemble(render(BatchedRope(num_heads=1, head_dim=2, theta=1e4), target=target).text, target)
