"""The PTX language: parse it, lint it, write its literals. Takes the text of any producer.

Only the standard library is used, and nothing else of this package but its errors.
"""

from __future__ import annotations

from ptxtemplates.ptx.linter import RULES, Finding, Rule, lint
from ptxtemplates.ptx.parser import parse
from ptxtemplates.ptx.statements import Function, Instruction, Module, Variable

__all__ = [
    "RULES",
    "Finding",
    "Function",
    "Instruction",
    "Module",
    "Rule",
    "Variable",
    "lint",
    "parse",
]
