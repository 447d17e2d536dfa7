"""Arrays of the host: copied in, computed (by the emulator, behind the stand-in), and copied out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from ptxtemplates.emulator import PointerTable, Unwritten, emulate
from ptxtemplates.gpu import LaunchError, load
from ptxtemplates.references.rope import rotated
from ptxtemplates.rendering import render
from tests.gpu.standins import CPU, DlpackArray, Stream
from tests.gpu.test_checks import CHUNK, REDUCE, ROPE, STREAM, frozen, x

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tests.gpu.standins import Machine

POSITIONS: Final = np.array([0, 7, 4_000_000_000], np.uint32)
LENGTHS: Final = np.array([40, 0, 9], np.uint32)


def random(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def test_rope(install: Callable[..., Machine]) -> None:
    machine = install(ROPE)
    given, out = random(3, 4, 16), np.full((3, 4, 16), np.nan, np.float32)
    before = given.copy()
    load(ROPE).launch(STREAM, given, out, POSITIONS)
    exact, bound = rotated(ROPE, given, [int(position) for position in POSITIONS])
    assert (np.abs(out - exact) <= bound).all()
    assert np.array_equal(given, before)
    names = machine.names()
    assert names == ["load", *["allocate", "copy_to_device"] * 3, "launch", "copy_to_host", "synchronise",
                     *["close"] * 3]  # fmt: skip
    assert not machine.memories, "nothing is kept"
    assert {call.arguments[-1] for call in machine.calls if call.name not in ("load", "launch")} == {STREAM}


def test_in_place(install: Callable[..., Machine]) -> None:
    machine = install(ROPE)
    loaded = load(ROPE)
    given, out = random(3, 4, 16), np.empty((3, 4, 16), np.float32)
    loaded.launch(STREAM, given, out, POSITIONS)
    loaded.launch(STREAM, given, given, POSITIONS)
    assert np.array_equal(given, out)
    first, second, _ = machine.launches()[1][3:]
    assert first == second, "one array, one copy"


def test_two_kernels_of_attention(install: Callable[..., Machine]) -> None:
    install(CHUNK, REDUCE)
    query = random(3, 4, 16)
    keys, values = ([random(2, 32, 16, seed=seed + row) for row in range(3)] for seed in (1, 11))
    partials = np.full((3, 4, 5, 18), np.nan, np.float32)
    output = np.full((3, 4, 16), np.nan, np.float32)
    load(CHUNK).launch(STREAM, query, keys, tuple(values), partials, LENGTHS, 5)
    load(REDUCE).launch(STREAM, partials, output, LENGTHS, 5)

    expected_partials, expected = np.empty_like(partials), np.empty_like(output)
    tables = [PointerTable(keys), PointerTable(values)]
    chunk: list[Any] = [query, *tables, Unwritten(expected_partials), LENGTHS, 5]
    emulate(render(CHUNK).text, CHUNK.entry, (4, 3, 5), CHUNK.block, chunk)
    reduce: list[Any] = [expected_partials, Unwritten(expected), LENGTHS, 5]
    emulate(render(REDUCE).text, REDUCE.entry, (4, 3, 1), REDUCE.block, reduce)
    assert np.array_equal(output, expected)
    assert not output[1].any(), "a row without keys"


def test_arrays_of_other_libraries(install: Callable[..., Machine]) -> None:
    install(ROPE)
    given, out = random(3, 4, 16), np.empty((3, 4, 16), np.float32)
    expected = np.empty_like(out)
    loaded = load(ROPE)
    loaded.launch(STREAM, given, expected, POSITIONS)
    loaded.launch(STREAM, *(DlpackArray(a, kind=CPU[0]) for a in (given, out, POSITIONS)))
    assert np.array_equal(out, expected)


def test_no_rows(install: Callable[..., Machine]) -> None:
    machine = install(CHUNK)
    empty = np.empty((0, 4, 16), np.float32)
    load(CHUNK).launch(STREAM, empty, [], [], np.empty((0, 4, 5, 18), np.float32), LENGTHS[:0], 5)
    assert machine.names() == ["load", "synchronise"]


def arguments(**replaced: Any) -> list[Any]:
    tables = {name: [random(2, 32, 16) for _ in range(3)] for name in "kv"}
    given = {
        "q": random(3, 4, 16),
        **tables,
        "partials": random(3, 4, 5, 18),
        "lengths": LENGTHS,
        "chunks": 5,
    }
    return list((given | replaced).values())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda: arguments(k=[random(2, 32, 16)] * 2),
            "k_ptrs_ptr: its shape is (2), and must be (rows = 3 as in q_ptr)",
        ),
        (
            lambda: arguments(v=[random(2, 32, 16), random(2, 31, 16), random(2, 32, 16)]),
            "its shape is (2, 31, 16), and must be (num_kv_heads = 2, max_seq_len = 32, head_dim = 16)",
        ),
        (
            lambda: arguments(v=[random(2, 32, 16).astype(np.float64)] * 3),
            "v_ptrs_ptr: its elements are float64, and the kernel reads float32",
        ),
        (
            lambda: arguments(k=np.zeros(3, np.uint64), v=np.zeros(3, np.uint64)),
            "k_ptrs_ptr: addresses in host memory; pass the sequence of the host's arrays",
        ),
        (lambda: arguments(k=[3, 4, 5]), "k_ptrs_ptr: int is no array"),
        (lambda: arguments(q=[random(3, 4, 16)]), "q_ptr: it must be one array, and no sequence"),
        (
            lambda: arguments(q=x()),
            "k_ptrs_ptr: it is in host memory, and q_ptr on device 0: copy it there first",
        ),
        (lambda: arguments(partials=frozen(random(3, 4, 5, 18))), "partials_ptr: it is read-only"),
    ],
)
def test_refused(install: Callable[..., Machine], given: Callable[[], list[Any]], message: str) -> None:
    machine = install(CHUNK)
    loaded = load(CHUNK)
    with pytest.raises(LaunchError) as refusal:
        loaded.launch(STREAM, *given())
    assert message in str(refusal.value)
    assert machine.names() == ["load"], "nothing is copied before all is checked"


def test_overlapping_arrays(install: Callable[..., Machine]) -> None:
    install(ROPE)
    whole = random(4, 4, 16)
    with pytest.raises(LaunchError, match="out_ptr: it shares 512 bytes with x_ptr"):
        load(ROPE).launch(STREAM, whole[:3], whole[1:], POSITIONS)


def test_a_stream_of_another_device(install: Callable[..., Machine]) -> None:
    install(ROPE)
    with pytest.raises(LaunchError, match="stream: it is of device 1"):
        load(ROPE).launch(Stream(1), random(3, 4, 16), random(3, 4, 16), POSITIONS)
