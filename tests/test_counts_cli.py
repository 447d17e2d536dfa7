"""``ptxtemplates inspect --counts`` as a user runs it; every number is worked out by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from ptxtemplates.config import load
from ptxtemplates.ptx.parser import parse
from ptxtemplates.references.launches import run_time_sizes, sizes_of, typical_launch
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.toy import TEMPLATE, line_of
from tests.helpers.variants import KERNELS, ROOT, SMALL_ROPE

if TYPE_CHECKING:
    from pathlib import Path

LIST: Final = f"""\
{SMALL_ROPE}
[[kernel]]
name = "batched_rope"
num_heads = 1
head_dim = 6
theta = 1e4

[[kernel]]
name = "flash_decoding_chunk"
num_heads = 2
num_kv_heads = 1
head_dim = 64
chunk_size = 4
max_seq_len = 10
"""
ROPE: Final = "batched_rope.h2.d16.theta10000"
NARROW: Final = "batched_rope.h1.d6.theta10000"
CHUNK: Final = "flash_decoding_chunk.d64.h2.c4.kv1.s10"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a list of small kernels."""
    (tmp_path / "kernels.toml").write_text(LIST)
    return tmp_path


def counts(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return ptxtemplates("inspect", "--counts", *arguments, cwd=project, env=environment)


def values(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert (result.returncode, result.stderr) == (0, "")
    described: list[dict[str, Any]] = json.loads(result.stdout)
    return described


def rows_of(stdout: str) -> list[list[str]]:
    """Return the cells of the table of one variant, and assert that its columns are aligned."""
    lines = stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:2] == ["line", "source"])
    assert len({len(line) for line in lines[start:]}) == 1
    return [line.split() for line in lines[start + 1 :]]


def test_coalesced_accesses_take_the_ideal_number_of_sectors(project: Path) -> None:
    """Rope of 2 heads in 3 rows: 6 blocks of one warp, in which 8 threads move 8 bytes each."""
    result = counts(project, ROPE, "--shape", "rows=3")
    assert (result.returncode, result.stderr) == (0, "")
    first, second, *_ = result.stdout.splitlines()
    assert first == f"{ROPE}, rows=3: grid 2x3x1, block 8x1x1"
    [kernel, *_] = load(project / "kernels.toml")
    text = render(kernel).text
    body = parse(text).function(kernel.entry).body
    assert body is not None
    instructions = sum(hasattr(statement, "opcode") for statement in body)  # no branch: each once
    assert second == (
        f"  {instructions * 6 * 8:,} thread-instructions in {instructions * 6:,} warp-instructions, "
        "8.0 lanes active on average, 0 divergent branches"
    )
    # a position of 4 bytes; 64 bytes of x, of the table of turns and of the output
    assert [row[2:] for row in rows_of(result.stdout)] == [
        ["ld.global.nc.u32", "6", "24", "6", "sectors", "6", "1.00"],
        ["ld.global.v2.f32", "6", "384", "12", "sectors", "12", "1.00"],
        ["ld.global.nc.u64", "6", "384", "12", "sectors", "12", "1.00"],
        ["st.global.v2.f32", "6", "384", "12", "sectors", "12", "1.00"],
    ]
    assert "  global memory: 792 bytes read, 384 written" in result.stdout.splitlines()
    line = next(number for number, line in enumerate(text.split("\n"), 1) if "st.global.v2.f32" in line)
    template = ROOT / "templates" / "batched_rope.ptx.jinja"
    source = line_of("st.global.v2.f32", template.read_text())
    assert rows_of(result.stdout)[-1][:2] == [str(line), f"batched_rope.ptx.jinja:{source}"]


def test_rows_that_straddle_sectors_take_more(project: Path) -> None:
    """24 bytes from 0, 24, 48 and 72 on lie in 1, 2, 2 and 1 sectors, and would fit one each."""
    [described] = values(counts(project, NARROW, "--shape", "rows=4", "--json"))
    stored = [access for access in described["accesses"] if access["stores"]]
    assert [
        (access["requests"], access["bytes"], access["sectors"], access["ideal_sectors"]) for access in stored
    ] == [(4, 96, 6, 4)]
    row = rows_of(counts(project, NARROW, "--shape", "rows=4").stdout)[-1]
    assert row[3:] == ["4", "96", "6", "sectors", "4", "1.50"]


