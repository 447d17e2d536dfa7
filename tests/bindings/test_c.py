"""The C header: what compilers take, and what a program sees of it."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.bindings.c import c_header
from ptxtemplates.errors import ArtifactError
from tests.bindings.compilers import WARNINGS, run, tool
from tests.bindings.samples import ODD, Sample, calls_of, entry, expected, real, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

STANDARDS = ["gcc -std=c99", "gcc -std=c11", "g++ -std=c++11", "g++ -std=c++20 -Wold-style-cast"]


def program(samples: Sequence[Sample]) -> Iterator[str]:
    """Write a program that prints what the header says, and the texts into the file that it is given."""
    yield '#include "kernels.h"\n#include <stdio.h>'
    yield 'static void print_grid(int there, const uint32_t g[3]) { if (there) printf("%u %u %u\\n",'
    yield '    g[0], g[1], g[2]); else printf("none\\n"); }'
    yield "int main(int count, char **arguments) {\nuint32_t grid[3];"
    yield 'FILE *file = fopen(arguments[count - 1], "wb");'
    for sample in samples:
        variant, struct, members = sample.c
        if struct:
            values = [f"{struct}_size", f"sizeof({struct})", *(f"offsetof({struct}, {m})" for m in members)]
            yield f'printf("{" ".join(["%d"] * len(values))}\\n",'
            yield f"{', '.join(f'int({value})' for value in values)});"
        for key in ("entry", "file", "sha256", "target"):
            yield f"puts({variant}_{key});"
        keys = ("block_x", "block_y", "block_z", "shared_memory")
        yield f'printf("%d %d %d %d\\n", {", ".join(f"int({variant}_{key})" for key in keys)});'
        for sizes, _ in calls_of(sample.entry):
            arguments = "".join(f"{size}u, " if size < 2**32 else f"{size}ull, " for size in sizes)
            yield f"print_grid({variant}_grid({arguments}grid), grid);"
        yield f"fwrite({variant}_ptx, 1, sizeof {variant}_ptx - 1, file); fputc({variant}_ptx["
        yield f"sizeof {variant}_ptx - 1], file);"
    yield "return fclose(file); }"


@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("samples", [real(), ODD], ids=["real", "odd"])
def test_program_sees_what_the_manifest_says(
    tmp_path: Path, samples: Sequence[Sample], standard: str
) -> None:
    compiler, *options = standard.split()
    (tmp_path / "kernels.h").write_text(written(c_header, samples, embed=True))
    text = "\n".join(program(samples))
    if compiler == "gcc":
        text = re.sub(r"\bint\(", "(int)(", text)
    source = tmp_path / ("main.c" if compiler == "gcc" else "main.cpp")
    source.write_text(text + "\n")
    run(tool(compiler), *options, *WARNINGS, source.name, "-o", "main", cwd=tmp_path)
    assert run(tmp_path / "main", "texts", cwd=tmp_path).splitlines() == expected(samples)
    assert (tmp_path / "texts").read_text() == "".join(f"{sample.text}\0" for sample in samples)


@pytest.mark.parametrize("standard", STANDARDS)
def test_header_alone_compiles_twice_over(tmp_path: Path, standard: str) -> None:
    """Without PTX, with nothing of it used, included twice and beside the header of another list."""
    compiler, *options = standard.split()
    (tmp_path / "kernels.h").write_text(written(c_header, real(), embed=False))
    (tmp_path / "others.h").write_text(written(c_header, ODD, embed=False))
    source = tmp_path / ("main.c" if compiler == "gcc" else "main.cpp")
    source.write_text('#include "kernels.h"\n#include "others.h"\n#include "kernels.h"\n')
    run(tool(compiler), *options, *WARNINGS, "-Wunused", "-c", source.name, cwd=tmp_path)


def test_wrong_offset_does_not_compile(tmp_path: Path) -> None:
    text = written(c_header, ODD, embed=False)
    wrong = text.replace("offsetof(types_parameters, b) == 8", "offsetof(types_parameters, b) == 4")
    assert wrong != text
    (tmp_path / "main.c").write_text(wrong)
    with pytest.raises(AssertionError, match=r"types_parameters, b\) == 4"):
        run(tool("gcc"), "-std=c11", "-c", "main.c", cwd=tmp_path)


def test_text_is_plain_and_the_same_in_any_order() -> None:
    entries = [sample.entry for sample in real()]
    text = c_header(entries, None)
    assert text == c_header(copy.deepcopy(entries[::-1]), None)
    assert text.isascii()
    assert text.endswith("#endif\n")
    assert "\r" not in text
    assert "static const char batched_rope_h32_d128_theta10000_ptx" not in text
    assert "pointer to u64 [rows], aligned to 8 bytes, of pointers to f32 [num_kv_heads," in text


def test_names_that_are_not_ascii_are_escaped() -> None:
    text = c_header([entry("k", "k", grid=["größe", 1, 1], grid_limits={"größe": 8})], None)
    assert "int k_grid(uint64_t gr__e, uint32_t grid[3])" in text
    assert text.isascii()


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ([entry("a", "a.x-1"), entry("a", "a.x.1")], r"a\.x-1 and a\.x\.1 would both be named a_x_1"),
        (
            [entry("a.b", "a.b.1", ("p", "u32")), entry("a-b", "a-b.2", ("p", "u32"))],
            r"a-b and a\.b would both be named a_b",
        ),
        ([entry("a", "a", ("p$", "u32"), ("p_", "u32"))], r"a: p\$ and p_ would both be named p_"),
        (
            [entry("a", "a", grid=["n!", "n?", 1], grid_limits={"n!": 1, "n?": 1})],
            r"a: n! and n\? would both be named n_",
        ),
    ],
    ids=["variants", "kernels", "parameters", "sizes"],
)
def test_twins_are_refused(entries: list[dict[str, object]], named: str) -> None:
    with pytest.raises(ArtifactError, match=named):
        c_header(entries, None)
