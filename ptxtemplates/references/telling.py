"""Mistakes in cases, told in one line: what the code of a family raises may be anything."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ptxtemplates.errors import CaseError, PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn an unexpected exception into a `CaseError` that says of what, and in which line, it is."""
    try:
        yield
    except PtxTemplatesError:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        raise CaseError(f"{what}: {kind}: {error} ({frame.filename}:{frame.lineno})") from error
