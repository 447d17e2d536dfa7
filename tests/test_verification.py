"""Kernels of every shape held to their cases; and what is said of results that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import cases
from ptxtemplates.references.case import Case, Close, Input, Output, SameBytes
from ptxtemplates.rendering import render
from ptxtemplates.verification import Emulator, Program, program_of, run_cases, verify
from ptxtemplates.verification.constants import strict
from ptxtemplates.verification.judging import judge
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel

ROPES = [
    kernel(num_heads=heads, head_dim=head_dim, theta=theta)
    for kernel in (BatchedRope, BatchedRopeBackward)
    for heads, head_dim, theta in [
        *((3, 64, theta) for theta in (0.5, 1e4, 5e5, 1e8)),
        *((1, head_dim, 1e4) for head_dim in (2, 80, 96, 112, 128, 192, 256, 512)),
        (128, 256, 1e4),  # its last rows lie beyond 4 GiB
    ]
]
REDUCTIONS = [
    FlashDecodingReduce(head_dim=head_dim, num_heads=heads, chunk_size=chunk_size)
    for head_dim, heads, chunk_size in [
        *((head_dim, 1, 16) for head_dim in (8, 64, 72, 128, 504, 512)),
        *((8, 3, chunk_size) for chunk_size in (1, 3, 48, 65_536)),
        *((8, heads, 16) for heads in (65, 96, 200)),
    ]
]
CHUNKS = [
    FlashDecodingChunk(
        head_dim=head_dim, num_heads=heads, num_kv_heads=kv_heads, chunk_size=chunk_size, max_seq_len=room
    )
    for head_dim, heads, kv_heads, chunk_size, room in [
        (64, 8, 2, 16, 100),
        (8, 3, 3, 5, 23),
        (80, 4, 1, 16, 70),
        (128, 8, 1, 3, 120),
        (72, 7, 1, 1, 50),
        (512, 1, 1, 2, 40),
        (16, 32, 1, 40, 130),
        (8, 2, 2, 16, 2**27),  # its last keys lie beyond 4 GiB
        (8, 1, 1, 4, 1),
    ]
] + [FlashDecodingChunk(head_dim=8, num_heads=2, num_kv_heads=1, chunk_size=4, max_seq_len=30, scale=0.7)]
EVERY: dict[str, Kernel] = {kernel.variant: kernel for kernel in (*ROPES, *REDUCTIONS, *CHUNKS)}
SAMPLE = ("batched_rope.h3.d64.theta10000", "flash_decoding_reduce.d72.h1.c16", CHUNKS[0].variant)


@pytest.mark.parametrize("kernel", EVERY.values(), ids=EVERY)
def test_kernel(kernel: Kernel) -> None:
    verdict = verify(kernel, Emulator())
    assert verdict.ok, [outcome for outcome in verdict.outcomes if not outcome.ok] or verdict.constants


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("variant", SAMPLE)
def test_kernel_with_other_inputs_and_the_worst_approximations(variant: str, seed: int) -> None:
    verdict = verify(EVERY[variant], Emulator("worst", seed), seed=seed)
    assert verdict.ok, [outcome for outcome in verdict.outcomes if not outcome.ok]


def test_worst_approximations_change_results() -> None:
    """Or the test above would show nothing: the worst error must grow where exponentials make it."""
    kernel = EVERY["flash_decoding_reduce.d72.h1.c16"]
    [case] = [case for case in cases(kernel, 0) if case.name == "chunk-counts"]
    exact, worst = (
        outcome.worst
        for accuracy in ("exact", "worst")
        for outcome in run_cases([case], {}, Emulator(accuracy))
    )
    assert worst > 1.2 * exact


def close(exact: list[float], bound: list[float], free: list[bool] | None = None) -> Close:
    return Close("out", np.array(exact), np.array(bound), None if free is None else np.array(free))


def judged(expectation: Close | SameBytes, **after: npt.NDArray[Any]) -> Any:
    buffers = {name: Output(array.shape) for name, array in after.items()}
    case = Case("case", buffers, (), (expectation,))
    return judge(case, lambda name, at, size: after[name].reshape(-1)[at : at + size])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("expected", "bound", "got", "worst"),
    [
        (1.0, 0.5, 1.25, 0.5),
        (1.0, 0.25, 0.5, 2.0),
        (1.0, 0.0, 1.0, 0.0),
        (1.0, 0.0, 1.0 + 2**-23, INF),
        (0.0, 0.0, -0.0, 0.0),
        (1.0, 0.5, NAN, INF),
        (1.0, 0.5, INF, INF),
        (NAN, 0.0, NAN, 0.0),
        (NAN, 0.5, 1.0, INF),
        (INF, 0.0, INF, 0.0),
        (INF, NAN, INF, 0.0),
        (INF, 0.0, -INF, INF),
        (INF, 0.0, 3e38, INF),
        (1.0, NAN, 1.5, INF),
    ],
)
def test_judgement_of_a_value(expected: float, bound: float, got: float, worst: float) -> None:
    judgement = judged(close([expected], [bound]), out=np.array([got], np.float32))
    assert judgement.worst == worst
    assert bool(judgement.mismatches) == (worst > 1)
    free = judged(close([expected], [bound], [True]), out=np.array([got], np.float32))
    assert (free.worst, free.mismatches) == (0, ())


def test_judgement_names_the_worst_element() -> None:
    exact, bound = np.zeros((2, 3)), np.ones((2, 3))
    after = np.array([[0, 2, 0], [0, 5, 0.5]], np.float32)
    judgement = judged(Close("out", exact, bound), out=after)
    assert (judgement.worst, judgement.worst_at) == (5, ("out", (1, 1)))
    [mismatch] = judgement.mismatches
    assert mismatch == ("out", (1, 1), 5, 0, 1, 2)
    part = judged(Close("out", exact[1], bound[1], at=3), out=after)
    assert part.mismatches == (("out", (1, 1), 5, 0, 1, 1),)


def test_judgement_of_bytes() -> None:
    """-0 equals 0 and is not the same bits; NaN equals nothing and can be."""
    after = {"a": np.array([0, NAN], np.float32), "b": np.array([-0.0, NAN], np.float32)}
    [mismatch] = judged(SameBytes("a", "b", 2), **after).mismatches
    assert (mismatch.element, mismatch.wrong) == ((0,), 1)
    assert not judged(SameBytes("a", "b", 1, at=1, other_at=1), **after).mismatches


def test_judgement_of_an_input_that_changed() -> None:
    before, after = np.arange(4, dtype=np.uint32), np.array([0, 1, 2, 9], np.uint32)
    for changes, wrong in ((False, 1), (True, 0)):
        case = Case("case", {"x": Input(before, changes)}, (), ())
        assert len(judge(case, lambda name, at, size: after[at : at + size]).mismatches) == wrong


def edited(kernel: Kernel, *edits: tuple[str, str]) -> Program:
    text = render(kernel).text
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return Program(text, kernel.entry, None)


def test_tables_and_constants_of_a_text_from_elsewhere() -> None:
    """A table of the name must be right; a constant may be absent."""
    kernel = KERNELS["batched_rope.h32.d64.theta500000"]
    program = edited(kernel, ("0x28be60db9391054a", "0x28be60db9391054b"), ("0f2F800000", "0f2F800001"))
    verdict = verify(kernel, Emulator(), given=program)
    [line] = verdict.constants
    assert "turns[0] is 0x28be60db9391054b, not 0x28be60db9391054a; 1 of 32 elements differ" in line
    assert verdict.absent == ("2^-32",)
    renamed = edited(kernel, ("turns", "table"))
    assert verify(kernel, Emulator(), given=renamed)[2:] == ((), ("table turns",))


def test_constants_of_our_own_text_have_no_strangers() -> None:
    """What is rendered must have every constant of the definition, and no other."""
    kernel = KERNELS["flash_decoding_reduce.d64.h32.c64"]
    good, faulty = program_of(kernel), edited(kernel, ("0f3FB8AA3B", "0f3FB8AA3C"))
    assert strict(kernel, good) == ()
    assert strict(kernel, faulty) == (
        "log2(e) is not in the text",
        "0f3FB8AA3C /* 1.4426951 */ is in no definition",
    )


def test_a_table_of_our_own_text_is_named_by_its_template_line() -> None:
    kernel = KERNELS["batched_rope.h32.d64.theta500000"]
    rendered = program_of(kernel)
    faulty = rendered._replace(text=rendered.text.replace("0x28be60db9391054a", "0x28be60db9391054b"))
    [line] = strict(kernel, faulty)
    template = (ROOT / "templates" / "batched_rope.ptx.jinja").read_text(encoding="utf-8")
    number = 1 + template[: template.index(".global .align 8 .u64 turns")].count("\n")
    assert line.startswith(f"batched_rope.ptx.jinja:{number}, PTX line 11: turns[0] is ")


def test_a_case_that_does_not_end_has_failed() -> None:
    kernel = EVERY["flash_decoding_reduce.d72.h1.c16"]
    program = edited(kernel, ("add.u32     %tile, %tile, 32;", ""))
    chosen = [case for case in cases(kernel, 0) if case.name in ("unequal-mass", "row-alone")]
    unequal_mass, row_alone = run_cases(chosen, {kernel: program}, Emulator())
    assert unequal_mass.ok
    assert "step limit" in {finding.kind for finding in row_alone.findings}
