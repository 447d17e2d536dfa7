"""PTX texts that several tests share."""

from __future__ import annotations

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

OLD_STYLE = (
    HEADER
    + """\
.visible .entry reduce(.param .u64 in_ptr, .param .u64 out_ptr, .param .u32 count)
{
    .reg .pred %p<3>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [in_ptr];
    ld.param.u64 %rd1, [out_ptr];
    ld.param.u32 %r1, [count];
    mov.f32 %f0, 0F00000000;
    mov.u32 %r2, 0;
    mov.u32 %r3, 4;
loop:
    setp.lt.u32 %p0, %r2, %r1;
    @!%p0 bra loop_end;
    setp.gt.f32 %p1, %f0, 0FBF800000;
    @!%p1 bra skip;
    mul.wide.u32 %rd2, %r0, %r3;
    add.u64 %rd3, %rd0, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.rn.f32 %f0, %f0, %f1;
skip:
    add.u32 %r2, %r2, 1;
    bra loop;
loop_end:
    add.u64 %rd4, %rd1, %rd2;
    st.global.f32 [%rd4], %f0;
    ret;
}
"""
)
"""A reduction as generators write it that know no scopes: %rd2 is set only inside the loop."""


def kernel(body: str, before: str = "") -> str:
    """Wrap statements in an entry named k; its body starts on line 6 if `before` has no line breaks.

    Registers r, s, t (b32), rd (b64), f (f32), p and q (pred) are declared where the body names them.
    """
    types = {"r": "b32", "s": "b32", "t": "b32", "rd": "b64", "f": "f32", "p": "pred", "q": "pred"}
    words = set("".join(c if c.isalnum() or c in "_$%" else " " for c in body).split())
    declared = " ".join(f".reg .{type_} {name};" for name, type_ in types.items() if name in words)
    return f"{HEADER}{before}.entry k(.param .u64 a) {{ {declared}\n\n{body}\nret; }}\n"


BODY_LINE = 6
