"""``ptxtemplates verify`` as a user runs it: what it says of good kernels, and when it cannot answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from ptxtemplates.config import load
from ptxtemplates.gpu import unavailable
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.variants import ROOT
from tests.helpers.verifying import BACKWARD, CHUNK, LIST, REDUCE, ROPE, verify

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a list of small kernels."""
    (tmp_path / "kernels.toml").write_text(LIST)
    return tmp_path


def test_good_kernels(project: Path) -> None:
    result = verify(project)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["ok", name] for name in (ROPE, BACKWARD, REDUCE, CHUNK)
    ]
    assert all("of its bound, no findings" in line for line in lines[:-1])
    assert lines[-1] == (
        "4 variants, 48 cases: every result within its bound, no findings (emulator, exact accuracy, seed 0)"
    )


def test_worst_accuracy_says_what_it_shows(project: Path) -> None:
    result = verify(project, "--kernel", REDUCE, "--accuracy", "worst", "--seed", "7", "--on", "emulator")
    assert result.returncode == 0
    assert result.stdout.endswith(
        "1 variant, 15 cases: no bound was exceeded in 15 adversarial runs (emulator, worst accuracy, seed 7)\n"
    )


def test_processes_and_seeds(project: Path) -> None:
    """Any number of processes gives the same report; another seed other inputs."""

    def report(*arguments: str) -> Any:
        found = json.loads(verify(project, "--json", "--kernel", "batched*", *arguments).stdout)
        for kernel in found["kernels"]:
            kernel.pop("seconds")
            for case in kernel["cases"]:
                case.pop("seconds")
        return found

    one, two, other = report("-j", "1"), report("-j", "2"), report("--seed", "1")
    assert one == two
    assert one["kernels"][0]["worst"] != other["kernels"][0]["worst"]


def test_json(project: Path) -> None:
    (project / "edited.ptx").write_text(
        ptxtemplates("render", "flash_decoding_reduce", "--set", "num_heads=3", "--set", "head_dim=72",
                     "--set", "chunk_size=5").stdout.replace("%owns_tail, %lane, 4;", "%owns_tail, %lane, 5;")
    )  # fmt: skip
    schema = json.loads((ROOT / "ptxtemplates" / "schemas" / "verify-1.json").read_text())
    good = json.loads(verify(project, "--json").stdout)
    result = verify(project, "--kernel", REDUCE, "--ptx", "edited.ptx", "--json")
    assert result.returncode == 1
    bad = json.loads(result.stdout)
    for report in (good, bad):
        jsonschema.validate(report, schema)
    assert [kernel["variant"] for kernel in good["kernels"]] == [ROPE, BACKWARD, REDUCE, CHUNK]
    assert (good["ok"], bad["ok"]) == (True, False)
    findings = [finding for case in bad["kernels"][0]["cases"] for finding in case["findings"]]
    assert "out of bounds" in {finding["kind"] for finding in findings}


SCRIPT: Final = """\
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ptxtemplates.__main__ import run
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.registry import register


@register
@dataclass(frozen=True, kw_only=True)
class OwnRope(BatchedRope):
    name: ClassVar = "own_rope"
    template_folder: ClassVar = Path("templates")


"""
CASES: Final = """\
from ptxtemplates.references import FAMILIES

FAMILIES[OwnRope] = FAMILIES[BatchedRope]
"""


