"""What is put on a GPU to measure a workload: seen by the stand-in, which executes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest

from ptxtemplates.bench import contender, contents, probes, running
from ptxtemplates.bench.contender import (
    EMPTY,
    LEAST_CALLS,
    OURS,
    Absent,
    Contender,
    calls_of,
)
from ptxtemplates.bench.running import Bench, Outcome
from ptxtemplates.bench.timing import LEAST_ROUNDS
from ptxtemplates.bench.units import Workload, units_of
from ptxtemplates.errors import AssemblyError
from ptxtemplates.gpu import boundary, loading
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.kernel import pointer
from tests.bench.conftest import CHUNK, REDUCE, ROPE, Peers
from tests.helpers.toy import Toy, toy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from ptxtemplates.kernel import Kernel
    from tests.gpu.standins import Machine

L2: Final = 1024


def workload(*kernels: Kernel, **sizes: int) -> Workload:
    return Workload(units_of(kernels)[-1], sizes)


class Spy:
    """A peer that sees the memory of the device, when our kernels have run and the buffers are still there."""

    def __init__(self, machine: Machine, peers: Peers) -> None:
        self._machine = machine
        self.memories: dict[int, npt.NDArray[np.uint8]] = {}
        peers.made = lambda: [Contender("spy", "f32", 1 << 20, 1, self.look)]

    def look(self) -> None:
        self.memories = {start: memory.copy() for start, memory in self._machine.memories.items()}
        self._machine.now_us += 1  # everything takes time

    def floats(self, address: int, *shape: int) -> npt.NDArray[np.float64]:
        [(start, memory)] = [
            each for each in self.memories.items() if each[0] <= address < each[0] + each[1].size
        ]
        return memory[address - start :].view(np.float32)[: np.prod(shape)].reshape(shape).astype(np.float64)

    def words(self, address: int, count: int, dtype: Any) -> npt.NDArray[Any]:
        [(start, memory)] = [
            each for each in self.memories.items() if each[0] <= address < each[0] + each[1].size
        ]
        return memory[address - start :][: count * np.dtype(dtype).itemsize].view(dtype)


def launched(machine: Machine, entry: str) -> list[tuple[Any, ...]]:
    """Return configuration and arguments of each captured launch of an entry."""
    return [(call[1], *call[3:]) for call in machine.launches() if call[2].entry == entry]


def test_rope_turns_every_set(machine: Machine, peers: Peers) -> None:
    spy = Spy(machine, peers)
    outcome = Bench().measure(workload(ROPE, rows=3))
    launches = launched(machine, ROPE.entry)
    size = 2 * 3 * 2 * 16 * 4 + 3 * 4
    assert len(launches) == LEAST_CALLS == 8
    assert {configuration for configuration, *_ in launches} == {((2, 3, 1), (8, 1, 1))}
    pointers = [pointer for _, *arguments in launches for pointer in arguments]
    assert len(set(pointers)) == 3 * 8, "each call has buffers of its own"
    for _, x, out, positions in launches:
        assert spy.words(positions, 3, np.uint32).tolist() == [0, 1, 2]
        numbers = spy.floats(x, 3, 2, 16)
        angles = np.arange(3)[:, None] * 1e4 ** (-np.arange(8) / 8)[None]
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        even, odd = numbers[..., ::2], numbers[..., 1::2]
        exact = np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(3, 2, 16)
        assert np.abs(spy.floats(out, 3, 2, 16) - exact).max() < 1e-5
    assert [each.name for each in outcome.times] == [OURS, EMPTY, "spy"]
    ours = next(iter(outcome.times))
    assert (ours.element, ours.bytes, ours.calls) == ("f32", size, 8)


@pytest.mark.parametrize("max_chunks", [2, 3, 12], ids=["two of five", "three of three", "more than fit"])
def test_chunks_and_their_reduction_are_attention(machine: Machine, peers: Peers, max_chunks: int) -> None:
    spy = Spy(machine, peers)
    bench = Bench()
    bench.working_set = 25_000
    outcome = bench.measure(workload(CHUNK, REDUCE, rows=2, max_chunks=max_chunks))
    chunks, reductions = launched(machine, CHUNK.entry), launched(machine, REDUCE.entry)
    calls = next(iter(outcome.times)).calls
    assert len(chunks) == len(reductions) == calls > 1
    entries = [call[2].entry for call in machine.launches() if call[2].entry in (CHUNK.entry, REDUCE.entry)]
    assert entries == [CHUNK.entry, REDUCE.entry] * calls
    assert {launch[0] for launch in chunks} == {((4, 2, max_chunks), (32, 1, 1))}
    assert {launch[0] for launch in reductions} == {((4, 2, 1), (32, 1, 1))}
    length = min(4 * max_chunks, 40)
    outputs = set()
    for (_, q, k_table, v_table, partials, lengths, most), reduction in zip(chunks, reductions, strict=True):
        assert reduction == (reduction[0], partials, reduction[2], lengths, max_chunks)
        assert most == max_chunks
        outputs.add(reduction[2])
        assert spy.words(lengths, 2, np.uint32).tolist() == [length] * 2
        queries = spy.floats(q, 2, 4, 8)
        for row in range(2):
            keys, values = (
                np.stack(
                    [
                        spy.floats(int(spy.words(table, 2, np.uint64)[row]) + head * 40 * 8 * 4, length, 8)
                        for head in range(2)
                    ]
                ).repeat(2, axis=0)
                for table in (k_table, v_table)
            )
            scores = np.einsum("hd,hkd->hk", queries[row], keys) / np.sqrt(8)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            exact = np.einsum("hk,hkd->hd", weights / weights.sum(axis=1, keepdims=True), values)
            assert np.abs(spy.floats(reduction[2], 2, 4, 8)[row] - exact).max() < 1e-5
    assert len(outputs) == calls


def test_the_empty_kernel_has_the_same_grids(machine: Machine) -> None:
    Bench().measure(workload(CHUNK, REDUCE, rows=2, max_chunks=3))
    ours = [call[1] for call in machine.launches() if call[2].entry in (CHUNK.entry, REDUCE.entry)]
    empty = launched(machine, probes.EMPTY_ENTRY)
    assert empty == [(configuration,) for configuration in ours[:2] * 20], "in order, no arguments"


def test_empty_kernels_wait_behind_other_work(machine: Machine) -> None:
    """Or what is measured would be how long the CPU takes to put them there."""
    Bench().measure(workload(ROPE, rows=3))
    _, empty = (call.arguments[1] for call in machine.calls if call.name == "capture")
    timed = [number for number, call in enumerate(machine.calls) if call.arguments[:1] == (empty,)][:-1]
    assert len(timed) > LEAST_ROUNDS, "all but that it is closed"
    for number in timed:
        before = machine.calls[number - 1]
        assert before.name == "launch"
        assert before.arguments[2].entry == probes.SWEEP_ENTRY


def test_more_calls_than_fill_the_cache_have_a_part_of_the_memory(machine: Machine) -> None:
    """They share the time that a graph takes to start, which is little beside calls on large buffers."""
    machine.free = 16 * 4000
    outcome = Bench().measure(workload(ROPE, rows=3))
    size = 780
    assert next(iter(outcome.times)).calls == -(-4 * L2 // size) == 6 > 4000 // size
    assert calls_of(size=780, working_set=4 * L2, room=1 << 30) == 8
    assert calls_of(size=1 << 20, working_set=4 * L2, room=(3 << 20) + 1) == 3
    assert calls_of(size=1 << 20, working_set=4 * L2, room=0) == 1
    assert calls_of(size=1, working_set=4 * L2, room=0) == 1000


def test_what_takes_no_time_is_not_reported(machine: Machine, peers: Peers) -> None:
    peers.made = lambda: [Contender("quick", "f32", 10_000, 1, lambda: None)]
    outcome = Bench().measure(workload(ROPE, rows=3))
    assert [each.name for each in outcome.times] == [OURS, EMPTY]
    assert outcome.absent == [Absent("quick", running.NO_TIME)]
    machine.launch_us = lambda loaded: float(loaded.entry != ROPE.entry)
    assert Bench().measure(workload(ROPE, rows=3)).skipped == f"{OURS}: {running.NO_TIME}"
    machine.launch_us = lambda loaded: 1.0
    machine.copy_rate = math.inf
    assert Bench().measure(workload(ROPE, rows=3)).skipped == f"copy: {running.NO_TIME}"


def test_a_graph_is_captured_once_and_replayed(machine: Machine) -> None:
    outcome = Bench().measure(workload(ROPE, rows=3))
    names = machine.names()
    assert names.count("capture") == 2
    rounds = len(next(iter(outcome.times.values())))
    assert names.count("replay") == 3 * (1 + rounds), "ours before a round too; one round to warm up"
    graphs = [call.arguments[1] for call in machine.calls if call.name == "capture"]
    after = names[len(names) - 1 - names[::-1].index("replay") :]
    assert after.count("close_graph") == 2
    assert all(not graph.work for graph in graphs)
    assert len(machine.memories) == 2, "what copies read and write stays, what a workload had is given back"


def test_times_are_those_of_a_call(machine: Machine) -> None:
    times = {
        ROPE.entry: 3.0,
        CHUNK.entry: 5.0,
        REDUCE.entry: 7.0,
        probes.EMPTY_ENTRY: 0.5,
        probes.SWEEP_ENTRY: 99.0,
    }
    machine.launch_us = lambda loaded: times[loaded.entry]
    bench = Bench()
    for kernels, sizes, ours, empty in (
        ((ROPE,), {}, 3.0, 0.5),
        ((CHUNK,), {"max_chunks": 3}, 5.0, 0.5),
        ((CHUNK, REDUCE), {"max_chunks": 3}, 12.0, 1.0),
    ):
        outcome = bench.measure(workload(*kernels, rows=3, **sizes))
        assert [set(np.round(each, 9)) for each in outcome.times.values()] == [{ours}, {empty}]
        assert set(np.round(outcome.copies)) == {1e9}, "1000 bytes a microsecond"


def test_copies_are_larger_than_the_cache_and_take_turns(machine: Machine) -> None:
    bench = Bench()
    assert bench.copy.bytes == 2 * 8192
    machine.calls.clear()
    outcome = bench.measure(workload(ROPE, rows=3))
    rounds = len(outcome.copies)
    assert rounds == len(next(iter(outcome.times.values())))
    # what tells the rounds apart: a graph of ours, the empty one behind something else, a copy
    graphs = {
        id(call.arguments[1]): number
        for number, call in enumerate(call for call in machine.calls if call.name == "capture")
    }
    order = [
        graphs[id(call.arguments[0])] if call.name == "replay" else "copy"
        for call in machine.calls
        if call.name in ("replay", "copy_on_device")
    ]
    assert order[-5 * rounds :] == [0, 0, 1, "copy", "copy"] * rounds


def test_a_little_is_read_from_memory_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many calls as a graph may have do not fill the cache: before each round, other memory does."""
    monkeypatch.setattr(contender, "MOST_CALLS", 3)
    bench = Bench()
    outcome = bench.measure(workload(ROPE, rows=1))
    assert next(iter(outcome.times)).calls == 3
    rounds = len(outcome.copies)
    sweeps = launched(machine, probes.SWEEP_ENTRY)
    whole = 2 * (1 + rounds)
    assert sweeps == [(((2, 1, 1), (256, 1, 1)), sweeps[0][1])] * whole, "before ours and the empty one"
    source = next(
        call.arguments[1]
        for call in machine.calls
        if call.name == "copy_on_device" and call.arguments[2] == 8192
    )
    assert sweeps[0][1] == source
    graphs = [call.arguments[0] for call in machine.calls if call.name == "replay"]
    assert [graph.replays for graph in dict.fromkeys(graphs)] == [1 + rounds] * 2


