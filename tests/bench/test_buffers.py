"""Where arrays lie, and what is in them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

from ptxtemplates.bench import contents
from ptxtemplates.bench.buffers import ALIGNMENT, HOST, Layout, Sets
from ptxtemplates.bench.contents import ELEMENTS, TILE, fill, tile_of
from ptxtemplates.bench.operands import Operand, operands_of
from ptxtemplates.bench.units import Workload, units_of
from ptxtemplates.errors import UnknownKernelError
from ptxtemplates.kernel import Tensor
from ptxtemplates.ptx.datatypes import TYPE_BITS
from tests.bench.conftest import CHUNK, REDUCE, ROPE
from tests.gpu.standins import Stream

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel
    from tests.gpu.standins import Machine

STREAM: Final[Any] = Stream(0)


def operands(*kernels: Kernel, **sizes: int) -> dict[str, Operand]:
    return operands_of(Workload(units_of(kernels)[-1], sizes))


def elements(operand: Operand, offset: int) -> np.ndarray[Any, Any]:
    """Return the offset of every element of the used part of an array."""
    places = np.arange(np.prod(operand.shape)).reshape(operand.shape) * operand.itemsize + offset
    return places[tuple(slice(used) for used in operand.used)].reshape(-1)


@pytest.mark.parametrize("max_chunks", [1, 2, 3, 5, 7, 10], ids="keys of one array in {0} chunks".format)
def test_used_parts_are_disjoint(max_chunks: int) -> None:
    """Also of keys and values, which lie within each other; and they end with the memory that is allocated."""
    made = operands(CHUNK, rows=3, max_chunks=max_chunks)
    layout = Layout(made, 4)
    seen: dict[str, list[np.ndarray[Any, Any]]] = {}
    for places in layout.sets:
        for name in ("q_ptr", "partials_ptr", "seq_lens_ptr", "k_ptrs_ptr", "v_ptrs_ptr"):
            seen.setdefault(places[name].arena, []).append(elements(made[name], places[name].offset))
    tables = [content for _, content in layout.contents if isinstance(content, list)]
    assert [len(table) for table in tables] == [3] * 8, "keys and values of four sets, a pointer a row"
    target = made["k_ptrs_ptr"].target
    assert target is not None
    for place in itertools.chain(*tables):
        seen[place.arena].append(elements(target, place.offset))
    for arena, parts in seen.items():
        taken = np.concatenate(parts)
        assert np.unique(taken).size == taken.size, arena
        assert taken.max() < layout.sizes[arena]
    assert all(place.offset % ALIGNMENT == 0 for each in layout.sets for place in each.values())
    assert all(place.offset % ALIGNMENT == 0 for place in itertools.chain(*tables))


def test_short_sequences_take_little_more_memory_than_they_use() -> None:
    """8 keys of 40 in an array: five arrays lie in the memory of one."""
    made = operands(CHUNK, rows=5, max_chunks=2)
    whole = 2 * 40 * 8 * 4
    queries, partials = 5 * 4 * 8 * 4, 5 * 4 * 2 * 10 * 4
    assert Layout(made, 1).sizes["f32"] == sum(
        -(-size // ALIGNMENT) * ALIGNMENT for size in (queries, partials, whole, whole)
    )


def test_sets_are_filled(machine: Machine) -> None:
    layout = Layout(operands(CHUNK, REDUCE, rows=2, max_chunks=2), 3)
    sets = Sets(layout, 0, STREAM)
    assert sum(call.arguments[1] for call in machine.calls if call.name == "allocate") == layout.bytes
    for addresses in sets.addresses:
        assert machine._view(addresses["seq_lens_ptr"])[:8].view(np.uint32).tolist() == [8, 8]
        for name in ("k_ptrs_ptr", "v_ptrs_ptr"):
            for pointer in machine._view(addresses[name])[:16].view(np.uint64):
                keys = machine._view(int(pointer))[: 8 * 8 * 4].view(np.float32)
                assert np.isfinite(keys).all()
                assert np.unique(keys).size > 50
    pointers = [addresses["seq_lens_ptr"] for addresses in sets.addresses]
    assert len(set(pointers)) == 3
    sets.close()
    assert machine.memories == {}


def test_positions_are_those_of_a_typical_launch(machine: Machine) -> None:
    sets = Sets(Layout(operands(ROPE, rows=3), 1), 0, STREAM)
    [addresses] = sets.addresses
    assert machine._view(addresses["positions_ptr"])[:12].view(np.uint32).tolist() == [0, 1, 2]


@pytest.mark.parametrize("element", ELEMENTS)
def test_tiles_hold_numbers(element: str) -> None:
    tile = tile_of(element)
    assert tile.size == TILE
    assert np.unique(tile).size > 100
    assert (tile == tile_of(element)).all(), "the same in every run"
    kinds: dict[str, Any] = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": ml_dtypes.bfloat16, "tf32": "f4"}
    if (dtype := kinds.get(element.removesuffix("x2"))) is not None:
        numbers = tile.view(dtype).astype(np.float64)
        assert np.isfinite(numbers).all()
        assert 0.9 < numbers.std() < 1.1


def test_every_element_is_of_a_known_size() -> None:
    assert ELEMENTS.keys() <= TYPE_BITS.keys()


@pytest.mark.parametrize("size", [4, 100, 1000, 1024, 1025, 5000])
def test_all_memory_is_filled(machine: Machine, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(contents, "TILE", 1000)
    memory = machine.allocate(0, 6000, STREAM)
    fill(memory.handle, size, "f32", STREAM)
    filled = machine._view(memory.handle)
    tile = tile_of("f32")
    expected = np.resize(tile[:1000], size) if size > 1000 else tile[:size]
    assert (filled[:size] == expected).all()
    assert not filled[size:].any()


def test_elements_that_cannot_be_filled_are_said_before_anything_is_allocated(machine: Machine) -> None:
    tensor = Tensor("e4m3x2", ("rows",), 2, "data")
    odd = Operand("x_ptr", tensor, (4,), (4,), 4, None, False, None)
    with pytest.raises(
        UnknownKernelError, match="elements of type e4m3x2 cannot be filled: the bench knows b16"
    ):
        Sets(Layout({"x_ptr": odd}, 1), 0, STREAM)
    assert machine.calls == []
    assert HOST not in ELEMENTS
