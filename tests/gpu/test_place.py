"""The place that runs cases on a GPU, against the stand-in: what it allocates, fills, launches, finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest

from ptxtemplates.gpu import GpuError, boundary
from ptxtemplates.gpu.blocks import beside_the_case
from ptxtemplates.gpu.place import FAULTS, GUARD, GUARD_WORD, NAN, Device
from ptxtemplates.kernel import Kernel, pointer
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward, FlashDecodingChunk, FlashDecodingReduce
from ptxtemplates.references import cases
from ptxtemplates.references.case import Buffer, Case, Input, Launch, Output, Piece, Sparse, Table
from ptxtemplates.references.place import SkippedCase
from ptxtemplates.verification.judging import judge
from tests.gpu.holding import Held, hold, programs
from tests.helpers.toy import Width

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.references.place import Place
    from tests.gpu.standins import Machine

ROPE: Final = BatchedRope(num_heads=2, head_dim=16, theta=1e4)
BACKWARD: Final = BatchedRopeBackward(num_heads=2, head_dim=16, theta=1e4)
KERNELS: Final[tuple[Kernel, ...]] = (
    ROPE,
    FlashDecodingReduce(head_dim=24, num_heads=3, chunk_size=5),
    FlashDecodingChunk(head_dim=24, num_heads=6, num_kv_heads=2, chunk_size=5, max_seq_len=23),
)


def case_of(kernel: Kernel, name: str) -> Case:
    return next(case for case in cases(kernel, 0) if case.name == name)


@pytest.mark.parametrize("kernel", KERNELS, ids=[kernel.name for kernel in KERNELS])
def test_every_case_that_fits_holds(install: Callable[..., Machine], kernel: Kernel) -> None:
    machine = install(kernel, *{launch.kernel for case in cases(kernel, 0) for launch in case.launches})
    machine.free = 1 << 26
    told: list[Held] = []
    faults, reasons = hold(kernel, Device(), told.append)
    assert faults == []
    for reason in reasons:
        name = reason.partition(" ")[0]
        sparse = [buffer for buffer in case_of(kernel, name).buffers.values() if isinstance(buffer, Sparse)]
        assert sparse, "only a case with a buffer of many GiB is too large"
        assert reason.startswith(f"{name} needs ")
        assert reason.endswith("and stand-in 0 has 0.1 GiB free")
    assert len([call for call in machine.calls if call.name == "launch"]) >= 2 * 6
    assert [held.case for held in told] == [case.name for case in cases(kernel, 0)]
    assert [held.skipped for held in told if held.skipped] == reasons
    run = [held for held in told if not held.skipped]
    assert all(held.repeatable and held.worst is not None and held.worst <= 1 for held in run)
    approximate = isinstance(kernel, (FlashDecodingChunk, FlashDecodingReduce))
    assert {held.same_bits for held in run} == {None if approximate else True}
    assert all(held.seconds >= 0 for held in told)


def test_a_bit_that_differs_is_seen(install: Callable[..., Machine]) -> None:
    """The emulator is behind the stand-in, so that they differ where one of them is disturbed alone."""
    machine = install(ROPE, BACKWARD)

    def disturb() -> None:
        start = list(machine.memories)[1]
        machine.memories[start][GUARD] ^= 1

    machine.after_launch = disturb
    told: list[Held] = []
    faults, _ = hold(ROPE, Device(), told.append)
    assert "cosine-and-sine: out[0] has not the bits of the emulator" in faults
    assert told[0].same_bits is False


def test_runs_that_differ_are_seen(install: Callable[..., Machine]) -> None:
    machine = install(ROPE, BACKWARD)
    launches = iter(range(100))

    def disturb() -> None:
        start = list(machine.memories)[1]
        machine.memories[start][GUARD] ^= next(launches) & 1

    machine.after_launch = disturb
    told: list[Held] = []
    faults, _ = hold(ROPE, Device(), told.append)
    assert told[0].repeatable is False
    assert any("a second run gives other bits, first in element 0 of out" in fault for fault in faults)


def test_bare(machine: Machine) -> None:
    """For a sanitizer: each buffer an allocation of its size, outputs as they were allocated, nothing read back."""
    case = Case(
        "bare",
        {
            "x": Input(np.zeros((1, 2, 16), np.float32)),
            "out": Output((1, 2, 16)),
            "at": Input(np.arange(1, dtype=np.uint32)),
            "nothing": Input(np.zeros(0, np.float32)),
        },
        (Launch(ROPE, ("x", "out", "at"), (2, 1, 1), 1),),
        (),
    )
    ran = Device(bare=True).run(case, programs(case))
    sizes = [call.arguments[1] for call in machine.calls if call.name == "allocate_alone"]
    assert sizes == [128, 128, 4, 1]
    assert len(machine.launches()) == 1
    assert machine.launches()[0][3:6] == tuple(machine.memories)[:3]
    assert not {"fill", "copy_to_host"} & set(machine.names())
    assert len([name for name in machine.names() if name == "copy_to_device"]) == 2
    assert ran.findings == ()


def test_a_case_that_does_not_fit_is_not_run(machine: Machine) -> None:
    machine.free = 1000
    case = case_of(ROPE, "rotation")
    with pytest.raises(SkippedCase, match="rotation needs 0.0 GiB, and stand-in 0 has 0.0 GiB free"):
        Device().run(case, programs(case))
    assert machine.calls == []


def test_calls(machine: Machine) -> None:
    """Each buffer between guards, outputs full of NaN, twice."""
    case = Case(
        "calls",
        {
            "x": Input(np.zeros((1, 2, 16), np.float32)),
            "out": Output((1, 2, 16)),
            "at": Input(np.arange(1, dtype=np.uint32)),
            "table": Table(("x", "out")),
        },
        (Launch(ROPE, ("x", "out", "at"), (2, 1, 1), 1), Launch(ROPE, ("x", "x", "at"), (2, 0, 1), 1)),
        (),
    )
    device = Device(1)
    ran = device.run(case, programs(case))
    sizes = [call.arguments[1] for call in machine.calls if call.name == "allocate"]
    assert sizes == [size + 2 * GUARD for size in (128, 128, 4, 16)]
    starts = dict(zip(case.buffers, machine.memories, strict=True))
    fills = [call.arguments[:3] for call in machine.calls if call.name == "fill"]
    assert (
        fills
        == [
            (starts["x"], GUARD_WORD, (128 + 2 * GUARD) // 4),
            (starts["out"], GUARD_WORD, (128 + 2 * GUARD) // 4),
            (starts["out"] + GUARD, NAN, 32),
            (starts["at"], GUARD_WORD, (4 + 2 * GUARD) // 4),
            (starts["table"], GUARD_WORD, (16 + 2 * GUARD) // 4),
        ]
        * 2
    )
    launches = machine.launches()
    assert len(launches) == 2, "two runs, and none of the grid without blocks"
    stream, configuration, handle, *pointers = launches[0]
    assert (stream.device, configuration, handle.device) == (1, ((2, 1, 1), (8, 1, 1)), 1)
    assert pointers == [starts[name] + GUARD for name in ("x", "out", "at")]
    assert np.isnan(ran.contents("out", 0, 32)).all()
    assert ran.contents("at", 0, 1).dtype == np.uint32
    assert ran.contents("table", 0, 2).tolist() == [starts["x"] + GUARD, starts["out"] + GUARD]


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (-4, 4, "4 bytes written, the nearest 1 bytes before the start of out"),
        (-GUARD, 2, "2 bytes written, the nearest 4095 bytes before the start of out"),
        (4 * 16 * 4, 1, "1 bytes written, the nearest 0 bytes behind the end of out"),
    ],
)
def test_a_store_beside_a_buffer(machine: Machine, offset: int, size: int, message: str) -> None:
    case = _small()

    def overwrite() -> None:
        start = list(machine.memories)[1]
        machine.memories[start][GUARD + offset :][:size] = 0

    machine.after_launch = overwrite
    [finding] = Device().run(case, programs(case)).findings
    assert (finding.kind, finding.message, finding.buffer) == ("out of bounds", message, "out")


def _small() -> Case:
    return Case(
        "small",
        {
            "x": Input(np.zeros((4, 16), np.float32)),
            "out": Output((4, 16)),
            "at": Input(np.zeros(4, np.uint32)),
        },
        (Launch(ROPE, ("x", "out", "at"), (2, 2, 1), 1),),
        (),
    )


@pytest.mark.parametrize(("name", "kind"), FAULTS.items())
def test_a_kernel_that_ends_the_context(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    """A finding of its case, in which nothing was written; cases behind it are not run, and no failures."""
    case = case_of(ROPE, "rotation")
    device = Device()

    def fault(stream: Any) -> None:
        if machine.names().count("launch"):
            raise GpuError(f"the driver says {name}", name=name)

    monkeypatch.setattr(boundary, "synchronise", fault)
    ran = device.run(case, programs(case))
    [finding] = ran.findings
    assert (finding.kind, finding.kernel, finding.line) == (kind, "batched_rope", 0)
    assert finding.message == f"the driver says {name}; the emulator or compute-sanitizer can tell where"
    judgement = judge(case, ran.contents)
    assert {mismatch.buffer for mismatch in judgement.mismatches} == {"out"}
    assert np.isnan(judgement.mismatches[0].got)
    before = len(machine.calls)
    with pytest.raises(SkippedCase) as skipped:
        device.run(_small(), programs(_small()))
    reason = f"the GPU runs nothing more in this process, since batched_rope ended with {name} in rotation"
    assert str(skipped.value) == reason
    assert len(machine.calls) == before


def test_an_error_that_is_no_fault_of_the_kernel(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise GpuError("the driver says CUDA_ERROR_OUT_OF_MEMORY", name="CUDA_ERROR_OUT_OF_MEMORY")

    case = case_of(ROPE, "rotation")
    device = Device()
    for function in ("launcher", "allocate"):
        with monkeypatch.context() as patched:
            patched.setattr(boundary, function, (lambda: full) if function == "launcher" else full)
            with pytest.raises(GpuError, match="OUT_OF_MEMORY"):
                device.run(case, programs(case))
    assert device.obstacle(case) is None


def test_what_a_sparse_buffer_held_before_a_fault(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: Any) -> None:
        raise GpuError("fault", name="CUDA_ERROR_ILLEGAL_ADDRESS")

    piece = Piece(6, np.arange(4, dtype=np.float32))
    small = _small()
    case = small._replace(buffers={**small.buffers, "large": Sparse((100,), (piece,))})
    monkeypatch.setattr(boundary, "launcher", lambda: fault)
    contents = Device().run(case, programs(case)).contents
    assert contents("large", 5, 6).tolist()[1:5] == [0, 1, 2, 3]
    assert contents("large", 7, 2).tolist() == [1, 2]
    assert np.isnan(contents("large", 5, 6)[[0, 5]]).all()
    assert np.isnan(contents("large", 20, 3)).all()


def test_results_that_differ_from_run_to_run(machine: Machine) -> None:
    case = _small()
    runs = iter([1, 2])

    def write() -> None:
        start = list(machine.memories)[1]
        machine.memories[start][GUARD : GUARD + 256].view(np.float32)[5] = next(runs)

    machine.after_launch = write
    ran = Device().run(case, programs(case))
    [finding] = ran.findings
    assert (finding.kind, finding.message) == (
        "not reproducible", "a second run gives other bits, first in element 5 of out"
    )  # fmt: skip
    assert ran.contents("out", 5, 1) == [2.0]


def test_an_input_that_is_overwritten_shows(install: Callable[..., Machine]) -> None:
    """Not a finding: whoever judges a case compares inputs with what they were."""
    machine = install(ROPE)
    case = case_of(ROPE, "rotation")

    def overwrite() -> None:
        start = list(machine.memories)[list(case.buffers).index("x")]
        machine.memories[start][GUARD] ^= 1

    machine.after_launch = overwrite
    judgement = judge(case, Device().run(case, programs(case)).contents)
    assert "x" in [mismatch.buffer for mismatch in judgement.mismatches]


def test_it_is_what_a_place_must_be(machine: Machine) -> None:
    place: Place = Device()
    assert callable(place.run)


def test_blocks_that_a_case_leaves_out_count_as_not_run(machine: Machine) -> None:
    """They run on a GPU; a case says what is left where they do not."""
    shape = (3, 2, 16)
    buffers: dict[str, Buffer] = {
        "x": Input(np.zeros(shape, np.float32)),
        "out": Output(shape),
        "at": Input(np.zeros(3, np.uint32)),
    }
    launch = Launch(ROPE, ("x", "out", "at"), (2, 3, 1), 1, blocks=((1, 0, 0), (0, 2, 0)))
    case = Case("some", buffers, (launch,), ())

    def write_all() -> None:
        start = list(machine.memories)[1]
        machine.memories[start][GUARD:-GUARD] = 0

    machine.after_launch = write_all
    out = Device().run(case, programs(case)).contents("out", 0, 96).reshape(shape)
    written = ~np.isnan(out)
    assert written[0, 1].all()
    assert written[2, 0].all()
    assert written.sum() == 2 * 16


def masks_of(*launches: Launch, **outputs: tuple[int, ...]) -> list[list[list[int]]]:
    """Return the indices of what the chosen blocks write of each output."""
    case = Case("some", {name: Output(shape) for name, shape in outputs.items()}, launches, ())
    return [np.argwhere(~mask).tolist() for mask in beside_the_case(case).values()]


def test_axes_of_numbers_that_are_alike() -> None:
    alike = FlashDecodingChunk(head_dim=8, num_heads=8, num_kv_heads=8, chunk_size=5, max_seq_len=23)
    launch = Launch(alike, ("q", "k", "v", "out", "n", 2), (8, 1, 2), 1, blocks=((7, 0, 1),))
    assert masks_of(launch, out=(1, 8, 2, 10)) == [[[0, 7, 1, element] for element in range(10)]]
    square = Launch(Square(height=3, width=3), ("out",), (3, 3, 1), 1, blocks=((0, 1, 0), (2, 0, 0)))
    assert masks_of(square, out=(3, 3)) == [[[0, 1], [2, 0]]]


def test_launches_that_write_parts_of_one_output() -> None:
    square = Square(height=3, width=3)
    parts = [Launch(square, ("out",), (3, 3, 1), 1, blocks=(block,)) for block in ((0, 1, 0), (2, 0, 0))]
    assert masks_of(*parts, out=(3, 3)) == [[[0, 1], [2, 0]]]
    assert masks_of(*parts, Launch(square, ("out",), (3, 3, 1), 1), out=(3, 3)) == []


@dataclass(frozen=True, kw_only=True)
class Square(Kernel):
    """One block an element of a matrix."""

    name: ClassVar = "square"
    summary: ClassVar = ""
    template: ClassVar = "square.ptx.jinja"
    arguments: ClassVar = (pointer("out", "f32", "height", "width", role="output", alignment=4),)

    height: Width
    width: Width

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        return (self.height, self.width, 1)
