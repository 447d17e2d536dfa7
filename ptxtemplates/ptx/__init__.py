"""The PTX language: parse it, lint it, write its literals. Takes the text of any producer.

Only the standard library is used, and nothing else of this package but its errors. Public names are loaded on
first use: rendering needs the tables of this room and not the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.lazy import lazily

if TYPE_CHECKING:
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

__getattr__ = lazily(
    __name__,
    {
        **dict.fromkeys(("RULES", "Finding", "Rule", "lint"), "linter"),
        "parse": "parser",
        **dict.fromkeys(("Function", "Instruction", "Module", "Variable"), "statements"),
    },
)
