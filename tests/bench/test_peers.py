"""Peers without a GPU: PyTorch on the CPU, what is asked of a peer before it is timed, and why one is absent."""

from __future__ import annotations

import contextlib
import gc
import importlib
import shutil
import sys
import weakref
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.bench import peers
from ptxtemplates.bench.contender import Absent, Contender
from ptxtemplates.bench.peers import PEERS, Peer, peers_of, prepared
from ptxtemplates.bench.peers.graphs import Recorded
from ptxtemplates.bench.peers.problems import PROBLEMS, Layout, Place, Reduction, Refused, Rotation, Work
from tests.bench.peers_on_cpu import SHAPES, Repeated, error_of, problem_of, ragged

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

EAGER, COMPILED, *_ = PEERS
F32 = peers.TOLERANCES["f32"]

needs_a_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="torch.compile needs a C++ compiler"
)


@pytest.mark.parametrize("shape", SHAPES)
def test_pytorch_computes_what_the_kernels_do(shape: str) -> None:
    problem = problem_of(SHAPES[shape], torch)
    assert error_of(_pytorch().eager(problem), problem) < F32


@needs_a_compiler
@pytest.mark.parametrize("shape", ["rope backward", "reduce many chunks", "decode grouped"])
@pytest.mark.filterwarnings("default")  # what compilers warn of is theirs
def test_compiled_pytorch_computes_what_the_kernels_do(shape: str) -> None:
    problem = problem_of(SHAPES[shape], torch)
    work = _pytorch().compiled(problem)
    assert error_of(work, problem) < F32
    if isinstance(problem, Reduction):
        assert ragged(work, problem, torch) < F32


def test_pytorch_reduces_rows_of_their_own_lengths() -> None:
    problem = problem_of(SHAPES["reduce many chunks"], torch)
    assert isinstance(problem, Reduction)
    assert ragged(_pytorch().eager(problem), problem, torch) < F32


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_moves_its_inputs_and_its_result_once(shape: str) -> None:
    problem = problem_of(SHAPES[shape], torch)
    layout, call = _pytorch().eager(problem)
    inputs = layout.sets(1)[0]
    moved = [*inputs, call(*inputs)]
    if "rope" in shape:
        # one of the two tables, and the rows of it that positions name: all but the first
        del moved[1]
        moved[1] = moved[1][1:]
    assert layout.bytes == sum(part.numel() * part.element_size() for part in moved)


