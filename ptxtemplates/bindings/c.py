"""The C and C++ header of a build."""

from __future__ import annotations

import hashlib
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

TYPES: Final = {
    "u32": "uint32_t",
    "s32": "int32_t",
    "f32": "float",
    "u64": "uint64_t",
    "s64": "int64_t",
    "f64": "double",
}

_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t "
    "class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue "
    "decltype default delete do double dynamic_cast else enum explicit export extern false float for friend "
    "goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public register reinterpret_cast requires restrict return short signed sizeof static "
    "static_assert static_cast struct switch template this thread_local throw true try typedef typeid "
    "typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq"
)

KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Keywords of C up to C23 and of C++ up to C++23."""

CODES_A_LINE: Final = 24

_HEAD: Final = """\
// Written by ptxtemplates; changes are lost. C99 and later, C++11 and later.
//
// To launch variant V of kernel K, with the grid that its sizes give:
//
//     K_parameters parameters = {...};
//     size_t size = K_parameters_size;
//     void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters,
//                      CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
//     uint32_t grid[3];
//     if (V_grid(rows, grid))
//         cuLaunchKernel(function, grid[0], grid[1], grid[2], V_block_x, V_block_y, V_block_z,
//                        0, stream, NULL, extra);
//
// or, in place of NULL and extra, an array with the address of each member, in order, and NULL. Pointers are
// CUdeviceptr values. The 0 is dynamic shared memory: V_shared_memory is static, the driver reserves it.\
"""

_EMBEDDED: Final = """\
//
// V_ptx is the PTX with a final 0, for cuModuleLoadData; its length is sizeof V_ptx - 1. Every source file
// that includes this header has a copy: let one do.\
"""

_MACROS: Final = """\
#if defined(__cplusplus)
#define PTXTEMPLATES_ASSERT(condition) static_assert(condition, #condition);
#define PTXTEMPLATES_U32(value) static_cast<uint32_t>(value)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define PTXTEMPLATES_ASSERT(condition) _Static_assert(condition, #condition);
#define PTXTEMPLATES_U32(value) ((uint32_t)(value))
#else
#define PTXTEMPLATES_ASSERT(condition)
#define PTXTEMPLATES_U32(value) ((uint32_t)(value))
#endif\
"""

_TAIL: Final = ("#undef PTXTEMPLATES_ASSERT", "#undef PTXTEMPLATES_U32", "", "#endif")


def c_header(entries: Sequence[Entry], texts: Mapping[str, str] | None) -> str:
    """Write a header for C99, C++11 and later that needs nothing but ``stdint.h`` and ``stddef.h``.

    PTX is embedded as an array of character codes, not as string literals: C99 promises 4095 characters of a
    literal, also of one put together from pieces, and MSVC takes 65535.

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
    refuse_twins([(owner, identifier(owner)) for owner in owned], "C header")
    refuse_twins([(entry["variant"], identifier(entry["variant"])) for entry in entries], "C header")
    body: list[str] = []
    for struct in owned.values():
        body += ["", *_struct(struct)]
    for entry in entries:
        body += ["", *_variant(entry, structs[entry["variant"]])]
        if texts is not None:
            body += _embedded(identifier(entry["variant"]), texts[entry["variant"]])
    # of the content: the headers of two lists must not shut each other out
    guard = f"PTXTEMPLATES_{hashlib.sha256(ascii_only(body).encode()).hexdigest()[:16].upper()}_H"
    head = [_HEAD] if texts is None else [_HEAD, _EMBEDDED]
    includes = ["#include <stddef.h>", "#include <stdint.h>"]
    return ascii_only(
        [*head, f"#ifndef {guard}", f"#define {guard}", "", *includes, "", _MACROS, *body, "", *_TAIL]
    )


def _struct(struct: Struct) -> Iterator[str]:
    name = f"{identifier(struct.owner)}_parameters"
    members = members_of(struct, KEYWORDS)
    yield f"// Parameters of {struct.owner}, in the order of the launch."
    yield f"typedef struct {name} {{"
    for member, parameter in members.items():
        yield f"    // {description(parameter)}"
        yield f"    {TYPES[parameter['type']]} {member};"
    yield f"}} {name};"
    yield "// Bytes up to the end of the last parameter: what CU_LAUNCH_PARAM_BUFFER_SIZE wants."
    yield f"enum {{ {name}_size = {struct.size} }};"
    yield f"PTXTEMPLATES_ASSERT(sizeof({name}) == {struct.padded_size})"
    for member, parameter in members.items():
        yield f"PTXTEMPLATES_ASSERT(offsetof({name}, {member}) == {parameter['offset']})"


def _variant(entry: Entry, struct: Struct | None) -> Iterator[str]:
    name = identifier(entry["variant"])
    yield f"// {entry['variant']}"
    if struct is None:
        yield "// It has no parameters: launch it with NULL for both kernelParams and extra."
    else:
        yield f"// Its parameters are {identifier(struct.owner)}_parameters."
    for key in ("entry", "file", "sha256", "target"):
        yield f'static const char {name}_{key}[] = "{entry[key]}";'
    yield "enum {"
    for axis, threads in zip("xyz", entry["block"], strict=True):
        yield f"    {name}_block_{axis} = {threads},"
    yield f"    {name}_shared_memory = {entry['shared_memory']}"
    yield "};"
    sizes = sizes_of(entry, KEYWORDS | {"grid"})
    yield f"// Grid {grid_rule(entry)}. Returns 0, and leaves grid alone, if a size is 0 or too large."
    arguments = "".join(f"uint64_t {size}, " for size, _ in sizes.values())
    yield f"static inline int {name}_grid({arguments}uint32_t grid[3])"
    yield "{"
    for size, limit in sizes.values():
        yield f"    if ({size} == 0u || {size} > {limit}u)"
        yield "        return 0;"
    for index, extent in enumerate(entry["grid"]):
        value = f"PTXTEMPLATES_U32({sizes[extent][0]})" if isinstance(extent, str) else f"{extent}u"
        yield f"    grid[{index}] = {value};"
    yield "    return 1;"
    yield "}"


def _embedded(name: str, text: str) -> Iterator[str]:
    codes = [str(code) for code in text.encode("ascii")] + ["0"]
    yield f"static const char {name}_ptx[] = {{"
    for start in range(0, len(codes), CODES_A_LINE):
        yield f"    {','.join(codes[start : start + CODES_A_LINE])},"
    yield "};"
