"""Measure how many lines of PTX one line of source changes: in our templates, and in compilers' output.

``python -m scripts.measure_diff_noise`` prints the tables of docs/diff-text.md. Of our templates every line
that makes instructions is tried: one instruction is inserted before it, in a copy, and every variant of
kernels.toml is rendered. nvcc and Triton compile a kernel for the same task twice, with and without one more
line; where one of them is missing, that is said instead. No GPU is needed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from ptxtemplates import render
from ptxtemplates.config import load
from ptxtemplates.ptx import parse
from ptxtemplates.review.hunks import edits
from ptxtemplates.review.model import Side
from ptxtemplates.review.text import text_change
from ptxtemplates.sources import BUILT_IN_TEMPLATES

ROOT: Final = Path(__file__).resolve().parent.parent
INSERTED: Final = "bar.warp.sync -1;"
"""Valid wherever an instruction is, and in no template."""


class Count(NamedTuple):
    """Lines that a change added and removed."""

    added: int
    removed: int

    def __str__(self) -> str:
        """Write it as version control does."""
        return f"+{self.added} -{self.removed}"


def count(old: str, new: str) -> Count:
    """Count changed lines as `ptxtemplates diff` does."""
    found = edits(old.splitlines(), new.splitlines())
    return Count(
        sum(edit.new_end - edit.new_start for edit in found),
        sum(edit.old_end - edit.old_start for edit in found),
    )


class Inserted(NamedTuple):
    """What one inserted instruction did to one variant."""

    copies: int
    changed: Count
    hunks: int


def of_templates(every: int = 1, variants: int | None = None) -> dict[str, tuple[int, list[Inserted]]]:
    """Insert an instruction before template lines that make one: how many lines, and what it did, by kernel.

    Parameters
    ----------
    every : int
        Take one line of so many.
    variants : int, optional
        Render so many of each kernel; all, if it is left out.
    """
    by_kernel: dict[str, list[Any]] = {}
    for kernel in load(ROOT / "kernels.toml"):
        by_kernel.setdefault(kernel.name, []).append(kernel)
    results: dict[str, tuple[int, list[Inserted]]] = {}
    for name, kernels in by_kernel.items():
        texts = [render(kernel) for kernel in kernels[:variants]]
        places = sorted({place for rendered in texts for place in _instruction_places(rendered)})[::every]
        found = []
        for template, line in places:
            with tempfile.TemporaryDirectory() as folder:
                _insert(Path(folder), template, line)
                found += [_compared(rendered, Path(folder)) for rendered in texts]
        results[name] = len(places), [each for each in found if each.copies]
    return results


def _instruction_places(rendered: Any) -> Iterator[tuple[str, int]]:
    for function in parse(rendered.text).functions:
        yield from (tuple(rendered.place(instruction.line)) for instruction in function.instructions)


def _insert(folder: Path, template: str, line: int) -> None:
    shutil.copytree(BUILT_IN_TEMPLATES, folder, dirs_exist_ok=True)
    path = folder / template
    lines = path.read_text(encoding="utf-8").split("\n")
    indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
    lines.insert(line - 1, indent + INSERTED)
    path.write_text("\n".join(lines), encoding="utf-8")


def _compared(rendered: Any, folder: Path) -> Inserted:
    edited: type[Any] = type("Edited", (type(rendered.kernel),), {"template_folder": folder})
    new = render(edited(**rendered.kernel.parameters))
    name = rendered.kernel.variant
    change = text_change(
        Side(name, rendered.text, None, None, name), Side(name, new.text, None, new.places, name)
    )
    return Inserted(new.text.count(INSERTED), count(rendered.text, new.text), len(change.hunks))


class Source(NamedTuple):
    """A kernel for a compiler, and lines that can be inserted: title, the line that it follows, the line."""

    text: str
    insertions: tuple[tuple[str, str, str], ...]

    def with_line(self, after: str, line: str) -> str:
        """Return the text with one more line."""
        assert self.text.count(after) == 1, after
        indent = re.search(rf"(?m)^( *){re.escape(after)}$", self.text)
        assert indent is not None, after
        return self.text.replace(f"{after}\n", f"{after}\n{indent[1]}{line}\n")


CUDA: Final = {
    "rope": Source(
        """\
