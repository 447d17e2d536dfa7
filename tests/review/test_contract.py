"""What callers rely on: every change of it is told, with the right word on whether it can break them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.review.contract import contract_changes
from ptxtemplates.review.model import Side
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.review.model import ContractChange

    Description = dict[str, Any]

DESCRIPTIONS: Final[dict[str, Description]] = json.loads(
    (ROOT / "snapshots.json").read_text(encoding="utf-8")
)
VARIANTS: Final = {
    description["kernel"]: variant for variant, description in sorted(DESCRIPTIONS.items(), reverse=True)
}
KERNELS: Final = list(VARIANTS)


def text_of(kernel: str) -> str:
    return (ROOT / "snapshots" / f"{VARIANTS[kernel]}.ptx").read_text(encoding="utf-8")


def description_of(kernel: str) -> Description:
    return copy.deepcopy(DESCRIPTIONS[VARIANTS[kernel]])


def side(text: str, description: Description | None) -> Side:
    return Side("kernel", text, description, None, "kernel.ptx")


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


class Edit:
    """A kernel as a pull request leaves it: text and description, both changed alike."""

    def __init__(self, kernel: str) -> None:
        self.text = text_of(kernel)
        self.description = description_of(kernel)
        self.parameters: list[Description] = self.description["parameters"]

    def declare(self, old: str, new: str) -> None:
        self.text = replaced(self.text, (old, new))

    def renumber(self) -> None:
        """Put the parameters of the description into the text, and their offsets right."""
        offset = 0
        for parameter in self.parameters:
            offset += -offset % parameter["size"]
            parameter["offset"] = offset
            offset += parameter["size"]
        start = self.text.index("(\n    .param") + 1
        end = self.text.index("\n)", start)
        lines = [
            f"\n    .param .{each['type']} "
            + (f".ptr .global .align {each['tensor']['alignment']} " if "tensor" in each else "")
            + each["name"]
            for each in self.parameters
        ]
        self.text = self.text[:start] + ",".join(lines) + self.text[end:]


def changes_of(kernel: str, edit: Callable[[Edit], object]) -> tuple[ContractChange, ...]:
    edited = Edit(kernel)
    edit(edited)
    old = side(text_of(kernel), description_of(kernel))
    found = contract_changes(old, side(edited.text, edited.description))
    assert [each.breaking for each in found] == sorted((each.breaking for each in found), reverse=True)
    assert all(each.why and each.what and each.before != each.after for each in found)
    return found


def told(found: tuple[ContractChange, ...]) -> list[tuple[str, str, str, bool]]:
    return [each[:4] for each in found]


def _rename_entry(edit: Edit) -> None:
    edit.declare(f".entry {edit.description['entry']}(", ".entry other(")
    edit.description["entry"] = edit.description["template_parameters"]["entry"] = "other"


def _rename(edit: Edit) -> None:
    edit.parameters[0]["name"] = "input"
    edit.renumber()
    edit.text = edit.text.replace("[x_ptr]", "[input]").replace("[q_ptr]", "[input]")


def _swap(edit: Edit) -> None:
    edit.parameters[0], edit.parameters[1] = edit.parameters[1], edit.parameters[0]
    edit.renumber()


def _append(edit: Edit) -> None:
    edit.parameters.append({"name": "epsilon", "type": "f32", "size": 4, "offset": 0, "role": "data"})
    edit.renumber()


def _put_first(edit: Edit) -> None:
    edit.parameters.insert(0, {"name": "epsilon", "type": "f32", "size": 4, "offset": 0, "role": "data"})
    edit.renumber()


def _remove(edit: Edit) -> None:
    del edit.parameters[1]
    edit.renumber()


def _scalar(edit: Edit) -> None:
    edit.parameters[0] |= {"type": "u32", "size": 4}
    del edit.parameters[0]["tensor"]
    edit.renumber()


def _align(alignment: int) -> Callable[[Edit], None]:
    def edit_it(edit: Edit) -> None:
        edit.parameters[0]["tensor"]["alignment"] = alignment
        edit.renumber()

    return edit_it


def _tensor(**changed: Any) -> Callable[[Edit], None]:
    return lambda edit: edit.parameters[0]["tensor"].update(changed)


def _role(edit: Edit) -> None:
    edit.parameters[0]["role"] = edit.parameters[0]["tensor"]["role"] = "output"


def _block(edit: Edit) -> None:
    x = edit.description["block"][0]
    edit.declare(f".reqntid {x}, 1, 1", f".reqntid {x}, 2, 1")
    edit.description["block"] = [x, 2, 1]


def _target(edit: Edit) -> None:
    edit.declare(".target sm_75", ".target sm_90")
    edit.declare(".version 6.3", ".version 7.8")
    edit.description["target"] = edit.description["template_parameters"]["target"] = "sm_90"


def _shared(edit: Edit) -> None:
    edit.declare("{\n    // one", "{\n    .shared .align 8 .b8 buffer[1280];\n    // one")
    edit.description["shared_memory"] = 1280


def _head_dim(edit: Edit) -> None:
    edit.description["template_parameters"]["head_dim"] = 112


FIRST: Final = "parameter 1 ({first})"
EDITS: Final[dict[str, tuple[Callable[[Edit], object], list[tuple[str, bool]]]]] = {
    "nothing": (lambda _: None, []),
    "comments and registers": (lambda edit: edit.declare("%head", "%row2"), []),
    "entry": (_rename_entry, [("entry", True)]),
    "kernel": (lambda edit: edit.description.update(kernel="other"), [("kernel", True)]),
    "a parameter renamed": (_rename, [("parameter 1 (input): name", False)]),
    "parameters swapped": (_swap, [("parameters: order", True)]),
    "a parameter more, last": (_append, [("parameter {more} (epsilon)", True)]),
    "a parameter more, first": (_put_first, [("parameter 1 (epsilon)", True)]),
    "a parameter less": (_remove, [("parameter 2 ({second})", True)]),
    "a pointer becomes a number": (
        _scalar,
        [
            (f"{FIRST}: type", True),
            (f"{FIRST}: size", True),
            (f"{FIRST}: what it points to", True),
        ],
    ),
    "stricter alignment": (_align(16), [(f"{FIRST}: alignment", True)]),
    "looser alignment": (_align(4), [(f"{FIRST}: alignment", False)]),
    "element": (_tensor(element="f16"), [(f"{FIRST}: element", True)]),
    "shape": (_tensor(shape=["rows", "head_dim"]), [(f"{FIRST}: shape", True)]),
    "role": (_role, [(f"{FIRST}: role", True)]),
    "block": (_block, [("block", True)]),
    "grid": (lambda edit: edit.description["grid"].__setitem__(0, 7), [("grid", True)]),
    "grid limit, smaller": (
        lambda edit: edit.description["grid_limits"].update(rows=100),
        [("grid limit of rows", True)],
    ),
    "grid limit, larger": (
        lambda edit: edit.description["grid_limits"].update(rows=2**31 - 1),
        [("grid limit of rows", False)],
    ),
    "shared memory": (_shared, [("shared memory", True)]),
    "target and version": (_target, [(".target", True), (".version", True)]),
    "a constant of the same name": (_head_dim, [("template parameter head_dim", True)]),
    "a choice more": (
        lambda edit: edit.description["template_parameters"].update(unroll=4),
        [("template parameter unroll", False)],
    ),
    "hidden": (lambda edit: edit.declare(".visible ", ""), [("linkage", True)]),
    "weak": (lambda edit: edit.declare(".visible ", ".weak "), [("linkage", False)]),
    "a cluster": (lambda edit: edit.declare(".reqntid", ".reqnctapercluster 2\n.reqntid"), [("cluster", True)]),
    "32-bit pointers": (lambda edit: edit.declare("size 64", "size 32"), [(".address_size", True)]),
    "an option": (lambda edit: edit.declare("sm_75", "sm_75, debug"), [(".target options", False)]),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("title", EDITS)
def test_of_an_edit(kernel: str, title: str) -> None:
    edit, expected = EDITS[title]
    first, second, *others = (each["name"] for each in description_of(kernel)["parameters"])
    names = {"first": first, "second": second, "more": len(others) + 3}
    found = [(each.what, each.breaking) for each in changes_of(kernel, edit)]
    assert found == [(what.format(**names), breaking) for what, breaking in expected]


def test_what_a_reader_is_told() -> None:
    found = changes_of("batched_rope", _target)
    assert told(found) == [(".target", "sm_75", "sm_90", True), (".version", "6.3", "7.8", True)]
    assert found[0].why == "it no longer runs on sm_75 to sm_89"
    assert found[1].why == (
        "it needs the driver of CUDA 11.8 (r520) or a newer one; "
        "before, the driver of CUDA 10.0 (r400) or a newer one"
    )
    assert told(changes_of("batched_rope", _swap)) == [
        ("parameters: order", "x_ptr, out_ptr, positions_ptr", "out_ptr, x_ptr, positions_ptr", True)
    ]
    assert told(changes_of("batched_rope", _remove)) == [
        ("parameter 2 (out_ptr)", "u64, f32 [rows, num_heads, head_dim]", "", True)
    ]
    (grid,) = changes_of("flash_decoding_chunk", EDITS["grid"][0])
    assert (grid.before, grid.after) == ("(28, rows, max_chunks)", "(7, rows, max_chunks)")
    assert told(changes_of("flash_decoding_reduce", _shared)) == [
        ("shared memory", "0 bytes", "1,280 bytes", True)
    ]


@pytest.mark.parametrize(
    ("changed", "what", "breaking"),
    [
        ({"alignment": 16}, "alignment", True),
        ({"alignment": 4}, "alignment", False),
        ({"element": "f16"}, "element", True),
        ({"shape": ["max_seq_len", "num_kv_heads", "head_dim"]}, "shape", True),
    ],
)
def test_what_the_pointers_of_a_table_point_to(changed: Description, what: str, breaking: bool) -> None:
    def edit(edited: Edit) -> None:
        edited.parameters[1]["tensor"]["points_to"].update(changed)

    (change,) = changes_of("flash_decoding_chunk", edit)
    assert (change.what, change.breaking) == (f"parameter 2 (k_ptrs_ptr): each pointer: {what}", breaking)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_other_way_round_nothing_is_broken_by_what_only_loosens(kernel: str) -> None:
    newer = Edit(kernel)
    _target(newer)
    _shared(newer)
    newer.description["grid_limits"]["rows"] = 7
    old = side(newer.text, newer.description)
    found = contract_changes(old, side(text_of(kernel), description_of(kernel)))
    assert [(each.what, each.breaking) for each in found] == [
        ("shared memory", False),
        (".target", False),
        (".version", False),
        ("grid limit of rows", False),
    ]
    assert found[1].why == "it runs on every GPU that it ran on"


ARGUMENTS: Final = "partials_ptr, output_ptr, seq_lens_ptr"
STALE: Final[dict[str, tuple[Callable[[Edit], object], str, str]]] = {
    "block": (
        lambda edit: edit.description.update(block=[16, 1, 1]),
        "block",
        "description says (16, 1, 1), text declares (32, 1, 1)",
    ),
    "target": (
        lambda edit: edit.description.update(target="sm_80"),
        ".target",
        "description says sm_80, text declares sm_75",
    ),
    "shared memory": (
        lambda edit: edit.description.update(shared_memory=8),
        "shared memory",
        "description says 8 bytes, text declares 0 bytes",
    ),
    "entry": (
        lambda edit: edit.description.update(entry="other"),
        "entry",
        "description says other, text declares flash_decoding_reduce",
    ),
    "alignment": (
        lambda edit: edit.parameters[0]["tensor"].update(alignment=4),
        "parameter 1 (partials_ptr): alignment",
        "description says 4, text declares 8",
    ),
    "a parameter less": (
        lambda edit: edit.parameters.pop(),
        "parameters",
        f"description says {ARGUMENTS}, text declares {ARGUMENTS}, max_chunks",
    ),
    "offset": (
        lambda edit: edit.parameters[3].update(offset=28),
        "parameter 4 (max_chunks): offset",
        "description says 28, text declares 24",
    ),
}


@pytest.mark.parametrize("title", STALE)
def test_a_description_that_its_own_text_contradicts(title: str) -> None:
    edit, what, says = STALE[title]
    found = changes_of("flash_decoding_reduce", edit)
    assert told(found) == [(f"description: {what}", "", says, True)]
    stale, right = Edit("flash_decoding_reduce"), Edit("flash_decoding_reduce")
    edit(stale)
    mended = contract_changes(side(stale.text, stale.description), side(right.text, right.description))
    said = says.replace("says", "said").replace("declares", "declared")
    assert told(mended) == [(f"description: {what}", said, "", False)]
    as_wrong = contract_changes(side(stale.text, stale.description), side(stale.text, stale.description))
    assert [(each.what, each.breaking) for each in as_wrong] == [(f"description: {what}", True)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_a_description_only_what_texts_declare_is_compared(kernel: str) -> None:
    text, description = text_of(kernel), description_of(kernel)
    newer = replaced(
        text, (".ptr .global .align 8", ".ptr .global .align 16"), (".reqntid", ".maxnreg 64\n.reqntid")
    )
    stricter = (f"parameter 1 ({description['parameters'][0]['name']}): alignment", True)
    for one, other in ((None, description), (description, None), (None, None)):
        assert contract_changes(side(text, one), side(text, other)) == ()
        found = contract_changes(side(text, one), side(newer, other))
        stale = [(f"description: {stricter[0]}", True)] if other else []
        assert [(each.what, each.breaking) for each in found] == [stricter, *stale]


MODULE: Final = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry first(.param .u64 a, .param .b32 b)
.maxntid 128, 2, 1
{
    ret;
}
.visible .entry second(.param .align 8 .b8 c[16])
{
    ret;
}
"""

