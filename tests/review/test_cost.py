"""What costs say: numbers where there are some, and why where there are none."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.errors import MissingExtraError
from ptxtemplates.rendering import render
from ptxtemplates.review import assembling, executing
from ptxtemplates.review.cost import ASSEMBLED, EMULATED, cost
from ptxtemplates.review.model import Cost, Side
from tests.helpers.toy import toy, with_line
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOTH: Final = ("sm_80", "sm_90")
ALL: Final = len(BOTH) * len(ASSEMBLED) + len(EMULATED)
LOAD: Final = "    ld.global.f32 %value, [%x];\n"
ADD: Final = "    add.rn.f32    %value, %value, %value;\n"
STORE: Final = "    st.global.f32 [%x], %value;\n"
ADDRESS: Final = "    mad.lo.u64    %x, %element, 4, %x;\n"
LANE: Final = """\
    .reg .u32 %lane;
    mov.u32       %lane, %tid.x;
    mad.wide.u32  %x, %lane, 4, %x;
"""
"""Gives each thread an element of its own: the toy kernel lets all threads write the same one."""


@pytest.fixture
def base(tmp_path: Path) -> Side:
    """A kernel with one element a thread: 3 rows of 64 threads are launched."""
    kernel = toy(tmp_path, with_line(ADDRESS, ADDRESS + LANE))
    return Side("toy.w64", render(kernel).text, kernel.contract(), None, "old:toy.ptx")


def edited(side: Side, *changes: tuple[str, str], **described: Any) -> Side:
    text = side.text
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    description = None if side.description is None else {**side.description, **described}
    return side._replace(text=text, description=description, file="new:toy.ptx")


def snapshot(variant: str) -> Side:
    described = json.loads((ROOT / "snapshots.json").read_text())[variant]
    text = (ROOT / f"snapshots/{variant}.ptx").read_text()
    return Side(variant, text, described, None, f"{variant}.ptx")


def moved(found: Cost) -> dict[tuple[str, str], tuple[Any, Any]]:
    return {(each.where, each.what): (each.before, each.after) for each in found.changes}


@pytest.mark.parametrize("variant", {kernel.name: kernel.variant for kernel in KERNELS.values()}.values())
def test_all_figures_of_every_kernel_can_be_had(variant: str) -> None:
    side = snapshot(variant)
    assert cost(side, side, BOTH) == Cost((), ALL, ALL, ())


def test_comments_cost_nothing_and_are_not_measured_again(
    base: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(function.__name__)
            return function(*arguments, **named)

        return call

    for module, name in ((assembling, "assemble"), (executing, "emulate")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    new = edited(base, (ADD, f"  // twice\n\n{ADD}"))
    assembling.assembled.cache_clear()
    assert cost(base, new, BOTH) == Cost((), ALL, ALL, ())
    assert calls == ["assemble", "assemble", "emulate"]


def test_one_more_instruction(base: Side) -> None:
    new = edited(base, (ADD, ADD + ADD.replace("add.rn", "mul.rn")))
    found = cost(base, new, BOTH)
    assert (found.compared, found.asked, found.notes) == (ALL, ALL, ())
    changes = moved(found)
    before, after = changes.pop(("emulator", "thread-instructions"))
    assert after - before == 3 * 64
    for architecture in BOTH:
        before, after = changes.pop((architecture, "machine instructions"))
        assert after == before + 1
    assert changes == {}
    assert [each.where for each in found.changes] == ["sm_80", "sm_90", "emulator"]


def test_memory_is_accessed_worse(base: Side) -> None:
    lane = "    mov.u32       %lane, %tid.x;\n"
    turned = """\
    .reg .u32 %half;
    shr.u32       %half, %lane, 5;
    shl.b32       %lane, %lane, 1;
    and.b32       %lane, %lane, 63;
    or.b32        %lane, %lane, %half;
