"""Bytes that anyone may have written, to PTX text: what is refused, and what it is told."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from ptxtemplates.errors import PtxTemplatesError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MEBIBYTE: Final = 1 << 20
FILE_LIMIT: Final = 16 * MEBIBYTE
SET_LIMIT: Final = 256 * MEBIBYTE
"""Bytes of a file, and of all files of a set: far more than kernels have, and little enough to compare."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def read(path: Path, root: Path | None = None) -> bytes:
    """Read a file.

    Parameters
    ----------
    path : pathlib.Path
        A file, or a link to one.
    root : pathlib.Path, optional
        The folder that it must lie in, whatever links lead to it.

    Raises
    ------
    PtxTemplatesError
        If it cannot be read, is no regular file, is larger than `FILE_LIMIT`, or lies elsewhere.
    """
    try:
        if root is not None and not path.resolve().is_relative_to(root.resolve()):
            raise PtxTemplatesError(f"{path} is a symbolic link that leads out of {root}")
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # to read a pipe or a device may never end
            raise PtxTemplatesError(f"{path} is no regular file")
        check_sizes([(str(path), state.st_size)])
        return path.read_bytes()
    except (OSError, RuntimeError) as error:  # the latter: links in a circle, before Python 3.13
        reason = error.strerror if isinstance(error, OSError) else None
        raise PtxTemplatesError(f"cannot read {path}: {reason or error}") from error


def check_sizes(sizes: Iterable[tuple[str, int]]) -> None:
    """Refuse files that are too large, or too many, to be kernels.

    Parameters
    ----------
    sizes : iterable of (str, int)
        What messages call each file, and its bytes.
    """
    total = 0
    for file, size in sizes:
        if size > FILE_LIMIT:
            raise PtxTemplatesError(
                f"{file} has {size} bytes, and more than {FILE_LIMIT // MEBIBYTE} MiB are not read"
            )
        total += size
        if total > SET_LIMIT:
            raise PtxTemplatesError(
                f"up to {file} the files have {total} bytes, and of a set no more than "
                f"{SET_LIMIT // MEBIBYTE} MiB are read"
            )


def decoded(content: bytes, file: str) -> str:
    """Return the text of a PTX file, with LF line ends whatever it has.

    Raises
    ------
    PtxTemplatesError
        If it is no text. Whether the text is PTX is not looked at.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PtxTemplatesError(f"{file} is UTF-16; PTX is ASCII: save it as UTF-8")
    if b"\0" in content:
        raise PtxTemplatesError(f"{file} is binary, not PTX text")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PtxTemplatesError(f"{file}:{line}: is not UTF-8") from error


def variant_of(name: str, file: str) -> str:
    """Return the name of the variant that a file ``<variant>.ptx`` holds.

    Raises
    ------
    PtxTemplatesError
        If it is none that a build gives: reports, paths and links are made of it.
    """
    variant = name.removesuffix(".ptx")
    if not _NAME.fullmatch(variant):
        raise PtxTemplatesError(
            f"{file!r} is not named as a kernel is: letters, digits, '.', '_', '+' and '-' before .ptx"
        )
    return variant


def exists(path: Path) -> bool:
    """Tell whether anything is there, be it a link to nothing."""
    return os.path.lexists(path)
