"""The Rust module: what rustc takes, and what a program sees of it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.bindings.rust import rust_module
from ptxtemplates.errors import ArtifactError
from tests.bindings.compilers import run, tool
from tests.bindings.samples import ODD, Sample, calls_of, entry, expected, real, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

STRICT = "#![deny(warnings, missing_docs, rust_2018_idioms, unused)]\n#![forbid(unsafe_code)]\n"
MODULE = '//! A crate.\n/// The kernels.\npub mod kernels {\n    include!("kernels.rs");\n}\n'


def program(samples: Sequence[Sample]) -> Iterator[str]:
    """Write a program that prints what the module says, and the texts into the file that it is given."""
    yield "use core::mem::{offset_of, size_of}; use kernels::*; use std::io::Write;"
    yield "fn print(grid: Option<(u32, u32, u32)>) { match grid {"
    yield '    None => println!("none"), Some((x, y, z)) => println!("{x} {y} {z}") } }'
    yield "fn main() {"
    yield "let mut file = std::fs::File::create(std::env::args().nth(1).unwrap()).unwrap();"
    for sample in samples:
        variant, struct, members = sample.rust
        if struct:
            values = [f"{struct}::SIZE", f"size_of::<{struct}>()"]
            values += [f"offset_of!({struct}, {member})" for member in members]
            yield f'println!("{" ".join(["{}"] * len(values))}", {", ".join(values)});'
        for key in ("ENTRY", "FILE", "SHA256", "TARGET"):
            yield f'println!("{{}}", {variant}::{key});'
        yield f"let (x, y, z) = {variant}::BLOCK;"
        yield f'println!("{{x}} {{y}} {{z}} {{}}", {variant}::SHARED_MEMORY);'
        for sizes, _ in calls_of(sample.entry):
            yield f"print({variant}::grid({', '.join(map(str, sizes))}));"
        yield f'file.write_all({variant}::PTX.as_bytes()).unwrap(); file.write_all(b"\\0").unwrap();'
    yield "}"


@pytest.mark.parametrize("samples", [real(), ODD], ids=["real", "odd"])
def test_program_sees_what_the_manifest_says(tmp_path: Path, samples: Sequence[Sample]) -> None:
    (tmp_path / "kernels.rs").write_text(written(rust_module, samples, embed=True))
    (tmp_path / "main.rs").write_text(STRICT + MODULE + "\n".join(program(samples)))
    run(tool("rustc"), "--edition=2021", "main.rs", cwd=tmp_path)
    assert run(tmp_path / "main", "texts", cwd=tmp_path).splitlines() == expected(samples)
    assert (tmp_path / "texts").read_text() == "".join(f"{sample.text}\0" for sample in samples)


@pytest.mark.parametrize("samples", [real(), ODD], ids=["real", "odd"])
def test_library_without_std(tmp_path: Path, samples: Sequence[Sample]) -> None:
    """Public or private, used or not, nothing warns; neither does rustdoc."""
    (tmp_path / "kernels.rs").write_text(written(rust_module, samples, embed=False))
    source = (
        STRICT + "#![no_std]\n" + MODULE + MODULE[MODULE.index("///") :].replace("pub mod ", "mod private_")
    )
    (tmp_path / "lib.rs").write_text(source)
    run(tool("rustc"), "--edition=2021", "--crate-type=rlib", "--emit=metadata", "lib.rs", cwd=tmp_path)
    run(tool("rustdoc"), "--edition=2021", "--crate-type=rlib", "lib.rs", cwd=tmp_path)


def test_grid_can_be_asked_for_at_compile_time(tmp_path: Path) -> None:
    (tmp_path / "kernels.rs").write_text(written(rust_module, real(), embed=False))
    assertion = "matches!(kernels::batched_rope_h8_d256_theta10000::grid(3), Some((8, 3, 1)))"
    (tmp_path / "lib.rs").write_text(f"{STRICT}{MODULE}const _: () = assert!({assertion});\n")
    run(tool("rustc"), "--edition=2021", "--crate-type=rlib", "--emit=metadata", "lib.rs", cwd=tmp_path)


def test_wrong_offset_does_not_compile(tmp_path: Path) -> None:
    text = written(rust_module, ODD, embed=False)
    wrong = text.replace("offset_of!(TypesParameters, b) == 8", "offset_of!(TypesParameters, b) == 4")
    assert wrong != text
    (tmp_path / "lib.rs").write_text(wrong)
    with pytest.raises(AssertionError, match=r"TypesParameters, b\) == 4"):
        run(tool("rustc"), "--edition=2021", "--crate-type=rlib", "--emit=metadata", "lib.rs", cwd=tmp_path)


def test_text_is_plain_and_the_same_in_any_order() -> None:
    entries = [sample.entry for sample in real()]
    text = rust_module(entries, None)
    assert text == rust_module(copy.deepcopy(entries[::-1]), None)
    assert text.isascii()
    assert text.endswith("}\n")
    assert "\r" not in text
    assert "PTX: &str" not in text


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ([entry("a", "a.x-1"), entry("a", "a.x.1")], r"a\.x-1 and a\.x\.1 would both be named a_x_1"),
        (
            [entry("a_b", "a_b.1", ("p", "u32")), entry("aB", "aB.2", ("p", "u32"))],
            r"parameters of aB and parameters of a_b would both be named ABParameters",
        ),
        (
            [entry("ab", "ab.1", ("p", "u32")), entry("AbParameters", "AbParameters")],
            r"parameters of ab and AbParameters would both be named AbParameters",
        ),
        ([entry("a", "a", ("fn", "u32"), ("fn_", "u32"))], r"a: fn and fn_ would both be named fn_"),
    ],
    ids=["variants", "kernels", "kernel and variant", "parameters"],
)
def test_twins_are_refused(entries: list[dict[str, object]], named: str) -> None:
    with pytest.raises(ArtifactError, match=named):
        rust_module(entries, None)
