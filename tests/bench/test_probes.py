"""The bench's own two kernels: they assemble for every architecture, and do what they say."""

from __future__ import annotations

import numpy as np
import pytest

from ptxtemplates.bench import probes
from ptxtemplates.emulator import emulate
from ptxtemplates.ptx.linter import lint
from ptxtemplates.ptx.parser import parse
from tests.helpers.assembler import assemble

TEXTS = {probes.EMPTY_ENTRY: probes.EMPTY, probes.SWEEP_ENTRY: probes.SWEEP}


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("entry", TEXTS)
def test_they_assemble(entry: str, architecture: str) -> None:
    assert assemble(TEXTS[entry], architecture).spills == 0


@pytest.mark.parametrize("entry", TEXTS)
def test_nothing_is_wrong_with_them(entry: str) -> None:
    assert lint(parse(TEXTS[entry]), TEXTS[entry]) == []


def test_empty_runs_on_any_grid() -> None:
    report = emulate(probes.EMPTY, probes.EMPTY_ENTRY, (3, 2, 2), (64, 2, 1), [], count=True)
    assert report.findings == ()
    assert report.counts is not None
    assert report.counts.threads == 12 * 128, "one instruction a thread"


def test_sweep_reads_every_byte_once_and_writes_none() -> None:
    memory = np.arange(3 * probes.SWEEP_BYTES, dtype=np.uint8)
    before = memory.copy()
    report = emulate(
        probes.SWEEP, probes.SWEEP_ENTRY, (3, 1, 1), (probes.SWEEP_THREADS, 1, 1), [memory], count=True
    )
    assert report.findings == ()
    assert report.counts is not None
    [load] = [line for line in report.counts.lines if line.space == "global"]
    assert (load.bytes, load.sectors, load.stores) == (memory.size, memory.size // 32, False)
    assert (memory == before).all()


def test_the_assembler_keeps_loads_that_nothing_uses() -> None:
    """Without ``volatile`` the machine code is that of a kernel that returns at once."""
    kept = assemble(probes.SWEEP, "sm_90").cubin
    removed = assemble(probes.SWEEP.replace(".volatile", ""), "sm_90").cubin
    assert len(kept) > len(removed)
