"""What docs/loading.md and README.md name exists: error codes, functions, fields, numbers of the launch."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from cuda.bindings import driver

from tests.bindings.compilers import cuda
from tests.examples_loading.building import GUIDE, README
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = (ROOT / "ptxtemplates" / "schemas" / "manifest-1.json").read_text(encoding="utf-8")


def test_error_codes() -> None:
    found = re.findall(r"`(CUDA_ERROR_\w+)` \((\d+)\)", GUIDE)
    assert len(found) == GUIDE.count("CUDA_ERROR_")
    assert found == [(name, str(int(getattr(driver.CUresult, name)))) for name, _ in found]


def test_functions_and_constants_of_the_driver() -> None:
    declared = (cuda() / "include" / "cuda.h").read_text(encoding="utf-8")
    names = set(re.findall(r"\b(cu[A-Z]\w+|CU_[A-Z_]+)\b", GUIDE))
    assert len(names) > 8
    assert not {name for name in names if not re.search(rf"\b{name}\b", declared)}


def test_fields_of_the_manifest() -> None:
    for field in ("target", "ptx_version", "toolchain", "grid_limits", "entry", "alignment"):
        assert f"`{field}`" in GUIDE, field
        assert f'"{field}"' in SCHEMA, field


def test_the_examples_are_there() -> None:
    links = re.findall(r"\]\((\.\./examples/[^)]+|[a-z-]+\.md)\)", GUIDE)
    assert len(links) >= 6
    assert not [link for link in links if not (ROOT / "docs" / link).is_file()]


def test_the_readme_shows_what_the_manifest_says(shown: Path) -> None:
    [kernel] = json.loads((shown / "manifest.json").read_text(encoding="utf-8"))["kernels"]
    section = README[README.index("## Loading the result") : README.index("## Snapshots")]
    assert section.count(kernel["file"]) == 2
    assert kernel["variant"] in section
    assert (kernel["grid"], kernel["block"]) == ([32, "rows", 1], [64, 1, 1])
    assert f"at most {kernel['grid_limits']['rows']:,} rows" in section
