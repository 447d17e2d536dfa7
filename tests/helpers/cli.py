"""Runs the command line as a user does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def ptxtemplates(
    *arguments: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m ptxtemplates`` and return its output and exit code."""
    return subprocess.run(
        [sys.executable, "-m", "ptxtemplates", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def assert_refused(result: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Assert that a command said one ``error:`` line with all `parts`, nothing else, and exited with 2."""
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert result.stderr.startswith("error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    for part in parts:
        assert part in result.stderr, f"{part!r} is not in {result.stderr!r}"