def test_sequences_are_full_and_no_longer_than_the_tensors(project: Path) -> None:
    """Of 3 chunks of 4 keys, 10 keys exist; a step takes 4, the last one a key more than once."""
    [described] = values(counts(project, CHUNK, "--shape", "rows=1,max_chunks=3", "--json"))
    assert described["sizes"] == {"rows": 1, "max_chunks": 3}
    assert (described["grid"], described["block"]) == ([2, 1, 3], [32, 1, 1])
    blocks = 2 * 3
    query, length, pointers = 64 * 4, 4, 2 * 8
    keys = 2 * 12 * 2 * 64 * 4
    assert described["moved"]["global"] == {
        "read": blocks * (query + length + pointers) + keys,
        "written": blocks * (64 + 2) * 4,
    }


def test_json_has_what_the_table_has(project: Path) -> None:
    [narrow, rope, chunk] = values(counts(project, "--json"))
    assert [each["name"] for each in (narrow, rope, chunk)] == [NARROW, ROPE, CHUNK]
    assert chunk["sizes"] == {"rows": 2, "max_chunks": 4}
    for each in (narrow, rope, chunk):
        assert sum(each["classes"].values()) == each["thread_instructions"]
        assert each["active_lanes"] == each["thread_instructions"] / each["warp_instructions"]
        assert each["findings"] == []
        for access in each["accesses"]:
            file, line = access["source"]
            assert (ROOT / "templates" / file).is_file()
            assert line > 0
            assert access["ideal_sectors"] <= access["sectors"]


SHARED: Final = TEMPLATE.replace(
    "{\n    .reg .u32 %row;",
    "{\n    .shared .align 4 .b8 tile[512];\n    .reg .u32 %thread, %place, %odd;\n    .reg .pred %is_odd;\n"
    "    .reg .u32 %row;",
).replace(
    "    ret;\n",
    "    mov.u32 %thread, %tid.x;\n"
    "    mul.lo.u32 %place, %thread, 8;\n"
    "    st.shared.f32 [%place], %value;\n"  # words 0, 2, 4, ...: two words of each bank that is used
    "    and.b32 %odd, %thread, 1;\n"
    "    setp.eq.u32 %is_odd, %odd, 1;\n"
    "    @%is_odd bra DONE;\n"
    "    st.global.f32 [%x], %value;\n"
    "DONE:\n"
    "    st.shared.f32 [%place], %value;\n"
    "    ret;\n",
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Make a project with a kernel of its own: 64 threads that use shared memory and part."""
    (tmp_path / "engine.py").write_text(
        "from pathlib import Path\n"
        "from ptxtemplates import register\n"
        "from ptxtemplates.__main__ import run\n"
        "from tests.helpers import toy\n"
        "toy.Toy.template_folder = Path(__file__).parent\n"
        "toy.Toy.shared_memory = 512\n"
        "register(toy.Toy)\n"
        "run()\n"
    )
    (tmp_path / "kernels.toml").write_text('[[kernel]]\nname = "toy"\nwidth = 64\n')
    (tmp_path / "toy.ptx.jinja").write_text(SHARED)
    return tmp_path


def engine(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "engine.py", "inspect", "--counts", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_bank_conflicts_and_divergence_of_an_own_kernel(own: Path) -> None:
    """3 rows, so 3 blocks of two warps; the toy's threads all read and write one element of their row."""
    result = engine(own, "--shape", "rows=3")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("toy.w64, rows=3: grid 3x1x1, block 64x1x1\n")
    assert ", 6 divergent branches" in result.stdout
    rows = [row[2:] for row in rows_of(result.stdout)]
    assert rows[2] == ["st.shared.f32", "6", "768", "12", "passes", "6", "2.00"]
    assert rows[3][:3] == ["st.global.f32", "6", "24"]
    assert rows[4] == rows[2]
    assert "  shared memory: 0 bytes read, 1,536 written" in result.stdout.splitlines()


def test_findings_are_shown_with_their_template_line(own: Path) -> None:
    (own / "toy.ptx.jinja").write_text(SHARED.replace("[%place]", "[%place+16]", 1))
    line = line_of("st.shared.f32", SHARED)
    result = engine(own)
    assert (result.returncode, result.stderr) == (1, "")
    assert f"  toy: PTX line {line} (toy.ptx.jinja:{line}): out of bounds: " in result.stdout
    result = engine(own, "--json")
    assert result.returncode == 1
    [finding, *_] = json.loads(result.stdout)[0]["findings"]
    assert (finding["kind"], finding["source"]) == ("out of bounds", ["toy.ptx.jinja", line])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("other.ptx",), ["other.ptx: --counts needs a variant of the list"]),
        ((ROPE, "--arch", "sm_90"), ["--counts executes PTX, --arch and --sass assemble it"]),
        ((ROPE, "--sass"), ["--counts executes PTX, --arch and --sass assemble it"]),
        ((ROPE, "--shape", "row=3"), ["no run-time size is named 'row'; did you mean 'rows'?"]),
        ((ROPE, "--shape", "max_chunks=3"), ["no run-time size is named 'max_chunks'"]),
        ((ROPE, "--shape", "rows=0"), ["rows must be from 1 to 65535, not 0"]),
        ((ROPE, "--shape", "rows=65536"), ["rows must be from 1 to 65535, not 65536"]),
        ((ROPE, "--shape", "rows=-1"), ["--shape takes SIZE=N,...", "'rows=-1'"]),
        ((ROPE, "--shape", "rows"), ["--shape takes SIZE=N,...", "'rows'"]),
        ((ROPE, "--shape", "rows=1,rows=2"), ["--shape gives rows twice"]),
        ((CHUNK, "--shape", "rows=60000,max_chunks=60000"), ["take more than 2 GiB; choose smaller ones"]),
        (("batched_rop",), ["did you mean 'batched_rope'?"]),
    ],
)
def test_refused_in_one_line(project: Path, arguments: tuple[str, ...], parts: list[str]) -> None:
    assert_refused(counts(project, *arguments), *parts)


