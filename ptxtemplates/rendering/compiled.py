"""Compiled templates, kept between processes.

Compiling a template takes Jinja ten times longer than rendering it. What was compiled once is kept, as Python
keeps its own bytecode.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates import cache
from ptxtemplates.sources import installation

if TYPE_CHECKING:
    from types import CodeType

KIND: Final = "template"


def _key(name: str, filename: str | None, source: str) -> str:
    return cache.key_of(installation(), name, filename or "", source)


def load(name: str, filename: str | None, source: str) -> tuple[CodeType, Any] | None:
    """Return the code of a template and what was stored with it; None if it is not kept."""
    content = cache.load(KIND, _key(name, filename, source))
    return None if content is None else marshal.loads(content)


def store(name: str, filename: str | None, source: str, code: CodeType, extra: Any) -> None:
    """Keep the code of a template, and plain values that belong to it."""
    cache.store(KIND, _key(name, filename, source), marshal.dumps((code, extra)))
