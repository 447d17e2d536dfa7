"""Splitting PTX text into statements, by one regular expression for modules and one for function bodies."""

from __future__ import annotations

import re
from functools import cache

from ptxtemplates.errors import PtxSyntaxError

# Atomic groups keep every match linear in time. Possessive quantifiers of groups would say the same, and fail
# on Python before 3.11.5, where a repetition that fails half-way is not undone.
_SKIP = r"(?>(?:[ \t\r\n\f]++|//[^\n]*+|/\*[\s\S]*?\*/)*)"
_PIECE = r"""[^;{}/"]++|//[^\n]*+|/\*[\s\S]*?\*/|/(?!\*)|"[^"\n]*+\""""
# Initialisers of nested arrays put braces within braces.
_INNERMOST = rf"\{{(?>(?:{_PIECE})*)\}}"
_INNER = rf"\{{(?>(?:{_PIECE}|{_INNERMOST})*)\}}"
_OUTER = rf"\{{(?>(?:{_PIECE}|{_INNER})*)\}}"
_LIST = rf"\{{(?>(?:{_PIECE}|{_OUTER})*)\}}"
_STATEMENT = rf"((?>(?:{_PIECE}|{_LIST})+);)"
_GAP = r"\s*+(?>(?:(?://[^\n]*+|/\*[\s\S]*?\*/)\s*+)*)"
_LOC = (
    r"(\.loc\b\s*+(\d{1,9})\s++(\d{1,9})\s++\d++"
    r"(?:\s*+,\s*+function_name\s++[.\w$%]++(?>(?:\s*+\+\s*+\w++)?)"
    r"\s*+,\s*+inlined_at\s++\d++\s++\d++\s++\d++)?)"
)
_SECTION = rf"(\.section\b[^{{;\n]*+{_GAP}\{{[^{{}}]*+\}}|@@DWARF\b[^\n]*+|@@dwarf\b[^\n]*+)"


class Body:
    """Group numbers of `body_pattern`."""

    OPEN, CLOSE, LABEL, LOC, LOC_FILE, LOC_LINE, SECTION, STATEMENT, BAD = range(1, 10)


class Top:
    """Group numbers of `module_pattern`."""

    FUNCTION, BRACE, VERSION, TARGET, ADDRESS_SIZE, FILE, FILE_INDEX, FILE_NAME = range(1, 9)
    LOC, LOC_FILE, LOC_LINE, SECTION, STATEMENT, BAD = range(9, 15)


@cache
def body_pattern() -> re.Pattern[str]:
    """Match white space and comments, then one item of a function's body."""
    return re.compile(
        rf"{_SKIP}(?:(\{{)|(\}})|([A-Za-z_$%][\w$]*+)\s*+:(?!:)|{_LOC}|{_SECTION}|{_STATEMENT}|(\S))",
        re.ASCII,
    )


@cache
def module_pattern() -> re.Pattern[str]:
    """Match white space and comments, then one item of a module."""
    return re.compile(
        rf"{_SKIP}(?:"
        rf"((?:\.(?:extern|visible|weak|common)\b{_GAP})*\.(?:entry|func)\b(?>(?:{_PIECE})*))([{{;])"
        rf"|\.version\b{_GAP}(\d++\.\d++)"
        rf"|\.target\b{_GAP}(\w++(?>(?:\s*+,\s*+\w++)*))"
        rf"|\.address_size\b{_GAP}(32|64)\b"
        rf'|(\.file\b\s*+(\d{{1,9}})\s*+"([^"\n]*+)"(?:\s*+,\s*+\d++\s*+,\s*+\d++)?)'
        rf"|{_LOC}|{_SECTION}|{_STATEMENT}|(\S))",
        re.ASCII,
    )


def locate(error: PtxSyntaxError, line: int) -> PtxSyntaxError:
    """Move an error of a statement, with lines from 0, to the statement's line of the text."""
    return PtxSyntaxError(str(error), line=line + error.line)


def malformed(text: str, offset: int, line: int, expected: str) -> PtxSyntaxError:
    """Make the error for text that no pattern matches."""
    if text.startswith("/*", offset):
        return PtxSyntaxError("this comment is never closed: add '*/'", line=line)
    rest = text[offset : offset + 200].splitlines()[0].strip()
    found = rest if len(rest) <= 60 else rest[:57] + "..."
    return PtxSyntaxError(f"expected {expected}, found {found!r}", line=line)
