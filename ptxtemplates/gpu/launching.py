"""Kernels on a GPU: load one, launch it with arrays of any library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.arrays import READERS, Layout
from ptxtemplates.gpu.availability import require
from ptxtemplates.gpu.checks import check, check_alignment, check_overlap
from ptxtemplates.gpu.errors import GpuError, LaunchError
from ptxtemplates.gpu.host_arrays import launch_on_host
from ptxtemplates.gpu.loading import load_text
from ptxtemplates.gpu.signature import signature_of
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    import cuda.core

    from ptxtemplates.gpu.boundary import Block
    from ptxtemplates.gpu.contexts import AnyStream
    from ptxtemplates.kernel import Kernel

KEPT: Final = 4096
"""How many launches that differ in layouts or sizes are remembered, of each kernel."""

_launched: Final[dict[tuple[Kernel, int], LoadedKernel]] = {}


class _Plan(NamedTuple):
    """What launches with equal layouts and sizes share.

    Attributes
    ----------
    configuration : cuda.core.LaunchConfig or None
        None if there is nothing to do: a size is 0.
    spans : tuple of int
        Bytes of each array.
    on_host : bool
        Whether the arrays must be copied.
    """

    configuration: cuda.core.LaunchConfig | None
    spans: tuple[int, ...]
    on_host: bool


class LoadedKernel:
    """A kernel on a device. Made by `load`; any number of threads may launch it.

    Attributes
    ----------
    kernel : Kernel
        What was loaded.
    device : int
        Where.
    """

    def __init__(self, kernel: Kernel, device: int, handle: cuda.core.Kernel) -> None:
        self.kernel = kernel
        self.device = device
        self._handle = handle
        self._launch = boundary.launcher()
        self._signature = signature = signature_of(kernel)
        self._memories = tuple((position, memory.name) for position, memory in signature.memories)
        self._alignments = tuple(memory.alignment for _, memory in signature.memories)
        self._scalars = tuple((position, scalar.convert) for position, scalar in signature.scalars)
        self._makers = tuple((position, scalar.make) for position, scalar in signature.scalars)
        self._size_scalars = {name: position for position, name in signature.size_scalars}
        self._extents = kernel.grid
        self._tables = tuple(position for position, memory in signature.memories if memory.target is not None)
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._configurations: dict[Block, cuda.core.LaunchConfig] = {}

    def __repr__(self) -> str:
        return f"<{self.kernel.variant} on device {self.device}>"

    def launch(self, stream: AnyStream, *arguments: Any, checked: bool = True, **sizes: int) -> None:
        """Launch the kernel on a stream. Device arrays are neither copied nor waited for.

        Parameters
        ----------
        stream : cuda.core.Stream, GraphBuilder, object with ``__cuda_stream__``, or int
            Of this kernel's device; an int is the handle. A default stream (0) is that of the thread's
            context, or of this kernel's device where the thread has none.
        *arguments
            In the order of ``kernel.arguments``: an array for each pointer, a number for each scalar. Arrays
            of the GPU are of any library that has DLPack or ``__cuda_array_interface__``, or PyTorch's; a
            table of pointers is an array of addresses (uint64 or int64). If all arrays are the host's, they
            are copied to the GPU, outputs are copied back, and the call returns when that is done; a table
            is a sequence of arrays then.
        checked : bool
            Whether the arguments are checked. If not, mistakes are the GPU's to find; an int is accepted as
            the address of device memory then, and no array may be the host's.
        **sizes : int
            Run-time sizes that no argument has. With ``checked=False`` they spare looking for them.

        Raises
        ------
        LaunchError
            If the arguments do not fit. Nothing has been launched or changed.
        GpuError
            If the driver refuses the launch, or reports an error of earlier work.
        """
        if len(arguments) != self._signature.arity:
            self._refuse_count(len(arguments))
        if not checked:
            self._launch_unchecked(stream, arguments, sizes)
            return
        values: list[Any] = list(arguments)
        for position, convert in self._scalars:
            values[position] = convert(arguments[position])
        for position in self._tables:
            if isinstance(arguments[position], (list, tuple)):
                self._copy_and_launch(stream, arguments, values, sizes)
                return
        pointers, layouts = [], []
        for position, name in self._memories:
            try:
                array = arguments[position]
                pointer, layout = READERS[type(array)].whole(array)
            except Exception as error:  # of any library
                raise LaunchError(f"{self.kernel.variant}: {name}: {error}", argument=name) from error
            values[position] = pointer
            pointers.append(pointer)
            layouts.append(layout)
        named = [(name, values[position].value) for position, name in self._signature.size_scalars]
        key = (*layouts, *named, *sizes.items())
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan([Layout(*layout) for layout in layouts], dict(named) | sizes)
            if len(self._plans) >= KEPT:
                self._plans.clear()
            self._plans[key] = plan
        if plan.on_host:
            self._copy_and_launch(stream, arguments, values, sizes)
            return
        for pointer, alignment in zip(pointers, self._alignments, strict=True):
            if pointer % alignment:
                check_alignment(self._signature, pointers)
        spans = plan.spans
        for first, second, _ in self._signature.pairs:
            a, b = pointers[first], pointers[second]
            if a < b + spans[second] and b < a + spans[first]:
                check_overlap(self._signature, pointers, spans)
        has_context = self._check_device(stream)
        if plan.configuration is not None:
            own = boundary.stream_of(stream)
            if has_context:
                self._launch(own, plan.configuration, self._handle, *values)
            else:
                with boundary.current(self.device):
                    self._launch(own, plan.configuration, self._handle, *values)

    def _launch_unchecked(
        self, stream: AnyStream, arguments: tuple[Any, ...], sizes: Mapping[str, int]
    ) -> None:
        values = [*arguments]
        for position, _ in self._memories:
            array = arguments[position]
            if type(array) is not int:
                values[position] = READERS[type(array)].address(array)
        for position, make in self._makers:
            values[position] = make(arguments[position])
        x, y, z = self._extents
        configuration = self._configured(
            (
                self._size(x, arguments, sizes) if isinstance(x, str) else x,
                self._size(y, arguments, sizes) if isinstance(y, str) else y,
                self._size(z, arguments, sizes) if isinstance(z, str) else z,
            )
        )
        if configuration is not None:
            own = boundary.stream_of(stream)
            try:
                self._launch(own, configuration, self._handle, *values)
            except GpuError:
                if boundary.has_context():
                    raise
                # a default stream, which is none without a context: asked for where it has failed alone
                with boundary.current(self.device):
                    self._launch(own, configuration, self._handle, *values)

    def _size(self, name: str, arguments: tuple[Any, ...], sizes: Mapping[str, int]) -> int:
        """Find a run-time size where it can be read quickest."""
        if name in sizes:
            return sizes[name]
        if name in self._size_scalars:
            return int(arguments[self._size_scalars[name]])
        position, axis, more = self._signature.sources.get(name, (0, 0, 0))
        array = arguments[position]
        if name not in self._signature.sources or type(array) is int:
            raise LaunchError(f"{self.kernel.variant}: {name} is not known: pass {name}=...", argument=name)
        return int(array.shape[axis]) - more

    def _plan(self, layouts: list[Layout], sizes: Mapping[str, int]) -> _Plan:
        checked = check(self._signature, layouts, sizes, self.device)
        return _Plan(self._configured(self._grid(checked.sizes)), checked.spans, checked.on_host)

    def _grid(self, sizes: Mapping[str, int]) -> Block:
        x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in self._extents)
        return x, y, z

    def _configured(self, grid: Block) -> cuda.core.LaunchConfig | None:
        """Return the configuration for a grid, None for an empty one."""
        # launches read it and change nothing in it, as long as it has none of the optional attributes:
        # threads may share one
        if (found := self._configurations.get(grid)) is not None:
            return found
        if 0 in grid:
            return None
        made = boundary.configuration(grid, self.kernel.block)
        if len(self._configurations) >= KEPT:
            self._configurations.clear()
        self._configurations[grid] = made
        return made

    def _copy_and_launch(
        self, stream: AnyStream, arguments: tuple[Any, ...], values: list[Any], sizes: Mapping[str, int]
    ) -> None:
        self._check_device(stream)
        own = boundary.stream_of(stream)

        def enqueue(pointers: list[int], bound: Mapping[str, int]) -> None:
            for (position, _), pointer in zip(self._memories, pointers, strict=True):
                values[position] = pointer
            configuration = self._configured(self._grid(bound))
            if configuration is not None:
                self._launch(own, configuration, self._handle, *values)

        named = {name: values[position].value for name, position in self._size_scalars.items()}
        arrays = [arguments[position] for position, _ in self._memories]
        launch_on_host(self._signature, arrays, named | {**sizes}, self.device, own, enqueue)

    def _check_device(self, stream: AnyStream) -> bool:
        """Raise `LaunchError` if a stream is of another device; return whether it is of any yet."""
        device = boundary.device_of(stream)
        if device is not None and device != self.device:
            raise LaunchError(
                f"{self.kernel.variant}: stream: it is of device {device}, and the kernel is loaded on "
                f"device {self.device}",
                argument="stream",
            )
        return device is not None

    def _refuse_count(self, count: int) -> NoReturn:
        names = ", ".join(argument.name for argument in self.kernel.arguments)
        raise LaunchError(
            f"{self.kernel.variant}: {count} arguments, and it takes {self._signature.arity}: {names}"
        )


def load(kernel: Kernel, device: int | None = None) -> LoadedKernel:
    """Load a kernel onto a GPU, so that its first launch is as quick as the others.

    The text is rendered and assembled for the device's architecture; the machine code is kept between
    processes. Must not be called while a stream is being captured.

    Parameters
    ----------
    kernel : Kernel
    device : int, optional
        That of the thread's current context if it is not given, or 0.

    Raises
    ------
    GpuError
        If no GPU can be used (`unavailable` has the same words), or the driver refuses the machine code.
    AssemblyError
        If the text does not assemble for the device.
    """
    require()
    chosen = boundary.current_device() if device is None else device
    return LoadedKernel(kernel, chosen, load_text(render(kernel).text, kernel.entry, chosen))


def launch(kernel: Kernel, stream: AnyStream, *arguments: Any, checked: bool = True, **sizes: int) -> None:
    """Launch a kernel on a stream, loaded onto the stream's device when that sees it for the first time.

    As `LoadedKernel.launch`, which is quicker: keep what `load` returns where that matters, and for a stream
    that is being captured. A default stream is of device 0 where the thread has no context.
    """
    require()
    key = (kernel, boundary.device_of(stream) or 0)
    loaded = _launched.get(key)
    if loaded is None:
        loaded = _launched.setdefault(key, load(*key))
    loaded.launch(stream, *arguments, checked=checked, **sizes)
