"""Mistakes in cases, told in one line: what the code of a family raises may be anything."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import CaseError, PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterator


PACKAGE: Final = str(Path(__file__).parents[1])
"""A mistake in a case is rather in the caller's code than here."""


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn an unexpected exception into a `CaseError` that says of what, and in which line, it is."""
    try:
        yield
    except PtxTemplatesError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
        frame = (theirs or frames)[-1]
        kind = type(error).__name__
        raise CaseError(f"{what}: {kind}: {error} ({frame.filename}:{frame.lineno})") from error
