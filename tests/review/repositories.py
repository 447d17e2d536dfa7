"""A small project with snapshots, and git repositories that have it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from ptxtemplates.config import load
from ptxtemplates.manifest import dump
from ptxtemplates.rendering import render
from tests.helpers.verifying import BACKWARD, CHUNK, LIST, REDUCE, ROPE

if TYPE_CHECKING:
    from pathlib import Path

NAMES: Final = sorted([ROPE, BACKWARD, REDUCE, CHUNK])


def write_project(folder: Path) -> None:
    """Write a list of variants, its snapshots and their sidecar."""
    (folder / "kernels.toml").write_text(LIST)
    (folder / "snapshots").mkdir()
    kernels = load(folder / "kernels.toml")
    for kernel in kernels:
        (folder / "snapshots" / f"{kernel.variant}.ptx").write_bytes(render(kernel).text.encode())
    text = dump({kernel.variant: {**kernel.contract(), "target": kernel.target} for kernel in kernels})
    (folder / "snapshots.json").write_bytes(text.encode())


def git(folder: Path, *arguments: str, **environment: str) -> str:
    """Run git as somebody, and return what it prints."""
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def commit_project(folder: Path) -> Path:
    """Commit a project twice on ``main``; the first, ``v1``, has a comment more in the text of `REDUCE`."""
    write_project(folder)
    git(folder, "init", "-q", "-b", "main")
    reduce = folder / "snapshots" / f"{REDUCE}.ptx"
    current = reduce.read_bytes()
    reduce.write_bytes(current + b"// older\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "-a", "v1", "-m", "first")
    reduce.write_bytes(current)
    git(folder, "commit", "-qam", "two")
    return folder


def clone_of(repository: Path, target: Path) -> Path:
    """Copy a repository: quicker than to make another."""
    shutil.copytree(repository, target, symlinks=True)
    return target
