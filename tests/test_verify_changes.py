"""``ptxtemplates verify --changed-since``."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.config import load
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused
from tests.helpers.verifying import BACKWARD, LIST, REDUCE, ROPE, verify

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Commit the snapshots of the small kernels, all but one of them stale in the first commit."""
    (tmp_path / "kernels.toml").write_text(LIST)
    (tmp_path / "snapshots").mkdir()
    git(tmp_path, "init", "-q")
    for kernel in load(tmp_path / "kernels.toml"):
        (tmp_path / "snapshots" / f"{kernel.variant}.ptx").write_bytes(render(kernel).text.encode())
    reduce = tmp_path / "snapshots" / f"{REDUCE}.ptx"
    current = reduce.read_bytes()
    reduce.write_bytes(current + b"// older\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    reduce.write_bytes(current)
    git(tmp_path, "commit", "-qam", "two")
    return tmp_path


def variants(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert (result.returncode, result.stderr) == (0, ""), result
    return [line.split()[1] for line in result.stdout.splitlines()[:-1]]


def test_changed_since(repository: Path) -> None:
    assert variants(verify(repository, "--changed-since", "HEAD~1")) == [REDUCE]
    nothing = verify(repository, "--changed-since", "HEAD")
    assert (nothing.returncode, nothing.stdout) == (0, "no variant has changed since HEAD\n")
    # what is rendered now differs from the snapshot, though that is committed as it was
    rope = repository / "snapshots" / f"{ROPE}.ptx"
    rope.write_bytes(rope.read_bytes() + b"// other\n")
    git(repository, "rm", "-q", "--cached", f"snapshots/{BACKWARD}.ptx")
    git(repository, "commit", "-qam", "three")
    assert variants(verify(repository, "--changed-since", "HEAD")) == [ROPE, BACKWARD]
    assert variants(verify(repository, "--changed-since", "HEAD", "--kernel", "batched_rope")) == [ROPE]


def test_changed_since_in_a_folder_of_the_repository(repository: Path) -> None:
    folder = repository / "engine"
    folder.mkdir()
    git(repository, "mv", "snapshots", "kernels.toml", "engine")
    git(repository, "commit", "-qm", "moved")
    nothing = verify(repository, "-c", "engine/kernels.toml", "--changed-since", "HEAD")
    assert nothing.stdout == "no variant has changed since HEAD\n"


def test_changed_since_what_git_cannot_tell(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_refused(verify(repository, "--changed-since", "nowhere"), "git knows no revision 'nowhere'")
    assert_refused(verify(repository, "--changed-since=--all"), "'--all' is no revision")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "kernels.toml").write_text(LIST)
    result = verify(outside, "--changed-since", "HEAD", GIT_CEILING_DIRECTORIES=str(outside.parent))
    assert_refused(result, "is in no git repository")
    assert_refused(verify(repository, "--changed-since", "HEAD", PATH=str(outside)), "cannot run git")
