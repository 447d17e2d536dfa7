"""Builds with machine code: cubins, fat binaries, what the manifest says of them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from ptxtemplates import cache
from ptxtemplates.artifacts import build, check
from ptxtemplates.assembly import assemble, assemble_all, toolchain
from ptxtemplates.assembly.resources import count_instructions
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.kernels import BatchedRope, FlashDecodingReduce
from ptxtemplates.manifest import files_of, load_manifest
from ptxtemplates.products import Making, outputs_of
from ptxtemplates.ptx.targets import runs_on
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.toy import line_of, toy, with_line
from tests.helpers.variants import KERNELS, ROOT
from tests.test_artifacts import state, strict

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxtemplates.kernel import Kernel

FEW: list[Kernel] = [BatchedRope(num_heads=heads, head_dim=64, theta=1e4) for heads in (1, 8)]
OTHER: Kernel = FlashDecodingReduce(head_dim=64, num_heads=8, chunk_size=16)
TWO = Making(("sm_80", "sm_90"))
LIST = '[[kernel]]\nname = "batched_rope"\nnum_heads = [8, 32]\nhead_dim = 128\ntheta = 1e4\n'
ADD = "    add.rn.f32    %value, %value, %value;\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.toml").write_text(LIST)
    return tmp_path


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ptxtemplates"


def test_manifest_tells_what_each_kernel_needs(tmp_path: Path) -> None:
    build([*FEW, OTHER], tmp_path, making=TWO)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    schema = json.loads((ROOT / "ptxtemplates/schemas/manifest-1.json").read_text())
    jsonschema.Draft202012Validator(strict(schema)).validate(manifest)
    for entry in manifest["kernels"]:
        assert list(entry["assemblies"]) == ["sm_80", "sm_90"]
        for architecture, assembly in entry["assemblies"].items():
            cubin = (tmp_path / assembly["file"]).read_bytes()
            assert hashlib.sha256(cubin).hexdigest() == assembly["sha256"]
            assert assembly["file"] == f"{entry['kernel']}/{entry['variant']}.{architecture}.cubin"
            assert assembly["instructions"] == count_instructions(cubin)[entry["entry"]] > 40
            assert 10 < assembly["registers"] <= 255
            assert (assembly["spill_stores"], assembly["spill_loads"], assembly["shared_memory"]) == (0, 0, 0)
            assert assembly["toolchain"] == toolchain()
    assert sorted(outputs_of([*FEW, OTHER], TWO)) == sorted(
        path for entry in load_manifest(tmp_path / "manifest.json") for path in files_of(entry)
    )


def test_not_assembled_is_null(tmp_path: Path) -> None:
    build(FEW, tmp_path)
    assert [(e["assemblies"], e["fatbin"]) for e in load_manifest(tmp_path / "manifest.json")] == [
        (None, None)
    ] * 2


def test_second_build_writes_nothing_and_other_architectures_go(tmp_path: Path) -> None:
    build(FEW, tmp_path, making=TWO)
    before = state(tmp_path)
    assert build(FEW, tmp_path, making=TWO).written == []
    assert state(tmp_path) == before
    assert check(FEW, tmp_path, making=TWO).current
    assert not check(FEW, tmp_path).current
    plan = build(FEW, tmp_path, making=Making(("sm_90",)))
    assert plan.written == ["manifest.json"]
    assert plan.dropped == [f"batched_rope/{kernel.variant}.sm_80.cubin" for kernel in FEW]
    assert len(build(FEW, tmp_path).dropped) == 2


def test_damaged_cubin_is_mended(tmp_path: Path) -> None:
    build(FEW, tmp_path, making=TWO)
    path = f"batched_rope/{FEW[0].variant}.sm_90.cubin"
    good = (tmp_path / path).read_bytes()
    (tmp_path / path).write_bytes(good[:-1])
    assert build(FEW, tmp_path, making=TWO).written == [path]
    assert (tmp_path / path).read_bytes() == good


def test_own_list_assembles_for_every_architecture(tmp_path: Path) -> None:
    architectures = (
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_87",
        "sm_89",
        "sm_90",
        "sm_100",
        "sm_103",
        "sm_120",
        "sm_121",
    )
    kernels = list({kernel.name: kernel for kernel in KERNELS.values()}.values())
    build(kernels, tmp_path, making=Making(architectures))
    for entry in load_manifest(tmp_path / "manifest.json"):
        assert sorted(entry["assemblies"]) == sorted(architectures)
        assert all(assembly["spill_stores"] == 0 for assembly in entry["assemblies"].values())


def test_fatbin(tmp_path: Path) -> None:
    pytest.importorskip("ptxtemplates.assembly.tools")
    from ptxtemplates.assembly.tools import find_tool

    try:
        find_tool("fatbinary")
    except MissingExtraError as error:
        pytest.skip(str(error))
    build(FEW, tmp_path, making=Making(("sm_80", "sm_90"), fatbin=True))
    for entry in load_manifest(tmp_path / "manifest.json"):
        content = (tmp_path / entry["fatbin"]["file"]).read_bytes()
        assert content[:4] == bytes.fromhex("50ed55ba")  # the magic number of a fat binary
        assert hashlib.sha256(content).hexdigest() == entry["fatbin"]["sha256"]
    before = state(tmp_path)
    build(FEW, tmp_path, making=Making(("sm_80", "sm_90"), fatbin=True))
    assert state(tmp_path) == before
    build(FEW, tmp_path, making=Making(fatbin=True))  # PTX alone
    assert all(entry["assemblies"] is None for entry in load_manifest(tmp_path / "manifest.json"))


def test_cli(project: Path) -> None:
    words = ("build", "--arch", "sm_90", "--arch", "sm_80", "--arch", "sm_90")
    listed = ptxtemplates(*words, "--print-outputs", cwd=project)
    assert listed.returncode == 0
    assert not (project / "build").exists()
    result = ptxtemplates(*words, cwd=project)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "kernels: 2; files: 7 written, 0 unchanged, 0 removed"
    built = [
        path
        for path in (project / "build").rglob("*")
        if path.is_file() and ".ptxtemplates" not in path.parts
    ]
    assert sorted(listed.stdout.splitlines()) == sorted(str(path.relative_to(project)) for path in built)
    stale = ptxtemplates("build", "--check", cwd=project)
    assert stale.returncode == 1
    assert stale.stdout.count(".cubin: no longer listed") == 4
    assert ptxtemplates(*words, "--check", cwd=project).returncode == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--arch", "sm_9"), "there is no architecture 'sm_9'; known are sm_75, "),
        (("--arch", "hopper"), "there is no architecture 'hopper'"),
        (("--arch", "sm_90; rm"), "there is no architecture"),
        (("--arch", "sm_99"), "knows no architecture 'sm_99'"),
        (("--arch", "sm_70"), "batched_rope.h8.d128.theta10000.ptx: .target sm_75 does not run on sm_70"),
        (("--embed",), "--embed puts the PTX into --header or --rust"),
        (("--print-outputs", "--check"), "--print-outputs prints paths and does nothing else"),
        (("--kernel", "*", "--header", "k.h"), "--header, --rust and --depfile are for the whole list"),
    ],
)
def test_bad_architecture(project: Path, words: tuple[str, ...], part: str) -> None:
    assert_refused(ptxtemplates("build", *words, cwd=project), part)
    if words[0] == "--arch" and words[1] != "sm_99":  # which of the numbers exist, only the assembler knows
        assert_refused(ptxtemplates("build", *words, "--print-outputs", cwd=project), part)
    assert not (project / "build").exists()


def test_target_newer_than_the_architecture(tmp_path: Path) -> None:
    kernel = BatchedRope(num_heads=1, head_dim=2, theta=1e4, target="sm_100")
    with pytest.raises(
        AssemblyError,
        match=r"^batched_rope.h1.d2.theta10000.sm_100.ptx: .target sm_100 does not run on sm_80$",
    ):
        build([kernel], tmp_path, making=TWO)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "architecture", "runs"),
    [
        ("sm_75", "sm_75", True), ("sm_75", "sm_121", True), ("sm_90", "sm_89", False), ("compute_80", "sm_90", True),
        ("sm_90a", "sm_90a", True), ("sm_90a", "sm_90", False), ("sm_90a", "sm_100a", False), ("sm_90", "sm_90a", True),
        ("sm_100f", "sm_103", True), ("sm_100f", "sm_100a", True), ("sm_100f", "sm_110", False), ("sm_103f", "sm_100f", False),
        ("sm_120f", "sm_121a", True), ("sm_101", "sm_110", True), ("sm_103", "sm_101", True),
    ],
)  # fmt: skip
def test_runs_on(target: str, architecture: str, runs: bool) -> None:
    assert runs_on(target, architecture) is runs


def test_what_only_the_assembler_refuses_is_named_with_template_and_line(tmp_path: Path) -> None:
    text = with_line(ADD, "    add.rn.f33    %value, %value, %value;\n")
    kernel = toy(tmp_path, text)
    with pytest.raises(AssemblyError) as caught:
        build([kernel], tmp_path / "out", making=TWO)
    line = line_of("f33", text)
    assert str(caught.value).startswith(f"toy.ptx.jinja:{line}: toy.w64.ptx:")
    excerpt = caught.value.excerpt.split("\n")
    assert excerpt[0] == "  toy.ptx.jinja"
    assert [row for row in excerpt if row.startswith("  >")] == [
        f"  > {line} |     add.rn.f33    %value, %value, %value;"
    ]
    assert len(excerpt) == 6
    assert not (tmp_path / "out").exists()


def test_text_of_any_producer() -> None:
    text = ".version 7.0\n.target sm_80\n.address_size 64\n"
    with pytest.raises(AssemblyError) as caught:
        assemble(text + ".visible .entry f()\n{\n  foo.bar 1;\n  ret;\n}\n", "sm_90")
    assert caught.value.faults[0][0] == 6
    for nothing in ("hello", ""):
        with pytest.raises(AssemblyError, match="Missing .version directive|Parsing error|refuses the text"):
            assemble(nothing, "sm_90")
    with pytest.raises(AssemblyError):
        assemble(text.replace(".target sm_80", ".target debug") + ".visible .entry f() { ret; }\n", "sm_90")
    commented = "/*\n.target sm_120\n*/\n" + text + ".visible .entry f() { ret; }\n"
    assert assemble(commented, "sm_90").resources["f"].instructions > 0
    with pytest.raises(AssemblyError, match=r"Unsupported .version 99.0"):
        assemble(text.replace("7.0", "99.0") + ".visible .entry f() { ret; }\n", "sm_90")
    two = ".visible .entry f() { ret; }\n.visible .entry g() { .reg .b32 r; .shared .b8 s[64]; mov.u32 r, s; st.shared.u32 [r], 1; bar.sync 0; ret; }\n"
    resources = assemble(text + two, "sm_90").resources
    assert sorted(resources) == ["f", "g"]
    assert (resources["g"].shared_memory, resources["g"].barriers) == (64, 1)
    assert resources["f"].shared_memory == 0


def test_same_bytes_from_cache_and_from_threads(own_cache: Path) -> None:
    texts = [render(kernel).text for kernel in (*FEW, OTHER)]
    jobs = [(text, architecture) for text in texts for architecture in ("sm_80", "sm_90")]
    first = assemble_all(jobs)
    assert len(list(own_cache.glob("*.cubin"))) == len(jobs)
    assert assemble_all(jobs) == first
    assert [assemble(*job) for job in jobs] == first
    for entry in own_cache.glob("*.cubin"):
        entry.write_bytes(entry.read_bytes()[:-5])
    assert assemble_all(jobs) == first


def test_threads_that_fill_a_new_cache_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first finds no folder, and sweeps it while the others store."""
    for attempt in range(30):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(attempt)))
        (tmp_path / str(attempt)).mkdir()
        keys = [str(number) for number in range(32)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: cache.store("x", key, key.encode()), keys))
        assert [key for key in keys if cache.load("x", key) != key.encode()] == []


