"""Kernels in Triton, as an inference engine has them."""

# Triton's language: its types are not Python's
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * columns + column, inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + column, weights / tl.sum(weights, axis=0), inside)


@triton.jit
def rms_norm(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * columns + column, inside, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / columns + epsilon)
    result = values * scale * tl.load(weight + column, inside, other=0.0)
    tl.store(out + row * columns + column, result.to(tl.bfloat16), inside)


@triton.jit
def rope(x, cosine, sine, out, heads, HALF: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1)
    pair = tl.arange(0, HALF)
    start = (row * heads + head) * 2 * HALF
    first = tl.load(x + start + pair)
    second = tl.load(x + start + HALF + pair)
    c = tl.load(cosine + row * HALF + pair)
    s = tl.load(sine + row * HALF + pair)
    tl.store(out + start + pair, first * c - second * s)
    tl.store(out + start + HALF + pair, first * s + second * c)


@triton.jit
def sums_of_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + row, tl.sum(tile, axis=1))


@triton.jit
def largest_of_columns(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column, tl.max(tile, axis=0))


@triton.jit
def running_sum(x, out, total, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i)
    tl.store(out + i, tl.cumsum(values, axis=0))
    tl.atomic_add(total, tl.sum(values, axis=0))


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column[:, None] * ROWS + row[None, :], tl.trans(tile))
