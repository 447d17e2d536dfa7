"""Atomic operations, against threads that take their turns in the order of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.bodies import run

THREADS = 64
PLACES = 7
"""So many words are met by all threads."""
BITS: dict[str, Any] = {
    "b16": np.uint16,
    "b32": np.uint32,
    "b64": np.uint64,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
SPACES = ("global", "shared", "generic", "generic shared")

UPDATES: dict[str, Callable[..., Any]] = {
    "add": lambda old, b: old + b,
    "min": lambda old, b: min(old, b),
    "max": lambda old, b: max(old, b),
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    "cas": lambda old, b, c: c if old == b else old,
}
OPERATIONS = (
    *(f"{name}.{kind}" for name in ("and", "or", "xor", "exch") for kind in ("b32", "b64")),
    *(f"cas.{kind}" for kind in ("b16", "b32", "b64")),
    *(f"{name}.{kind}" for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *(f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64")),
    "inc.u32",
    "dec.u32",
    "add.noftz.f16",
    "add.noftz.bf16",
)
REGISTERS = {16: "b16", 32: "b32", 64: "b64"}


def wrapped(value: Any, dtype: Any) -> Any:
    """Cut a Python integer to its type; floats are rounded by their own type."""
    if np.dtype(dtype).kind not in "iu":
        return dtype(value)
    bits = np.dtype(dtype).itemsize * 8
    value = int(value) % (1 << bits)
    return dtype(value - (1 << bits) if np.dtype(dtype).kind == "i" and value >> (bits - 1) else value)


def in_turns(name: str, memory: Any, places: Any, operands: list[Any]) -> Any:
    """Update `memory`, one thread after the other; return what each found."""
    dtype = memory.dtype.type
    found = np.zeros(len(places), memory.dtype)
    for thread, place in enumerate(places):
        found[thread] = memory[place]
        given = [operand[thread] for operand in operands]
        if memory.dtype.kind in "iu":
            memory[place] = wrapped(UPDATES[name](int(memory[place]), *map(int, given)), dtype)
        else:
            # NumPy's scalars of a type add with one rounding to it
            memory[place] = UPDATES[name](memory[place], *given)
    return found


def random_values(rng: np.random.Generator, dtype: Any, shape: Any) -> Any:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        if rng.random() < 0.5:
            return rng.integers(0, 5, shape).astype(kind)
        return rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind).reshape(shape)
    return (rng.integers(-40, 40, shape) / 8).astype(kind)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_atomic_operation(operation: str, space: str) -> None:
    """Every operation on every space, in place and value: for `atom`, and for `red` where there is one."""
    name, kind = operation.split(".")[0], operation.split(".")[-1]
    dtype = BITS[kind]
    size = np.dtype(dtype).itemsize
    register = REGISTERS[8 * size]
    load = f"b{8 * size}"
    rng = np.random.default_rng(len(operation) * 10 + size)
    for returns in (True, False):
        if not returns and name in ("exch", "cas"):
            continue
        memory = random_values(rng, dtype, (PLACES,))
        places = rng.integers(0, PLACES, THREADS, np.uint32)
        operands = [random_values(rng, dtype, (THREADS,)) for _ in range(2 if name == "cas" else 1)]
        found = np.zeros(THREADS, dtype)
        state = ".shared" if space == "shared" else ".global" if space == "global" else ""
        shared = space.endswith("shared")
        more = "c" if name == "cas" else "b"
        sources = "%vb, %vc" if name == "cas" else "%vb"
        line = (
            f"atom{state}.{operation} %vd, [%at], {sources};"
            if returns
            else f"red{state}.{operation} [%at], {sources};"
        )
        body = f"""
            .reg .u64 %at, %m, %o;
            .reg .{register} %vb, %vc, %vd;
            ld.param.u64 %m, [memory];
            ld.param.u64 %o, [b];
            mad.wide.u32 %o, %t, {size}, %o;
            ld.global.{load} %vb, [%o];
            ld.param.u64 %o, [{more}];
            mad.wide.u32 %o, %t, {size}, %o;
            ld.global.{load} %vc, [%o];
            mov.u64 %at, s;
            {"cvta.shared.u64 %at, %at;" if space == "generic shared" else ""}
            {"" if shared else "mov.u64 %at, %m;"}
            setp.lt.u32 %q, %t, {PLACES};
            mad.wide.u32 %e, %t, {size}, %m;
            mul.lo.u32 %a, %t, {size};
            @%q ld.global.{load} %vd, [%e];
            {f"@%q st.shared.{load} [%a], %vd;" if shared else ""}
            bar.sync 0;
            ld.global.u32 %b, [%p];
            mad.wide.u32 %at, %b, {size}, %at;
            mov.{register} %vd, 0;
            {line}
            ld.param.u64 %o, [found];
            mad.wide.u32 %o, %t, {size}, %o;
            st.global.{load} [%o], %vd;
            bar.sync 0;
            {f"@%q ld.shared.{load} %vd, [%a];" if shared else ""}
            {f"@%q st.global.{load} [%e], %vd;" if shared else ""}
            ret;"""
        expected = memory.copy()
        before = in_turns(name, expected, places, operands)
        outcome = run(
            body,
            threads=THREADS,
            x=places,
            module=".shared .align 8 .b8 s[64];",
            parameters="".join(f", .param .u64 {each}" for each in ("memory", "b", "c", "found")),
            more=(memory, operands[0], operands[-1] if name == "cas" else operands[0], found),
        )
        assert outcome.findings == ()
        assert memory.tobytes() == expected.tobytes()
        assert found.tobytes() == (before.tobytes() if returns else bytes(found.nbytes))


@pytest.mark.parametrize(("space", "flushes"), [("global", True), ("shared", False)])
def test_subnormal_numbers(space: str, flushes: bool) -> None:
    """Global additions of float32 take them for zero, shared ones do not (ISA, "atom")."""
    tiny = np.array([1], np.uint32).view(np.float32)
    outcome = run(
        "st.shared.u32 [s], 1;\nst.global.u32 [%x], 1;\nmov.b32 %f0, 1;\n"
        f"atom.{space}.add.f32 %f1, [{'%x' if space == 'global' else 's'}], %f0;\n"
        f"ld.{space}.u32 %b, [{'%x' if space == 'global' else 's'}];\nst.global.u32 [%x], %b;\nret;",
        threads=1,
        x=tiny.copy(),
        module=".shared .u32 s;",
    )
    assert outcome.findings == ()
    assert outcome.array.view(np.uint32)[0] == (0 if flushes else 2)


def test_packed_halves() -> None:
    values = np.array([1, 2, 2048, -0.5], np.float16)
    outcome = run(
        "mov.b32 %b, 0x3C003C00;\natom.global.add.noftz.f16x2 %c, [%x], %b;\n"
        "red.global.add.noftz.f16x2 [%x + 4], %b;\nret;",
        threads=2,
        x=values,
    )
    assert outcome.findings == ()
    assert values.tolist() == [3, 4, 2048, 1.5]  # 2048 + 1 is rounded to even


@pytest.mark.parametrize("spelling", ["v2.f32.add", "add.v2.f32"])
@pytest.mark.parametrize("opcode", ["atom", "red"])
def test_vectors(opcode: str, spelling: str) -> None:
    """In the order of the ISA's syntax, and in that of its examples."""
    values = np.array([1, 2, 3, 4], np.float32)
    result = "{ %f2, %f3 }, " if opcode == "atom" else ""
    outcome = run(
        "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f40000000;\n"
        f"{opcode}.global.{spelling} {result}[%x + 8], {{ %f0, %f1 }};\nret;",
        threads=3,
        x=values,
    )
    assert outcome.findings == ()
    assert values.tolist() == [1, 2, 6, 10]


