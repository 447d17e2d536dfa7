"""``ptxtemplates bench`` as a user runs it, on the stand-in, whose clock is set by hand."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest
from click.testing import CliRunner

from ptxtemplates import cli
from ptxtemplates.bench import probes, running, software
from ptxtemplates.bench.contender import Absent, Contender
from ptxtemplates.bench.plot import PlotError
from ptxtemplates.bench.report import lines_of
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.gpu import availability, loading
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.version import VERSION
from tests.bench.conftest import CHUNK, REDUCE, ROPE, WHOLE, Peers
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gpu.standins import Machine

DEVICE: Final = {"name": "stand-in 0", "architecture": "sm_90", "l2_bytes": 1024, "cuda": "13.1"}
SMALL: Final = ("--shape", "rows=2,max_chunks=3")
TIMES: Final = {
    ROPE.entry: 4.0,
    CHUNK.entry: 5.0,
    REDUCE.entry: 7.0,
    probes.EMPTY_ENTRY: 2.0,
    probes.SWEEP_ENTRY: 1.0,
}


TABLE: Final = f"""\
stand-in 0 (sm_90, L2 0.0 MiB, driver for CUDA 13.1), ptxtemplates {VERSION}, ptxas 13.0
beside it: torch 2.9, vllm 0.11
a device-to-device copy reads and writes 1.0 GB/s (1.0 - 1.0 in 80 rounds)

{ROPE.variant}, rows=2
  contender     element    us    quartiles      bytes   GB/s   of copy  x empty   rounds
  ptxtemplates  f32      4.00  4.00 - 4.00        520    0.1     13.0%     2.00   40 x 8
  empty kernel           2.00  2.00 - 2.00                                 1.00  40 x 20
  Triton        bf16     2.00  2.00 - 2.00  1,048,576  524.3  52428.8%     1.00   40 x 4

{WHOLE}, rows=2, max_chunks=3
  contender     element     us      quartiles      bytes   GB/s   of copy  x empty   rounds
  ptxtemplates  f32      12.00  12.00 - 12.00      3,624    0.3     30.2%     3.00   40 x 8
  empty kernel            4.00    4.00 - 4.00                                 1.00  40 x 20
  Triton        bf16      2.00    2.00 - 2.00  1,048,576  524.3  52428.8%     0.50   40 x 4

vLLM: not measured 2 times: not installed
"""


@pytest.fixture
def times(machine: Machine) -> dict[str, float]:
    """Microseconds of a launch by entry, which a test may change."""
    made = dict(TIMES)
    machine.launch_us = lambda loaded: made[loaded.entry]
    return made


def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    """Run the command line as a process does; return exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["ptxtemplates", "bench", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.run()
    assert isinstance(end.value.code, int)
    return end.value.code, *capsys.readouterr()


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.main, ["bench", *arguments], standalone_mode=False, catch_exceptions=False)


