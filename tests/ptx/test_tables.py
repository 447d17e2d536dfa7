from __future__ import annotations

import pytest

from ptxtemplates.ptx.names import KEYWORDS, RESERVED, is_identifier
from ptxtemplates.ptx.registers import SPECIAL_REGISTERS
from ptxtemplates.ptx.targets import TARGETS, supports


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("k", True),
        ("K_9$", True),
        ("_x", True),
        ("$L__BB0_1", True),
        ("%r1", True),
        ("_", False),
        ("%", False),
        ("9k", False),
        ("a-b", False),
        ("a.b", False),
        ("", False),
        ("caf\u00e9", False),
        ("k\n", False),
    ],
)
def test_identifiers(name: str, expected: bool) -> None:
    assert is_identifier(name) is expected


def test_reserved_names() -> None:
    assert {"add", "ret", "wgmma", "vsub4"} <= KEYWORDS
    assert len(KEYWORDS) == 135
    assert {"WARP_SZ", "%tid", "%clock64", "inlined_at", "mov"} <= RESERVED
    assert "batched_rope" not in RESERVED


def test_special_registers() -> None:
    assert SPECIAL_REGISTERS["%tid"] == ("u32", "xyzw")
    assert SPECIAL_REGISTERS["%gridid"] == ("u64", "")
    assert SPECIAL_REGISTERS["%is_explicit_cluster"].type == "pred"
    assert {"%pm7", "%pm0_64", "%envreg31", "%reserved_smem_offset_1"} <= SPECIAL_REGISTERS.keys()
    assert "%pm8" not in SPECIAL_REGISTERS


def test_targets() -> None:
    assert (TARGETS["sm_75"], TARGETS["sm_80"], TARGETS["sm_90a"], TARGETS["sm_120f"]) == (
        "6.3",
        "7.0",
        "8.0",
        "8.8",
    )


@pytest.mark.parametrize(
    ("target", "minimum", "expected"),
    [
        ("sm_80", "sm_80", True),
        ("sm_75", "sm_80", False),
        ("sm_100", "sm_90", True),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100", False),
        ("sm_120f", "sm_100", True),
        ("sm_101", "sm_103", True),
        ("sm_101", "sm_110", True),
        ("sm_103", "sm_101", False),
    ],
)
def test_supports(target: str, minimum: str, expected: bool) -> None:
    assert supports(target, minimum) is expected


def test_supports_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="unknown target 'sm_99'"):
        supports("sm_99", "sm_80")
    with pytest.raises(ValueError, match="name the plain target 'sm_90'"):
        supports("sm_100", "sm_90a")
