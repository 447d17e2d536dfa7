"""The special registers (ISA, chapter "Special Registers")."""

from __future__ import annotations

from typing import NamedTuple


class SpecialRegisterType(NamedTuple):
    """What a special register holds.

    Attributes
    ----------
    type : str
        Type of the register, or of one component of a vector.
    components : str
        Names of its components, one letter each; empty for a scalar.
    """

    type: str
    components: str


_VECTOR = SpecialRegisterType("u32", "xyzw")
_U32 = SpecialRegisterType("u32", "")
_U64 = SpecialRegisterType("u64", "")
_B32 = SpecialRegisterType("b32", "")
_PRED = SpecialRegisterType("pred", "")

SPECIAL_REGISTERS: dict[str, SpecialRegisterType] = {
    "%tid": _VECTOR,
    "%ntid": _VECTOR,
    "%laneid": _U32,
    "%warpid": _U32,
    "%nwarpid": _U32,
    "%ctaid": _VECTOR,
    "%nctaid": _VECTOR,
    "%smid": _U32,
    "%nsmid": _U32,
    "%gridid": _U64,
    "%is_explicit_cluster": _PRED,
    "%clusterid": _VECTOR,
    "%nclusterid": _VECTOR,
    "%cluster_ctaid": _VECTOR,
    "%cluster_nctaid": _VECTOR,
    "%cluster_ctarank": _U32,
    "%cluster_nctarank": _U32,
    "%lanemask_eq": _U32,
    "%lanemask_le": _U32,
    "%lanemask_lt": _U32,
    "%lanemask_ge": _U32,
    "%lanemask_gt": _U32,
    "%clock": _U32,
    "%clock_hi": _U32,
    "%clock64": _U64,
    **{f"%pm{index}": _U32 for index in range(8)},
    **{f"%pm{index}_64": _U64 for index in range(8)},
    **{f"%envreg{index}": _B32 for index in range(32)},
    "%globaltimer": _U64,
    "%globaltimer_lo": _U32,
    "%globaltimer_hi": _U32,
    "%reserved_smem_offset_begin": _B32,
    "%reserved_smem_offset_end": _B32,
    "%reserved_smem_offset_cap": _B32,
    "%reserved_smem_offset_0": _B32,
    "%reserved_smem_offset_1": _B32,
    "%total_smem_size": _U32,
    "%aggr_smem_size": _U32,
    "%dynamic_smem_size": _U32,
    "%current_graph_exec": _U64,
}
"""Every special register by name."""
