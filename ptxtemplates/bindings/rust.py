"""The Rust module of a build."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ptxtemplates.bindings.structs import (
    ascii_only,
    description,
    distinct,
    grid_rule,
    identifier,
    members_of,
    refuse_twins,
    sizes_of,
    structs_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ptxtemplates.bindings.structs import Struct
    from ptxtemplates.manifest import Entry

TYPES: Final = {"u32": "u32", "s32": "i32", "f32": "f32", "u64": "u64", "s64": "i64", "f64": "f64"}

_KEYWORDS = (
    "Self abstract as async await become box break const continue crate do dyn else enum extern false final "
    "fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct "
    "super trait true try type typeof union unsafe unsized use virtual where while yield _"
)

KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Keywords of Rust up to edition 2024, reserved ones too."""

_HEAD: Final = """\
// Written by ptxtemplates; changes are lost. For Rust 1.77 and later; it uses nothing but core. In a module:
//
//     mod kernels {
//         include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
//     }
//
// To launch: a pointer to the struct and its SIZE as CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE, or a pointer
// to each of its fields, in order. Pointers are CUdeviceptr values. Dynamic shared memory is 0:
// SHARED_MEMORY is static, the driver reserves it.\
"""

_ATTRIBUTES: Final = "#[allow(dead_code, non_snake_case)]"
"""A program need not use every variant, and names are made of the variant's."""


def rust_module(entries: Sequence[Entry], texts: Mapping[str, str] | None) -> str:
    """Write the content of a module for Rust 1.77 and later that needs no crate, nor std.

    Parameters
    ----------
    entries : sequence of dict
        As in the manifest.
    texts : mapping of str to str, optional
        The PTX of each variant, to embed it.

    Returns
    -------
    str
        ASCII, the same for the same entries in any order.

    Raises
    ------
    ArtifactError
        If two variants, kernels, parameters or sizes would get one identifier.
    """
    entries = sorted(entries, key=lambda entry: str(entry["variant"]))
    structs = structs_of(entries)
    owned = distinct(structs)
    refuse_twins(
        [
            *((f"parameters of {owner}", _type_name(owner)) for owner in owned),
            *((entry["variant"], identifier(entry["variant"], KEYWORDS)) for entry in entries),
        ],
        "Rust module",
    )
    lines = [_HEAD]
    for struct in owned.values():
        lines += ["", *_struct(struct)]
    for entry in entries:
        text = None if texts is None else texts[entry["variant"]]
        lines += ["", *_variant(entry, structs[entry["variant"]], text)]
    return ascii_only(lines)


def _type_name(owner: str) -> str:
    words = re.split("_+", identifier(owner))
    return "".join(word[:1].upper() + word[1:] for word in words) + "Parameters"


def _struct(struct: Struct) -> Iterator[str]:
    name = _type_name(struct.owner)
    members = members_of(struct, KEYWORDS)
    yield f"/// Parameters of `{struct.owner}`, in the order of the launch."
    yield _ATTRIBUTES
    yield "#[repr(C)]"
    yield "#[derive(Clone, Copy, Debug)]"
    yield f"pub struct {name} {{"
    for member, parameter in members.items():
        yield f"    /// {description(parameter, '`')}"
        yield f"    pub {member}: {TYPES[parameter['type']]},"
    yield "}"
    yield ""
    yield _ATTRIBUTES
    yield f"impl {name} {{"
    yield "    /// Bytes up to the end of the last parameter: what `CU_LAUNCH_PARAM_BUFFER_SIZE` wants."
    yield f"    pub const SIZE: usize = {struct.size};"
    yield "}"
    yield ""
    yield "const _: () = {"
    yield f"    assert!(::core::mem::size_of::<{name}>() == {struct.padded_size});"
    for member, parameter in members.items():
        yield f"    assert!(::core::mem::offset_of!({name}, {member}) == {parameter['offset']});"
    yield "};"


def _variant(entry: Entry, struct: Struct | None, text: str | None) -> Iterator[str]:
    parameters = "none" if struct is None else f"`{_type_name(struct.owner)}`"
    block = ", ".join(map(str, entry["block"]))
    yield f"/// `{entry['variant']}`; parameters: {parameters}."
    yield _ATTRIBUTES
    yield f"pub mod {identifier(entry['variant'], KEYWORDS)} {{"
    yield "    /// Name of the entry, to be looked up in the loaded module."
    yield f'    pub const ENTRY: &str = "{entry["entry"]}";'
    yield "    /// The PTX file, relative to the build directory."
    yield f'    pub const FILE: &str = "{entry["file"]}";'
    yield "    /// Digest of that file."
    yield f'    pub const SHA256: &str = "{entry["sha256"]}";'
    yield "    /// Lowest architecture that can load the PTX."
    yield f'    pub const TARGET: &str = "{entry["target"]}";'
    yield "    /// Threads a block, in x, y and z."
    yield f"    pub const BLOCK: (u32, u32, u32) = ({block});"
    yield "    /// Static shared memory of a block, in bytes."
    yield f"    pub const SHARED_MEMORY: u32 = {entry['shared_memory']};"
    yield from _grid(entry)
    if text is not None:
        hashes = "#" * (1 + max(map(len, re.findall('"(#*)', text)), default=0))
        yield "    /// The PTX, without a final NUL: `cuModuleLoadData` wants a `CString` of it."
        yield f'    pub const PTX: &str = r{hashes}"{text}"{hashes};'
    yield "}"


def _grid(entry: Entry) -> Iterator[str]:
    sizes = sizes_of(entry, KEYWORDS)
    arguments = ", ".join(f"{size}: u64" for size, _ in sizes.values())
    yield f"    /// Blocks in x, y and z: `{grid_rule(entry)}`. `None` if a size is 0 or too large."
    yield f"    pub const fn grid({arguments}) -> Option<(u32, u32, u32)> {{"
    for size, limit in sizes.values():
        yield f"        if {size} == 0 || {size} > {limit} {{"
        yield "            return None;"
        yield "        }"
    extents = [
        f"{sizes[extent][0]} as u32" if isinstance(extent, str) else str(extent) for extent in entry["grid"]
    ]
    yield f"        Some(({', '.join(extents)}))"
    yield "    }"