def test_fewer_sets_where_memory_is_short(machine: Machine) -> None:
    """Eight are wanted, and a half is tried until it fits."""
    bench = Bench()
    machine.free = 4 * 1024
    outcome = bench.measure(workload(ROPE, rows=3))
    assert next(iter(outcome.times)).calls == 2
    sweeps = launched(machine, probes.SWEEP_ENTRY)
    assert len(sweeps) == 2 * (1 + len(outcome.copies)), "too few to be larger than the cache"


def test_what_does_not_fit_is_skipped(machine: Machine) -> None:
    bench = Bench()
    machine.free = 1000
    machine.calls.clear()
    outcome = bench.measure(workload(ROPE, rows=30))
    assert outcome.times == {}
    assert outcome.skipped == "its buffers take 0.0 GiB, and stand-in 0 has 0.0 GiB free"
    assert "allocate" not in machine.names()


def test_a_gpu_without_memory_for_copies(machine: Machine) -> None:
    machine.free = 16_383
    with pytest.raises(
        GpuError, match=r"larger than the cache needs 0\.0 GiB, and stand-in 0 has 0\.0 GiB free"
    ):
        Bench()
    assert "allocate" not in machine.names()


@dataclass(frozen=True, kw_only=True)
class Indexed(Toy):
    """Has an index array of which nothing is known."""

    arguments: ClassVar[Any] = (*Toy.arguments, pointer("at_ptr", "u32", "rows", role="index", alignment=4))