def test_cache_tells_apart_what_differs(own_cache: Path) -> None:
    keys = {
        cache.key_of("a", "bc"),
        cache.key_of("ab", "c"),
        cache.key_of("abc"),
        cache.key_of("a", "b", "c"),
    }
    assert len(keys) == 4
    assert cache.load("x", "0") is None
    cache.store("x", "0", b"content")
    assert cache.load("x", "0") == b"content"
    (own_cache / "0.x").write_bytes(b"\0" * 50)
    assert cache.load("x", "0") is None


WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
sys.argv[0] = "ptxtemplates"
from ptxtemplates.__main__ import run
run()
"""


@pytest.fixture
def without(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(missing: str, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": str(project),
            "PATH": "/nowhere",
        }
        command = [sys.executable, "-c", WITHOUT, missing, *words]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_missing_extra_says_what_to_install(without: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for missing, part in (
        ("nvidia", "this needs NVIDIA's ptxas, which is neither installed nor on PATH"),
        ("elftools", "reading cubins needs pyelftools"),
    ):
        result = without(missing, "build", "--arch", "sm_90")
        assert_refused(result, part, "pip install 'ptxtemplates[cuda]'")
    assert without("nvidia", "build").returncode == 0


def test_counting_refuses_what_is_no_cubin() -> None:
    with pytest.raises(AssemblyError, match="this is no cubin"):
        count_instructions(b"hello")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes")
def test_full_disk(project: Path) -> None:
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000));"
        "from ptxtemplates.__main__ import run; run()"
    )
    command = [sys.executable, "-c", program, "build", "--arch", "sm_90"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert_refused(result, "File too large")
    assert not list((project / "build").rglob("*.ptx"))
    assert not list((project / "build").rglob("*.cubin"))


def test_what_a_called_function_needs_counts_for_the_entry() -> None:
    text = """.version 7.0