@pytest.mark.parametrize(("kernels", "sizes"), SHAPES.values(), ids=SHAPES)
def test_every_pytorch_peer_is_made_ready(
    kernels: Any, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = _on_cpu(monkeypatch)
    found = [*peers_of(kernels, sizes, device=0, stream=7, working_set=1 << 16)]
    assert [peer.name for peer in found] == [peer.name for peer in PEERS]
    eager = found[0]
    assert isinstance(eager, Contender)
    assert eager.element == "f32"
    assert eager.calls == min(-(-(1 << 16) // eager.bytes), 1000)
    assert len(recorder.made[0]) == eager.calls
    assert recorder.stream == 7


def test_calls_rotate_over_inputs_of_their_own() -> None:
    seen: list[int] = []
    problem = problem_of(SHAPES["rope of one row"], torch)
    assert isinstance(problem, Rotation)
    layout = problem.layout("f32")

    def call(*inputs: Any) -> Any:
        seen.append(inputs[0].data_ptr())
        return _pytorch().eager(problem).call(*inputs)

    contender = _prepared(lambda problem: Work(layout, call), problem, working_set=3 * layout.bytes)
    assert isinstance(contender, Contender)
    assert contender.calls == 3
    seen.clear()
    contender.enqueue()
    assert len(set(seen)) == 3


def test_there_are_at_most_a_thousand_calls() -> None:
    problem = problem_of(SHAPES["decode one key"], torch)
    recorder = Repeated()
    contender = prepared(EAGER, problem, recorder, 1 << 40)
    assert isinstance(contender, Contender)
    assert contender.calls == len(recorder.made[0]) == 1000


def test_peers_of_a_layout_share_their_inputs() -> None:
    problem = problem_of(SHAPES["decode grouped"], torch)
    first, second = (_pytorch().eager(problem).layout.sets(2) for _ in range(2))
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """Every tensor that peers are given, while it lives; calls are made as a graph makes them."""
    made: list[weakref.ref[Any]] = []

    def sets(layout: Layout, count: int, original: Any = Layout.sets) -> Any:
        found = original(layout, count)
        made.extend(weakref.ref(part) for inputs in found for part in inputs)
        return found

    monkeypatch.setattr(Layout, "sets", sets)
    _on_cpu(monkeypatch)
    monkeypatch.setattr(peers, "Graphs", lambda torch, device, stream: _graph)
    return made


def test_inputs_live_as_long_as_a_graph_may_read_them(parts: list[weakref.ref[Any]]) -> None:
    """A graph knows their addresses alone."""
    kernels, sizes = SHAPES["decode grouped"]
    with contextlib.ExitStack() as resources:
        found = peers_of(kernels, sizes, device=0, stream=0, working_set=1, resources=resources)
        contenders = [peer for peer in found if isinstance(peer, Contender)]
        del found
        gc.collect()
        assert parts
        assert all(part() is not None for part in parts)
    with pytest.raises(ValueError, match="the memory of these calls has been released"):
        contenders[0].enqueue()


@pytest.mark.parametrize("shape", ["decode grouped", "rope backward", "reduce many chunks"])
def test_no_memory_of_one_workload_is_taken_in_the_next(
    shape: str, parts: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what is in reference cycles, whenever Python would look for these."""
    emptied: list[bool] = []
    monkeypatch.setattr(
        torch.cuda, "empty_cache", lambda: emptied.append(any(part() is not None for part in parts))
    )
    kernels, sizes = SHAPES[shape]
    gc.disable()
    try:
        with contextlib.ExitStack() as resources:
            contenders = [*peers_of(kernels, sizes, device=0, stream=0, working_set=1, resources=resources)]
            assert all(part() is not None for part in parts)
    finally:
        gc.enable()
    assert any(isinstance(each, Contender) for each in contenders)
    assert not any(part() is not None for part in parts)
    assert emptied == [False], "PyTorch's cache is emptied last"


def test_a_gpu_that_has_failed_hides_no_other_error(
    parts: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch cannot empty its cache then."""

    def fail() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    kernels, sizes = SHAPES["rope backward"]
    resources = contextlib.ExitStack()
    assert [*peers_of(kernels, sizes, device=0, stream=0, working_set=1, resources=resources)]
    resources.close()


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("wrong", ["all", "the last row", "not a number"])
def test_a_peer_that_computes_something_else_is_absent(element: str, wrong: str) -> None:
    problem = problem_of(SHAPES["rope backward"], torch)
    assert isinstance(problem, Rotation)
    layout = problem.layout(element)

    def call(x: Any, *inputs: Any) -> Any:
        result = problem.layout(element).exact(range(problem.rows), (x, *inputs)).to(x.dtype)
        if wrong == "all":
            return x
        result[-1] = result[-1] * 1.05 if wrong == "the last row" else float("nan")
        return result

    absent = _prepared(lambda problem: Work(layout, call), problem)
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("computes something else (max error ")


@pytest.mark.parametrize("forgotten", [0, -1], ids=["the first call", "the last call"])
@pytest.mark.parametrize("in_place", [False, True], ids=["elsewhere", "in place"])
def test_a_graph_that_does_not_do_all_is_absent(forgotten: int, in_place: bool) -> None:
    """A library that works on a stream of its own leaves an empty one, whose time would be wonderful."""
    problem = problem_of(SHAPES["rope backward"], torch)
    assert isinstance(problem, Rotation)
    layout = problem.layout("f32")

    def call(x: Any, *inputs: Any) -> Any:
        result = _pytorch().eager(problem).call(x, *inputs)
        return x.copy_(result) if in_place else result

    def prepare(problem: Any) -> Work:
        return Work(layout, call)

    wanted = 3 * layout.bytes
    assert isinstance(_prepared(prepare, problem, working_set=wanted, recorder=_graph), Contender)
    graph = partial(_graph, forgotten=forgotten)
    absent = _prepared(prepare, problem, working_set=wanted, recorder=graph)
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("computes something else (max error ")


def test_tensorfloat_32_is_something_else() -> None:
    """Its products have 10 bits behind the point; a setting of PyTorch that someone has made for speed."""
    problem = problem_of(SHAPES["decode grouped"], torch)
    work = _pytorch().eager(problem)

    def call(*inputs: Any) -> Any:
        return work.call(*((part.view(torch.int32) & -(1 << 13)).view(torch.float32) for part in inputs))

    absent = _prepared(lambda problem: work._replace(call=call), problem)
    assert isinstance(absent, Absent)
    assert "computes something else" in absent.reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Refused("Some has no f32 merge"), "Some has no f32 merge"),
        (RuntimeError("\nout of memory\nTried to allocate"), "Some refused: out of memory"),
        (RuntimeError("word " * 100), "Some refused: " + ("word " * 100)[:157] + "..."),
        (AssertionError(), "Some refused: AssertionError"),
        (
            ModuleNotFoundError("No module named 'other'", name="other"),
            "Some refused: No module named 'other'",
        ),
    ],
)
def test_what_a_library_raises_is_why_it_is_absent(error: Exception, reason: str) -> None:
    def refuse(problem: Any) -> Any:
        raise error

    problem = problem_of(SHAPES["rope backward"], torch)
    assert _prepared(refuse, problem) == Absent("Some", reason)


def test_a_library_that_fails_at_the_call_is_absent() -> None:
    problem = problem_of(SHAPES["rope backward"], torch)

    def fail(*inputs: Any) -> Any:
        raise ValueError("Unsupported head_dim: 128")

    work = Work(problem.layout("f32"), fail)  # type: ignore[union-attr] # it is RoPE
    assert _prepared(lambda problem: work, problem) == Absent(
        "Some", "Some refused: Unsupported head_dim: 128"
    )


def test_a_peer_that_cannot_be_captured_says_so() -> None:
    problem = problem_of(SHAPES["rope backward"], torch)
    contender = prepared(EAGER, problem, Repeated(captured=False), 1)
    assert isinstance(contender, Contender)
    assert contender.name == "PyTorch eager (no graph)"


@pytest.mark.parametrize("peer", PEERS[2:], ids=lambda peer: peer.name)
def test_a_library_that_is_missing_is_named(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, peer.package, None)
    absent = prepared(peer, problem_of(SHAPES["rope backward"], torch), Repeated(), 1)
    assert absent == Absent(peer.name, f"{peer.package} is not installed")


def test_without_pytorch_there_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    kernels, sizes = SHAPES["rope backward"]
    found = peers_of(kernels, sizes, device=0, stream=0, working_set=1)
    assert [*found] == [Absent(peer.name, "torch is not installed") for peer in PEERS]


def test_without_a_gpu_there_are_no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    kernels, sizes = SHAPES["decode grouped"]
    found = peers_of(kernels, sizes, device=0, stream=0, working_set=1)
    assert [*found] == [Absent(peer.name, "this PyTorch sees no GPU") for peer in PEERS]


def test_chunks_alone_have_no_peers() -> None:
    (chunk, _), sizes = SHAPES["decode grouped"]
    assert (type(chunk),) not in PROBLEMS
    assert [*peers_of((chunk,), sizes, device=0, stream=0, working_set=1)] == []


def _pytorch() -> Any:
    return importlib.import_module("ptxtemplates.bench.peers.pytorch")


def _graph(calls: Any, forgotten: int | None = None) -> Recorded:
    """Make calls as a graph does, which writes each result to one place; one of them is not in it."""
    places = [call() for call in calls]
    kept = [*zip(calls, places, strict=True)]
    if forgotten is not None:
        del kept[forgotten]

    def enqueue() -> None:
        for call, place in kept:
            place.copy_(call())

    return Recorded(enqueue, captured=True, ends=[places[0], places[-1]])


def _prepared(
    prepare: Callable[[Any], Any], problem: Any, *, working_set: int = 1, recorder: Any = None
) -> Contender | Absent:
    """Prepare a peer whose work is what `prepare` says."""
    name = "ptxtemplates.bench.peers.some"
    module = ModuleType(name)
    module.prepare = prepare  # type: ignore[attr-defined] # made here
    sys.modules[name] = module
    try:
        return prepared(Peer("Some", "torch", "some"), problem, recorder or Repeated(), working_set)
    finally:
        del sys.modules[name]


def _on_cpu(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Let the CPU pass for a GPU, calls be made again instead of captured, and nothing be compiled."""
    recorder = Repeated()

    def graphs(torch: Any, device: int, stream: int) -> Repeated:
        recorder.stream = stream
        return recorder

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch, "compile", lambda call, **options: call)
    monkeypatch.setattr(peers, "Place", lambda torch, device: Place(torch, "cpu"))
    monkeypatch.setattr(peers, "Graphs", graphs)
    return recorder
