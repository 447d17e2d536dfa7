"""``ptxtemplates diff``: what is checked when, where reports go, and the exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.cli import run
from ptxtemplates.errors import MissingExtraError
from ptxtemplates.review import comparing
from ptxtemplates.review.model import Comparison, Cost, CostChange, Meaning
from tests.helpers.cli import ptxtemplates
from tests.helpers.verifying import REDUCE
from tests.review.repositories import clone_of, commit_project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ptxtemplates.review.model import Change, KernelSet


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit_project(tmp_path_factory.mktemp("committed"))


class Compared:
    """Stands in for what looks at each kernel, and for the reports; keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], int]] = []
        self.cost: tuple[CostChange, ...] = ()
        self.meaning = Meaning("same bits", "")
        self.reported: list[Comparison] = []

    def compare(
        self, old: KernelSet, new: KernelSet, architectures: Sequence[str], *, jobs: int, progress: object
    ) -> Comparison:
        self.calls.append((tuple(architectures), jobs))
        comparison = comparing_without_looking(old, new, architectures)
        return comparison._replace(changes=tuple(self._looked_at(change) for change in comparison.changes))

    def _looked_at(self, change: Change) -> Change:
        if change.status != "changed":
            return change
        return change._replace(cost=Cost(self.cost, 1, 1, ()), meaning=self.meaning)

    def lines(self, comparison: Comparison, *, colour: bool = False, width: int = 0) -> Iterator[str]:
        self.reported.append(comparison)
        yield f"{comparison.old} -> {comparison.new}" + (" \x1b[31mcoloured\x1b[0m" if colour else "")
        yield from (f"{change.status} {change.name}" for change in comparison.changes)

    def text(self, comparison: Comparison) -> str:
        self.reported.append(comparison)
        return "<html>é</html>\n"

    def values(self, comparison: Comparison) -> dict[str, Any]:
        self.reported.append(comparison)
        return {"old": comparison.old, "failures": [*comparison.failures]}


def comparing_without_looking(old: KernelSet, new: KernelSet, architectures: Sequence[str]) -> Comparison:
    from ptxtemplates.review.model import Change

    changes = []
    for name in sorted({*old.kernels, *new.kernels}):
        before, after = old.kernels.get(name), new.kernels.get(name)
        if before is None or after is None:
            changes.append(Change(name, "added" if before is None else "removed", before, after))
        else:
            changes.append(
                Change(name, "unchanged" if before.text == after.text else "changed", before, after)
            )
    return Comparison(old.title, new.title, tuple(changes), tuple(architectures))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    stand_in = Compared()
    monkeypatch.setattr(comparing, "compare", stand_in.compare)
    reports = {"terminal": "lines", "markdown": "markdown", "html": "page", "values": "values"}
    for module, function in reports.items():
        name = f"ptxtemplates.review.{module}"
        made = types.ModuleType(name)
        setattr(
            made, function, {"lines": stand_in.lines, "values": stand_in.values}.get(function, stand_in.text)
        )
        vars(made)["check"] = lambda: None
        monkeypatch.setitem(sys.modules, name, made)
    return stand_in


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = clone_of(committed, tmp_path / "project")
    monkeypatch.chdir(copy)
    return copy