def test_a_kernel_of_which_too_little_is_known_is_skipped(machine: Machine) -> None:
    unknown = workload(Indexed(width=4), rows=1)
    outcome = Bench().measure(unknown)
    assert outcome == Outcome(unknown, {}, [], [], outcome.skipped)
    assert "what a typical launch passes for at_ptr is not known" in outcome.skipped


def test_a_kernel_that_does_not_assemble_for_the_device_is_skipped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()

    def refuse(text: str, architecture: str) -> None:
        raise AssemblyError(f"not for {architecture}", faults=((1, "no"),))

    monkeypatch.setattr(loading, "assemble", refuse)
    assert bench.measure(workload(ROPE, rows=1)).skipped == "not for sm_90"


def test_peers_get_what_they_need(machine: Machine, peers: Peers) -> None:
    bench = Bench(1)
    bench.measure(workload(CHUNK, REDUCE, rows=2, max_chunks=3))
    [(kernels, given)] = peers.calls
    assert given.pop("resources") is not None
    assert (kernels, given) == (
        (CHUNK, REDUCE),
        {
            "sizes": {"rows": 2, "max_chunks": 3},
            "device": 1,
            "stream": 2,
            "working_set": 4 * L2,
            "room": bench.room,
        },
    )


def test_peers_are_timed_in_turn_or_absent(machine: Machine, peers: Peers) -> None:
    seen: list[str] = []

    def enqueue(name: str, time: float) -> Any:
        def put() -> None:
            seen.append(name)
            machine.now_us += time

        return put

    def fail() -> None:
        raise RuntimeError("no kernel image\nis available")

    peers.made = lambda: [
        Contender("quick", "bf16", 10_000, 2, enqueue("quick", 4.0)),
        Absent("missing", "it is not installed"),
        Contender("broken", "f32", 10_000, 1, fail),
        Contender("slow", "f32", 10, 1, enqueue("slow", 6.0)),
    ]
    outcome = Bench().measure(workload(ROPE, rows=3))
    assert outcome.absent == [
        Absent("missing", "it is not installed"),
        Absent("broken", "it failed: no kernel image is available"),
    ]
    quick, slow = [*outcome.times][2:]
    assert {round(time, 9) for time in outcome.times[quick]} == {2.0}, "two calls a round"
    assert {round(time, 9) for time in outcome.times[slow]} == {6.0}
    rounds = len(outcome.copies)
    assert seen == ["quick", "slow"] + ["quick", "quick", "slow"] * (1 + rounds), (
        "10 bytes are swept away before"
    )