def report_of(*arguments: str) -> dict[str, Any]:
    result = run("--json", *arguments)
    assert result.return_value == 0
    report: dict[str, Any] = json.loads(result.output)
    return report


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assembler and libraries of versions that do not change."""
    versions = {"torch": "2.9", "vllm": "0.11"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(software, "toolchain", lambda: "ptxas 13.0")


@pytest.mark.usefixtures("project", "installed")
def test_table(times: dict[str, float], peers: Peers, machine: Machine) -> None:
    def enqueue() -> None:
        machine.now_us += 8.0

    peers.made = lambda: [Contender("Triton", "bf16", 1 << 20, 4, enqueue), Absent("vLLM", "not installed")]
    result = run("--kernel", "batched_rope", "--kernel", "flash_decoding", *SMALL)
    assert result.return_value == 0
    assert result.output == TABLE


@pytest.mark.usefixtures("project", "times")
@pytest.mark.parametrize(
    ("width", "header"),
    [
        (84, "contender element us quartiles bytes GB/s of copy x empty rounds"),
        (70, "contender element us quartiles GB/s of copy x empty"),
        (40, "contender us of copy x empty"),
        (5, "contender us"),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns(width: int, header: str, peers: Peers) -> None:
    report = report_of("--kernel", "batched_rope", "--shape", "rows=2")
    assert (
        " ".join(_table(report, None)[0].split())
        == "contender element us quartiles bytes GB/s of copy x empty rounds"
    )
    table = _table(report, width)
    assert " ".join(table[0].split()) == header
    assert width == 5 or max(map(len, table)) <= width


def _table(report: dict[str, Any], width: int | None) -> list[str]:
    return [line for line in lines_of(report, width) if line.startswith("  ")]


@pytest.mark.usefixtures("project", "times")
def test_without_an_assembler_the_driver_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise MissingExtraError("ptxas is not installed")

    monkeypatch.setattr(software, "toolchain", missing)
    assert report_of("--kernel", "batched_rope", "--shape", "rows=2")["toolchain"] == "the driver"


# ---- what is measured before a run ends


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            GpuError("the driver says CUDA_ERROR_ILLEGAL_ADDRESS:\nno"),
            "the driver says CUDA_ERROR_ILLEGAL_ADDRESS: no",
        ),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
@pytest.mark.usefixtures("times")
def test_what_was_measured_before_an_error_is_reported(
    error: BaseException,
    said: str,
    project: Path,
    peers: Peers,
    saved: list[tuple[dict[str, Any], Path]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made() -> list[Contender | Absent]:
        if len(peers.calls) == 3:
            raise error
        return []

    (project / "base.json").write_text(json.dumps(report_of(*SMALL)))
    peers.calls.clear()
    peers.made = made
    code, out, err = bench(capsys, monkeypatch, *COMPARE, "--json", "--plot", "times.svg")
    assert (code, err) == (2, f"error: {said}; 2 of 4 shapes had been measured, and are reported\n")
    report = json.loads(out)
    jsonschema.validate(report, json.loads((ROOT / "ptxtemplates/schemas/bench-1.json").read_text()))
    assert {each["subject"] for each in report["measurements"]} == {ROPE.variant, CHUNK.variant}
    assert report["stopped"] == said
    assert (report["comparison"]["compared"], report["comparison"]["missing"]) == (4, 4)
    assert saved[0][0] == report


@pytest.mark.usefixtures("project", "times")
def test_an_error_before_anything_is_measured(
    peers: Peers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> list[Contender | Absent]:
        raise GpuError("the driver says no")

    peers.made = made
    assert bench(capsys, monkeypatch, *SMALL, "--json") == (2, "", "error: the driver says no\n")


@pytest.mark.usefixtures("project", "times")
def test_json(peers: Peers, machine: Machine) -> None:
    peers.made = lambda: [Absent("vLLM", "not installed")]
    report = report_of(*SMALL)
    schema = json.loads((ROOT / "ptxtemplates" / "schemas" / "bench-1.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema)
    assert report["device"] == DEVICE
    assert report["version"] == VERSION
    assert report["toolchain"].startswith("ptxas ")
    assert report["versions"]["cuda-core"] == metadata.version("cuda-core")
    assert report["stopped"] is None
    rate = pytest.approx(1e9)
    assert report["copy"] == {"bytes": 16384, "bytes_per_s": rate, "quartiles": [rate, rate], "rounds": 160}
    assert [(each["subject"], each["contender"]) for each in report["measurements"]] == [
        (subject, contender)
        for subject in (ROPE.variant, CHUNK.variant, REDUCE.variant, WHOLE)
        for contender in ("ptxtemplates", "empty kernel")
    ]
    whole, empty = report["measurements"][-2:]
    q, keys, output = 2 * 4 * 8 * 4, 2 * (2 * 8 + 2 * 2 * 12 * 8 * 4), 2 * 4 * 8 * 4
    moved = q + keys + output + 2 * 4
    described = {
        "subject": WHOLE,
        "kernels": [CHUNK.variant, REDUCE.variant],
        "sizes": {"rows": 2, "max_chunks": 3},
    }
    calls = 8
    assert whole == {
        **described,
        "contender": "ptxtemplates",
        "element": "f32",
        "bytes": moved,
        "median_us": pytest.approx(12),
        "quartiles_us": [pytest.approx(12), pytest.approx(12)],
        "rounds": 40,
        "calls": calls,
        "bytes_per_s": pytest.approx(moved / 12e-6),
        "copy_bytes_per_s": pytest.approx(1e9),
        "share_of_copy": pytest.approx(moved / 12e-6 / 1e9),
        "times_empty": pytest.approx(3),
    }
    assert (empty["bytes"], empty["bytes_per_s"], empty["share_of_copy"], empty["element"]) == (
        0,
        None,
        None,
        "",
    )
    assert (empty["times_empty"], empty["median_us"]) == (1, pytest.approx(4))
    assert report["absent"][-1] == {**described, "contender": "vLLM", "reason": "not installed"}
    assert len(report["absent"]) == 4
    assert (report["skipped"], report["comparison"]) == ([], None)


@pytest.mark.usefixtures("project", "times")
def test_decode_steps_without_a_shape() -> None:
    report = report_of("--kernel", "batched_rope")
    assert [each["sizes"]["rows"] for each in report["measurements"]] == [1, 1, 8, 8, 64, 64]


@pytest.mark.usefixtures("times")
def test_a_kernel_that_does_not_fit_is_named(project: Path, machine: Machine) -> None:
    machine.free = 17_000
    result = run(
        "--kernel", "batched_rope", "--kernel", "flash_decoding_reduce", "--shape", "rows=3,max_chunks=100"
    )
    assert result.return_value == 0
    assert result.output.endswith(
        f"\n\n{REDUCE.variant}, rows=3, max_chunks=100: skipped: its buffers take 0.0 GiB, and stand-in 0 has "
        "0.0 GiB free\n"
    )
    report = report_of(
        "--kernel", "batched_rope", "--kernel", "flash_decoding_reduce", "--shape", "rows=3,max_chunks=100"
    )
    jsonschema.validate(report, json.loads((ROOT / "ptxtemplates/schemas/bench-1.json").read_text()))
    assert [each["subject"] for each in report["skipped"]] == [REDUCE.variant]


@pytest.mark.usefixtures("project", "times")
def test_nothing_measured_is_no_report(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.free = 17_000
    code, out, err = bench(capsys, monkeypatch, "--kernel", "flash_decoding_reduce", "--json")
    assert (code, out) == (2, "")
    assert err == (
        f"error: none of 3 shapes could be measured; the first, {REDUCE.variant}, rows=1, max_chunks=1024: its "
        "buffers take 0.0 GiB, and stand-in 0 has 0.0 GiB free\n"
    )


# ---- against a baseline


@pytest.fixture
def baseline(project: Path, times: dict[str, float]) -> Path:
    """A report of the small kernels."""
    (project / "base.json").write_text(json.dumps(report_of(*SMALL)))
    return project / "base.json"


COMPARE: Final = (*SMALL, "--compare", "base.json")


@pytest.mark.usefixtures("baseline")
def test_the_same_again() -> None:
    result = run(*COMPARE)
    assert result.return_value == 0
    assert result.output.endswith("\n\ncompared 8 of 8 measurements\n")


@pytest.mark.usefixtures("baseline")
def test_a_slower_kernel_is_a_no(times: dict[str, float]) -> None:
    times[CHUNK.entry] *= 1.2
    result = run(*COMPARE)
    assert result.return_value == 1
    assert result.output.endswith(
        f"\n\nslower  {CHUNK.variant}, rows=2, max_chunks=3: ptxtemplates f32: 5.00 us before, 6.00 us now, x 1.20\n"
        f"slower  {WHOLE}, rows=2, max_chunks=3: ptxtemplates f32: 12.00 us before, 13.00 us now, x 1.08\n"
        "compared 8 of 8 measurements\n"
    )


@pytest.mark.usefixtures("baseline")
def test_a_slower_gpu_is_no_answer(
    times: dict[str, float],
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine.copy_rate /= 2
    times.update({entry: 2 * time for entry, time in times.items()})
    code, out, err = bench(capsys, monkeypatch, *COMPARE)
    assert code == 2
    assert f"slower  {ROPE.variant}, rows=2: ptxtemplates f32: 4.00 us before, 8.00 us now, x 2.00" in out
    assert err.startswith(
        "error: the GPU itself is not as fast as it was: copies take x 2.00 and empty kernels"
    )


@pytest.mark.usefixtures("baseline", "times")
def test_a_kernel_that_is_skipped_now_is_no_answer(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(text: str, architecture: str) -> Any:
        if ROPE.entry in text:
            raise AssemblyError("not for this GPU", faults=((1, "no"),))
        return SimpleNamespace(cubin=text.encode())

    monkeypatch.setattr(loading, "assemble", refuse)
    loading._loaded.clear()
    code, out, err = bench(capsys, monkeypatch, *COMPARE)
    assert code == 2
    assert f"lost    {ROPE.variant}, rows=2: not for this GPU\n" in out
    assert (
        err == f"error: {ROPE.variant}, rows=2: in the baseline, and not comparable now: not for this GPU\n"
    )


@pytest.mark.usefixtures("baseline")
def test_a_faster_kernel_is_told_and_fine(times: dict[str, float]) -> None:
    times[ROPE.entry] /= 2
    result = run("--json", *COMPARE)
    assert result.return_value == 0
    report = json.loads(result.output)
    jsonschema.validate(report, json.loads((ROOT / "ptxtemplates/schemas/bench-1.json").read_text()))
    [change] = report["comparison"]["changes"]
    assert change == {
        "subject": ROPE.variant,
        "sizes": {"rows": 2},
        "contender": "ptxtemplates",
        "element": "f32",
        "change": "faster",
        "before_us": pytest.approx(4),
        "now_us": pytest.approx(2),
        "ratio": pytest.approx(0.5),
    }


@pytest.mark.usefixtures("baseline")
def test_a_part_of_the_list_is_compared() -> None:
    result = run("--kernel", "batched_rope", "--shape", "rows=2", "--compare", "base.json")
    assert result.return_value == 0
    assert result.output.endswith("\ncompared 2 of 2 measurements; 6 of the baseline were not measured\n")


@pytest.mark.parametrize(
    ("arguments", "change", "message"),
    [
        (
            (),
            {"device": {**DEVICE, "name": "another"}},
            "base.json was measured on another, and this is stand-in 0",
        ),
        (
            (),
            {"schema_version": 2},
            "base.json has schema version 2, and this version of ptxtemplates compares",
        ),
        (("--shape", "rows=3"), {}, "base.json has no time of ptxtemplates for any of the subjects"),
        (("--compare", "other.json"), {}, "cannot read other.json: No such file or directory"),
    ],
)
def test_what_is_not_compared_is_not_measured(
    baseline: Path,
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    change: dict[str, Any],
    message: str,
) -> None:
    baseline.write_text(json.dumps(json.loads(baseline.read_text()) | change))
    machine.calls.clear()
    code, out, err = bench(capsys, monkeypatch, "--compare", "base.json", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert "capture" not in machine.names()


# ---- what is said before anything is measured


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "batched_rop"), "nothing listed matches 'batched_rop'; did you mean 'batched_rope'?"),
        (("--shape", "rows"), "--shape takes SIZE=N,... such as rows=4,max_chunks=16, not 'rows'"),
        (("--shape", "rows=1", "--shape", "rows=2"), "--shape gives rows twice"),
        (("--shape", "row=1"), "batched_rope: no run-time size is named 'row'; did you mean 'rows'?"),
        (("--shape", "rows=0"), "batched_rope: rows must be from 1 to 65535, not 0"),
        (("--plot", "times.jpg"), "times.jpg: a figure is written as"),
        (("--plot", "nowhere/times.png"), "nowhere/times.png: there is no"),
        (("--config", "other.toml"), "cannot read other.toml: No such file"),
    ],
)
def test_mistakes(
    machine: Machine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, out, err = bench(capsys, monkeypatch, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}"), err
    assert err.count("\n") == 1
    assert machine.calls == []


# ---- the plot


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], Path]]:
    """Reports and files that would be drawn."""
    made: list[tuple[dict[str, Any], Path]] = []
    plot = ModuleType("ptxtemplates.bench.plot")
    vars(plot).update(check=lambda file: None, save=lambda report, file: made.append((report, file)))
    monkeypatch.setitem(sys.modules, plot.__name__, plot)
    return made


@pytest.mark.usefixtures("project", "times")
def test_plot_gets_the_report(saved: list[tuple[dict[str, Any], Path]]) -> None:
    result = run("--json", "--kernel", "batched_rope", "--plot", "times.svg")
    [(report, file)] = saved
    assert report == json.loads(result.output)
    assert str(file) == "times.svg"


@pytest.mark.usefixtures("times")
def test_a_report_is_drawn(project: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("--kernel", "batched_rope", "--plot", "times.svg")
    assert result.return_value == 0
    assert ROPE.variant in (project / "times.svg").read_text()


@pytest.mark.usefixtures("project", "times", "saved")
def test_a_plot_that_fails_loses_no_measurement(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(report: Any, file: Path) -> None:
        raise PlotError("the disk is full")

    monkeypatch.setattr(sys.modules["ptxtemplates.bench.plot"], "save", fail)
    code, out, err = bench(capsys, monkeypatch, "--kernel", "batched_rope", "--json", "--plot", "times.svg")
    assert (code, err) == (2, "error: the disk is full\n")
    assert json.loads(out)["measurements"]


def test_without_a_gpu(
    project: Path,
    saved: list[tuple[dict[str, Any], Path]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(availability, "_decided", ["no NVIDIA driver: there is none"])
    before = sorted(project.iterdir())
    code, out, err = bench(capsys, monkeypatch, "--json", "--plot", "times.svg")
    assert (code, out, err) == (2, "", "error: no NVIDIA driver: there is none\n")
    assert (sorted(project.iterdir()), saved) == (before, [])


def test_the_default_run_is_short() -> None:
    """Every subject and shape of this repository's list, where `LEAST_ROUNDS` take no more than the patience."""
    from ptxtemplates.bench.timing import PATIENCE_MS
    from ptxtemplates.bench.units import units_of, workloads_of
    from ptxtemplates.config import load

    workloads = workloads_of(units_of(load(ROOT / "kernels.toml")), {})
    assert len(workloads) * (PATIENCE_MS + running.WARM_UP_MS) / 1000 < 60, "seconds"
