"""When a run counts as slower or faster than another, and which runs are not compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.bench import compare
from ptxtemplates.bench.compare import Baseline, BaselineError, change_of, compared, lines_of, regressed
from ptxtemplates.bench.contender import EMPTY, OURS
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


def report(*measurements: dict[str, Any], **differing: Any) -> dict[str, Any]:
    return {"schema_version": 1, "device": {"name": "a GPU"}, "measurements": [*measurements]} | differing


def baseline(folder: Path, *measurements: dict[str, Any], **differing: Any) -> Baseline:
    return compare.read(written(folder, json.dumps(report(*measurements, **differing))))


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
        (json.dumps(report(measurement(float("nan")))), "base.json is not JSON: NaN is no number of JSON"),
        (json.dumps(report(measurement(10, median_us=10**400))), "base.json is no report"),
    ],
    ids=range(17),
)
def test_what_is_no_baseline(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BaselineError) as refusal:
        compare.read(file)
    assert message in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"cannot read .*other\.json: No such file"):
        compare.read(tmp_path / "other.json")


def test_baselines_of_which_nothing_can_be_compared(tmp_path: Path) -> None:
    before = baseline(tmp_path, measurement(10))
    workloads = workloads_of(units_of([ROPE, REDUCE]), {})
    compare.check(before, "a GPU", workloads)
    with pytest.raises(
        BaselineError, match=r"base\.json was measured on a GPU, and this is another: times of"
    ):
        compare.check(before, "another", workloads)
    with pytest.raises(BaselineError, match="has none of the subjects and shapes that are to be measured"):
        compare.check(before, "a GPU", workloads_of(units_of([ROPE]), {"rows": 9}))
