"""Measuring on a GPU: what is allocated, captured and replayed, and how rounds are kept apart."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.bench import probes
from ptxtemplates.bench.buffers import Layout, Sets
from ptxtemplates.bench.contender import EMPTY, EMPTY_CALLS, OURS, Absent, Contender, calls_of
from ptxtemplates.bench.contents import fill
from ptxtemplates.bench.operands import element_of, needed_bytes, operands_of
from ptxtemplates.bench.timing import timed_rounds
from ptxtemplates.errors import AssemblyError, PtxTemplatesError, UnknownKernelError
from ptxtemplates.gpu import boundary
from ptxtemplates.gpu.availability import require
from ptxtemplates.gpu.errors import GpuError
from ptxtemplates.gpu.loading import load_text
from ptxtemplates.gpu.signature import signature_of
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import cuda.core

    from ptxtemplates.bench.operands import Operand
    from ptxtemplates.bench.units import Workload
    from ptxtemplates.kernel import Kernel

WORKING_SET: Final = 4
"""The buffers of a round, in sizes of the L2 cache. A cache that replaces lines at random keeps a fifth of
what is read in turn from twice its size until it is read again, and a fiftieth of four times its size."""

COPY: Final = 8
"""Bytes of a device-to-device copy, in the same unit."""

WARM_UP_MS: Final = 50.0
"""GPU time of copies before the rounds of a subject: clocks go down while the CPU prepares."""

MOST_WARM_UPS: Final = 300

ROOM: Final = 16
"""Where more calls are wanted than fill the working set, their buffers take the free memory divided by this
at most: ours, and those of each layout of the peers."""

NO_TIME: Final = "the GPU's clock says that it took no time"


class SkippedWorkload(PtxTemplatesError):
    """A workload that cannot be measured on this GPU."""


class Outcome(NamedTuple):
    """What became of a workload.

    Attributes
    ----------
    workload : Workload
    times : dict of Contender to list of float
        Microseconds of a call in each round; ours first, then the empty kernel, then others.
    copies : list of float
        Bytes that a copy read and wrote in a second, in each round.
    absent : list of Absent
        Contenders that were not measured.
    skipped : str
        Why nothing was measured, or empty.
    """

    workload: Workload
    times: dict[Contender, list[float]]
    copies: list[float]
    absent: list[Absent]
    skipped: str = ""


class Facts(NamedTuple):
    """What a report says of a GPU."""

    name: str
    architecture: str
    l2_bytes: int
    cuda: str


class _Launch(NamedTuple):
    """A loaded kernel on its grid; words are names of arrays, and numbers as cuda.core passes them on."""

    configuration: cuda.core.LaunchConfig
    handle: cuda.core.Kernel
    words: tuple[Any, ...]


class Bench:
    """A GPU on which workloads are measured, and what they have in common: a stream, events, copies.

    Parameters
    ----------
    device : int, optional
        Which; by default that of this thread's current context, or 0.

    Raises
    ------
    GpuError
        If no GPU can be used, or it has no memory free for copies.
    """

    def __init__(self, device: int | None = None) -> None:
        require()
        self.number = boundary.current_device() if device is None else device
        (major, minor), _ = boundary.describe_driver()
        self.facts = Facts(
            boundary.name(self.number),
            boundary.architecture(self.number),
            boundary.l2_size(self.number),
            f"{major}.{minor}",
        )
        self.working_set = WORKING_SET * self.facts.l2_bytes
        self._launch = boundary.launcher()
        self._empty = load_text(probes.EMPTY, probes.EMPTY_ENTRY, self.number)
        self._stream = boundary.create_stream(self.number)
        self._events = boundary.create_event(self.number), boundary.create_event(self.number)
        with boundary.current(self.number):
            self._prepare_copies()
            self.room = boundary.free_memory(self.number) // ROOM

    def _prepare_copies(self) -> None:
        """Allocate what copies read and write, of whole blocks of the kernel that sweeps over it."""
        blocks = math.ceil(COPY * self.facts.l2_bytes / probes.SWEEP_BYTES)
        size = blocks * probes.SWEEP_BYTES
        free = boundary.free_memory(self.number)
        if 2 * size > free:
            raise GpuError(
                f"a copy that is larger than the cache needs {2 * size / 2**30:.1f} GiB, and "
                f"{self.facts.name} has {free / 2**30:.1f} GiB free"
            )
        self._memory = [boundary.allocate(self.number, size, self._stream) for _ in range(2)]
        source, target = (int(memory.handle) for memory in self._memory)
        fill(source, size, "f32", self._stream)
        self.copy = Contender(
            "copy", "", 2 * size, 1, lambda: boundary.copy_on_device(target, source, size, self._stream)
        )
        sweep = load_text(probes.SWEEP, probes.SWEEP_ENTRY, self.number)
        over = boundary.configuration((blocks, 1, 1), (probes.SWEEP_THREADS, 1, 1))
        self._sweep: Callable[[], None] = lambda: self._launch(self._stream, over, sweep, source)

    def measure(self, workload: Workload) -> Outcome:
        """Measure a workload, with whatever else can be measured beside it.

        Raises
        ------
        GpuError
            If the driver reports an error.
        TemplateError
            If a kernel cannot be rendered.
        """
        with boundary.current(self.number), contextlib.ExitStack() as resources:
            try:
                own = self._contenders(workload, resources)
            except (AssemblyError, SkippedWorkload, UnknownKernelError) as error:
                return Outcome(workload, {}, [], [], str(error))
            absent: list[Absent] = []
            others = [*self._others(workload, absent, resources)]
            self._warm_up()
            times = timed_rounds([*own, self.copy, *others], self._time)
        timeless = [contender for contender, each in times.items() if min(each) <= 0]
        for contender in timeless:
            if contender is self.copy or contender in own:
                return Outcome(workload, {}, [], [], f"{contender.name}: {NO_TIME}")
            absent.append(Absent(contender.name, NO_TIME))
            del times[contender]
        rate = self.copy.bytes * 1e6
        return Outcome(workload, times, [rate / each for each in times.pop(self.copy)], absent)

    def _contenders(self, workload: Workload, resources: contextlib.ExitStack) -> list[Contender]:
        """Return our kernels and empty ones, captured; `resources` gets what they need while they run."""
        operands = operands_of(workload)
        size = needed_bytes(operands.values())
        handles = [
            load_text(render(kernel).text, kernel.entry, self.number) for kernel in workload.unit.kernels
        ]
        layout = self._layout(operands, calls_of(size, self.working_set, self.room))
        sets = Sets(layout, self.number, self._stream)
        resources.callback(sets.close)
        launches = [
            _Launch(_configuration(kernel, workload.sizes), handle, _words(kernel, workload.sizes))
            for kernel, handle in zip(workload.unit.kernels, handles, strict=True)
        ]

        def enqueue(stream: cuda.core.Stream) -> None:
            for addresses in sets.addresses:
                for configuration, handle, words in launches:
                    values = [addresses[word] if isinstance(word, str) else word for word in words]
                    self._launch(stream, configuration, handle, *values)

        def enqueue_empty(stream: cuda.core.Stream) -> None:
            for _ in range(EMPTY_CALLS):
                for launch in launches:
                    self._launch(stream, launch.configuration, self._empty)

        element = element_of(operands.values())
        return [
            Contender(OURS, element, size, len(sets.addresses), self._captured(enqueue, resources)),
            Contender(EMPTY, "", 0, EMPTY_CALLS, self._captured(enqueue_empty, resources)),
        ]

    def _layout(self, operands: Mapping[str, Operand], count: int) -> Layout:
        """Lay out as many sets as are wanted, or as fit the free memory."""
        free = boundary.free_memory(self.number)
        free -= free // 16  # graphs take some
        while (layout := Layout(operands, count)).bytes > free:
            if count == 1:
                raise SkippedWorkload(
                    f"its buffers take {layout.bytes / 2**30:.1f} GiB, and {self.facts.name} has "
                    f"{free / 2**30:.1f} GiB free"
                )
            count //= 2
        return layout

    def _captured(
        self, enqueue: Callable[[cuda.core.Stream], None], resources: contextlib.ExitStack
    ) -> Callable[[], None]:
        graph = boundary.capture(self._stream, enqueue)
        resources.callback(graph.close)
        return lambda: boundary.replay(graph, self._stream)

    def _others(
        self, workload: Workload, absent: list[Absent], resources: contextlib.ExitStack
    ) -> Iterator[Contender]:
        """Yield contenders of other libraries that work; note the others."""
        from ptxtemplates.bench.peers import peers_of

        for peer in peers_of(
            workload.unit.kernels,
            workload.sizes,
            device=self.number,
            stream=boundary.handle_of(self._stream),
            working_set=self.working_set,
            room=self.room,
            resources=resources,
        ):
            if isinstance(peer, Absent):
                absent.append(peer)
                continue
            try:
                peer.enqueue()
                boundary.synchronise(self._stream)
            except Exception as error:  # of any library, and no reason to lose what is measured without it
                absent.append(Absent(peer.name, f"it failed: {' '.join(str(error).split())}"))
            else:
                yield peer

    def _warm_up(self) -> None:
        first = self._elapsed(self.copy.enqueue)
        again = min(MOST_WARM_UPS, int(WARM_UP_MS / first) if first else MOST_WARM_UPS)
        for _ in range(again):
            self.copy.enqueue()

    def _time(self, contender: Contender) -> float:
        """Return the milliseconds of one `enqueue`, from a state of the cache that it makes itself.

        The calls before leave in the cache what they always leave: nothing that the first calls read, since a
        round is larger than the cache. Where it is not, as little is moved, the cache is filled with other
        memory, and each call has buffers that no call of the round before it had.

        Either way the GPU is still busy when the round is put behind it, or the CPU's time to do so would be
        part of it: empty kernels alone, which touch no memory, would not last so long.
        """
        if contender.calls * contender.bytes < self.working_set:
            self._sweep()
        else:
            contender.enqueue()
        return self._elapsed(contender.enqueue)

    def _elapsed(self, enqueue: Callable[[], None]) -> float:
        start, end = self._events
        boundary.record(start, self._stream)
        enqueue()
        boundary.record(end, self._stream)
        return boundary.elapsed_ms(start, end)


def _configuration(kernel: Kernel, sizes: Mapping[str, int]) -> cuda.core.LaunchConfig:
    x, y, z = (sizes[extent] if isinstance(extent, str) else extent for extent in kernel.grid)
    return boundary.configuration((x, y, z), kernel.block)


def _words(kernel: Kernel, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    makers = {position: scalar.make for position, scalar in signature_of(kernel).scalars}
    return tuple(
        makers[position](sizes[argument.name]) if position in makers else argument.name
        for position, argument in enumerate(kernel.arguments)
    )
