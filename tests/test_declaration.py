"""A kernel class that says something impossible is refused, in one line and before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.declaration import check_class, check_launch
from ptxtemplates.errors import DeclarationError, TemplateError
from ptxtemplates.kernel import Argument, Kernel, Tensor, parameters_of, pointer
from ptxtemplates.registry import register
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused
from tests.helpers.toy import TEMPLATE, Toy
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

POINTER: dict[str, Any] = {"name": "x_ptr", "element": "f32", "role": "output", "alignment": 4}
TABLE: dict[str, Any] = {**POINTER, "element": "u64", "role": "index", "alignment": 8}
NO_TENSOR: Any = "f32"
ROLES = "index, data, output"


def made(**attributes: Any) -> type[Toy]:
    """Return Toy with other attributes."""
    kernel: type[Toy] = dataclass(frozen=True, kw_only=True)(type("Scale", (Toy,), attributes))
    return kernel


def check(kernel: type[Toy]) -> None:
    check_class(kernel)
    check_launch(kernel(width=64))


def with_pointer(**changes: Any) -> dict[str, Any]:
    return {"arguments": (pointer(**{**POINTER, **changes}),)}


def shaped(*shape: Any) -> dict[str, Any]:
    return {"arguments": (pointer("x_ptr", "f32", *shape, role="output", alignment=4),)}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"grid": ("rows", 1)}, "grid: must be a tuple of three (blocks in x, y, z), not ('rows', 1)"),
        ({"grid": ["rows", 1, 1]}, "grid: must be a tuple of three"),
        ({"grid": ("rows", 0, 1)}, "grid: y must be an int from 1 to 65535 or a name in extents, not 0"),
        (
            {"grid": ("rows", 1, True)},
            "grid: z must be an int from 1 to 65535 or a name in extents, not True",
        ),
        ({"grid": (1, 70_000, 1)}, "grid: y must be an int from 1 to 65535"),
        ({"grid": (2**31, 1, 1)}, "grid: x must be an int from 1 to 2147483647"),
        ({"grid": ("row", 1, 1)}, "grid: 'row' is no run-time size of extents; did you mean 'rows'?"),
        ({"extents": {}}, "grid: 'rows' is no run-time size of extents; extents is empty"),
        ({"extents": {"rows": "many"}}, "extents: 'rows' must be an int from 1 to 2147483647, not 'many'"),
        ({"extents": {"rows": 2**40}}, "extents: 'rows' must be an int from 1 to 2147483647"),
        ({"extents": {"rows": 0}}, "extents: 'rows' must be an int from 1"),
        ({"extents": {"rows": True}}, "extents: 'rows' must be an int from 1"),
        ({"extents": {"a row": 1}}, "extents: 'a row' must be an identifier"),
        ({"extents": ["rows"]}, "extents: must be a dict of run-time sizes"),
        (
            {"grid": (1, "rows", 1), "extents": {"rows": 70_000}},
            "extents: 'rows' is up to 70000; y of the grid is at most 65535",
        ),
        (
            {"grid": (1, 1, "rows"), "extents": {"rows": 70_000}},
            "extents: 'rows' is up to 70000; z of the grid is at most 65535",
        ),
        ({"block": (64, 1)}, "block: must be three ints from 1 (threads in x, y, z), not (64, 1)"),
        ({"block": (64, 0, 1)}, "block: must be three ints from 1"),
        ({"block": (64, 32, 1)}, "block: (64, 32, 1) is 2048 threads; a block has at most 1024"),
        ({"block": (1, 1, 65)}, "block: z is 65; a block has at most 64 threads in z"),
        ({"block": Kernel.block}, "block: is missing; give the threads a block in x, y, z"),
        ({"grid": Kernel.grid}, "grid: is missing; give the blocks in x, y, z"),
        ({"name": None}, "name: is missing; it must be a str"),
        ({"name": "a/b"}, "name: must be an identifier, not 'a/b'"),
        ({"summary": None}, "summary: is missing; it must be a str"),
        ({"summary": ""}, "summary: must be a str that is not empty, not ''"),
        ({"template": 7}, "template: must be a str that is not empty, not 7"),
        ({"template_folder": "templates"}, "template_folder: must be a pathlib.Path, not 'templates'"),
        ({"shared_memory": -1}, "shared_memory: must be a number of bytes, an int from 0, not -1"),
        ({"arguments": None}, "arguments: is missing; it must be a tuple of Argument"),
        ({"arguments": []}, "arguments: must be a tuple of Argument, not []"),
        ({"arguments": ("x_ptr",)}, "arguments: 'x_ptr' must be an Argument"),
        ({"arguments": (Argument("", "u32", "index"),)}, "arguments: a name must be a str that is not empty"),
        ({"arguments": (Argument("n", "u33", "index"),)}, "arguments: n: 'u33' is none of u32, s32, f32,"),
        ({"arguments": (Argument("n", "u32", "index"),) * 2}, "arguments: two are named 'n'"),
        (with_pointer(role="out"), f"arguments: x_ptr: 'out' is none of {ROLES}"),
        (with_pointer(element="f33"), "arguments: x_ptr: 'f33' is none of b8, b16,"),
        (with_pointer(alignment=12), "arguments: x_ptr: alignment must be a power of two, not 12"),
        (with_pointer(alignment=True), "arguments: x_ptr: alignment must be a power of two, not True"),
        (
            {"arguments": (pointer(**POINTER)._replace(type="u32"),)},
            "arguments: x_ptr: a pointer must have type 'u64', not 'u32'",
        ),
        (
            {"arguments": (pointer(**POINTER)._replace(tensor=NO_TENSOR),)},
            "arguments: x_ptr: a pointer must have a Tensor, not 'f32'",
        ),
        *(
            (shaped(extent), f"arguments: x_ptr: shape has {extent!r}; write 'name', 'name + 2' or '2'")
            for extent in ("", "width +", "+ 2", "wid th", "2 * width", "width + rows", 2)
        ),
        (
            with_pointer(points_to=Tensor("f32", ("rows",), 4, "data")),
            "arguments: x_ptr: the elements of a table of pointers must be 'u64', not 'f32'",
        ),
        (
            {"arguments": (pointer(**TABLE, points_to=Tensor("f33", ("rows",), 4, "data")),)},
            "arguments: x_ptr: points_to: 'f33' is none of b8,",
        ),
        (
            {"__annotations__": {"depth": int}},
            "depth: a parameter needs the type Annotated[..., Parameter(...)]",
        ),
    ],
)
def test_mistake_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        check(made(**attributes))
    assert str(caught.value).startswith(f"Scale.{message}")


@pytest.mark.parametrize("shape", [(), ("rows",), ("rows + 2", "4")])
def test_shapes_that_are_written_right(shape: tuple[str, ...]) -> None:
    check_class(made(**shaped(*shape)))


def test_class_is_checked_where_it_is_used() -> None:
    with pytest.raises(DeclarationError, match="Scale.summary: "):
        render(made(summary="")(width=64))
    with pytest.raises(DeclarationError, match="Scale.grid: "):
        render(made(grid=("row", 1, 1))(width=64))
    with pytest.raises(DeclarationError, match="Scale.depth: "):
        parameters_of(made(__annotations__={"depth": int}))


def test_kernel_without_a_name_cannot_register() -> None:
    with pytest.raises(DeclarationError, match="Scale.name: is missing"):
        register(made(name=None))


def test_missing_template_is_named_with_kernel_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = made(template="scal.ptx.jinja", template_folder=tmp_path / "templates")
    with pytest.raises(
        TemplateError, match="toy: there is no template 'scal.ptx.jinja' in templates, the built-in"
    ):
        render(kernel(width=64))


@pytest.mark.parametrize("attribute", ["grid = ('row', 1, 1)", "summary = ''"])
def test_command_line_says_one_line_and_writes_nothing(tmp_path: Path, attribute: str) -> None:
    (tmp_path / "toy.ptx.jinja").write_text(TEMPLATE)
    (tmp_path / "scale.py").write_text(
        f"""\
from dataclasses import dataclass
from pathlib import Path
from ptxtemplates import register
from tests.helpers.toy import Toy

@register
@dataclass(frozen=True, kw_only=True)
class Scale(Toy):
    template_folder = Path(__file__).parent
    {attribute}
"""
    )
    (tmp_path / "engine.py").write_text("import scale\nfrom ptxtemplates.__main__ import run\nrun()\n")
    (tmp_path / "kernels.toml").write_text('[[kernel]]\nname = "toy"\nwidth = [64]\n')
    for arguments in (["build"], ["build", "--check"], ["render", "toy", "--set", "width=64"]):
        result = subprocess.run(
            [sys.executable, "engine.py", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert_refused(result, f"Scale.{attribute.split()[0]}: ")
        assert not (tmp_path / "build").exists()