extern "C" __global__ void __launch_bounds__(64) rope(
    const float* __restrict__ x, float* __restrict__ out,
    const float* __restrict__ cosines, const float* __restrict__ sines, int heads) {
    int row = blockIdx.y;
    int pair = threadIdx.x;
    size_t element = ((size_t)row * heads + blockIdx.x) * 128 + 2 * pair;
    float even = x[element];
    float odd = x[element + 1];
    float c = cosines[row * 64 + pair];
    float s = sines[row * 64 + pair];
    out[element] = even * c - odd * s;
    out[element + 1] = even * s + odd * c;
}
""",
        (
            ("address", "int row = blockIdx.y;", "row = row + 1;"),
            ("arithmetic", "float odd = x[element + 1];", "even = even * 2.0f;"),
        ),
    ),
    "reduce": Source(
        """\
extern "C" __global__ void __launch_bounds__(32) reduce(
    const float* __restrict__ partials, float* __restrict__ output,
    const unsigned* __restrict__ seq_lens, unsigned max_chunks) {
    unsigned lane = threadIdx.x, head = blockIdx.x, row = blockIdx.y;
    unsigned chunks = min((seq_lens[row] + 15) / 16, max_chunks);
    size_t first = (size_t)row * gridDim.x + head;
    float maximum = -INFINITY;
    float sum = 0, acc[4] = {0, 0, 0, 0};
#pragma unroll 4
    for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        const float* partial = partials + (first * max_chunks + chunk) * 130;
        float chunk_max = partial[128];
        float raised = fmaxf(maximum, chunk_max);
        float rescale = exp2f((maximum - raised) * 1.442695f);
        float raised_by = raised - chunk_max;
        float weight = exp2f(raised_by * -1.442695f);
        sum = sum * rescale + partial[129] * weight;
        for (int i = 0; i < 4; ++i)
            acc[i] = acc[i] * rescale + partial[lane + 32 * i] * weight;
        maximum = raised;
    }
    float inverse = 1 / sum;
    for (int i = 0; i < 4; ++i)
        output[first * 128 + lane + 32 * i] = acc[i] * inverse;
}
""",
        (
            ("before the loop", "size_t first = (size_t)row * gridDim.x + head;", "chunks = chunks + 1;"),
            ("in the loop", "float weight = exp2f(raised_by * -1.442695f);", "weight = weight * 2.0f;"),
            ("after the loop", "float inverse = 1 / sum;", "inverse = inverse * 2.0f;"),
        ),
    ),
}  # fmt: skip

TRITON: Final = {
    "rope": Source(
        """\
import triton
import triton.language as tl


@triton.jit
def rope(x, out, cosines, sines, heads, HALF: tl.constexpr):
    row = tl.program_id(1)
    pair = tl.arange(0, HALF)
    start = (row * heads + tl.program_id(0)) * 2 * HALF
    even = tl.load(x + start + 2 * pair)
    odd = tl.load(x + start + 2 * pair + 1)
    c = tl.load(cosines + row * HALF + pair)
    s = tl.load(sines + row * HALF + pair)
    tl.store(out + start + 2 * pair, even * c - odd * s)
    tl.store(out + start + 2 * pair + 1, even * s + odd * c)
""",
        (
            ("address", "row = tl.program_id(1)", "row = row + 1"),
            ("arithmetic", "odd = tl.load(x + start + 2 * pair + 1)", "even = even * 2.0"),
        ),
    ),
    "reduce": Source(
        """\
import triton
import triton.language as tl


