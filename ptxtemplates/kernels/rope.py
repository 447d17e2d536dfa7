"""Rotary position embedding (RoPE) of adjacent pairs, for a batch of positions; and its gradient.

Pair i of a head is turned by the angle position * theta^(-2i / head_dim). Angles are kept in turns
(1 turn = 2 pi) as 0.64 fixed point: `turns[i]` = theta^(-2i / head_dim) / (2 pi) * 2^64, whole turns dropped.
The product with an integer position, modulo 2^64, is then the fraction of a turn, exact but for the rounding
of the table (2^-65 turns a position), for every 32-bit position.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from functools import cache
from typing import Annotated, ClassVar, Final

from ptxtemplates.kernel import Kernel, pointer
from ptxtemplates.parameters import Integer, Parameter, PositiveReal
from ptxtemplates.registry import register

TURN_BITS: Final = 64
GUARD_DIGITS: Final = 30

SINE: Final = (0xC2966C6F, 0x42A32CCE, 0xC2255DD3, 0xB48C7D76, 0x40C90FDB)
"""float32 bits of s3, s2, s1, s0 and h: sin(2 pi r) = h r + (((s3 q + s2) q + s1) q + s0) r with q = r^2,
for r within an eighth of a turn; h is 2 pi rounded, s0 about what that rounding lost. They are found by
scripts/fit_rotation.py, and scripts/check_rotation.py checks every r."""

COSINE: Final = (0x426A3D87, 0xC2AAD8A2, 0x4281E0D7, 0xC19DE9E6, 0x3F800000)
"""float32 bits of c3, c2, c1, c0 and 1: cos(2 pi r) = (((c3 q + c2) q + c1) q + c0) q + 1."""

NumHeads = Annotated[int, Parameter(Integer(1, 65_535), "heads of a row", "h")]
HeadDim = Annotated[int, Parameter(Integer(2, 512, multiple_of=2), "elements of a head", "d")]
Theta = Annotated[float, Parameter(PositiveReal(), "base of the rotary frequencies", "theta")]


@dataclass(frozen=True, kw_only=True)
class Rope(Kernel):
    """What the forward and the backward kernel share: all but the direction.

    x, out f32 [rows, num_heads, head_dim], out may be x; positions u32 [rows].
    """

    template: ClassVar = "batched_rope.ptx.jinja"
    backward: ClassVar[bool]
    extents: ClassVar = {"rows": 65_535}
    arguments: ClassVar = (
        pointer("x_ptr", "f32", "rows", "num_heads", "head_dim", role="data", alignment=8),
        pointer("out_ptr", "f32", "rows", "num_heads", "head_dim", role="output", alignment=8),
        pointer("positions_ptr", "u32", "rows", role="data", alignment=4),
    )

    num_heads: NumHeads
    head_dim: HeadDim
    theta: Theta

    @property
    def block(self) -> tuple[int, int, int]:
        """One thread a pair."""
        return (self.head_dim // 2, 1, 1)

    @property
    def grid(self) -> tuple[int | str, int | str, int | str]:
        """One block a head and row."""
        return (self.num_heads, "rows", 1)

    def constants(self) -> dict[str, object]:
        """Give the direction, the table of turns and the coefficients of the short polynomials."""
        return {
            "backward": self.backward,
            "turns": turns(self.theta, self.head_dim),
            "sine_coefficients": SINE,
            "cosine_coefficients": COSINE,
        }


@register
@dataclass(frozen=True, kw_only=True)
class BatchedRope(Rope):
    """Rotate each pair (x[2i], x[2i+1]) of every head by its row's position."""

    name: ClassVar = "batched_rope"
    summary: ClassVar = "rotary position embedding of adjacent pairs"
    backward: ClassVar = False


@register
@dataclass(frozen=True, kw_only=True)
class BatchedRopeBackward(Rope):
    """Apply the transpose of `BatchedRope`: the gradient of its input from that of its output."""

    name: ClassVar = "batched_rope_backward"
    summary: ClassVar = "gradient of batched_rope: the transpose rotation"
    backward: ClassVar = True


@cache
def turns(theta: float, head_dim: int) -> tuple[int, ...]:
    """Return round(theta^(-2i / head_dim) / (2 pi) * 2^64) mod 2^64 for each pair i.

    Only operations that the decimal specification rounds correctly are used (exp and ln among them), at a
    precision that leaves `GUARD_DIGITS` below the last bit of the largest entry, so the table is the same on
    every machine. Each entry is a product of at most head_dim / 2 rounded factors, an error of some 10^-27 of
    one unit: far too little to change a rounding.

    Parameters
    ----------
    theta : float
        Taken exactly. Below 1 the frequencies exceed one turn a position; whole turns are dropped.
    head_dim : int
        Even.
    """
    base = Decimal(theta)
    # theta < 1 makes entries of up to 1 / theta turns: that many more digits are significant
    integer_digits = max(0, -base.adjusted())
    context = Context(
        prec=integer_digits + 20 + GUARD_DIGITS, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX
    )
    ratio = context.exp(context.divide(context.multiply(context.ln(base), Decimal(-2)), Decimal(head_dim)))
    entry = context.divide(Decimal(2**TURN_BITS), context.multiply(Decimal(2), pi(context.prec)))
    table = []
    for _ in range(head_dim // 2):
        table.append(int(entry.to_integral_value(ROUND_HALF_EVEN, context)) % (1 << TURN_BITS))
        entry = context.multiply(entry, ratio)
    return tuple(table)


@cache
def pi(digits: int) -> Decimal:
    """Return pi to `digits` significant digits, by Machin's formula 16 atan(1/5) - 4 atan(1/239)."""
    unit: int = 10 ** (digits + 10)

    def arctangent_of_inverse(n: int) -> int:
        power = total = unit // n
        divisor, sign = 1, 1
        while power:
            power //= n * n
            divisor, sign = divisor + 2, -sign
            total += sign * (power // divisor)
        return total

    scaled = 16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239)
    context = Context(prec=digits)
    return context.divide(Decimal(scaled), Decimal(unit))
