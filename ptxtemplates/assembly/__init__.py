"""PTX text to machine code, on any machine: no GPU, driver or CUDA toolkit is needed.

The assembler is NVIDIA's ptxas, from its Python package (``pip install 'ptxtemplates[cuda]'``) or a toolkit
on the path. Takes the text of any producer.
"""

from __future__ import annotations

from ptxtemplates.assembly.assembler import Assembly, assemble, assemble_all, check_architecture, toolchain
from ptxtemplates.assembly.resources import Resources

__all__ = ["Assembly", "Resources", "assemble", "assemble_all", "check_architecture", "toolchain"]
