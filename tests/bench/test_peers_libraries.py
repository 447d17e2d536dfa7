"""FlashInfer and vLLM against stand-ins that check what they are given as the libraries do."""

from __future__ import annotations

import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.bench.contender import Absent, Contender
from ptxtemplates.bench.peers import PEERS, TOLERANCES, prepared
from tests.bench import peer_standins
from tests.bench.peers_on_cpu import SHAPES, Repeated, decoding, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.peers_on_cpu import Shape

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

PEER = {peer.name: peer for peer in PEERS}
MADE = {"FlashInfer": peer_standins.flashinfer, "vLLM": peer_standins.vllm}
WIDE: Shape = decoding(8, 8, 512, 16, 64, rows=1, max_chunks=2)


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Contender | Absent, list[str]]]:
    """Return what prepares a peer with its stand-in: the peer, and a log of the calls."""

    def preparing(name: str, shape: Shape, **broken: Any) -> tuple[Contender | Absent, list[str]]:
        log: list[str] = []
        for module_name, module in MADE[name](torch, log).items():
            module.__spec__ = importlib.machinery.ModuleSpec(module_name, None)
            for attribute in set(broken) & set(vars(module)):
                monkeypatch.setattr(module, attribute, broken[attribute])
            monkeypatch.setitem(sys.modules, module_name, module)
        problem = problem_of(shape, torch)
        return prepared(PEER[name], problem, Repeated(), 1 << 14), log

    return preparing


REDUCE: Shape = SHAPES["reduce one chunk"]


@pytest.mark.parametrize(
    ("name", "shape", "element", "calls"),
    [
        ("FlashInfer", SHAPES["rope backward"], "bf16", ["rope"]),
        ("FlashInfer", SHAPES["rope of one row"], "bf16", ["rope"]),
        ("FlashInfer", REDUCE, "bf16", ["merge"]),
        ("FlashInfer", SHAPES["decode one row"], "bf16", ["plan, tensor cores: False", "decode"]),
        ("FlashInfer", SHAPES["decode grouped"], "bf16", ["plan, tensor cores: True", "decode"]),
        ("FlashInfer", SHAPES["decode one key"], "bf16", ["plan, tensor cores: False", "decode"]),
        ("vLLM", SHAPES["rope backward"], "f32", ["rope"]),
        ("vLLM", SHAPES["rope of one head"], "f32", ["rope"]),
        ("vLLM", SHAPES["reduce many chunks"], "f32", ["reduce"]),
        ("vLLM", SHAPES["decode grouped"], "bf16", ["decode, FlashAttention 2"]),
        ("vLLM", SHAPES["decode one key"], "bf16", ["decode, FlashAttention 2"]),
    ],
)
def test_arguments_are_what_the_library_takes(
    name: str, shape: Shape, element: str, calls: list[str], prepare: Any
) -> None:
    contender, log = prepare(name, shape)
    assert isinstance(contender, Contender), contender
    assert (contender.name, contender.element) == (name, element)
    # a round is looked at; what is planned is planned once
    assert log == [*calls[:-1], *calls[-1:] * contender.calls]
    contender.enqueue()
    assert log == [*calls[:-1], *calls[-1:] * 2 * contender.calls]


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        (
            "FlashInfer",
            SHAPES["rope of one head"],
            "FlashInfer rotates queries and keys together: two heads at least",
        ),
        ("FlashInfer", SHAPES["reduce many chunks"], "FlashInfer refused: Unsupported head_dim: 72"),
        (
            "vLLM",
            WIDE,
            "vLLM refused: FlashAttention forward only supports head dimension at most 256",
        ),
    ],
)
def test_what_a_library_has_not_is_said(name: str, shape: Shape, reason: str, prepare: Any) -> None:
    absent, _ = prepare(name, shape)
    assert absent == Absent(name, reason)


def test_other_versions_of_a_library_are_told(prepare: Any) -> None:
    def older(positions: Any, query: Any, key: Any) -> None:
        """Take fewer arguments."""

    absent, _ = prepare("vLLM", SHAPES["rope backward"], rotary_embedding=older)
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("vLLM refused: ")
    assert "positional arguments" in absent.reason


def test_a_library_whose_results_differ_is_absent(prepare: Any) -> None:
    """A natural logarithm where FlashInfer takes one to the base 2, say."""

    def natural(v: Any, s: Any) -> Any:
        return (s.softmax(1)[..., None] * v).sum(1).to(v.dtype), s.logsumexp(1)

    shape = (SHAPES["reduce one chunk"][0], {"rows": 2, "max_chunks": 5})
    absent, _ = prepare("FlashInfer", shape, merge_states=natural)
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("computes something else (max error ")
    assert isinstance(prepare("FlashInfer", shape)[0], Contender)


@pytest.mark.parametrize("shape", ["reduce one chunk", "reduce many chunks"])
def test_layouts_of_the_reduction_move_inputs_and_results_once(shape: str) -> None:
    problem: Any = problem_of(SHAPES[shape], torch)
    rows, heads, head_dim = problem.rows, problem.kernel.num_heads, problem.kernel.head_dim
    values, logarithms = problem.states.sets(1)[0]
    inputs = 2 * values.numel() + 4 * logarithms.numel()
    assert problem.states.bytes == inputs + rows * heads * (2 * head_dim + 4)
    partials, lengths = problem.normalised.sets(1)[0]
    inputs = 4 * (partials.numel() + lengths.numel())
    assert problem.normalised.bytes == inputs + 4 * rows * heads * (head_dim + 1)


def test_half_types_move_half_the_bytes() -> None:
    problem: Any = problem_of(SHAPES["decode grouped"], torch)
    assert 2 * problem.paged.bytes == problem.contiguous.bytes
    assert problem.keys % 16, "the last page is not full, and is not counted as if it were"


def test_tolerances_tell_half_types_from_mistakes() -> None:
    """An error of one place in 64 passes for bf16, which has 8 bits, and not for f32."""
    assert TOLERANCES["f32"] < 1e-4 < TOLERANCES["bf16"] < 0.02
