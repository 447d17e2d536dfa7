"""An instruction inserted into a template is an instruction more in the text, once a copy, and nothing else."""

from __future__ import annotations

import pytest

from scripts import measure_diff_noise
from scripts.measure_diff_noise import CUDA, INSERTED, TRITON, Count


def test_one_instruction_more_changes_as_many_lines_as_it_has_copies() -> None:
    results = measure_diff_noise.of_templates(every=9, variants=1)
    assert set(results) >= {"batched_rope", "flash_decoding_chunk", "flash_decoding_reduce"}
    for kernel, (places, found) in results.items():
        assert places == len(found) > 4, kernel
        for inserted in found:
            assert inserted.changed == Count(inserted.copies, 0), kernel
            # copies in a loop are one change, and those behind or before it perhaps another
            assert inserted.hunks <= min(inserted.copies, 2), kernel
    assert max(inserted.copies for _, found in results.values() for inserted in found) > 4


@pytest.mark.parametrize("sources", [CUDA, TRITON], ids=["CUDA C++", "Triton"])
def test_what_compilers_are_given_differs_by_one_line(sources: dict[str, measure_diff_noise.Source]) -> None:
    for source in sources.values():
        for _, after, line in source.insertions:
            assert measure_diff_noise.count(source.text, source.with_line(after, line)) == Count(1, 0)
            assert INSERTED not in source.text
