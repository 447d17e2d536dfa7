"""Where the kernels run: on the GPU that the tensors are on, or in the emulator for tensors of the CPU.

Both operators of this folder go through `run`, with tensors that are ready for the kernels: contiguous,
aligned, float32, and integers of 32 bits (`data` and `index` make them so).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ptxtemplates.emulator.arguments import Buffer, Value
    from ptxtemplates.gpu import LoadedKernel
    from ptxtemplates.kernel import Kernel

MOST_ROWS: Final = 65_535
"""That a grid has room for."""

INTEGERS: Final = (torch.int32, torch.int64, torch.uint32)


class Table(NamedTuple):
    """Tensors that a table of pointers is to point to: one of which each row is such a tensor, or several."""

    tensors: torch.Tensor | Sequence[torch.Tensor]


Argument: TypeAlias = "torch.Tensor | Table | int"


def run(kernel: Kernel, *arguments: Argument, **sizes: int) -> None:
    """Launch a kernel where its tensors are.

    Parameters
    ----------
    kernel : Kernel
    *arguments : torch.Tensor, Table or int
        In the order of ``kernel.arguments``, the first one a tensor.
    **sizes : int
        The run-time sizes that the kernel's grid names.

    Raises
    ------
    LaunchError
        If the arguments do not fit the kernel, on a GPU.
    RuntimeError
        If the kernel is not loaded yet and a stream is being captured; or if the emulator saw a mistake.
    """
    first = arguments[0]
    assert isinstance(first, torch.Tensor)
    PLACES[first.device.type](kernel, first.device, arguments, sizes)


def on_gpu(
    kernel: Kernel, device: torch.device, arguments: Sequence[Argument], sizes: dict[str, int]
) -> None:
    """Launch on PyTorch's current stream of the device; nothing is waited for."""
    with torch.cuda.device(device):
        launched = loaded(kernel, device.index)
        stream = torch.cuda.current_stream(device).cuda_stream
        words = [addresses(word) if isinstance(word, Table) else word for word in arguments]
        launched.launch(stream, *words)


@cache
def loaded(kernel: Kernel, device: int) -> LoadedKernel:
    """Load a kernel, when a device sees it for the first time."""
    from ptxtemplates.gpu import load

    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{kernel.variant} is not loaded on cuda:{device} yet, and cannot be while a stream is captured: "
            "call the operator once with these shapes before torch.cuda.graph"
        )
    return load(kernel, device)


def addresses(table: Table) -> torch.Tensor:
    """Return a tensor of addresses on the device, int64 [rows], without waiting for the device."""
    tensors = table.tensors
    if isinstance(tensors, torch.Tensor):
        start, step = tensors.data_ptr(), tensors.stride(0) * tensors.element_size()
        if not step:  # all rows are one, as `expand` makes them
            return torch.full(tensors.shape[:1], start, dtype=torch.int64, device=tensors.device)
        end = start + step * tensors.shape[0]
        return torch.arange(start, end, step, dtype=torch.int64, device=tensors.device)
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "the addresses of a list of tensors are copied to the device, which a captured stream cannot "
            "repeat: pass one tensor whose first axis is the rows"
        )
    # a copy from pinned memory is not waited for; PyTorch keeps that memory until the copy is done
    numbers = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)
    return numbers.pin_memory().to(tensors[0].device, non_blocking=True)


def in_emulator(
    kernel: Kernel, device: torch.device, arguments: Sequence[Argument], sizes: dict[str, int]
) -> None:
    """Execute the very PTX on the CPU: for tests, and machines without a GPU. Slow."""
    from ptxtemplates.emulator import PointerTable, Unwritten, emulate
    from ptxtemplates.rendering import render

    words: list[Buffer | Value] = []
    for argument, word in zip(kernel.arguments, arguments, strict=True):
        if isinstance(word, Table):
            words.append(PointerTable([tensor.detach().numpy() for tensor in word.tensors]))
        elif isinstance(word, torch.Tensor):
            array = word.detach().numpy()
            output = argument.tensor is not None and argument.tensor.role == "output"
            words.append(Unwritten(array) if output else array)
        else:
            words.append(word)
    rendered = render(kernel)
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    report = emulate(
        rendered.text, kernel.entry, (x, y, z), kernel.block, words,
        shared_memory=kernel.shared_memory, places=rendered.places,
    )  # fmt: skip
    if report.findings:
        raise RuntimeError(f"{kernel.variant}: {report.findings[0].describe()}")


PLACES: Final[dict[str, Callable[[Kernel, torch.device, Sequence[Argument], dict[str, int]], None]]] = {
    "cpu": in_emulator,
    "cuda": on_gpu,
}
"""By PyTorch's name of a type of device; the operators are registered for these."""


def slices(rows: int) -> Iterator[slice]:
    """Yield parts of the rows that a grid has room for; none if there are no rows."""
    for start in range(0, rows, MOST_ROWS):
        yield slice(start, min(start + MOST_ROWS, rows))


def data(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as the kernels read it: itself, or a copy if it is not contiguous and aligned."""
    whole = tensor.contiguous()
    return whole.clone() if whole.data_ptr() % 8 else whole


def index(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return integers as uint32: a view if they have 32 bits, else a copy, modulo 2^32."""
    if tensor.device.type == "cpu":
        in_range(tensor, name)  # a GPU would have to be waited for
    short = tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor
    return short.contiguous().view(torch.uint32)


def in_range(tensor: torch.Tensor, name: str) -> None:
    """Raise `ValueError` if an integer is not from 0 to 2^32 - 1."""
    for number in tensor.reshape(-1).tolist():
        if not 0 <= number < 2**32:
            raise ValueError(f"{name}: {number} is not from 0 to 2^32 - 1")


def check_types(
    device: torch.device, floats: dict[str, torch.Tensor], integers: dict[str, torch.Tensor]
) -> None:
    """Raise `TypeError` for elements that the kernels do not read, `ValueError` for tensors elsewhere."""
    for name, tensor in floats.items():
        if tensor.dtype != torch.float32:
            raise TypeError(
                f"{name}: its elements are {tensor.dtype}, and the kernel reads torch.float32: pass "
                f"{name}.float(), and convert the result back"
            )
    for name, tensor in integers.items():
        if tensor.dtype not in INTEGERS:
            raise TypeError(
                f"{name}: its elements are {tensor.dtype}, and must be torch.int64 or torch.int32"
            )
    for name, tensor in {**floats, **integers}.items():
        if tensor.device != device:
            raise ValueError(f"{name}: it is on {tensor.device}, and must be on {device}")