def test_sizes_belong_to_counts(project: Path) -> None:
    assert_refused(ptxtemplates("inspect", ROPE, "--shape", "rows=3", cwd=project), "only --counts has one")


def test_sizes_that_some_of_the_kernels_have(project: Path) -> None:
    described = values(counts(project, "--shape", "rows=1", "--shape", "max_chunks=2", "--json"))
    assert [each["sizes"] for each in described] == [{"rows": 1}, {"rows": 1}, {"rows": 1, "max_chunks": 2}]


def test_instruction_that_is_not_emulated(own: Path) -> None:
    text = SHARED.replace("    ret;\n", "    mbarrier.init.shared.b64 [tile], 64;\n    ret;\n")
    (own / "toy.ptx.jinja").write_text(text)
    line = line_of("mbarrier", text)
    assert_refused(engine(own), "error: toy.w64: ", f"line {line}: mbarrier.init.shared.b64 is not emulated")


def test_index_tensor_that_nothing_is_known_of(own: Path) -> None:
    """Whoever adds a kernel says what its lengths or tables hold; no default would be right."""
    engine_py = own / "engine.py"
    engine_py.write_text(
        engine_py.read_text().replace(
            "register(",
            "toy.Toy.arguments = (toy.Toy.arguments[0]._replace(tensor=toy.Toy.arguments[0].tensor._replace("
            "role='index')),)\nregister(",
        )
    )
    assert_refused(engine(own), "what a typical launch passes for x_ptr is not known", "launches.TYPICAL")


def hidden(project: Path, *names: str) -> str:
    """Make packages look as if they were not installed; return the path that does it."""
    (project / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        f"names = {names!r}\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name in names else find(name, *more)\n"
        "sys.modules.update(dict.fromkeys(names))\n"
    )
    return os.pathsep.join([str(project), str(ROOT)])


def test_without_an_assembler(project: Path) -> None:
    result = counts(
        project, ROPE, PYTHONPATH=hidden(project, "nvidia", "cuda", "elftools"), PATH=str(project)
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", ["numpy", "ml_dtypes"])
def test_missing_extra(project: Path, name: str) -> None:
    result = counts(project, ROPE, PYTHONPATH=hidden(project, name))
    assert_refused(result, "needs numpy and ml-dtypes", "pip install 'ptxtemplates[emulate]'")


@pytest.mark.parametrize("variant", sorted(KERNELS))
def test_every_listed_variant_has_a_launch(variant: str) -> None:
    """Arguments in the order of the contract, each with its buffer or its size."""
    kernel = KERNELS[variant]
    sizes = sizes_of(kernel, {})
    assert tuple(sizes) == run_time_sizes(kernel)
    case = typical_launch(kernel, sizes)
    [launch] = case.launches
    assert len(launch.arguments) == len(kernel.arguments)
    for argument, word in zip(kernel.arguments, launch.arguments, strict=True):
        assert word == (sizes[argument.name] if argument.tensor is None else argument.name)
        assert argument.tensor is None or word in case.buffers
