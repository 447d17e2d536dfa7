"""Anyone's text in Markdown, as itself: never as markup, a link, a mention or the end of what it is in."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

from ptxtemplates.review.wording import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 300
"""Characters of one line of a text."""

_NOT_IN_SPAN: Final = re.compile(r"[`|]|^\s|\s$")
"""What a code span cannot hold as it is: its own mark, the end of a table cell, and outer spaces."""


_PROSE: Final = re.compile(
    r"(?:[A-Za-z0-9](?:_(?=[A-Za-z0-9]))?|[ ,;()+%=]|[:.](?=[ )]|\Z)|(?<=\d)\.(?=\d)|(?<![A-Za-z0-9])-(?=\d)"
    r"|(?<=[a-z])-(?=[a-z]))*"
)
"""A sentence with nothing in it that means anything to Markdown, or that GitHub makes a link of."""


def shortened(text: str) -> str:
    """Return a text with its control characters written out, but for tabs, and cut if it is long."""
    shown = "\t".join(visible(part) for part in text[: 2 * _LONGEST].split("\t"))
    if len(shown) <= _LONGEST and len(text) <= _LONGEST:
        return shown
    return f"{shown[:_LONGEST]}... ({len(text):,} characters)"


def code(text: str) -> str:
    """Return a code span for a paragraph, a list or a table; nothing of an empty text.

    GitHub looks for mentions, issues, commits and addresses nowhere in code.
    """
    shown = shortened(text).replace("\t", r"\t")
    if not shown:
        return ""
    if not _NOT_IN_SPAN.search(shown):
        return f"`{shown}`"
    # with all that could mean anything written as a number, there is nothing left to be parsed
    numbered = re.sub(r"[^A-Za-z0-9 ]", lambda match: f"&#{ord(match[0])};", shown)
    return f"<code>{numbered}</code>"


def prose(text: str) -> str:
    """Return a sentence as it is where that is safe, and as a code span elsewhere."""
    shown = shortened(text)
    return shown if _PROSE.fullmatch(shown) else code(text)


def in_summary(text: str) -> str:
    """Return code for the line of a ``<summary>``, which is HTML throughout."""
    return f"<code>{html.escape(shortened(text))}</code>"


def fence(language: str, parts: Iterable[str]) -> str:
    """Return lines in a fence that is longer than any that is in them."""
    body = "\n".join(parts)
    longest = max(map(len, re.findall("`+", body)), default=0)
    mark = "`" * max(longest + 1, 3)
    return f"{mark}{language}\n{body}\n{mark}"
