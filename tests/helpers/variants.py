"""The variants of the repository's own list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.config import load

if TYPE_CHECKING:
    from ptxtemplates.kernel import Kernel

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = ROOT / "kernels.toml"
KERNELS: Final[dict[str, Kernel]] = {kernel.variant: kernel for kernel in load(LIST)}

SMALL_ROPE: Final = """\
[[kernel]]
name = "batched_rope"
num_heads = 2
head_dim = 16
theta = 1e4
"""
"""An entry of a list that tests write."""
