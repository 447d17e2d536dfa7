"""``ptxtemplates build`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def build(folder: Path, *arguments: str, **variables: str) -> str:
    """Run a build in a folder and return what it prints; Python keeps its bytecode, as it does for users."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-m", "ptxtemplates", "build", *arguments],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
