"""Compilers, found once; a test that needs one that is missing is skipped and says which."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest


def tool(name: str) -> str:
    """Return the path of a program, or skip the test."""
    found = shutil.which(name) or shutil.which(name, path=str(Path.home() / ".cargo" / "bin"))
    if found is None:
        pytest.skip(f"{name} is not installed")
    if subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{name} is installed and does not run: a stand-in without its toolchain")
    return found


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a program that must succeed; return what it printed."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def cuda() -> Path:
    """Return a folder whose ``include`` has the driver API's header, of a toolkit or a wheel, or skip the test."""
    nvcc = shutil.which("nvcc")
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    roots += [Path(nvcc).resolve().parent.parent] if nvcc else []
    roots += sorted(Path("/usr/local").glob("cuda*"))
    roots += [root for path in sys.path for root in sorted(Path(path).glob("nvidia/*"))]
    for root in roots:
        if (root / "include" / "cuda.h").is_file():
            return root
    pytest.skip("there is no cuda.h: no CUDA toolkit and no nvidia-cuda-runtime")


WARNINGS: Final = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic")
