"""What examples/pytorch/README.md shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.helpers.variants import ROOT

pytest.importorskip("torch", reason="PyTorch is not installed")


def test_example() -> None:
    text = (ROOT / "examples" / "pytorch" / "README.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "torch.Size([2, 8, 64])\n"), result.stderr
