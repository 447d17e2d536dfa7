"""What is measured as one, and at which sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptxtemplates.bench.units import most_chunks, units_of, workloads_of
from ptxtemplates.errors import ConfigError, ParameterError
from ptxtemplates.kernels import FlashDecodingChunk
from tests.bench.conftest import CHUNK, KERNELS, REDUCE, ROPE, WHOLE
from tests.helpers.toy import Toy
from tests.helpers.variants import KERNELS as LISTED


def test_each_kernel_and_what_belongs_together() -> None:
    assert [(unit.name, unit.kernels) for unit in units_of(KERNELS)] == [
        (ROPE.variant, (ROPE,)),
        (CHUNK.variant, (CHUNK,)),
        (REDUCE.variant, (REDUCE,)),
        (WHOLE, (CHUNK, REDUCE)),
    ]


@pytest.mark.parametrize("field", ["head_dim", "num_heads", "chunk_size"])
def test_kernels_of_other_shapes_do_not_belong_together(field: str) -> None:
    other = replace(REDUCE, **{field: 2 * getattr(REDUCE, field)})
    assert len(units_of([CHUNK, other])) == 2
    assert len(units_of([CHUNK, other, REDUCE])) == 4, "the one that agrees is found behind it"


def test_entry_and_target_are_not_compared() -> None:
    assert len(units_of([CHUNK, replace(REDUCE, entry="other", target="sm_90")])) == 3


def test_every_chunk_kernel_of_the_list_has_its_reduction() -> None:
    kernels = [*LISTED.values()]
    whole = [unit for unit in units_of(kernels) if len(unit.kernels) == 2]
    assert [unit.kernels[0] for unit in whole] == [
        kernel for kernel in kernels if isinstance(kernel, FlashDecodingChunk)
    ]
    assert len({unit.name for unit in units_of(kernels)}) == len(units_of(kernels))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["flash_decoding"], [WHOLE]),
        (["flash_decoding.*"], [WHOLE]),
        (["flash_decoding_*"], [CHUNK.variant, REDUCE.variant]),
        (["flash_decoding*"], [CHUNK.variant, REDUCE.variant, WHOLE]),
        (["batched_rope", "*reduce"], [ROPE.variant, REDUCE.variant]),
    ],
)
def test_patterns(patterns: list[str], names: list[str]) -> None:
    assert [unit.name for unit in units_of(KERNELS, patterns)] == names


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(ConfigError, match="nothing listed matches 'flash'; did you mean 'flash_decoding'"):
        units_of(KERNELS, ["batched_rope", "flash"])


def test_decode_steps() -> None:
    sizes = [dict(each.sizes) for each in workloads_of(units_of([ROPE]), {})]
    assert sizes == [{"rows": 1}, {"rows": 8}, {"rows": 64}]
    sizes = [dict(each.sizes) for each in workloads_of(units_of([REDUCE]), {})]
    assert sizes == [{"rows": rows, "max_chunks": 1024} for rows in (1, 8, 64)], "4096 keys in chunks of 4"
    [*_, last] = workloads_of(units_of([CHUNK, REDUCE]), {})
    assert (last.unit.name, dict(last.sizes)) == (WHOLE, {"rows": 64, "max_chunks": 10}), "40 keys fit"
    assert last.title == f"{WHOLE}, rows=64, max_chunks=10"


def test_sizes_that_are_asked_for() -> None:
    workloads = workloads_of(units_of([ROPE, REDUCE]), {"rows": 3})
    assert [dict(each.sizes) for each in workloads] == [{"rows": 3}, {"rows": 3, "max_chunks": 1024}]
    workloads = workloads_of(units_of([ROPE, REDUCE]), {"max_chunks": 5})
    assert [each.sizes.get("max_chunks") for each in workloads] == [None] * 3 + [5] * 3
    with pytest.raises(ParameterError, match="rows must be from 1 to 65535, not 65536"):
        workloads_of(units_of([ROPE]), {"rows": 65536})


def test_any_kernel_has_sizes() -> None:
    [one, *_] = workloads_of(units_of([Toy(width=4)]), {})
    assert dict(one.sizes) == {"rows": 1}


def test_longest_sequence() -> None:
    [chunk, reduce] = units_of([CHUNK, replace(REDUCE, head_dim=16)])
    assert (most_chunks(chunk), most_chunks(chunk, 9), most_chunks(reduce), most_chunks(reduce, 9)) == (
        10,
        3,
        None,
        3,
    )