def test_modifiers_in_any_order() -> None:
    """As libcu++ and Triton write them."""
    outcome = run(
        "atom.add.relaxed.gpu.s32 %b, [%x], 1;\natom.global.gpu.acq_rel.add.u32 %b, [%x], 1;\n"
        "atom.max.acq_rel.sys.s32 %b, [%x], 3;\nred.relaxed.gpu.global.add.u32 [%x], 1;\nret;",
        threads=1,
    )
    assert outcome.findings == ()
    assert outcome.array[0] == 4


def test_local_memory_has_no_atomics() -> None:
    """A generic address of local memory is a mistake, and no other memory changes."""
    outcome = run(
        ".local .u32 l;\nst.shared.u32 [s], 100;\nmov.u64 %e, l;\ncvta.local.u64 %e, %e;\nst.u32 [%e], 3;\n"
        "atom.add.u32 %b, [%e], 1;\nld.shared.u32 %c, [s];\nst.global.u32 [%x], %c;\nret;",
        threads=1,
        module=".shared .u32 s;",
    )
    assert outcome.array[0] == 100
    assert len(outcome.findings) == 1


def test_lock_is_held_by_one_at_a_time() -> None:
    """One thread of each warp spins for a lock; the holder adds without atomics."""
    outcome = run(
        "and.b32 %a, %t, 31;\nsetp.ne.u32 %q, %a, 0;\n@%q ret;\nspin:\n"
        "atom.acquire.gpu.global.cas.b32 %b, [%x], 0, 1;\n"
        "setp.ne.u32 %q, %b, 0;\n@%q bra spin;\nld.volatile.global.u32 %c, [%x + 4];\nadd.u32 %c, %c, 1;\n"
        "st.volatile.global.u32 [%x + 4], %c;\natom.release.gpu.global.exch.b32 %b, [%x], 0;\nret;",
        threads=96,
        blocks=3,
        step_limit=50_000,
    )
    assert outcome.findings == ()
    assert outcome.array[:2].tolist() == [0, 9]


def test_loop_of_compare_and_swap_begins_with_a_plain_load() -> None:
    for load in ("ld", "ld.weak"):
        outcome = run(
            f"{load}.global.u32 %b, [%x];\nagain:\nadd.u32 %c, %b, 2;\n"
            "atom.global.cas.b32 %d, [%x], %b, %c;\n"
            "setp.ne.u32 %q, %d, %b;\nmov.u32 %b, %d;\n@%q bra again;\nret;",
            blocks=2,
        )
        assert outcome.findings == ()
        assert outcome.array[0] == 128