class Ran:
    """What a run of the command gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def refused(self, *parts: str) -> None:
        assert (self.code, self.out) == (2, ""), self.err
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        for part in parts:
            assert part in self.err, self.err


def diff(capfd: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    """Run the command in this process, through what sets exit codes and prints errors."""
    capfd.readouterr()
    previous, sys.argv = sys.argv, ["ptxtemplates", "diff", *arguments]
    try:
        with pytest.raises(SystemExit) as exit_:
            run()
    finally:
        sys.argv = previous
    out, err = capfd.readouterr()
    assert isinstance(exit_.value.code, int)
    return Ran(exit_.value.code, out, err)


# ---- what is compared


def test_report_and_exit_code(compared: Compared, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = diff(capfd, "v1")
    assert (ran.code, ran.err) == (0, "")
    assert re.match(r"v1 \([0-9a-f]{8}\) -> working tree\n", ran.out)
    assert f"\nchanged {REDUCE}\n" in ran.out
    assert ran.out.count("\nunchanged ") == 3
    ran = diff(capfd, "v1", "main", "--kernel", "batched_rope", "--kernel", "*chunk*")
    assert (ran.code, ran.out.count("\nunchanged "), ran.out.count("\n")) == (0, 2, 3)


def test_architectures_and_processes(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    diff(capfd, "v1")
    (project / "x.ptx").write_text(".version 8.6\n.target sm_100a\n.visible .entry x() { ret; }\n")
    (project / "y.ptx").write_text(".version 7.8\n  .target sm_90\n.visible .entry x() { ret; }\n")
    (project / "z.ptx").write_text("nothing\n")
    diff(capfd, "x.ptx", "y.ptx", "-j", "3")
    diff(capfd, "z.ptx", "z.ptx")
    pytest.importorskip("cuda.core", reason="--arch needs an assembler")
    diff(capfd, "v1", "--arch", "sm_90", "--arch", "sm_75", "--arch", "sm_90")
    assert [architectures for architectures, _ in compared.calls] == [
        ("sm_80", "sm_90", "sm_100", "sm_120"),
        ("sm_90", "sm_100", "sm_100a", "sm_120"),
        (),
        ("sm_90", "sm_75"),
    ]
    assert [jobs for _, jobs in compared.calls[:2]] == [os.cpu_count(), 3]


def test_config_elsewhere(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert diff(capfd, "v1", "-c", "project/kernels.toml").code == 0
    diff(capfd, "v1", "-c", "gone/kernels.toml").refused("no file or folder is named 'v1', and git rev-parse")
    diff(capfd, "project/snapshots", "-c", "gone/kernels.toml").refused("cannot read gone/kernels.toml")
    assert diff(capfd, "project/snapshots", "project", "-c", "gone/kernels.toml").code == 0


# ---- the policy


def test_policy_decides_the_exit_code(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compared.meaning = Meaning("results differ", "at output_ptr[0]")
    assert diff(capfd, "v1").code == 0
    assert diff(capfd, "v1", "--fail-on", "contract,added").code == 0
    ran = diff(capfd, "v1", "--fail-on", "contract", "--fail-on", "meaning", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["failures"] == [f"{REDUCE}: results differ: at output_ptr[0]"]
    assert diff(capfd, "main", "--fail-on", "contract,meaning,added,removed").code == 0


def test_what_cannot_be_told_exits_with_2_and_still_reports(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptxtemplates.assembly.toolchain", lambda: "ptxas 0")
    compared.cost = (CostChange("registers", "sm_90", 32, "unreadable"),)
    ran = diff(capfd, "v1", "--fail-on", "registers>5%", "--markdown", "report.md")
    assert ran.code == 2
    sentence = f"{REDUCE}: registers on sm_90 from 32 to unreadable, so registers is not answered"
    assert ran.err == f"error: --fail-on cannot be answered: {sentence}\n"
    assert compared.reported[-1].failures == ()
    assert compared.reported[-1].unanswered == (sentence,)
    assert (project / "report.md").exists()
    # what is certain goes before what is not
    compared.meaning = Meaning("results differ", "")
    assert diff(capfd, "v1", "--fail-on", "registers,meaning").code == 1
    assert diff(capfd, "v1", "--fail-on", "spills").code == 0


def test_a_policy_that_cannot_be_answered_here_is_refused_first(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise MissingExtraError("ptxas is not installed: pip install 'ptxtemplates[cuda]'")

    monkeypatch.setattr("ptxtemplates.assembly.toolchain", missing)
    diff(capfd, "v1", "--fail-on", "registers").refused("ptxas is not installed")
    diff(capfd, "v1", "--arch", "sm_90").refused("ptxas is not installed")
    assert diff(capfd, "v1", "--fail-on", "contract,meaning").code == 0
    monkeypatch.setattr("ptxtemplates.cli.diff.find_spec", lambda name: None)
    diff(capfd, "v1").refused("needs numpy and ml-dtypes", "pip install 'ptxtemplates[emulate]'")
    assert len(compared.calls) == 1


# ---- outputs


def test_files_and_stdout(compared: Compared, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "page.html").write_text("old")
    ran = diff(capfd, "v1", "--markdown", "report.md", "--html", "page.html")
    assert ran.out.startswith("v1 (")
    assert (
        (project / "report.md").read_bytes()
        == (project / "page.html").read_bytes()
        == "<html>é</html>\n".encode()
    )
    assert diff(capfd, "v1", "--markdown", "-").out == "<html>é</html>\n"
    assert diff(capfd, "v1", "--html", "-", "--markdown", "report.md").out == "<html>é</html>\n"
    values = json.loads(diff(capfd, "v1", "--json", "--html", "page.html").out)
    assert values["failures"] == []
    assert [path.name for path in project.iterdir() if "part" in path.name] == []


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--markdown", "-", "--html", "-"), ["--markdown and --html both go to stdout; give one a file"]),
        (("--markdown", "-", "--json"), ["--markdown and --json both go to stdout"]),
        (("--html", "gone/page.html"), ["--html: there is no folder gone"]),
        (("--html", "snapshots"), ["--html: snapshots is no regular file; - is stdout"]),
        (("--html", "/dev/null"), ["--html: /dev/null is no regular file"]),
        (("--markdown", "link.md"), ["--markdown: link.md is a symbolic link; name the file itself"]),
        (("--markdown", "x", "--html", "./x"), ["--html: x is read or written already"]),
        (("--markdown", "kernels.toml"), ["--markdown: kernels.toml is read or written already"]),
        (
            ("--fail-on", "contracts"),
            ["--fail-on does not know 'contracts'; there are added, bytes, contract"],
        ),
        (("--fail-on", ""), ["--fail-on has an empty word"]),
        (("--arch", "sm_9x"), ["there is no architecture 'sm_9x'"]),
        (("--arch", "sm_50"), ["--arch sm_50 is not known; known are sm_75, "]),
        (("--kernel", "nothing"), ["no kernel matches 'nothing'"]),
        (("-j", "0"), ["Invalid value for '-j'"]),
    ],
)
def test_refused_before_anything_is_compared(
    compared: Compared,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    parts: list[str],
) -> None:
    (project / "link.md").symlink_to("../stolen.md")
    before = {path: path.lstat().st_mtime_ns for path in project.parent.rglob("*")}
    diff(capfd, "v1", *arguments).refused(*parts)
    assert compared.calls == []
    assert {path: path.lstat().st_mtime_ns for path in project.parent.rglob("*")} == before


def test_an_output_never_replaces_an_input(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = f"snapshots/{REDUCE}.ptx"
    diff(capfd, path, "--html", f"./{path}").refused("is read or written already; name another file")
    sidecar = (project / "snapshots.json").read_bytes()
    for output in (path, "snapshots/report.md", "snapshots.json"):
        ran = diff(capfd, "v1", "snapshots", "--markdown", output)
        ran.refused("is read or written already; name another file")
    diff(capfd, "v1", "--markdown", "snapshots.json").refused("is read or written already")
    diff(capfd, "v1", "--markdown", path).refused("looks like something to read")
    assert (project / "snapshots.json").read_bytes() == sidecar
    assert compared.calls == []


def test_nobody_reads(project: Path) -> None:
    command = f"{sys.executable} -m ptxtemplates diff v1 --kernel {REDUCE} >&-"
    ran = subprocess.run(["bash", "-c", command], cwd=project, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_report_that_fails_leaves_files_as_they_were(
    compared: Compared, project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(comparison: Comparison) -> str:
        raise MissingExtraError("Pygments is not installed")

    monkeypatch.setattr(sys.modules["ptxtemplates.review.html"], "page", fail)
    (project / "report.md").write_text("old")
    diff(capfd, "v1", "--markdown", "report.md", "--html", "page.html").refused("Pygments is not installed")
    assert (project / "report.md").read_text() == "old"
    assert not (project / "page.html").exists()


def test_characters_that_stdout_does_not_have(project: Path) -> None:
    path = project / "snapshots" / f"{REDUCE}.ptx"
    path.write_bytes(path.read_bytes() + "// \u2192\n".encode())
    arguments = ("--kernel", "flash_decoding_reduce", "-j", "1")
    result = ptxtemplates(
        "diff", "main", "snapshots", *arguments, cwd=project, env={"PYTHONIOENCODING": "cp1252"}
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "// \\u2192" in result.stdout


# ---- at a terminal


def at_terminal(command: list[str], project: Path, **environment: str) -> tuple[int, str]:
    """Run a command on a terminal of its own; return its exit code and what the terminal got."""
    pty = pytest.importorskip("pty")
    terminal, end = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PAGER", "LESS")}
    with subprocess.Popen(
        command, cwd=project, env={**kept, "TERM": "xterm", **environment}, stdin=end, stdout=end, stderr=end
    ) as process:
        os.close(end)
        got = io.BytesIO()
        with contextlib.suppress(OSError):  # how Linux says that the other end has closed
            while part := os.read(terminal, 4096):
                got.write(part)
    os.close(terminal)
    return process.returncode, got.getvalue().decode()


PROGRAM = """
import signal, sys, types
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as the command's own start does
from ptxtemplates.review import comparing
from ptxtemplates.review.model import Change, Comparison
side = object()
changes = (Change("k", "removed", side, None),)
comparing.compare = lambda old, new, architectures, **rest: Comparison("a", "b", changes, ())
terminal = types.ModuleType("ptxtemplates.review.terminal")
def lines(comparison, *, colour=False, width=80):
    yield "\\x1b[31mred\\x1b[0m" if colour else f"plain {width >= 60}"
    for number in range(LINES):
        yield f"line {number}"
