"""What is measured, as a peer sees it: inputs in the layouts that peers take, the bytes of a call, the truth.

Tensors are PyTorch's, on any device. PyTorch is no dependency of this package: it is handed in by the caller,
and its types are not named.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import rope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.kernels.rope import Rope

Tensor: TypeAlias = Any
Tensors: TypeAlias = "tuple[Tensor, ...]"

BYTES: Final = {"f32": 4, "bf16": 2}
PAGE: Final = 16
"""Keys of a page in the caches of FlashInfer and vLLM."""


class Place:
    """PyTorch and the device on which tensors are made, with random numbers of its own.

    Parameters
    ----------
    torch : module
    device : str
        As PyTorch names it: ``cuda:0``.
    """

    def __init__(self, torch: Any, device: str) -> None:
        self.torch = torch
        self.device = device
        self._generator = torch.Generator(device).manual_seed(0)

    def normal(self, shape: tuple[int, ...], element: str = "f32") -> Tensor:
        """Return normally distributed numbers."""
        torch = self.torch
        numbers = torch.randn(shape, generator=self._generator, device=self.device)
        return numbers if element == "f32" else numbers.to(torch.bfloat16)

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> Tensor:
        """Return uniformly distributed f32 numbers."""
        numbers = self.torch.rand(shape, generator=self._generator, device=self.device)
        return numbers * (high - low) + low

    def counting(self, count: int, dtype: str, step: int = 1) -> Tensor:
        """Return 0, step, ..., `count` numbers."""
        return self.torch.arange(count, dtype=getattr(self.torch, dtype), device=self.device) * step

    def lengths(self, count: int, length: int) -> Tensor:
        """Return a length `count` times, int32."""
        return self.torch.full((count,), min(length, 2**31 - 1), dtype=self.torch.int32, device=self.device)

    def wait(self) -> None:
        """Wait until the device has done all that it was asked for, on every stream."""
        if "cuda" in self.device:
            self.torch.cuda.synchronize()


class Layout:
    """Inputs of a call in one layout, as often as calls rotate over them; peers of a layout share them.

    Attributes
    ----------
    element : str
        What most of the data consists of.
    bytes : int
        That one call must move: each input element read once, each output element written once.
    exact : callable
        Takes numbers of rows and the inputs, and returns those rows of the result in float64.
    """

    def __init__(
        self,
        element: str,
        moved: int,
        make: Callable[[], Tensors],
        exact: Callable[[Sequence[int], Tensors], Tensor],
    ) -> None:
        self.element = element
        self.bytes = moved
        self.exact = exact
        self._make = make
        self._made: list[Tensors] = []

    def sets(self, count: int) -> list[Tensors]:
        """Return that many sets of inputs, made where they are not yet there."""
        while len(self._made) < count:
            self._made.append(self._make())
        return self._made[:count]


class Rotation:
    """RoPE of adjacent pairs, forward or backward.

    Inputs are x [rows, num_heads, head_dim], two forms of one float32 table of cosine and sine by position,
    and positions int64 [rows]: 1, 2, ..., as nothing turns at 0. An engine makes the table once, from exact
    angles; that of the backward kernel has the sine's sign turned, so that peers rotate by it as they do
    forward. A call reads one of the forms: [positions, head_dim] with all cosines before the sines, or pairs
    of them [positions, head_dim / 2, 2].
    """

    def __init__(self, kernels: Sequence[Rope], sizes: Mapping[str, int], place: Place) -> None:
        (self.kernel,) = kernels
        self.rows = sizes["rows"]
        self.place = place
        self._layouts: dict[str, Layout] = {}

    def layout(self, element: str) -> Layout:
        """Return the layout with x of that element type."""
        if element not in self._layouts:
            kernel, rows = self.kernel, self.rows
            size = rows * kernel.num_heads * kernel.head_dim
            moved = 2 * size * BYTES[element] + rows * (kernel.head_dim * 4 + 8)
            self._layouts[element] = Layout(element, moved, lambda: self._made(element), self._exact)
        return self._layouts[element]

    @cached_property
    def _directions(self) -> Tensors:
        torch = self.place.torch
        positions = range(self.rows + 1)
        return tuple(torch.from_numpy(part) for part in rope.directions(self.kernel, positions))

    def _made(self, element: str) -> Tensors:
        torch, device, kernel = self.place.torch, self.place.device, self.kernel
        x = self.place.normal((self.rows, kernel.num_heads, kernel.head_dim), element)
        halves = torch.cat(self._directions, -1).to(device, torch.float32)
        pairs = torch.stack(self._directions, -1).to(device, torch.float32)
        return x, halves, pairs, self.place.counting(self.rows, "int64") + 1

    def _exact(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        torch = self.place.torch
        x = inputs[0][list(rows)].double()
        positions = [row + 1 for row in rows]
        cosine, sine = (part[positions][:, None].to(x.device) for part in self._directions)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, odd * cosine + even * sine), -1).flatten(-2)


class Reduction:
    """Combination of the partial results of chunks, every chunk of every row in use."""

    def __init__(
        self, kernels: Sequence[FlashDecodingReduce], sizes: Mapping[str, int], place: Place
    ) -> None:
        (self.kernel,) = kernels
        self.rows, self.max_chunks = sizes["rows"], sizes["max_chunks"]
        self.place = place

    @cached_property
    def partials(self) -> Layout:
        """As the kernel takes them: f32 [rows, num_heads, max_chunks, head_dim + 2], and lengths int32."""
        heads = self.rows * self.kernel.num_heads
        row = self.kernel.head_dim + 2
        moved = 4 * (heads * (self.max_chunks * row + self.kernel.head_dim) + self.rows)
        return Layout("f32", moved, self._partials, self._exact)

    @cached_property
    def states(self) -> Layout:
        """As FlashInfer takes them, in bf16.

        Values [rows, max_chunks, num_heads, head_dim] that are divided by their sum, and the logarithm of
        that sum to the base 2, f32 [rows, max_chunks, num_heads]. Both are results too.
        """
        states = self.rows * self.kernel.num_heads * (self.max_chunks + 1)
        moved = states * (2 * self.kernel.head_dim + 4)
        return Layout("bf16", moved, self._states, self._merged)

    @cached_property
    def normalised(self) -> Layout:
        """As vLLM takes them: f32 [rows, num_heads, max_chunks, head_dim + 1], and lengths int32.

        Values that are divided by their sum, then the natural logarithm of that sum. A logarithm a row and
        head is a result too.
        """
        heads = self.rows * self.kernel.num_heads
        row = self.kernel.head_dim + 1
        moved = 4 * (heads * (self.max_chunks * row + row) + self.rows)
        return Layout("f32", moved, self._normalised, self._exact_normalised)

    def _partials(self) -> Tensors:
        shape = (self.rows, self.kernel.num_heads, self.max_chunks)
        values = self.place.normal((*shape, self.kernel.head_dim + 2))
        values[..., -1] = self.place.uniform(shape, 1.0, 1.0 + self.kernel.chunk_size)
        return values, self._lengths()

    def _normalised(self) -> Tensors:
        shape = (self.rows, self.kernel.num_heads, self.max_chunks)
        return self.place.normal((*shape, self.kernel.head_dim + 1)), self._lengths()

    def _lengths(self) -> Tensor:
        return self.place.lengths(self.rows, self.max_chunks * self.kernel.chunk_size)

    def _states(self) -> Tensors:
        shape = (self.rows, self.max_chunks, self.kernel.num_heads)
        return self.place.normal((*shape, self.kernel.head_dim), "bf16"), self.place.normal(shape)

    def _exact(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        partials = inputs[0][list(rows)].double()
        values, maxima, sums = partials[..., :-2], partials[..., -2], partials[..., -1]
        weights = (maxima - maxima.amax(-1, keepdim=True)).exp()
        total = (weights * sums).sum(-1, keepdim=True)
        return (weights[..., None] * values).sum(-2) / total

    def _exact_normalised(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        partials = inputs[0][list(rows)].double()
        return (partials[..., -1:].softmax(-2) * partials[..., :-1]).sum(-2)

    def _merged(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        values, logarithms = (part[list(rows)].double() for part in inputs)
        weights = (logarithms * self.place.torch.tensor(2.0).double().log()).softmax(1)
        return (weights[..., None] * values).sum(1)


class Decoding:
    """Attention of one query token a row to all its keys."""

    def __init__(
        self,
        kernels: tuple[FlashDecodingChunk, FlashDecodingReduce],
        sizes: Mapping[str, int],
        place: Place,
    ) -> None:
        self.kernel, _ = kernels
        self.rows = sizes["rows"]
        self.keys = min(sizes["max_chunks"] * self.kernel.chunk_size, self.kernel.max_seq_len)
        self.place = place

    @cached_property
    def contiguous(self) -> Layout:
        """Query f32 [rows, num_heads, head_dim], keys and values f32 [rows, num_kv_heads, keys, head_dim]."""
        return Layout("f32", self._moved("f32"), self._contiguous, self._exact)

    @cached_property
    def paged(self) -> Layout:
        """The same in bf16, keys and values [pages, PAGE, num_kv_heads, head_dim], pages in order."""
        return Layout("bf16", self._moved("bf16"), self._paged, self._exact_paged)

    @property
    def pages(self) -> int:
        """Pages of a row."""
        return -(-self.keys // PAGE)

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.kernel.num_heads // self.kernel.num_kv_heads

    def _moved(self, element: str) -> int:
        heads = 2 * self.kernel.num_heads + 2 * self.kernel.num_kv_heads * self.keys
        return self.rows * heads * self.kernel.head_dim * BYTES[element]

    def _query(self, element: str) -> Tensor:
        return self.place.normal((self.rows, self.kernel.num_heads, self.kernel.head_dim), element)

    def _contiguous(self) -> Tensors:
        shape = (self.rows, self.kernel.num_kv_heads, self.keys, self.kernel.head_dim)
        return self._query("f32"), self.place.normal(shape), self.place.normal(shape)

    def _paged(self) -> Tensors:
        shape = (self.rows * self.pages, PAGE, self.kernel.num_kv_heads, self.kernel.head_dim)
        return self._query("bf16"), self.place.normal(shape, "bf16"), self.place.normal(shape, "bf16")

    def _exact(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        query, keys, values = (part[list(rows)].double() for part in inputs)
        query = query.unflatten(1, (self.kernel.num_kv_heads, self.group))
        weights = (query @ keys.mT * self.kernel.scale).softmax(-1)
        return (weights @ values).flatten(1, 2)

    def _exact_paged(self, rows: Sequence[int], inputs: Tensors) -> Tensor:
        query, *caches = inputs
        keys, values = (
            cache.unflatten(0, (self.rows, self.pages)).flatten(1, 2)[:, : self.keys].transpose(1, 2)
            for cache in caches
        )
        return self._exact(rows, (query, keys, values))


Problem: TypeAlias = Rotation | Reduction | Decoding

PROBLEMS: Final[dict[tuple[type[Kernel], ...], Callable[[Any, Mapping[str, int], Place], Problem]]] = {
    (BatchedRope,): Rotation,
    (BatchedRopeBackward,): Rotation,
    (FlashDecodingReduce,): Reduction,
    (FlashDecodingChunk, FlashDecodingReduce): Decoding,
}
"""By the classes of the kernels that are measured as one. Those that are not here have no peers."""


class Work(NamedTuple):
    """How a peer solves a problem.

    Attributes
    ----------
    layout : Layout
    call : callable
        Takes the inputs of the layout, puts one call on the current stream, and returns the result.
    """

    layout: Layout
    call: Callable[..., Tensor]


class Refused(Exception):
    """A peer has nothing that solves a problem; the message is the reason."""
