"""docs/gpu-ci.md and the workflow: every command line is one that exists, and none is green without a GPU."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

import click
import pytest

from ptxtemplates.cli import main
from ptxtemplates.gpu import unavailable
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE: Final = (ROOT / "docs" / "gpu-ci.md").read_text(encoding="utf-8")
WORKFLOW: Final = (ROOT / ".github" / "workflows" / "gpu.yml").read_text(encoding="utf-8")
PROGRAMS: Final = ("ptxtemplates", "pytest")


def shown() -> Iterator[str]:
    """Yield what the guide has in blocks and in line, and the workflow's lines."""
    yield from WORKFLOW.splitlines()
    for block in re.findall(r"```(?:sh|yaml)\n(.*?)```", GUIDE, re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL))


def command_lines() -> list[list[str]]:
    """Return each call of one of our programs, as words, without a redirection."""
    found = []
    for line in shown():
        line = re.sub(r"^\s*(- )?run: ", "", line).strip().replace("python engine.py ", "ptxtemplates ")
        if line.startswith(tuple(f"{program} " for program in PROGRAMS)):
            found.append(shlex.split(line.partition(" > ")[0], comments=True))
    return found


LINES: Final = command_lines()


def test_there_are_commands() -> None:
    assert {words[0] for words in LINES} == set(PROGRAMS)
    assert len(LINES) >= 10


@pytest.mark.parametrize(
    "words",
    [words for words in LINES if words[0] == "ptxtemplates"],
    ids=lambda words: " ".join(words),
)
def test_command_takes_the_options(words: list[str]) -> None:
    context = click.Context(main)
    command = main.get_command(context, words[1])
    assert command is not None
    command.make_context(words[1], words[2:])  # parses, and runs nothing


def test_pytest_takes_the_options(tmp_path: Path) -> None:
    """Of every line, at once. And finds tests that are marked: it is not green because there is nothing to do."""
    lines = [words[1:] for words in LINES if words[0] == "pytest"]
    assert all(words[:3] == ["-m", "gpu", "--require-gpu"] for words in lines)
    assert not any(word[0] != "-" for words in lines for word in words[3:])  # each is an option by itself
    options = ["-m", "gpu", *dict.fromkeys(word for words in lines for word in words[2:])]
    options = [word.replace("results/", f"{tmp_path}/") for word in options]
    command = [sys.executable, "-m", "pytest", *options, "--collect-only", "-q", "tests/gpu/test_device.py"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "test_numpy_arrays" in result.stdout


def test_tests_fail_where_there_is_no_gpu(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    one = "tests/gpu/test_device.py::test_numpy_arrays"
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--require-gpu", f"--junitxml={report}", one]
    command += ["-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    [case] = ElementTree.parse(report).iter("testcase")
    reason = unavailable()
    if reason is None:
        assert (result.returncode, list(case)) == (0, [])
    else:
        assert result.returncode == 1
        assert [(child.tag, child.text) for child in case] == [("error", f"--require-gpu: {reason}")]
        assert "\n--require-gpu: no NVIDIA driver: ...\n" in GUIDE


def test_verify_fails_where_there_is_no_gpu() -> None:
    command = [sys.executable, "-m", "ptxtemplates", "verify", "--on", "gpu", "--json"]
    command += ["--kernel", "batched_rope.h32.d128.theta10000"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    reason = unavailable()
    if reason is None:
        assert result.returncode == 0
        assert json.loads(result.stdout)
    else:
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {reason}")
        assert result.stderr.count("\n") == 1


def jobs() -> dict[str, str]:
    """Return each job of the workflow as the text below its name."""
    _, _, text = WORKFLOW.partition("\njobs:\n")
    parts = re.split(r"^  (\w+):\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_guide_shows_the_workflow() -> None:
    [block] = re.findall(r"```yaml\n(jobs:\n  gpu:\n    # .*?)```", GUIDE, re.DOTALL)
    assert f"\n{block}  report:\n" in WORKFLOW


def test_the_machine_is_given_away_to_nobody() -> None:
    """What the guide promises: trusted branches, a token that reads, an end."""
    top = WORKFLOW[: WORKFLOW.index("\njobs:\n")]
    assert "\npermissions:\n  contents: read\n" in top
    assert "pull_request_target" not in WORKFLOW
    assert "\n  pull_request:\n    types: [labeled]\n" in top
    gpu = jobs()["gpu"]
    assert "self-hosted" in gpu
    assert "permissions:" not in gpu
    assert "secrets." not in WORKFLOW
    condition = " ".join(re.findall(r"if: >-\n((?:      .*\n)+)", gpu)[0].split())
    assert condition == (
        "vars.GPU_CI == 'true' && (github.event_name != 'pull_request' || (github.event.label.name == 'gpu' && "
        "github.event.pull_request.head.repo.full_name == github.repository))"
    )
    assert all("\n    timeout-minutes: " in job for job in jobs().values())
    assert "self-hosted" not in jobs()["report"]


def test_actions_of_others_are_pinned() -> None:
    used = re.findall(r"uses: (\S+?)@(\S+)", WORKFLOW)
    assert len(used) == 4
    for action, version in used:
        assert action.startswith("actions/") or re.fullmatch(r"[0-9a-f]{40}", version), action