TEXTS: Final[dict[str, tuple[tuple[str, str], list[tuple[str, str, str, bool]]]]] = {
    "an entry less": (
        (MODULE[MODULE.index(".visible .entry second") :], ""),
        [("entry", "second", "", True)],
    ),
    "an entry renamed": (("second", "third"), [("entry", "second", "", True), ("entry", "", "third", False)]),
    "fewer threads": (
        (".maxntid 128, 2", ".maxntid 128, 1"),
        [("entry first: threads a block", "at most 256", "at most 128", True)],
    ),
    "more threads": (
        (".maxntid 128, 2", ".maxntid 128, 4"),
        [("entry first: threads a block", "at most 256", "at most 512", False)],
    ),
    "no limit": ((".maxntid 128, 2, 1\n", ""), [("entry first: threads a block", "at most 256", "", False)]),
    "a fixed block": ((".maxntid", ".reqntid"), [
        ("entry first: block", "", "(128, 2, 1)", True),
        ("entry first: threads a block", "at most 256", "", False),
    ]),
    "untyped": ((".b32 b", ".u32 b"), [("entry first: parameter 2 (b): type", "b32", "u32", False)]),
    "another type": ((".u64 a", ".s64 a"), [("entry first: parameter 1 (a): type", "u64", "s64", True)]),
    "an array": ((".b8 c[16]", ".b8 c[24]"), [
        ("entry second: parameter 1 (c): type", "b8[16]", "b8[24]", True),
        ("entry second: parameter 1 (c): size", "16 bytes", "24 bytes", True),
    ]),
    "a padded parameter": ((".param .b32 b", ".param .align 16 .b32 b"), [
        ("entry first: parameter 2 (b): offset", "8 bytes", "16 bytes", True),
    ]),
    "a pointer": ((".u64 a", ".u64 .ptr .shared .align 4 a"), [
        ("entry first: parameter 1 (a): state space", "", "shared", True),
        ("entry first: parameter 1 (a): alignment", "", "4 bytes", True),
    ]),
    "a target with a suffix": (("sm_80", "sm_90a"), [
        ("entry first: .target", "sm_80", "sm_90a", True), ("entry second: .target", "sm_80", "sm_90a", True),
    ]),
    "an older version": (("8.0", "7.8"), [
        ("entry first: .version", "8.0", "7.8", False), ("entry second: .version", "8.0", "7.8", False),
    ]),
    "shared memory of the launch": (("{\n    ret;\n}\n.vis", "{\n    ret;\n}\n.extern .shared .b8 s[];\n.vis"), [
        ("entry first: dynamic shared memory", "", "used", True),
        ("entry second: dynamic shared memory", "", "used", True),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("title", TEXTS)
def test_texts_alone(title: str) -> None:
    (old, new), expected = TEXTS[title]
    assert told(contract_changes(side(MODULE, None), side(replaced(MODULE, (old, new)), None))) == expected


def test_a_text_that_cannot_be_read() -> None:
    kernel = "batched_rope"
    text, description = text_of(kernel), description_of(kernel)
    broken = side(text[: len(text) // 2], description)
    (change,) = contract_changes(side(text, description), broken)
    assert (change.what, change.breaking) == ("text", True)
    assert change.after.startswith("does not parse: line ")
    (change,) = contract_changes(broken, side(text, description))
    assert (change.what, change.breaking) == ("text", False)
    assert contract_changes(broken, broken) == ()
    # the descriptions are all there is
    other = copy.deepcopy(description)
    other["block"] = [1, 1, 1]
    assert [each.what for each in contract_changes(broken, broken._replace(description=other))] == ["block"]
    assert [each.what for each in contract_changes(broken, side(text, None))] == ["text"]


@pytest.mark.parametrize(
    "nonsense",
    [
        {},
        {"parameters": 7, "block": "wide", "grid": {}, "grid_limits": [], "template_parameters": None},
        {"parameters": [1, {"name": "x_ptr"}], "block": [None], "entry": 5, "shared_memory": "much"},
        {"parameters": [{"name": "x_ptr", "type": "u64", "size": 8, "offset": 0, "tensor": {"shape": 3}}]},
    ],
)
def test_a_description_of_another_form_says_nothing_or_is_told(nonsense: Description) -> None:
    text, description = text_of("batched_rope"), description_of("batched_rope")
    found = contract_changes(side(text, description), side(text, nonsense))
    found += contract_changes(side(text, nonsense), side(text, description))
    assert {each.what for each in found} <= {"description: parameters", "grid"} | {
        f"template parameter {name}" for name in description["template_parameters"]
    }
