"""Whether a GPU can be used: every reason, once, without an exception and without waiting forever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cuda.bindings import driver

from ptxtemplates.gpu import availability, boundary, unavailable
from ptxtemplates.gpu.errors import GpuError
from tests.helpers.variants import ROOT


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_decided", [])


def pretend(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Make functions of the driver answer."""
    for name, answer in answers.items():
        monkeypatch.setattr(driver, name, lambda *_, answer=answer: answer)


SUCCESS = driver.CUresult.CUDA_SUCCESS


def test_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a driver for the first version of the packages' generation."""
    pretend(
        monkeypatch, cuInit=(SUCCESS,), cuDriverGetVersion=(SUCCESS, 13_000), cuDeviceGetCount=(SUCCESS, 2)
    )
    assert unavailable() is None
    availability.require()


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, cuInit=(driver.CUresult.CUDA_ERROR_NO_DEVICE,))
    assert unavailable() == "the NVIDIA driver sees no GPU; is CUDA_VISIBLE_DEVICES set?"


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch, cuInit=(SUCCESS,), cuDriverGetVersion=(SUCCESS, 12_080), cuDeviceGetCount=(SUCCESS, 1)
    )
    assert (unavailable() or "").startswith("the NVIDIA driver is too old: it supports CUDA 12.8, and the")


def test_a_driver_that_reports_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        monkeypatch,
        cuInit=(driver.CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,),
        cuGetErrorName=(SUCCESS, b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        cuGetErrorString=(SUCCESS, b"system has unsupported display driver / cuda driver combination"),
    )
    assert unavailable() == (
        "the driver says CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "
        "system has unsupported display driver / cuda driver combination"
    )


def test_a_package_that_fails_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("what")

    monkeypatch.setattr(boundary, "describe_driver", broken)
    assert unavailable() == "the NVIDIA driver cannot be used: ValueError('what')"


def test_a_package_that_is_there_and_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded once there is a driver for it."""

    def broken() -> None:
        raise ImportError("a library is not whole")

    monkeypatch.setattr(boundary, "load_core", broken)
    assert "an NVIDIA driver" in (unavailable() or "an NVIDIA driver"), "there is none: nobody looked"
    monkeypatch.setattr(availability, "_decided", [])
    monkeypatch.setattr(boundary, "describe_driver", lambda: ((99, 0), 1))
    reason = unavailable() or ""
    assert reason.startswith("cuda.core is not installed or cannot be loaded (a library is not whole)")


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    reason = unavailable() or ""
    assert reason.startswith("cuda.core is not installed or cannot be loaded (")
    assert reason.endswith("pip install 'ptxtemplates[cuda]'")
    with pytest.raises(GpuError, match="cuda.core is not installed"):
        availability.require()


def test_a_driver_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()
    monkeypatch.setattr(availability, "PATIENCE_S", 0.05)
    monkeypatch.setattr(boundary, "describe_driver", lambda: (answering.wait(30), ((13, 4), 1))[1])
    assert unavailable() == "the NVIDIA driver has not answered within 0 s"
    answering.set()
    assert unavailable() is not None, "it is decided once"


def test_it_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []

    def describe() -> tuple[tuple[int, int], int]:
        asked.append(None)
        time.sleep(0.02)
        return (13, 4), 1

    monkeypatch.setattr(boundary, "describe_driver", describe)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: unavailable(), range(32))) == [None] * 32
    assert len(asked) == 1


_WITHOUT = """
import threading, time
from cuda.bindings import driver
from ptxtemplates.gpu import GpuError, launch, load, unavailable
from ptxtemplates.gpu.place import Device
from ptxtemplates.kernels import BatchedRope

kernel = BatchedRope(num_heads=4, head_dim=16, theta=1e4)
started = time.perf_counter()
for attempt in (lambda: load(kernel), lambda: load(kernel, 0), lambda: launch(kernel, None), Device) * 3:
    thread_said = []
    def run():
        try:
            attempt()
        except GpuError as error:
            thread_said.append(str(error))
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert thread_said == [unavailable()], thread_said
print(unavailable())
"""


def test_without_a_driver_everything_says_so_and_nothing_hangs() -> None:
    """In a process of its own: what cuda.core leaves behind cannot help or harm."""
    if _driver_is_there():
        pytest.skip("there is a driver on this machine")
    result = subprocess.run(
        [sys.executable, "-c", _WITHOUT],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("no NVIDIA driver: ")


def _driver_is_there() -> bool:
    try:
        boundary.describe_driver()
    except GpuError:
        return False
    return True
