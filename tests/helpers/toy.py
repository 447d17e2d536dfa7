"""A small kernel with a template of the test's own, to see what rendering makes of a mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from ptxtemplates.kernel import Kernel, pointer
from ptxtemplates.parameters import Integer, Parameter

if TYPE_CHECKING:
    from pathlib import Path

Width = Annotated[int, Parameter(Integer(1, 1024), "elements of a row", "w")]

TEMPLATE: Final = """\
// {{ entry }}: double each of the {{ width }} elements of every row
.version {{ ptx_version }}
.target {{ target }}
.address_size 64

.visible .entry {{ entry }}(
    .param .u64 .ptr .global .align 4 x_ptr
)
.reqntid {{ width }}, 1, 1
{
    .reg .u32 %row;
    .reg .u64 %x, %element;
    .reg .f32 %value;
    mov.u32       %row, %ctaid.x;
    ld.param.u64  %x, [x_ptr];
    mul.wide.u32  %element, %row, {{ width }};
    mad.lo.u64    %x, %element, 4, %x;
    ld.global.f32 %value, [%x];
    add.rn.f32    %value, %value, %value;
    st.global.f32 [%x], %value;
    ret;
}
"""


@dataclass(frozen=True, kw_only=True)
class Toy(Kernel):
    """Doubles elements."""

    name: ClassVar = "toy"
    summary: ClassVar = "double each element of a row"
    template: ClassVar = "toy.ptx.jinja"
    arguments: ClassVar = (pointer("x_ptr", "f32", "rows", "width", role="output", alignment=4),)
    extents: ClassVar = {"rows": 2**31 - 1}

    width: Width

    @property
    def block(self) -> tuple[int, int, int]:
        """One thread an element."""
        return (self.width, 1, 1)

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        """One block a row."""
        return ("rows", 1, 1)


def toy(folder: Path, text: str = TEMPLATE, **files: str) -> Toy:
    """Return a toy kernel whose template is `text`, with other templates beside it (name without ending)."""
    (folder / "toy.ptx.jinja").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.jinja").write_text(content, encoding="utf-8")

    attributes: dict[str, Any] = {"template_folder": folder}
    kernel: type[Toy] = dataclass(frozen=True, kw_only=True)(type("Toy", (Toy,), attributes))
    return kernel(width=64)


def with_line(replaced: str, line: str) -> str:
    """Return the toy template with a line of it (found by its text) replaced."""
    assert TEMPLATE.count(replaced) == 1, replaced
    return TEMPLATE.replace(replaced, line)


def line_of(text: str, template: str = TEMPLATE) -> int:
    """Return the number of the first line of the template that holds `text`."""
    return next(number for number, line in enumerate(template.split("\n"), start=1) if text in line)