def own(project: Path, template: str, *, cases: bool) -> subprocess.CompletedProcess[str]:
    """Verify two kernels of a script's own, with a template of its own."""
    (project / "templates").mkdir()
    (project / "templates" / "batched_rope.ptx.jinja").write_text(template)
    (project / "engine.py").write_text(SCRIPT + CASES * cases + "run()\n")
    listed = '[[kernel]]\nname = "own_rope"\nnum_heads = [1, 2]\nhead_dim = 16\ntheta = 1e4\n'
    (project / "kernels.toml").write_text(listed)
    return subprocess.run(
        [sys.executable, "engine.py", "verify", "-j", "2"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


TEMPLATE: Final = (ROOT / "templates" / "batched_rope.ptx.jinja").read_text(encoding="utf-8")


def test_a_kernel_of_ones_own(project: Path) -> None:
    result = own(project, TEMPLATE, cases=True)
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.endswith("2 variants, 22 cases: every result within its bound, no findings "
                                  "(emulator, exact accuracy, seed 0)\n")  # fmt: skip


def test_a_kernel_of_ones_own_without_cases(project: Path) -> None:
    assert_refused(
        own(project, TEMPLATE, cases=False), "own_rope has no cases", "ptxtemplates.references.FAMILIES"
    )


def test_findings_in_rendered_text_name_the_template_line(project: Path) -> None:
    faulty = TEMPLATE.replace(
        "mad.wide.u32     %out, %pair, 8, %out;", "mad.wide.u32     %out, %pair, 9, %out;"
    )
    result = own(project, faulty, cases=True)
    assert result.returncode == 1, result
    line = next(line for line in result.stdout.splitlines() if "misaligned" in line)
    number = 1 + faulty.split("\n").index("    st.global.v2.f32 [%out], { %even, %odd };")
    assert f"own_rope, batched_rope.ptx.jinja:{number}, PTX line " in line
    assert "out_ptr" in line
    assert "thread (1, 0, 0)" in line


def test_a_text_that_cannot_stand_in(project: Path) -> None:
    def given(text: str, kernel: str = ROPE) -> subprocess.CompletedProcess[str]:
        (project / "given.ptx").write_text(text)
        return verify(project, "--kernel", kernel, "--ptx", "given.ptx")

    [rope, _, reduce, _] = [render(kernel).text for kernel in load(project / "kernels.toml")]
    assert_refused(given(reduce), "given.ptx:12: flash_decoding_reduce has the parameters (.u64 partials_ptr, ",
                   f"{ROPE} takes (.u64 x_ptr, ")  # fmt: skip
    assert_refused(given(rope.replace(".reqntid 8", ".reqntid 16")), "cannot run in blocks of 8x1x1 threads")
    assert_refused(given(rope, "batched*"), "--ptx gives the text of one variant, and 2 are meant")
    assert_refused(given(".version 6.3\n.target sm_75\n"), "given.ptx: defines no entry")
    assert_refused(given("nonsense"), "given.ptx:1: ")
    assert_refused(given(rope.replace("cvt.rn.f32.s32", "cvt.rn.f32.s33")), "cvt.rn.f32.s33")
    assert_refused(verify(project, "--kernel", ROPE, "--ptx", "missing.ptx"), "cannot read missing.ptx")
    assert_refused(
        verify(project, "--kernel", ROPE, "--ptx", "given.ptx", "--changed-since", "HEAD"), "--changed-since"
    )


def test_an_entry_of_another_name_is_found(project: Path) -> None:
    [rope, *_] = [render(kernel).text for kernel in load(project / "kernels.toml")]
    (project / "given.ptx").write_text(rope.replace("batched_rope", "tuned_rope"))
    assert verify(project, "--kernel", ROPE, "--ptx", "given.ptx").returncode == 0


@pytest.mark.skipif(unavailable() is None, reason="there is a GPU here")
def test_gpu_that_is_not_there_is_said(project: Path) -> None:
    assert_refused(verify(project, "--on", "gpu"), str(unavailable()), "--on emulator")


def test_missing_extra(project: Path) -> None:
    (project / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'numpy' else find(name, *more)\n"
        "sys.modules['numpy'] = None\n"
    )
    result = verify(project, PYTHONPATH=f"{project}{os.pathsep}{ROOT}")
    assert_refused(result, "needs numpy and ml-dtypes", "pip install 'ptxtemplates[emulate]'")
