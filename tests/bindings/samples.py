"""Entries to make headers and modules of, and what a program that uses them should print."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ptxtemplates.manifest import entry_of
from ptxtemplates.rendering import render
from tests.helpers.variants import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ptxtemplates.manifest import Entry

SIZES: Final = {"u32": 4, "s32": 4, "f32": 4, "u64": 8, "s64": 8, "f64": 8}


class Names(NamedTuple):
    """What an entry's things are called in one language."""

    variant: str
    struct: str
    members: tuple[str, ...]


class Sample(NamedTuple):
    """An entry, its text, and its names in both languages."""

    entry: Entry
    text: str
    c: Names
    rust: Names


def written(
    write: Callable[[Sequence[Entry], Mapping[str, str] | None], str],
    samples: Sequence[Sample],
    *,
    embed: bool,
) -> str:
    """Return what a writer of bindings makes of samples, with their texts or without."""
    texts = {sample.entry["variant"]: sample.text for sample in samples} if embed else None
    return write([sample.entry for sample in samples], texts)


def entry(kernel: str, variant: str, *parameters: tuple[str, str], **changed: Any) -> Entry:
    """Write an entry as the manifest would have it, with `parameters` as (name, type)."""
    described = []
    offset = 0
    for name, kind in parameters:
        offset += -offset % SIZES[kind]
        described.append({"name": name, "type": kind, "size": SIZES[kind], "offset": offset, "role": "index"})
        offset += SIZES[kind]
    return {
        "kernel": kernel,
        "variant": variant,
        "entry": "kernel",
        "file": f"{kernel}/{variant}.ptx",
        "sha256": "0" * 64,
        "target": "sm_75",
        "block": [1, 2, 3],
        "grid": [1, 1, 1],
        "grid_limits": {},
        "shared_memory": 0,
        "parameters": described,
        "templates": {},
    } | changed


ALL_TYPES: Final = (("a", "u32"), ("b", "u64"), ("c", "f32"), ("d", "f64"), ("e", "s32"), ("f", "s64"))

ODD: Final = [
    Sample(
        entry("types", "types.w1", *ALL_TYPES, ("last", "u32"), shared_memory=49152, block=[1024, 1, 1]),
        'a text with "quotes", "# and "##, \\ and %\n',
        Names("types_w1", "types_parameters", ("a", "b", "c", "d", "e", "f", "last")),
        Names("types_w1", "TypesParameters", ("a", "b", "c", "d", "e", "f", "last")),
    ),
    Sample(
        entry(
            "3D+x",
            "3D+x.scale1e-05.entry-Main__x",
            ("default", "u64"),
            ("fn", "u32"),
            ("x$y", "u32"),
            grid=["class", "move", "class"],
            grid_limits={"class": 65535, "move": 2**40},
        ),
        "one\n\ttwo\n",
        Names("k_3D_x_scale1e_05_entry_Main__x", "k_3D_x_parameters", ("default_", "fn", "x_y")),
        Names("k_3D_x_scale1e_05_entry_Main__x", "K3DXParameters", ("default", "fn_", "x_y")),
    ),
    Sample(
        entry("loop", "loop", grid=["grid", 7, 1], grid_limits={"grid": 2**31 - 1}),
        "",
        Names("loop", "", ()),
        Names("loop_", "", ()),
    ),
    *(
        Sample(
            entry("abi", f"abi.w{width}", *(("p", "u32"),) * 1, *(("q", "u64"),) * (width - 1)),
            f"{width}\n",
            Names(f"abi_w{width}", f"abi_w{width}_parameters", ("p", "q")[:width]),
            Names(f"abi_w{width}", f"AbiW{width}Parameters", ("p", "q")[:width]),
        )
        for width in (1, 2)
    ),
]
"""Every type, names that are keywords or no identifiers, kernels without parameters, with several ABIs."""


@cache
def real() -> tuple[Sample, ...]:
    """Return the variants of the repository's own list."""
    samples = []
    for kernel in KERNELS.values():
        rendered = render(kernel)
        members = tuple(argument.name for argument in kernel.arguments)
        variant = kernel.variant.replace(".", "_").replace("-", "_")
        camel = "".join(word.capitalize() for word in kernel.name.split("_"))
        samples.append(
            Sample(
                entry_of(rendered),
                rendered.text,
                Names(variant, f"{kernel.name}_parameters", members),
                Names(variant, f"{camel}Parameters", members),
            )
        )
    return tuple(samples)


def calls_of(entry: Entry) -> Iterator[tuple[tuple[int, ...], list[int] | None]]:
    """Yield sizes to ask a grid for, in the order of its arguments, and what the answer should be."""
    names = list(dict.fromkeys(extent for extent in entry["grid"] if isinstance(extent, str)))
    limits = {name: min(entry["grid_limits"][name], 2**31 - 1) for name in names}
    for sizes in itertools.product(*([0, 1, 2, limits[n], limits[n] + 1, 2**32 + 1] for n in names)):
        values = dict(zip(names, sizes, strict=True))
        legal = all(1 <= value <= limits[name] for name, value in values.items())
        yield sizes, [values.get(extent, extent) for extent in entry["grid"]] if legal else None


def expected(samples: Sequence[Sample]) -> list[str]:
    """Return the lines that a program prints of what it sees."""
    lines = []
    for sample in samples:
        item = sample.entry
        if item["parameters"]:
            last = item["parameters"][-1]
            size = last["offset"] + last["size"]
            alignment = max(parameter["size"] for parameter in item["parameters"])
            offsets = [parameter["offset"] for parameter in item["parameters"]]
            lines.append(" ".join(map(str, [size, -(-size // alignment) * alignment, *offsets])))
        lines += [item["entry"], item["file"], item["sha256"], item["target"]]
        lines.append(" ".join(map(str, [*item["block"], item["shared_memory"]])))
        for _, grid in calls_of(item):
            lines.append("none" if grid is None else " ".join(map(str, grid)))
    return lines