terminal.lines = lines
sys.modules[terminal.__name__] = terminal
from ptxtemplates.cli import run
sys.argv = ["ptxtemplates", "diff", "main", "--fail-on", "removed"]
run()
"""


def shown(project: Path, lines: int, **environment: str) -> tuple[int, str]:
    program = project / "program.py"
    program.write_text(PROGRAM.replace("LINES", str(lines)))
    return at_terminal([sys.executable, str(program)], project, **environment)


def write_pager(folder: Path, script: str) -> Path:
    """Write a program that goes by the name of the pager that is known to show colours."""
    pager = folder / "bin" / "less"
    pager.parent.mkdir()
    pager.write_text(f"#!/bin/sh\n{script}\n")
    pager.chmod(0o755)
    return pager


def test_pager_at_a_terminal_and_its_early_end(project: Path) -> None:
    pager = write_pager(project.parent, 'read line\necho "paged: $line"')
    code, got = shown(project, 100_000, PAGER=str(pager))
    # far more than a pipe holds: the pager has gone before the end, and the answer still comes
    assert code == 1
    assert "paged: " in got
    assert "line 99999" not in got


def test_colour_at_a_terminal(project: Path) -> None:
    pager = write_pager(project.parent, 'echo "LESS=$LESS"\ncat')
    code, got = shown(project, 1, PATH=f"{pager.parent}{os.pathsep}{os.environ['PATH']}")
    # of one screen, less shows all and ends
    assert (code, got.replace("\r", "")) == (1, "LESS=-FRX\n\x1b[31mred\x1b[0m\nline 0\n\n")
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, got = shown(project, 1, PAGER=str(pager), **environment)
        assert (code, got.replace("\r", "")) == (1, "LESS=-FRX\nplain True\nline 0\n\n")
    # whose own wish for the pager knows no colours, sees none
    code, got = shown(project, 1, PAGER=str(pager), LESS="-i")
    assert (code, got.replace("\r", "")) == (1, "LESS=-i\nred\nline 0\n\n")