def test_clocks_are_up_before_a_round(machine: Machine) -> None:
    """Copies of 16 us: 300 of them, and no more where they would take longer than is needed."""
    bench = Bench()
    machine.calls.clear()
    machine.copy_rate = 16384 / 20_000  # a copy takes 20 ms
    bench._warm_up()
    assert machine.names() == ["copy_on_device"] * 3, "one that is timed, two that fill 50 ms"
    machine.calls.clear()
    machine.copy_rate = 1000.0
    bench._warm_up()
    assert len(machine.calls) == 1 + running.MOST_WARM_UPS


def test_every_call_is_made_in_the_context_of_the_device(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's functions that copy work in the current context alone."""
    present: list[int] = []
    for name in ("copy_to_device", "copy_on_device", "capture", "replay", "record", "elapsed_ms", "allocate"):
        original = getattr(boundary, name)

        def checked(*arguments: Any, original: Any = original) -> Any:
            present.append(machine.present)
            return original(*arguments)

        monkeypatch.setattr(boundary, name, checked)
    Bench(1).measure(workload(replace(ROPE, entry="other"), rows=1))
    assert set(present) == {1}
    assert machine.present == 0


def test_a_kernel_of_ones_own(install: Callable[..., Machine], tmp_path: Path, peers: Peers) -> None:
    """It works in place, and doubles the first element of each row: the stand-in executes one replay."""
    kernel = toy(tmp_path)
    machine = install(kernel)
    machine.l2 = 1024
    spy = Spy(machine, peers)
    outcome = Bench().measure(workload(kernel, rows=3))
    ours = next(iter(outcome.times))
    assert (ours.element, ours.bytes, ours.calls) == ("f32", 3 * 64 * 4, 8)
    whole = np.concatenate([spy.floats(x, 192) for _, x in launched(machine, kernel.entry)])
    expected = contents.tile_of("f32").view(np.float32)[: whole.size].astype(np.float64)
    expected[::64] *= 2
    assert (whole == expected).all()
