"""When a run counts as slower or faster than another, and which runs are not compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.bench import baselines
from ptxtemplates.bench.baselines import Baseline, BaselineError
from ptxtemplates.bench.compare import change_of, compared, lines_of, regressed, undecided
from ptxtemplates.bench.contender import EMPTY, OURS
from ptxtemplates.bench.running import Facts
from ptxtemplates.bench.timing import Spread
from ptxtemplates.bench.units import units_of, workloads_of
from tests.bench.conftest import REDUCE, ROPE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ((100, 99, 101), (100, 99, 101), None),
        ((100, 99, 101), (104, 103, 105), "slower"),
        ((100, 99, 101), (102, 101.5, 102.5), None),  # under the floor
        ((100, 99, 101), (103, 102, 104), None),  # at the floor
        ((100, 99, 101), (96, 95, 97), "faster"),
        ((100, 99, 101), (97, 96, 98), None),  # at the floor
        ((100, 90, 112), (110, 108, 115), None),  # the spread before reaches it
        ((100, 99, 101), (110, 100, 130), None),  # the spread now reaches back
        ((100, 90, 110), (111, 110.5, 120), "slower"),
        ((100, 95, 120), (80, 70, 96), None),
        ((100, 95, 120), (80, 70, 94), "faster"),
        ((100, 100, 100), (200, 200, 200), "slower"),
        ((2, 2, 2), (1, 1, 1), "faster"),
    ],
)
def test_change(before: tuple[float, ...], now: tuple[float, ...], change: str | None) -> None:
    assert change_of(Spread(*before), Spread(*now)) == change


def measurement(median: float, **differing: Any) -> dict[str, Any]:
    return {
        "subject": ROPE.variant,
        "sizes": {"rows": 8},
        "contender": OURS,
        "element": "f32",
        "median_us": median,
        "quartiles_us": [median * 0.99, median * 1.01],
    } | differing


FACTS: Final = Facts("a GPU", "sm_90", 50 << 20, "13.0")


def report(*measurements: dict[str, Any], **differing: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "version": "1.0",
        "toolchain": "ptxas 13.0",
        "versions": {"torch": "2.9", "triton": None},
        "device": FACTS._asdict(),
        "copy": {"bytes": 1000, "bytes_per_s": 1e12, "quartiles": [0.99e12, 1.01e12], "rounds": 10},
        "measurements": [*measurements],
        "skipped": [],
    } | differing


def copying(rate: float) -> dict[str, Any]:
    return {"bytes": 1000, "bytes_per_s": rate, "quartiles": [rate * 0.99, rate * 1.01], "rounds": 10}


def baseline(folder: Path, *measurements: dict[str, Any], **differing: Any) -> Baseline:
    return baselines.read(written(folder, json.dumps(report(*measurements, **differing))))


def written(folder: Path, text: str) -> Path:
    (folder / "base.json").write_text(text)
    return folder / "base.json"


def test_what_is_compared(tmp_path: Path) -> None:
    before = baseline(
        tmp_path,
        measurement(10),
        measurement(10, sizes={"rows": 64}),
        measurement(10, contender="Triton", element="bf16"),
        measurement(10, contender=EMPTY, element=""),
    )
    now = report(
        measurement(12),
        measurement(20, sizes={"rows": 1}),
        measurement(20, contender="Triton"),
        measurement(5, contender=EMPTY, element=""),
        measurement(20, subject="another"),
    )
    comparison = compared(now, before)
    assert {name: comparison[name] for name in ("compared", "of", "missing")} == {
        "compared": 2,
        "of": 5,
        "missing": 2,
    }
    assert comparison["gpu"]["empty"] == {"change": "faster", "ratio": 0.5}
    assert [*lines_of(comparison)] == [
        f"slower  {ROPE.variant}, rows=8: ptxtemplates f32: 10.00 us before, 12.00 us now, x 1.20",
        f"faster  {ROPE.variant}, rows=8: empty kernel: 10.00 us before, 5.00 us now, x 0.50",
        "compared 2 of 5 measurements; 2 of the baseline were not measured",
    ]
    assert regressed(comparison)


def test_the_order_of_sizes_does_not_matter(tmp_path: Path) -> None:
    before = baseline(tmp_path, measurement(10, sizes={"max_chunks": 3, "rows": 8}))
    assert compared(report(measurement(10, sizes={"rows": 8, "max_chunks": 3})), before) == {
        "compared": 1,
        "of": 1,
        "missing": 0,
        "lost": [],
        "gpu": {"copy": {"change": None, "ratio": 1}, "empty": {"change": None, "ratio": None}},
        "differences": [],
        "changes": [],
    }


def test_others_may_be_slower(tmp_path: Path) -> None:
    before = baseline(tmp_path, measurement(10), measurement(10, contender="vLLM"))
    comparison = compared(report(measurement(9), measurement(20, contender="vLLM")), before)
    assert [values["change"] for values in comparison["changes"]] == ["faster", "slower"]
    assert not regressed(comparison)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "base.json is not JSON: Expecting property name"),
        ("\xff", "base.json is not JSON: "),
        ("[" * 100_000, "base.json is not JSON: "),
        ("[]", "base.json is no report of ptxtemplates bench --json"),
        ('{"kernels": []}', "base.json is no report of ptxtemplates bench --json"),
        (
            json.dumps(report(schema_version=2)),
            "base.json has schema version 2, and this version of ptxtemplates",
        ),
        (
            json.dumps(report(device={})),
            "base.json is no report of ptxtemplates bench --json: KeyError: 'name'",
        ),
        (json.dumps(report(measurements=3)), "base.json is no report"),
        (json.dumps(report(measurements=[3])), "base.json is no report"),
        (json.dumps(report(measurement(10, sizes=3))), "base.json is no report"),
        (json.dumps(report(measurement(10, sizes={"rows": None}))), "base.json is no report"),
        (json.dumps(report(measurement(10, subject=["x"]))), "base.json is no report"),
        (json.dumps(report(measurement(10, quartiles_us=[1]))), "base.json is no report"),
        (json.dumps(report(measurement(10, median_us=None))), "base.json is no report"),
        (json.dumps(report(measurement(10, median_us=0))), "rows=8: times must be finite and more than 0"),
        (json.dumps(report(measurement(10, quartiles_us=[11, 9]))), "the median between the quartiles"),
        (json.dumps(report(measurement(10, median_us=True))), "rows=8: True is no number"),
        (json.dumps(report(measurement(10, median_us="10"))), "rows=8: '10' is no number"),
        (json.dumps(report(measurement(10, sizes={"rows": 1.9}))), "1.9 is no integer of at least 1"),
        (json.dumps(report(measurement(10, sizes={"rows": True}))), "True is no integer"),
        (json.dumps(report(measurement(10, contender=3))), "3 is no text"),
        (json.dumps(report(measurement(10), measurement(11))), "rows=8: ptxtemplates stands there twice"),
        (json.dumps(report(copy=copying(0))), "copy: times must be finite"),
        (json.dumps(report(versions={"torch": 2})), "2 is no text"),
        (json.dumps(report(device=FACTS._asdict() | {"l2_bytes": "5"})), "'5' is no integer"),
        (json.dumps(report(measurement(float("nan")))), "base.json is not JSON: NaN is no number of JSON"),
        (json.dumps(report(measurement(10, median_us=10**400))), "base.json is no report"),
    ],
    ids=range(27),
)
def test_what_is_no_baseline(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BaselineError) as refusal:
        baselines.read(file)
    assert message in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"cannot read .*other\.json: No such file"):
        baselines.read(tmp_path / "other.json")


def test_baselines_of_which_nothing_can_be_compared(tmp_path: Path) -> None:
    before = baseline(tmp_path, measurement(10))
    workloads = workloads_of(units_of([ROPE, REDUCE]), {})
    baselines.check(before, FACTS, workloads)
    with pytest.raises(
        BaselineError, match=r"base\.json was measured on a GPU, and this is another: times of"
    ):
        baselines.check(before, FACTS._replace(name="another"), workloads)
    for other in (FACTS._replace(architecture="sm_103"), FACTS._replace(l2_bytes=5)):
        with pytest.raises(
            BaselineError, match="of sm_90 with an L2 cache of 52,428,800 bytes, and this one"
        ):
            baselines.check(before, other, workloads)
    with pytest.raises(BaselineError, match="no time of ptxtemplates for any of the subjects and shapes"):
        baselines.check(before, FACTS, workloads_of(units_of([ROPE]), {"rows": 9}))
    others = baseline(
        tmp_path, measurement(10, contender="vLLM"), measurement(10, contender=EMPTY, element="")
    )
    with pytest.raises(BaselineError, match="no time of ptxtemplates for any of the subjects and shapes"):
        baselines.check(others, FACTS, workloads)


def empty(median: float, rows: int = 8) -> dict[str, Any]:
    return measurement(median, sizes={"rows": rows}, contender=EMPTY, element="")


def test_what_times_depend_on_is_compared_too(tmp_path: Path) -> None:
    before = baseline(tmp_path, measurement(10))
    other = {"toolchain": "the driver", "versions": {"torch": "2.10", "vllm": "0.11"}}
    comparison = compared(
        report(measurement(10), **other, device={**FACTS._asdict(), "cuda": "13.1"}), before
    )
    assert [*lines_of(comparison)] == [
        "differs driver for CUDA: 13.0 before, 13.1 now",
        "differs assembler: ptxas 13.0 before, the driver now",
        "differs torch: 2.9 before, 2.10 now",
        "differs vllm: not installed before, 0.11 now",
        "compared 1 of 1 measurements",
    ]
    assert undecided(comparison) is None


def test_a_gpu_that_is_slower_itself(tmp_path: Path) -> None:
    """Its clocks are lower, say: a kernel that takes longer then is not to blame."""
    before = baseline(tmp_path, measurement(10), empty(2), empty(2, 64), empty(2, 1))
    slow = report(measurement(20), empty(4), empty(4, 64), empty(2, 1), copy=copying(0.5e12))
    comparison = compared(slow, before)
    assert comparison["gpu"] == {
        "copy": {"change": "slower", "ratio": pytest.approx(2)},
        "empty": {"change": "slower", "ratio": 2},
    }
    reason = "the GPU itself is not as fast as it was: copies take x 2.00 and empty kernels take x 2.00 of"
    assert reason in (undecided(comparison) or "")
    faster = compared(report(measurement(10), copy=copying(1.2e12)), before)
    assert "was: copies take x 0.83 of their time" in (undecided(faster) or ""), "it may hide what is slower"
    for alike in (
        report(measurement(20), copy=copying(0.99e12)),
        report(measurement(20), empty(2), empty(4, 64)),
    ):
        comparison = compared(alike, before)
        assert (undecided(comparison), regressed(comparison)) == (None, True)


def test_a_kernel_that_cannot_be_measured_any_more(tmp_path: Path) -> None:
    """No answer, unless another one is slower already: then it is no."""
    before = baseline(
        tmp_path, measurement(10), measurement(10, subject="lost"), measurement(10, subject="left")
    )
    gone = {"subject": "lost", "sizes": {"rows": 8}, "reason": "it does not assemble"}
    new = gone | {"subject": "new"}
    comparison = compared(report(measurement(10), skipped=[new, gone]), before)
    assert comparison["lost"] == [gone]
    assert next(lines_of(comparison)) == "lost    lost, rows=8: it does not assemble"
    assert (
        undecided(comparison) == "lost, rows=8: in the baseline, and not comparable now: it does not assemble"
    )
    assert undecided(compared(report(measurement(20), skipped=[gone]), before)) is None
    changed = compared(report(measurement(10, element="bf16"), skipped=[gone]), before)
    assert [values["reason"] for values in changed["lost"]] == [
        "it does not assemble",
        "its elements were not bf16",
    ]
    assert "lost, rows=8 and 1 more: in the baseline" in (undecided(changed) or "")
