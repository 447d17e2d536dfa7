"""Figures of a report that no GPU gave: its figures are round ones, for tests alone."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ptxtemplates.bench import plot
from ptxtemplates.errors import MissingExtraError

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

SCHEMA = json.loads((Path(plot.__file__).parents[1] / "schemas/bench-1.json").read_text())
CONTENDERS = {
    "ptxtemplates": "f32",
    "empty kernel": "",
    "PyTorch eager": "f32",
    "PyTorch compiled": "f32",
    "Triton (ours)": "f32",
    "FlashInfer (no graph)": "bf16",
    "vLLM": "bf16",
    "of somebody": "f32",
}


def report_of(*subjects: tuple[str, dict[str, int]]) -> dict[str, Any]:
    """Return a report in which the n-th contender takes n microseconds at one row."""
    measurements = [
        {
            "subject": subject,
            "kernels": [subject],
            "sizes": sizes,
            "contender": contender,
            "element": element,
            "bytes": 1000 * sizes.get("rows", 1) if element else 0,
            "median_us": float(number * sizes.get("rows", 1)),
            "quartiles_us": [number * sizes.get("rows", 1) * 0.9, number * sizes.get("rows", 1) * 1.2],
            "rounds": 10,
            "calls": 100,
            "bytes_per_s": 1e9 if element else None,
            "copy_bytes_per_s": 1e9,
            "share_of_copy": 1.0 if element else None,
            "times_empty": 1.0,
        }
        for subject, sizes in subjects
        for number, (contender, element) in enumerate(CONTENDERS.items(), 1)
    ]
    report = {
        "schema_version": 1,
        "version": "1.2.3",
        "toolchain": "ptxas 13.0",
        "versions": {"torch": "2.9", "triton": None},
        "stopped": None,
        "device": {"name": "GPU of tests", "architecture": "sm_90", "l2_bytes": 1, "cuda": "13.0"},
        "copy": {"bytes": 1, "bytes_per_s": 1e9, "quartiles": [1e9, 1e9], "rounds": 10},
        "measurements": measurements,
        "skipped": [],
        "absent": [],
        "comparison": None,
    }
    jsonschema.validate(report, SCHEMA)
    return report


ROPE = "batched_rope.h32.d128.theta10000"
ROWS = [(ROPE, {"rows": rows}) for rows in (1, 8, 64)]


def texts_of(file: Path) -> list[str]:
    """Return the texts of an SVG file."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("a.png", b"\x89PNG\r\n", b"IEND\xaeB`\x82"),
        ("a.pdf", b"%PDF-", b"%%EOF\n"),
        ("A.SVG", b"<?xml", b"</svg>\n"),
    ],
)
def test_the_suffix_decides_the_format_and_a_report_its_bytes(
    name: str, begins: bytes, ends: bytes, tmp_path: Path
) -> None:
    file = tmp_path / name
    plot.save(report_of(*ROWS), file)
    first = file.read_bytes()
    assert first.startswith(begins)
    assert first.endswith(ends)
    plot.save(report_of(*ROWS), file)
    assert file.read_bytes() == first


def test_every_contender_and_what_bounds_them_is_named(tmp_path: Path) -> None:
    plot.save(report_of(*ROWS), tmp_path / "times.svg")
    texts = texts_of(tmp_path / "times.svg")
    legend = [
        "ptxtemplates",
        "PyTorch eager",
        "PyTorch compiled",
        "Triton (ours)",
        "FlashInfer (no graph, bf16)",
    ]
    legend += [
        "vLLM (bf16)",
        "of somebody",
        "empty kernel",
        "limit: bytes of ptxtemplates at the rate of a copy",
    ]
    assert [text for text in texts if text in legend] == legend
    assert "GPU of tests (sm_90), ptxtemplates 1.2.3: time" in " ".join(texts)
    assert {ROPE, "rows", "µs", "1", "8", "64"} <= {*texts}


def test_subjects_and_sizes_beside_rows_have_panels_of_their_own(tmp_path: Path) -> None:
    reduce = "flash_decoding_reduce.h32.d128.c16"
    subjects = [(reduce, {"rows": rows, "max_chunks": chunks}) for chunks in (16, 64) for rows in (1, 8)]
    plot.save(report_of(*subjects, *ROWS), tmp_path / "times.svg")
    texts = " ".join(texts_of(tmp_path / "times.svg"))
    assert texts.count("rows") == 3
    # in the order of the report
    assert texts.index("max_chunks=16") < texts.index("max_chunks=64") < texts.index(ROPE)


@pytest.mark.parametrize(
    ("sizes", "axis", "place"),
    [({"rows": 8}, "rows", "8"), ({"blocks": 1_000, "n": 2}, "blocks", "1,000"), ({}, None, "1")],
)
def test_one_measurement_is_a_figure_too(
    sizes: dict[str, int], axis: str | None, place: str, tmp_path: Path
) -> None:
    plot.save(report_of(("mine", sizes)), tmp_path / "times.svg")
    texts = texts_of(tmp_path / "times.svg")
    assert place in texts
    assert axis is None or axis in texts


def test_places_that_are_too_near_share_a_number(tmp_path: Path) -> None:
    plot.save(report_of(*((ROPE, {"rows": rows}) for rows in range(1, 65))), tmp_path / "times.svg")
    numbers = [text for text in texts_of(tmp_path / "times.svg") if text.isdecimal()]
    assert len(numbers) < 20


@pytest.mark.parametrize("name", ["times.jpg", "times", "times.svg.gz", ".png"])
def test_other_formats_are_refused_before_anything_is_measured(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        plot.PlotError, match=r"a figure is written as \.pdf, \.png or \.svg, which the suffix"
    ):
        plot.check(tmp_path / name)
    with pytest.raises(plot.PlotError):
        plot.save(report_of(*ROWS), tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_a_place_that_is_not_there_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(plot.PlotError, match="there is no directory .*missing$"):
        plot.check(tmp_path / "missing" / "times.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(plot.PlotError, match="is a directory: name a file in it"):
        plot.check(tmp_path / "folder.png")


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes = Path.write_bytes

    def full(file: Path, data: bytes) -> int:
        write_bytes(file, data[:100])
        raise OSError(28, "No space left on device")

    (tmp_path / "times.png").write_text("of yesterday")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(plot.PlotError, match=r"times\.png cannot be written: No space left on device"):
        plot.save(report_of(*ROWS), tmp_path / "times.png")
    assert [file.name for file in tmp_path.iterdir()] == ["times.png"]
    assert (tmp_path / "times.png").read_text() == "of yesterday"


def test_without_matplotlib_what_to_install_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ptxtemplates\[plot\]'"):
        plot.check(tmp_path / "times.png")


def test_settings_of_the_caller_are_left_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.save(report_of(*ROWS), tmp_path / "times.png")
    assert dict(matplotlib.rcParams) == before