"""
    changes = moved(cost(base, edited(base, (lane, lane + turned)), ()))
    before, after = changes.pop(("emulator", "thread-instructions"))
    assert after - before == 4 * 3 * 64
    # two warps in each of 3 rows load and store 32 elements each; they lie together, or are every other one
    requests = 3 * 2 * 2
    assert changes == {
        ("emulator", "sectors"): (4 * requests, 8 * requests),
        ("emulator", "sectors over ideal"): (1.0, 2.0),
    }


def test_block_decides_occupancy(base: Side) -> None:
    new = edited(base, (".reqntid 64,", ".reqntid 32,"), block=[32, 1, 1])
    changes = moved(cost(base, new, ["sm_80"]))
    assert changes[("sm_80", "occupancy")] == (1.0, 0.5)  # 32 blocks of one warp, of 64 warps
    before, after = changes[("emulator", "thread-instructions")]
    assert after == before // 2


def test_spills_and_registers() -> None:
    old = snapshot("flash_decoding_chunk.d256.h8.c128.kv4.s8192")
    text, count = re.subn(r"(\.reqntid [^\n]*)", r"\1\n.maxnreg 24", old.text)
    assert count == 1
    changes = moved(cost(old, old._replace(text=text), ["sm_90"]))
    for what in ("spill stores", "spill loads"):
        before, after = changes[("sm_90", what)]
        assert before == 0
        assert after > 0
    before, after = changes[("sm_90", "registers")]
    assert after <= 24 < before
    assert not any(where == "emulator" for where, _ in changes)


def test_shared_memory(base: Side) -> None:
    new = edited(
        base, (LOAD, f"    .shared .align 4 .b8 tile[4096];\n    st.shared.u32 [tile], %row;\n{LOAD}")
    )
    before, after = moved(cost(base, new, ["sm_80"]))[("sm_80", "shared memory")]
    assert (before, after) == (0, 4096)


# ---- no numbers


def test_an_architecture_that_the_new_text_does_not_run_on(base: Side) -> None:
    target = re.search(r"\.version \S+\n\.target \S+", base.text)
    assert target is not None
    new = edited(base, (target[0], ".version 8.6\n.target sm_100"))
    found = cost(base, new, ["sm_80", "sm_100"])
    assert {where for where, _ in moved(found)} == {"sm_80"}
    assert all(after == "n/a" and before != "n/a" for before, after in moved(found).values())
    assert [each.what for each in found.changes] == [*ASSEMBLED]
    assert (found.compared, found.asked) == (len(ASSEMBLED) + len(EMULATED), ALL)
    assert found.notes == ("new:toy.ptx is for sm_100, which does not run on sm_80",)


def test_a_text_that_does_not_assemble(base: Side) -> None:
    new = edited(base, (ADD, ADD.replace("add.rn.f32", "foo.f32")))
    found = cost(base, new, BOTH)
    assert all(after == "unreadable" and before != "unreadable" for before, after in moved(found).values())
    assert (found.compared, len(found.changes)) == (0, ALL)
    line = new.text[: new.text.index("foo.f32")].count("\n") + 1
    assert found.notes[0].startswith(f"new:toy.ptx does not assemble for {', '.join(BOTH)}: line {line}: ")
    assert found.notes[1].startswith("new:toy.ptx cannot be emulated: ")
    assert len(found.notes) == 2


def test_both_unreadable_stays_in_sight(base: Side) -> None:
    broken = edited(base, (ADD, "}"))
    found = cost(broken, edited(broken, (LOAD, "")), BOTH)
    assert (found.compared, found.asked) == (0, ALL)
    assert {(each.before, each.after) for each in found.changes} == {("unreadable", "unreadable")}
    assert found.notes


def test_without_an_assembler(base: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise MissingExtraError("this needs NVIDIA's ptxas: pip install 'ptxtemplates[cuda]'")

    new = edited(base, (ADD, ADD + ADD))
    assembling.assembled.cache_clear()
    monkeypatch.setattr(assembling, "assemble", missing)
    found = cost(base, new, BOTH)
    assembling.assembled.cache_clear()
    assert [each.where for each in found.changes if isinstance(each.before, int)] == ["emulator"]
    assert {(each.before, each.after) for each in found.changes if each.where != "emulator"} == {
        ("n/a", "n/a")
    }
    assert (found.compared, found.asked) == (len(EMULATED), ALL)
    assert found.notes == ("this needs NVIDIA's ptxas: pip install 'ptxtemplates[cuda]'",)


def test_single_files_have_machine_code_alone(base: Side) -> None:
    old = base._replace(description=None)
    new = edited(old, (ADD, ADD + ADD))
    found = cost(old, new, ["sm_90"])
    assert {each.where for each in found.changes if each.before != "n/a"} == {"sm_90"}
    assert (found.compared, found.asked) == (len(ASSEMBLED), len(ASSEMBLED) + len(EMULATED))
    assert found.notes == tuple(
        f"{age}:toy.ptx is a single file: nothing describes its arguments" for age in ("old", "new")
    )
    half = cost(old, edited(base, (ADD, ADD + ADD)), [])
    assert {each.before for each in half.changes} == {"n/a"}
    assert half.notes == ("old:toy.ptx is a single file: nothing describes its arguments",)


def test_without_a_block_there_is_no_occupancy(base: Side) -> None:
    old = edited(base._replace(description=None), (".reqntid 64, 1, 1\n", ""))
    found = cost(old, edited(old, (ADD, ADD + ADD)), ["sm_90"])
    assert found.compared == len(ASSEMBLED) - 1
    assert "new:toy.ptx fixes no block, and without one there is no occupancy" in found.notes


def test_a_launch_that_goes_wrong_has_no_figures(base: Side) -> None:
    new = edited(base, (STORE, STORE.replace("[%x]", "[%x+1048576]")))
    found = cost(base, new, ())
    assert {each.after for each in found.changes} == {"unreadable"}
    assert found.notes[0].startswith("new:toy.ptx has a mistake: ")
    endless = edited(base, (STORE, f"again:\n{STORE}    bra again;\n"))
    assert "still running after 20000 steps" in cost(base, endless, ()).notes[0]


def test_a_launch_that_is_described_in_other_words(base: Side) -> None:
    old = base._replace(description={**(base.description or {}), "grid": ["batch", 1, 1]})
    found = cost(old, edited(base, (ADD, ADD + ADD)), ())
    assert {each.before for each in found.changes} == {"n/a"}
    assert found.notes == ("old:toy.ptx cannot be launched: nothing says what batch is",)
    without = snapshot("flash_decoding_reduce.d80.h32.c64")
    unsized = without._replace(description={**(without.description or {}), "template_parameters": {}})
    notes = cost(unsized, unsized, ()).notes
    assert notes == (f"{without.file} cannot be launched: nothing says what chunk_size is",)
    parameters = {**(without.description or {})["template_parameters"], "chunk_size": "many"}
    worded = without._replace(description={**(without.description or {}), "template_parameters": parameters})
    [note] = cost(worded, worded, ()).notes
    assert note.startswith(f"{without.file} cannot be launched as it is described: ")


def test_a_launch_that_is_too_large(base: Side) -> None:
    new = edited(base, (ADD, ADD + ADD), grid=["rows", 65535, 1])
    notes = cost(base, new, ()).notes
    assert notes == (f"new:toy.ptx has {3 * 65535 * 64:,} threads in a launch, more than {1 << 22:,}",)