.target sm_80
.address_size 64
.shared .align 4 .b8 tile[40000];
.func f()
{
    .reg .b32 r;
    mov.u32 r, tile;
    st.shared.u32 [r], 1;
    bar.sync 0;
    ret;
}
.visible .entry k()
.reqntid 256, 1, 1
{
    call f;
    ret;
}
"""
    resources = assemble(text, "sm_80").resources["k"]
    assert (resources.shared_memory, resources.barriers) == (40_000, 1)


def test_shuffles_are_instructions_not_calls() -> None:
    cubin = assemble(render(OTHER).text, "sm_80").cubin
    assert not [name for name in count_instructions(cubin) if "shfl" in name]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--header", "kernels.toml"), "kernels.toml is the list of variants"),
        (("--rust", "./kernels.toml"), "is the list of variants"),
        (("--depfile", "kernels.toml"), "is the list of variants"),
        (("--header", "build/manifest.json"), "is the manifest"),
        (("--header", "build/batched_rope/batched_rope.h8.d128.theta10000.ptx"), "is a file of the build"),
        (("--header", "build/.ptxtemplates/lock"), "a build's own files"),
        (("--header", str(ROOT / "templates" / "new.h")), "lies among the templates"),
        (("--header", "a.h", "--rust", "./a.h"), "is to be written twice"),
        (("--depfile", "x.stamp"), "is to be written twice"),
        (("--depfile", "notes.d"), "notes.stamp, the depfile's stamp, exists and is no stamp"),
        (("--header", "."), "is a directory"),
        (("--depfile", "."), "is a directory"),
        (("--header", "z.h", "--depfile", "a;b.d"), "a;b"),
    ],
)
def test_outputs_destroy_nothing(project: Path, words: tuple[str, ...], part: str) -> None:
    (project / "notes.stamp").write_text("mine")
    before = state(project)
    assert_refused(ptxtemplates("build", *words, cwd=project), part)
    assert state(project) == before


def test_check_of_the_files_beside_a_build(project: Path) -> None:
    words = ("build", "--depfile", "k.d", "--header", "k.h")
    assert ptxtemplates(*words, cwd=project).returncode == 0
    current = ptxtemplates(*words, "--check", cwd=project)
    assert (current.returncode, current.stdout) == (0, "build is current: 6 files\n")
    again = json.loads(ptxtemplates(*words, "--json", cwd=project).stdout)
    assert again["written"] == again["removed"] == []
    assert sorted(again["unchanged"])[-3:] == ["build/manifest.json", "k.d", "k.h"]
    (project / "k.d").write_text("k.stamp: other\n")
    (project / "k.stamp").unlink()
    (project / "k.h").unlink()
    result = ptxtemplates(*words, "--check", cwd=project)
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        "k.d: differs from what would be built",
        "k.h: missing",
        "k.stamp: missing",
        "to mend it: ptxtemplates build --depfile k.d --header k.h",
    ]
    assert not (project / "k.h").exists()