@triton.jit
def reduce(partials, output, seq_lens, max_chunks, HEAD_DIM: tl.constexpr):
    head = tl.program_id(0)
    row = tl.program_id(1)
    chunks = tl.minimum((tl.load(seq_lens + row) + 15) // 16, max_chunks)
    element = tl.arange(0, HEAD_DIM)
    first = partials + (row * tl.num_programs(0) + head).to(tl.int64) * max_chunks * (HEAD_DIM + 2)
    maximum = -float("inf")
    total = 0.0
    acc = tl.zeros([HEAD_DIM], tl.float32)
    for chunk in tl.range(chunks, loop_unroll_factor=4):
        partial = first + chunk * (HEAD_DIM + 2)
        chunk_max = tl.load(partial + HEAD_DIM)
        raised = tl.maximum(maximum, chunk_max)
        rescale = tl.exp2((maximum - raised) * 1.442695)
        weight = tl.exp2((chunk_max - raised) * 1.442695)
        total = total * rescale + tl.load(partial + HEAD_DIM + 1) * weight
        acc = acc * rescale + tl.load(partial + element) * weight
        maximum = raised
    inverse = 1.0 / total
    tl.store(output + (row * tl.num_programs(0) + head) * HEAD_DIM + element, acc * inverse)
""",
        (
            ("before the loop", "element = tl.arange(0, HEAD_DIM)", "chunks = chunks + 1"),
            ("in the loop", "weight = tl.exp2((chunk_max - raised) * 1.442695)", "weight = weight * 2.0"),
            ("after the loop", "inverse = 1.0 / total", "inverse = inverse * 2.0"),
        ),
    ),
}
_TRITON_TYPES: Final = {
    "rope": (("*fp32", "*fp32", "*fp32", "*fp32", "i32"), {"HALF": 64}),
    "reduce": (("*fp32", "*fp32", "*i32", "i32"), {"HEAD_DIM": 128}),
}


class Measured(NamedTuple):
    """What one more source line did to a compiler's PTX."""

    kernel: str
    title: str
    lines: int
    changed: Count
    apart_from_numbers: Count


def of_compiler(sources: dict[str, Source], compiled: Callable[[str, str], str]) -> Iterator[Measured]:
    """Compile each kernel with and without each insertion; `compiled` takes a name and a source."""
    for name, source in sources.items():
        old = compiled(name, source.text)
        for title, after, line in source.insertions:
            new = compiled(name, source.with_line(after, line))
            masked = count(*(_NUMBERED.sub(r"\1", text) for text in (old, new)))
            yield Measured(name, title, old.count("\n"), count(old, new), masked)


_NUMBERED: Final = re.compile(r"([%$]\w*?)[\d_]+\b")


def by_nvcc(name: str, source: str) -> str:
    """Compile CUDA C++ to PTX."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.cu")
        path.write_text(source, encoding="utf-8")
        target = path.with_suffix(".ptx")
        command = ["nvcc", "-ptx", "-arch=sm_75", "-fmad=false", path.name, "-o", target.name]
        subprocess.run(command, cwd=folder, check=True)
        return target.read_text(encoding="utf-8")


def by_triton(name: str, source: str) -> str:
    """Compile a Triton kernel to PTX for a GPU that need not be here, without line information."""
    import triton  # type: ignore[import-not-found, unused-ignore]  # not among our dependencies
    from triton.backends.compiler import (  # type: ignore[import-not-found, unused-ignore]  # as above
        GPUTarget,
    )

    types, constants = _TRITON_TYPES[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.py")
        path.write_text(source, encoding="utf-8")
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        function = getattr(module, name)
        signature = dict(zip(function.arg_names, types, strict=False))
        aligned = {(n,): [["tt.divisibility", 16]] for n, each in enumerate(types) if each[0] == "*"}
        compiled = triton.compile(
            triton.compiler.ASTSource(
                fn=function,
                signature=signature | dict.fromkeys(constants, "constexpr"),
                constexprs=constants,
                attrs=aligned,
            ),
            target=GPUTarget("cuda", 90, 32),
            options={"num_warps": 1, "enable_fp_fusion": False},
        )
        return str(compiled.asm["ptx"])


def _print_templates() -> None:
    print("| kernel | insertions | variants changed | lines changed | lines removed | shown as |")
    print("|---|---|---|---|---|---|")
    for kernel, (places, found) in of_templates().items():
        counts = [each.changed.added for each in found]
        exact = sum(each.changed == Count(each.copies, 0) for each in found)
        shown = Counter(each.hunks for each in found)
        hunks = ", ".join(f"{number} x {hunks}" for hunks, number in sorted(shown.items()))
        lines = f"median {median(counts):g}, at most {max(counts)}; {exact} of {len(found)} just the copies"
        removed = max(each.changed.removed for each in found)
        print(f"| {kernel} | {places} | {len(found)} | {lines} | at most {removed} | {hunks} |")


def _print_compiler(title: str, measured: Iterator[Measured]) -> None:
    print(f"\n{title}\n\n| kernel | line inserted | PTX lines | changed | numbers of names aside |")
    print("|---|---|---|---|---|")
    for each in measured:
        print(f"| {each.kernel} | {each.title} | {each.lines} | {each.changed} | {each.apart_from_numbers} |")


def main() -> int:
    """Print all tables."""
    _print_templates()
    if shutil.which("nvcc"):
        said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"V([\d.]+)", said)
        _print_compiler(f"nvcc {version[1] if version else '?'}", of_compiler(CUDA, by_nvcc))
    else:
        print("\nnvcc: not measured, it is not on the PATH")
    if importlib.util.find_spec("triton"):
        os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TRITON_CACHE_DIR"] = cache
            import triton  # type: ignore[import-not-found, unused-ignore]  # not among our dependencies

            _print_compiler(f"Triton {triton.__version__}", of_compiler(TRITON, by_triton))
    else:
        print("\nTriton: not measured, it is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
