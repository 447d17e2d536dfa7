"""Generated files outside of a build directory: written whole or not at all, and only if they change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ptxtemplates.errors import ArtifactError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def write_files(files: Mapping[Path, str], *, touch: bool = False) -> list[str]:
    """Write texts to files, all staged before the first is replaced; return the paths that were written.

    Parameters
    ----------
    files : mapping of pathlib.Path to str
        What each file is to hold.
    touch : bool
        Renew the time of a file that stays as it is.

    Raises
    ------
    ArtifactError
        If a file cannot be written.
    """
    staged: dict[Path, Path] = {}
    written = []
    try:
        for given, text in files.items():
            path = given.resolve()  # through a link, not in its place
            if _holds(path, text):
                if touch:
                    os.utime(path)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(str(given))
            staged[path] = path.with_name(f".ptxtemplates-{os.getpid()}-{len(staged)}.part")
            staged[path].write_bytes(text.encode())
        for path, part in staged.items():
            part.replace(path)
    except OSError as error:
        for part in staged.values():
            part.unlink(missing_ok=True)
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    return written


def stale_files(files: Mapping[Path, str]) -> dict[str, str]:
    """Say of each file that does not hold its text, what is wrong with it."""
    return {
        str(path): "differs from what would be built" if path.exists() else "missing"
        for path, text in files.items()
        if not _holds(path, text)
    }


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False
