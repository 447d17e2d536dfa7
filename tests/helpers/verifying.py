"""Small kernels to verify, and the command as a user runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.helpers.cli import ptxtemplates

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

LIST: Final = """\
[[kernel]]
name = ["batched_rope", "batched_rope_backward"]
num_heads = 2
head_dim = 16
theta = 1e4

[[kernel]]
name = "flash_decoding_reduce"
num_heads = 3
head_dim = 72
chunk_size = 5

[[kernel]]
name = "flash_decoding_chunk"
num_heads = 6
num_kv_heads = 2
head_dim = 72
chunk_size = 5
max_seq_len = 23
"""
ROPE: Final = "batched_rope.h2.d16.theta10000"
BACKWARD: Final = "batched_rope_backward.h2.d16.theta10000"
REDUCE: Final = "flash_decoding_reduce.d72.h3.c5"
CHUNK: Final = "flash_decoding_chunk.d72.h6.c5.kv2.s23"


def verify(project: Path, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``ptxtemplates verify`` in a folder."""
    return ptxtemplates("verify", *arguments, cwd=project, env=environment)
