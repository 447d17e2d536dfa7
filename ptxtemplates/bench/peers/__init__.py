"""Peers: what other libraries have for the kernels of this one, prepared, checked, and ready to be timed."""

from __future__ import annotations

import gc
import importlib
import importlib.util
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ptxtemplates.bench.contender import Absent, Contender, calls_of
from ptxtemplates.bench.peers.graphs import Graphs
from ptxtemplates.bench.peers.problems import PROBLEMS, Place, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import ExitStack
    from typing import Any

    from ptxtemplates.bench.peers.graphs import Recorded, Recorder
    from ptxtemplates.bench.peers.problems import Problem, Tensor, Tensors, Work
    from ptxtemplates.kernel import Kernel

__all__ = ["PEERS", "Peer", "peers_of"]

TOLERANCES: Final = {"f32": 2.0**-14, "bf16": 2.0**-6}
"""How far a result may be off, as a share of the largest one: the first is too little for TensorFloat-32."""

MOST_TEXT: Final = 160
"""Characters of a library's message that are shown."""


class Peer(NamedTuple):
    """A library, and where its calls are made.

    Attributes
    ----------
    name : str
        As reports show it.
    package : str
        That must be installed beside PyTorch.
    module, function : str
        In this package: takes a `Problem`, returns `Work` or raises `Refused`.
    """

    name: str
    package: str
    module: str
    function: str = "prepare"


PEERS: Final = (
    Peer("PyTorch eager", "torch", "pytorch", "eager"),
    Peer("PyTorch compiled", "torch", "pytorch", "compiled"),
    Peer("Triton (ours)", "triton", "triton_peer"),
    Peer("FlashInfer", "flashinfer", "flashinfer_peer"),
    Peer("vLLM", "vllm", "vllm_peer"),
)
"""In the order in which reports show them."""


def peers_of(
    kernels: tuple[Kernel, ...],
    sizes: Mapping[str, int],
    *,
    device: int,
    stream: int,
    working_set: int,
    room: int = 0,
    resources: ExitStack | None = None,
) -> Iterator[Contender | Absent]:
    """Yield every peer, ready to be timed, or why it is not there.

    Results of each, of a round as it will be timed, are compared with float64 first. What a library raises is
    its reason to be absent.

    Parameters
    ----------
    kernels : tuple of Kernel
        What is measured as one: RoPE, the reduction, or chunks and their reduction. Nothing is yielded for
        others.
    sizes : mapping of str to int
        Every run-time size, as `ptxtemplates.references.launches.sizes_of` returns them; all rows are full.
    device, stream : int
        The device's number, and the handle of the stream on which calls are put.
    working_set, room : int
        Bytes: calls rotate over inputs that are together as large as the first at least, as
        `ptxtemplates.bench.contender.calls_of` has it.
    resources : contextlib.ExitStack, optional
        Gets what releases the memory of the peers, after which they cannot be timed any more. Without it they
        hold it as long as they live.
    """
    make = PROBLEMS.get(tuple(type(kernel) for kernel in kernels))
    if make is None:
        return
    try:
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise Refused("this PyTorch sees no GPU")
        with torch.cuda.device(device):
            problem = make(kernels, sizes, Place(torch, f"cuda:{device}"))
        recorder = Graphs(torch, device, stream)
    except Exception as error:
        for peer in PEERS:
            yield Absent(peer.name, _reason("torch", "PyTorch", error))
        return
    if resources is not None:
        resources.callback(_empty, torch)  # the last to be called: after all peers have been released
    for peer in PEERS:
        # not around the yield: the caller's device is its own affair
        with torch.cuda.device(device):
            contender = prepared(peer, problem, recorder, working_set, room)
        if (
            resources is not None
            and isinstance(contender, Contender)
            and isinstance(contender.enqueue, Calls)
        ):
            resources.callback(contender.enqueue.release)
        yield contender


def _empty(torch: Any) -> None:
    """Give back all memory of peers that have been released.

    A problem and its layouts know each other, and so do parts of the libraries: their tensors live until
    cycles are looked for. PyTorch keeps for itself what has been freed.
    """
    gc.collect()
    with suppress(Exception):  # of a GPU that has failed, which whoever meets it first tells
        torch.cuda.empty_cache()


class Calls:
    """Calls of a peer that were put together, with the tensors that they need."""

    def __init__(self, enqueue: Callable[[], None], calls: Sequence[Callable[[], Any]]) -> None:
        self._enqueue: Callable[[], None] | None = enqueue
        # a graph knows addresses alone: the tensors at them must live
        self._calls: Sequence[Callable[[], Any]] = calls

    def __call__(self) -> None:
        """Put them on the stream."""
        if self._enqueue is None:
            raise ValueError("the memory of these calls has been released")
        self._enqueue()

    def release(self) -> None:
        """Let go of graph and tensors."""
        self._enqueue = None
        self._calls = ()


def prepared(
    peer: Peer, problem: Problem, recorder: Recorder, working_set: int, room: int = 0
) -> Contender | Absent:
    """Return a peer that is ready to be timed, or why it is not there; its `enqueue` is `Calls`."""
    try:
        if importlib.util.find_spec(peer.package) is None:
            raise ModuleNotFoundError(name=peer.package)
        module = importlib.import_module(f"{__name__}.{peer.module}")
        work: Work = getattr(module, peer.function)(problem)
        layout = work.layout
        count = calls_of(layout.bytes, working_set, room)
        sets = layout.sets(count)
        calls = [partial(work.call, *inputs) for inputs in sets]
        recorded = recorder(calls)
        _check(work, problem, recorded, (sets[0], sets[-1]))
    except Exception as error:
        return Absent(peer.name, _reason(peer.package, peer.name, error))
    name = peer.name if recorded.captured else f"{peer.name} (no graph)"
    return Contender(name, layout.element, layout.bytes, count, Calls(recorded.enqueue, calls))


def _check(work: Work, problem: Problem, recorded: Recorded, ends: tuple[Tensors, Tensors]) -> None:
    """Raise `Refused` if a round as it is timed does not give the results that it should.

    Of its first and its last call, the first and the last row are looked at. What a graph gave before is
    overwritten: an empty one, of a library that has worked elsewhere than on the stream, leaves it so.
    """
    rows = sorted({0, problem.rows - 1})
    # before the round, which may work in place: what is not done then shows as an input that has not changed
    exact = [work.layout.exact(rows, inputs) for inputs in ends]
    for result, inputs in zip(recorded.ends, ends, strict=False):  # there are none yet without a graph
        if result.data_ptr() not in [part.data_ptr() for part in inputs]:
            result.fill_(float("nan"))
    problem.place.wait()  # streams do not wait for each other
    recorded.enqueue()
    problem.place.wait()
    for expected, result in zip(exact, recorded.ends, strict=True):
        _compare(work, expected, result[rows].double().reshape(expected.shape))


def _compare(work: Work, exact: Tensor, result: Tensor) -> None:
    error = float((result - exact).abs().max())
    allowed = TOLERANCES[work.layout.element] * float(exact.abs().max())
    if not error <= allowed:  # nor is NaN
        raise Refused(f"computes something else (max error {error:.1e}, allowed {allowed:.1e})")


def _reason(package: str, name: str, error: Exception) -> str:
    """Say in one line why a peer is absent."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return f"{package} is not installed"
    lines = str(error).strip().splitlines()
    said = lines[0].strip() if lines else ""
    if len(said) > MOST_TEXT:
        said = said[: MOST_TEXT - 3] + "..."
    return f"{name} refused: {said or type(error).__name__}"
