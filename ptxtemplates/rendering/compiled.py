"""Compiled templates, kept between processes.

Compiling a template takes Jinja ten times longer than rendering it. What was compiled once is kept in the
user's cache directory, as Python keeps its own bytecode: keyed by everything that it depends on, checked by a
digest, and gone without harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ptxtemplates.sources import installation

if TYPE_CHECKING:
    from types import CodeType

DIGEST_SIZE: Final = hashlib.sha256().digest_size
KEPT_S: Final = 30 * 24 * 3600


def cache_folder() -> Path:
    """Return the user's cache directory for this package, by the convention of the platform."""
    variable = {"win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    chosen = Path(os.environ.get(variable, ""))
    # a relative path would lead to whatever directory one happens to be in: the convention is to ignore it
    return (chosen if chosen.is_absolute() else Path(default).expanduser()) / "ptxtemplates"


def _entry(name: str, filename: str | None, source: str) -> Path:
    digest = hashlib.sha256(os.fsencode(installation()))
    for part in (name, filename or "", source):
        content = os.fsencode(part)
        digest.update(b"%d " % len(content) + content)
    return cache_folder() / f"{digest.hexdigest()}.template"


def load(name: str, filename: str | None, source: str) -> tuple[CodeType, Any] | None:
    """Return the code of a template and what was stored with it; None if it is not there, or not whole."""
    try:
        content = _entry(name, filename, source).read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    if hashlib.sha256(content[DIGEST_SIZE:]).digest() != content[:DIGEST_SIZE]:
        return None
    code, extra = marshal.loads(content[DIGEST_SIZE:])
    return code, extra


def store(name: str, filename: str | None, source: str, code: CodeType, extra: Any) -> None:
    """Keep the code of a template, and plain values that belong to it. Failing to is no error."""
    content = marshal.dumps((code, extra))
    with contextlib.suppress(OSError, RuntimeError):
        entry = _entry(name, filename, source)
        if not entry.parent.is_dir():
            # the cache directory may be missing; a home that does not exist is not ours to make
            if not any(folder.is_dir() for folder in list(entry.parents)[1:3]):
                return
            entry.parent.mkdir(parents=True)
        _forget_old(entry.parent)
        staged = entry.with_suffix(f".{os.getpid()}.part")
        staged.write_bytes(hashlib.sha256(content).digest() + content)
        staged.replace(entry)


def _forget_old(folder: Path) -> None:
    """Remove entries written too long ago; what is still in use is compiled once more."""
    oldest = time.time() - KEPT_S
    for entry in folder.iterdir():
        if entry.stat().st_mtime < oldest:
            entry.unlink(missing_ok=True)
