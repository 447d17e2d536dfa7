"""Names that users choose, such as the name of an entry (ISA, "Identifiers" and "Instruction Statements")."""

from __future__ import annotations

import re

from ptxtemplates.ptx.registers import SPECIAL_REGISTERS

_KEYWORDS = (
    "abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt "
    "brx call clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a "
    "elect ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldmatrix ldu lg2 lop3 mad "
    "mad24 madc mapa match max mbarrier membar min mma mov movmatrix mul mul24 multimem nanosleep neg not "
    "or pmevent popc prefetch prefetchu prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp shf "
    "shfl shl shr sin slct sqrt st stackrestore stacksave stmatrix sub subc suld suq sured sust szext "
    "tanh tcgen05 tensormap testp tex tld4 trap txq vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 "
    "vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote vset vset2 vset4 vshl vshr vsub vsub2 vsub4 wgmma "
    "wmma xor "
)

KEYWORDS = frozenset(_KEYWORDS.split())
"""The reserved instruction keywords of PTX ISA 9.1."""

RESERVED = KEYWORDS | {"WARP_SZ", "function_name", "inlined_at", *SPECIAL_REGISTERS}
"""Names that may not be given to an entry. ptxas tolerates opcodes there, but the ISA reserves them."""


def is_identifier(name: str) -> bool:
    """Say whether a name has the form of a PTX identifier; `RESERVED` names have it too."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+", name) is not None
